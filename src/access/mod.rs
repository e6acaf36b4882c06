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
mod moderation;
mod packed;
mod places;
mod rates;
mod role;
mod sessions;
mod tls;
mod token;
mod transport;
mod watched;

pub use delay::Delay;
pub use gatekeeper::{AccessError, Credential, Gatekeeper, Refusal, Reread};
pub use identity::{Actor, Identity, Nodes, Peer};
pub use listen::{Doors, LocalSocket, SocketError, serve};
pub use moderation::linger;
pub use packed::{LONG_BODY, pack, unpack};
pub use rates::{Rate, Rates};
pub use role::{READ, Role, Rule, has_route, rule};
pub use sessions::LIFE as SESSION_LIFE;
pub use tls::{Tls, TlsError};
pub use token::{Secret, Sum, TokenEntry, TokenFile, TokenFileError, new_line};
pub use transport::{NoAnswer, NoToken, Transport, TransportError, token_for};
