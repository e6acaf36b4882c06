//! Address of this node for other nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::OnceLock;

use reqwest::Url;

/// Address of this node: chosen, or found by the way to the orchestrator.
#[derive(Debug)]
pub struct OwnAddress {
    orchestrator: Url,
    found: OnceLock<IpAddr>,
}

impl OwnAddress {
    /// The address `chosen`, or the address from which this node reaches `orchestrator`.
    pub fn new(chosen: Option<IpAddr>, orchestrator: Url) -> OwnAddress {
        let found = OnceLock::new();
        if let Some(chosen) = chosen {
            // A new cell is empty.
            let _ = found.set(chosen);
        }
        OwnAddress { orchestrator, found }
    }

    /// The address. `None`: there is no way to the orchestrator yet.
    pub fn get(&self) -> Option<IpAddr> {
        if self.found.get().is_none()
            && let Some(address) = address_towards(&self.orchestrator)
        {
            // Another thread may have found the same.
            let _ = self.found.set(address);
        }
        self.found.get().copied()
    }
}

/// Returns the address from which this node reaches `url`, without a message to it. `None`: there is
/// no way to it, or its name is not known here.
fn address_towards(url: &Url) -> Option<IpAddr> {
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    // An IPv6 address stands in brackets in a URL.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, port).to_socket_addrs().ok()?;
    found.find_map(|to| {
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // A connected datagram socket has the address of its route, and sends nothing by itself.
        socket.connect(to).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_unspecified()).then_some(own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_local_orchestrator_is_local() {
        let own = |chosen: Option<&str>, url: &str| {
            let chosen = chosen.map(|address| address.parse().unwrap());
            let found = OwnAddress::new(chosen, url.parse().unwrap()).get();
            found.map(|address| address.to_string())
        };
        let local = "http://127.0.0.1:7071";
        assert_eq!(own(None, local).as_deref(), Some("127.0.0.1"));
        assert_eq!(own(Some("10.0.0.7"), local).as_deref(), Some("10.0.0.7"));
    }
}
