//! Request rates: a token bucket for each caller, which holds two seconds' worth.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers with a bucket of their own. Beyond that, full buckets are dropped, as their callers are
/// idle; if none is full, all are dropped.
const CALLERS_MAX: usize = 20_000;

/// Requests a second. 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u32);

/// Buckets of all recent callers.
#[derive(Debug, Default)]
pub struct Rates {
    buckets: Mutex<BTreeMap<(String, Option<IpAddr>), Bucket>>,
}

/// Time at which the bucket will be full again, without further requests.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
}

impl Rates {
    /// Takes a request of `name`, at `address`, from its bucket at `now`.
    ///
    /// # Errors
    ///
    /// The time to wait.
    pub fn take(
        &self,
        name: &str,
        address: Option<IpAddr>,
        rate: Rate,
        now: Instant,
    ) -> Result<(), Duration> {
        let Some(cost) = Duration::from_secs(1).checked_div(rate.0) else { return Ok(()) };
        let capacity = cost * rate.0.saturating_mul(2);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if CALLERS_MAX <= buckets.len() {
            buckets.retain(|_, bucket| now < bucket.full_at);
        }
        if CALLERS_MAX <= buckets.len() {
            buckets.clear();
        }
        let bucket = buckets.entry((name.to_owned(), address)).or_insert(Bucket { full_at: now });
        let full_at = bucket.full_at.max(now) + cost;
        let missing = full_at - now;
        let too_early = missing.saturating_sub(capacity);
        if !too_early.is_zero() {
            return Err(too_early);
        }
        bucket.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_the_rate_holds() {
        let (rates, start) = (Rates::default(), Instant::now());
        let ask = |name: &str, millis: u64| {
            let now = start + Duration::from_millis(millis);
            rates.take(name, None, Rate(10), now).err().map(|wait| wait.as_millis())
        };
        assert_eq!((0..20).filter_map(|_| ask("a", 0)).count(), 0, "two seconds' worth at once");
        assert_eq!(ask("a", 0), Some(100));
        assert_eq!(ask("b", 0), None, "others have their own");
        assert_eq!([ask("a", 100), ask("a", 100)], [None, Some(100)]);
        assert_eq!(ask("a", 60_000), None);
        assert_eq!(rates.take("a", None, Rate(0), start), Ok(()), "no limit");
    }
}
