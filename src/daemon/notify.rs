//! Messages to systemd, if it started the daemon: `Type=notify`, the watchdog, a line of status.
//!
//! Without systemd nothing is sent. The watchdog gets messages while the scheduler makes progress.
//! HTTP alone does not count: systemd restarts a daemon whose scheduler hangs.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::scheduler::View;

/// The scheduler shows itself so often where no watchdog asks for more.
const EVERY: Duration = Duration::from_secs(1);

/// Time in microseconds by which each sign of progress extends a start or an end.
const MORE_TIME_US: u32 = 60_000_000;

/// After what time the scheduler takes a step where nothing is due: at least twice in the time that the
/// watchdog waits.
pub fn sign_period() -> Duration {
    let every = sd_notify::watchdog_enabled().map_or(EVERY, |patience| (patience / 3).min(EVERY));
    every.max(Duration::from_millis(2))
}

/// Ticks with that period.
pub fn signs() -> Interval {
    let mut signs = interval(sign_period());
    signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
    signs
}

/// The scheduler gets on.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// The start or the end takes longer, and gets on.
pub fn give_time() {
    tell(&[NotifyState::ExtendTimeoutUsec(MORE_TIME_US)]);
}

/// Requests are answered from now on.
pub fn started() {
    tell(&[NotifyState::Ready, NotifyState::Status("no cycle yet")]);
}

/// Reports that the reload is over, with the new configuration or the old.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The configuration is being read again.
pub fn reloading() {
    // Both states go in a single message, as systemd requires.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// No more requests are taken in.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing open requests")]);
}

/// Sends the line that `systemctl status` shows.
pub fn status(view: &View, took: Duration) {
    tell(&[NotifyState::Status(&status_line(view, took))]);
}

fn status_line(view: &View, took: Duration) -> String {
    let up = view.nodes.iter().filter(|node| node.state.is_schedulable());
    let (mut nodes, mut used, mut all) = (0, 0, 0);
    for node in up {
        nodes += 1;
        used += node.used.0;
        all += node.order.0;
    }
    let (cycle, known, jobs) = (view.cycle, view.nodes.len(), view.jobs.len());
    format!(
        "cycle {cycle} took {} ms: {nodes} of {known} nodes up, {used} of {all} quanta in use, {jobs} jobs",
        took.as_millis()
    )
}

fn tell(states: &[NotifyState<'_>]) {
    // A closed socket needs no warning: systemd notices it without the daemon.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd was not told");
    }
}
