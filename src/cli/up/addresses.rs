//! Name and addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The URL by which processes of this machine reach what listens at `address`.
pub fn own_url(address: SocketAddr, is_public: bool) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    url(if is_public { "https" } else { "http" }, SocketAddr::new(ip, address.port()))
}

fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}")
}
