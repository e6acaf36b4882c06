//! Limit of urgent requests: each takes a cycle out of turn.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most urgent requests within [`PERIOD`]: each takes a cycle out of turn.
pub(in crate::api) const MOST: usize = 10;

/// Time in which so many urgent requests are decided.
const PERIOD: Duration = Duration::from_mins(1);

/// Times of the last urgent requests.
#[derive(Debug, Default)]
pub(in crate::api) struct UrgentRate(Mutex<VecDeque<Instant>>);

impl UrgentRate {
    /// Counts a request at `now`.
    ///
    /// # Errors
    ///
    /// The time until the next request is taken, if there were too many.
    pub(in crate::api) fn take(&self, now: Instant) -> Result<(), Duration> {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while times.front().is_some_and(|first| PERIOD <= now.saturating_duration_since(*first)) {
            times.pop_front();
        }
        match times.front() {
            Some(first) if MOST <= times.len() => {
                Err(PERIOD.saturating_sub(now.saturating_duration_since(*first)))
            }
            Some(_) | None => {
                times.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_requests_a_minute_are_taken() {
        let (rate, start) = (UrgentRate::default(), Instant::now());
        let at = |seconds| rate.take(start + Duration::from_secs(seconds));
        assert!((0..10).all(|second| at(second).is_ok()));
        assert_eq!(at(20), Err(Duration::from_secs(40)));
        assert_eq!([at(60), at(60)], [Ok(()), Err(Duration::from_secs(1))]);
        assert_eq!(at(200), Ok(()));
    }
}
