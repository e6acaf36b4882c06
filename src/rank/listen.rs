//! The listener of a rank, which its slot opens and its server uses.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

/// A listener on a port that the system chose.
#[derive(Debug)]
pub struct RankListener {
    listener: TcpListener,
    port: u16,
}

impl RankListener {
    /// Listens on `address`; on all addresses if `address` is unknown, or is none of this node.
    ///
    /// # Errors
    ///
    /// If the system has no port left.
    pub fn open(address: Option<IpAddr>) -> io::Result<RankListener> {
        let own = address.map(|address| TcpListener::bind((address, 0)));
        let listener = match own {
            Some(Ok(listener)) => listener,
            Some(Err(_)) | None => TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        };
        let port = listener.local_addr()?.port();
        Ok(RankListener { listener, port })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A second handle of the listener, for the standard input of a server.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn for_server(&self) -> io::Result<File> {
        Ok(File::from(OwnedFd::from(self.listener.try_clone()?)))
    }
}
