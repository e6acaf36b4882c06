//! Request counts by client, for operators who look for the source of load.
//!
//! A client is identified by its name in the audit log, its role and its address. Their number has
//! no bound, so the counts of the lightest clients are summed up above a limit.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;

use crate::api::wire::{ClientCounts, ClientInfo, ClientList};
use crate::auth::{AccessRefusal, Identity, Peer, Role};
use crate::model::Name;

/// Limit of clients that are counted separately.
const MAX_CLIENTS: usize = 20_000;

/// Number of clients that an answer lists.
const HEAVIEST: usize = 32;

/// A client of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Name of a token, or of a user of this node; "-" for an unauthenticated client.
    name: Name,
    role: Option<Role>,
    /// `None`: at the unix socket, or inside.
    address: Option<IpAddr>,
}

impl Client {
    /// Builds the client at `peer`, as far as `identity` names it.
    pub fn of(identity: &Result<Identity, AccessRefusal>, peer: Peer) -> Client {
        let (name, role) = match identity {
            Ok(identity) => (identity.name.clone(), identity.role),
            Err(AccessRefusal::Unknown(_, Some(name))) => (name.as_str().into(), None),
            Err(_) => (Name::new_static("-"), None),
        };
        let address = match peer {
            Peer::Tcp { address, .. } => Some(address.ip().to_canonical()),
            Peer::Local { .. } | Peer::Inside => None,
        };
        Client { name, role, address }
    }
}

/// Counts of all clients since the start.
#[derive(Debug, Default)]
pub struct Clients(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_client: BTreeMap<Client, ClientCounts>,
    others: ClientCounts,
}

impl Clients {
    /// A request of `client` was answered with `status`.
    pub fn answered(&self, client: Client, status: StatusCode) {
        let mut counts = self.counts();
        counts.by_client.entry(client).or_default().count(status);
        if MAX_CLIENTS < counts.by_client.len() {
            counts.evict_light_clients();
        }
    }

    pub fn top_clients(&self) -> ClientList {
        let counts = self.counts();
        let mut others = counts.others;
        let mut by_client: Vec<_> = counts.by_client.iter().collect();
        // The sort is stable: clients with equal counts keep their order from an answer to the
        // next.
        by_client.sort_by_key(|(_, counts)| Reverse(counts.requests));
        let lighter = by_client.split_off(HEAVIEST.min(by_client.len()));
        for (_, counts) in lighter {
            others.add(*counts);
        }
        let clients = by_client.into_iter().map(|(client, counts)| ClientInfo {
            client: client.name.to_string(),
            role: client.role.map(|role| role.to_string()),
            address: client.address.map(|address| address.to_string()),
            counts: *counts,
        });
        ClientList { clients: clients.collect(), other_clients: others }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Numbers that are added up: a panic elsewhere leaves nothing half done that matters.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientCounts {
    /// Counts a request that was answered with `status`.
    fn count(&mut self, status: StatusCode) {
        self.requests += 1;
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.limited += 1;
        } else if status.is_client_error() {
            self.refused += 1;
        }
    }

    /// Adds what another client asked.
    pub fn add(&mut self, more: ClientCounts) {
        self.requests += more.requests;
        self.refused += more.refused;
        self.limited += more.limited;
    }
}

impl Counts {
    /// Sums up the clients with the fewest requests. A client with more requests than most is never
    /// among them, so its count is right.
    fn evict_light_clients(&mut self) {
        let mut requests: Vec<u64> =
            self.by_client.values().map(|counts| counts.requests).collect();
        let middle = requests.len().div_euclid(2);
        let (_, &mut median, _) = requests.select_nth_unstable(middle);
        let others = &mut self.others;
        self.by_client.retain(|_, counts| {
            let is_heavy = median < counts.requests;
            if !is_heavy {
                others.add(*counts);
            }
            is_heavy
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> Client {
        Client { name: format!("c{number:05}").into(), role: Some(Role::Reader), address: None }
    }

    #[test]
    fn the_heaviest_are_told_of_and_all_others_summed_up() {
        let clients = Clients::default();
        for number in 0..HEAVIEST + 3 {
            for _ in 0..=number {
                clients.answered(client(number), StatusCode::OK);
            }
            clients.answered(client(number), StatusCode::TOO_MANY_REQUESTS);
            clients.answered(client(number), StatusCode::NOT_FOUND);
        }
        let list = clients.top_clients();
        assert_eq!(list.clients.len(), HEAVIEST);
        let counts = |requests| ClientCounts { requests, refused: 1, limited: 1 };
        let first = &list.clients[0];
        assert_eq!((first.client.as_str(), first.counts), ("c00034", counts(37)));
        let others = ClientCounts { requests: 3 + 4 + 5, refused: 3, limited: 3 };
        assert_eq!(list.other_clients, others);
    }

    #[test]
    fn however_many_come_the_heavy_are_known_and_none_is_lost() {
        let clients = Clients::default();
        let heavy = client(0);
        for number in 1..=3 * MAX_CLIENTS {
            clients.answered(client(number), StatusCode::OK);
            clients.answered(heavy.clone(), StatusCode::OK);
            assert!(clients.counts().by_client.len() <= MAX_CLIENTS);
        }
        let list = clients.top_clients();
        let each = u64::try_from(3 * MAX_CLIENTS).unwrap();
        assert_eq!(
            (list.clients[0].client.as_str(), list.clients[0].counts.requests),
            ("c00000", each)
        );
        let light: u64 = list.clients[1..].iter().map(|client| client.counts.requests).sum();
        assert_eq!(light + list.other_clients.requests, each);
    }
}
