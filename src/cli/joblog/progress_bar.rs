//! Progress of a replay that takes long, on standard error if that is a terminal.

use std::thread;
use std::time::{Duration, Instant};

use super::super::progress::{ProgressLine, rough};
use crate::model::{Steps, count, percent, thousands};

/// A shorter replay shows no progress.
const LONG: Duration = Duration::from_secs(1);

/// Time between two looks.
const PACE: Duration = Duration::from_millis(100);

/// Runs `work` and shows how many of `all` steps are done meanwhile.
pub(super) fn shown<T: Send>(steps: &Steps, all: usize, work: impl FnOnce() -> T + Send) -> T {
    let line = ProgressLine::new();
    if !line.is_seen() {
        return work();
    }
    let begun = Instant::now();
    let all = count(0..all);
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            thread::sleep(PACE);
            if LONG < begun.elapsed() {
                line.show(&text(steps.taken(), all, begun.elapsed()));
            }
        }
        line.clear();
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn text(done: u64, all: u64, elapsed: Duration) -> String {
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let left = all.saturating_sub(done).saturating_mul(ms).checked_div(done);
    let left = left.map_or_else(String::new, |left| format!("  {} left", rough(left)));
    let (part, done, all) = (percent(done, all), thousands(done), thousands(all));
    format!("replaying  {part} %  {done} of {all} jobs{left}")
}
