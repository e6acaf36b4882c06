//! Browsers that showed a token once: a secret of their own stands for it until it ends.
//!
//! A session is valid as long as its token: if the token is revoked or expires, the session ends.
//! Sessions are in memory only, so users log in again after a restart.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::token::{Secret, TokenSum};

/// Lifetime of a session.
pub const LIFE: Duration = Duration::from_hours(12);
/// Most sessions at a time; beyond that, the session that ends first is dropped.
const SESSIONS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, LoginSession>>,
}

#[derive(Debug)]
struct LoginSession {
    sum: TokenSum,
    /// The sum of the token that opened it.
    token: TokenSum,
    until: Instant,
}

impl Sessions {
    /// Opens a session for the holder of the token with this sum.
    pub(crate) fn open(&self, token: TokenSum, now: Instant) -> io::Result<Secret> {
        let secret = Secret::new()?;
        let sum = secret.sum();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| now < session.until);
        if SESSIONS_MAX <= open.len() {
            let first = open.iter().min_by_key(|(_, session)| session.until).map(|(key, _)| *key);
            first.and_then(|key| open.remove(&key));
        }
        open.insert(sum.key(), LoginSession { sum, token, until: now + LIFE });
        Ok(secret)
    }

    /// The sum of the token behind this session.
    pub(crate) fn token(&self, secret: &str, now: Instant) -> Option<TokenSum> {
        let sum = TokenSum::of(secret);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.get(&sum.key())?;
        (session.sum == sum && now < session.until).then_some(session.token)
    }

    /// Ends this session.
    pub(crate) fn close(&self, secret: &str) {
        let sum = TokenSum::of(secret);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.get(&sum.key()).is_some_and(|session| session.sum == sum) {
            open.remove(&sum.key());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_time_or_by_hand() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = TokenSum::of("a token");
        let (one, other) = (sessions.open(token, now).unwrap(), sessions.open(token, now).unwrap());
        assert_eq!(sessions.token(one.reveal(), now), Some(token));
        assert_eq!(sessions.token("a token", now), None);
        sessions.close(one.reveal());
        assert_eq!(sessions.token(one.reveal(), now), None);
        assert_eq!(sessions.token(other.reveal(), now + LIFE), None);
    }
}
