//! Limits of connections: for each listener, and for each client.
//!
//! On TCP, addresses are counted by network: a host chooses freely within 127.0.0.0/8, or within
//! the 64 bits that IPv6 leaves to it. At the unix socket, the kernel reports the user. Root and
//! the daemon's own user, operators, and all further users have separate places. So no group can
//! keep a more privileged group out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use super::gatekeeper::LocalRights;

/// Most connections in all, and for each client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) all: usize,
    pub(crate) per_one: usize,
}

/// Places at the unix socket for root and the daemon's own user, for operators, and for all further
/// users.
const OWN: ConnectionLimits = ConnectionLimits { all: 32, per_one: 32 };
const OPERATORS: ConnectionLimits = ConnectionLimits { all: 64, per_one: 16 };
const OTHERS: ConnectionLimits = ConnectionLimits { all: 64, per_one: 16 };

/// Places taken by clients, counted by `K`.
#[derive(Debug)]
pub(crate) struct ConnectionPlaces<K: Copy + Ord> {
    caps: ConnectionLimits,
    taken: Mutex<(usize, BTreeMap<K, usize>)>,
}

/// A place, taken until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace<K: Copy + Ord> {
    places: Arc<ConnectionPlaces<K>>,
    key: K,
}

impl<K: Copy + Ord> ConnectionPlaces<K> {
    pub(crate) fn new(caps: ConnectionLimits) -> Arc<ConnectionPlaces<K>> {
        Arc::new(ConnectionPlaces { caps, taken: Mutex::new((0, BTreeMap::new())) })
    }

    /// Takes a further place for `key`. `None` if a limit is reached.
    pub(crate) fn take(self: &Arc<ConnectionPlaces<K>>, key: K) -> Option<ConnectionPlace<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_key) = &mut *taken;
        let of_key = by_key.get(&key).copied().unwrap_or(0);
        if self.caps.all <= *all || self.caps.per_one <= of_key {
            return None;
        }
        *all += 1;
        by_key.insert(key, of_key + 1);
        Some(ConnectionPlace { places: Arc::clone(self), key })
    }
}

impl<K: Copy + Ord> Drop for ConnectionPlace<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_key) = &mut *taken;
        *all = all.saturating_sub(1);
        if let Some(of_key) = by_key.get_mut(&self.key) {
            *of_key -= 1;
            if *of_key == 0 {
                by_key.remove(&self.key);
            }
        }
    }
}

/// The places at the unix socket.
#[derive(Debug)]
pub(crate) struct LocalPlaces {
    own: Arc<ConnectionPlaces<u32>>,
    operators: Arc<ConnectionPlaces<u32>>,
    others: Arc<ConnectionPlaces<u32>>,
}

impl LocalPlaces {
    pub(crate) fn new() -> LocalPlaces {
        let [own, operators, others] = [OWN, OPERATORS, OTHERS].map(ConnectionPlaces::new);
        LocalPlaces { own, operators, others }
    }

    /// Count of all places at the unix socket.
    pub(crate) const fn count() -> usize {
        OWN.all + OPERATORS.all + OTHERS.all
    }

    /// Takes a place for the user `uid`. `None` if a limit is reached.
    pub(crate) fn take(&self, standing: LocalRights, uid: u32) -> Option<ConnectionPlace<u32>> {
        let places = match standing {
            LocalRights::Own => &self.own,
            LocalRights::Operator => &self.operators,
            LocalRights::Other => &self.others,
        };
        places.take(uid)
    }
}

/// Returns the network within which a single host may have any address.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) if v4.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_address_and_in_all() {
        let places = ConnectionPlaces::new(ConnectionLimits { all: 3, per_one: 2 });
        let first = places.take("a");
        let _second = places.take("a");
        assert!(places.take("a").is_none(), "one peer");
        let _third = places.take("b");
        assert!(places.take("b").is_none(), "all");
        drop(first);
        assert!(places.take("a").is_some());
    }

    #[test]
    fn addresses_that_one_host_may_choose_count_as_one() {
        for (address, expected) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.9.9.9", "127.0.0.1"),
            ("::ffff:127.9.9.9", "127.0.0.1"),
            ("::1", "127.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::1", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ] {
            let network: IpAddr = expected.parse().unwrap();
            assert_eq!(network_of(address.parse().unwrap()), network, "{address}");
        }
    }

    /// Root connects, even if operators and further users hold all their places.
    #[test]
    fn places_of_root_stay_free_for_root() {
        let places = LocalPlaces::new();
        let mut held = Vec::new();
        for uid in 1000..1100 {
            for standing in [LocalRights::Other, LocalRights::Operator] {
                held.extend((0..100).map_while(|_| places.take(standing, uid)));
            }
        }
        assert!(places.take(LocalRights::Other, 2000).is_none());
        assert!(places.take(LocalRights::Own, 0).is_some());
        held.clear();
        let one = (0..100).map_while(|_| places.take(LocalRights::Other, 1000));
        held.extend(one);
        assert!(
            places.take(LocalRights::Other, 1001).is_some(),
            "one user leaves places for others"
        );
    }
}
