//! The sockets of the server: listeners, limits of connections and time, TLS.

pub(crate) mod delay;
pub(crate) mod listen;
pub(crate) mod slow_peer;
pub(crate) mod wakeup_coalescing;

pub use delay::Delay;
pub use listen::{Listeners, LocalSocket, SocketError, serve};
pub use wakeup_coalescing::park_until_slice_end;
