//! The way of clients to a daemon: plain HTTP, TLS with kept connections, or a unix socket.
//!
//! The command line, agents, the orchestrator and benches use it.

pub(crate) mod dial;
pub(crate) mod gzip;
pub(crate) mod transport;

pub use gzip::{LONG_BODY, pack, unpack};
pub use transport::{NoAnswer, NoToken, Transport, TransportError, token_for};
