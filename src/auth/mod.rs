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

pub(crate) mod gatekeeper;
pub(crate) mod identity;
pub(crate) mod places;
pub(crate) mod rates;
pub(crate) mod role;
pub(crate) mod sessions;
pub(crate) mod tls;
pub(crate) mod token;

pub use gatekeeper::{AccessError, AccessRefusal, Authenticator, Credential, Reread};
pub use identity::{Actor, Identity, NodeScope, Peer};
pub use rates::{Rate, Rates};
pub use role::{Permission, READ, Role, has_route, rule};
pub use sessions::LIFE as SESSION_LIFE;
pub use tls::{Tls, TlsError};
pub use token::{Secret, TokenEntry, TokenFile, TokenFileError, TokenSum, new_line};
