//! Access to the daemon: listeners, tokens, roles, sessions and rates.
//!
//! ```text
//!  TCP (TLS) ─┐ listen: limits, timeouts     authorization (in `api`)
//!  socket ────┴─► Peer ─────────────────────► Gatekeeper ─► Identity ─► handler
//! ```
//!
//! - On TCP a token identifies the caller: in a header or, for browsers, by a session that a token
//!   opened. On the unix socket the kernel identifies the user.
//! - While no tokens are configured, TCP is loopback only, and every local user may do everything.
//! - Tokens are 256 random bits, so the file holds plain SHA-256 sums of them: a token cannot be
//!   guessed, and a slow sum would cost time at every heartbeat.
//! - An answer to a refused request gives no reason; the log and the audit log do.

mod delay;
mod dial;
mod gatekeeper;
mod identity;
mod listen;
mod packed;
mod places;
mod rates;
mod role;
mod sessions;
mod slow_peer;
mod tls;
mod token;
mod transport;
mod wakeup_coalescing;

pub use delay::Delay;
pub use gatekeeper::{AccessError, AccessRefusal, Credential, Gatekeeper, Reread};
pub use identity::{Actor, Identity, NodeScope, Peer};
pub use listen::{Listeners, LocalSocket, SocketError, serve};
pub use packed::{LONG_BODY, pack, unpack};
pub use rates::{Rate, Rates};
pub use role::{Permission, READ, Role, has_route, rule};
pub use sessions::LIFE as SESSION_LIFE;
pub use tls::{Tls, TlsError};
pub use token::{Secret, TokenEntry, TokenFile, TokenFileError, TokenSum, new_line};
pub use transport::{NoAnswer, NoToken, Transport, TransportError, token_for};
pub use wakeup_coalescing::park_until_slice_end;
