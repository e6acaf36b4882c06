//! The clock of slots: it counts while the node is suspended, and nothing sets it.

use std::num::NonZeroU64;

use rustix::time::{ClockId, clock_gettime};

use crate::model::floor_div;

const NANOS_PER_MILLI: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

/// Time since the boot of the node in milliseconds, suspension included.
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(floor_div(nanos, NANOS_PER_MILLI))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_moves_forward() {
        let before = since_boot_ms();
        std::thread::sleep(Duration::from_millis(5));
        let after = since_boot_ms();
        assert!(before + 5 <= after, "{before} {after}");
    }
}
