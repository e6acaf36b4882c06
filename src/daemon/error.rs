//! Reason for which the daemon ended.

use std::any::Any;
use std::io;

use crate::auth::AccessError;
use crate::net::SocketError;
use crate::store::StoreError;

/// Reason for which the daemon ended.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum DaemonError {
    #[error("cannot start without the record")]
    NoRecord(#[source] StoreError),
    #[error("the record failed: the daemon publishes nothing that it cannot store, and stops")]
    Store(#[from] StoreError),
    #[error(
        "a cycle panicked ({message}); the state in memory is discarded. Restart the daemon: it recovers from \
         the record and the next publication"
    )]
    CyclePanicked { message: String },
    #[error("failed to start the scheduler's thread")]
    NoThread(#[source] io::Error),
    #[error("C020: cannot set up authentication")]
    Access(#[from] AccessError),
    #[error("no unix socket")]
    Socket(#[from] SocketError),
    #[error("failed to serve HTTP")]
    Http(#[source] io::Error),
}

/// Message of a thread's panic.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
