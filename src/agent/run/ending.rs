//! Ends the slots of a spool when their agent has ended, for nodes that go down as a whole.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::ladder::Ladder;
use super::records::{SlotRecord, SlotRecords};
use crate::agent::facts;

/// Pause between two checks of a slot that ends.
const LOOK: Duration = Duration::from_millis(20);

/// Longest grace of tasks, and the time that a slot needs beyond it. The slot itself keeps to the
/// grace.
const PATIENCE: Duration = Duration::from_secs(10 * 60 + 15);

/// Ends the slots in the folder `spool`: tasks are asked to end, have their grace, and are killed.
/// Returns the count of slots. Their records stay: the next agent reports the slots, and the
/// orchestrator gives their tasks to other slots.
///
/// # Errors
///
/// If an agent still uses the spool, or a slot does not end.
pub async fn end_slots(spool: &Path) -> Result<usize, String> {
    let records = SlotRecords::open(spool)?;
    let unreadable = |error| format!("cannot read the spool {}: {error}", spool.display());
    let mut started = records.all().map_err(unreadable)?;
    started.retain(|record| record.process.is_some());
    let boot = facts::boot().map_err(|error| error.to_string())?;
    let ladder = Ladder::probe(None, rustix::process::getuid().is_root());
    ask(&started, &boot);
    let since = Instant::now();
    while started.iter().any(|record| is_alive(record, &boot)) && since.elapsed() < PATIENCE {
        sleep(LOOK).await;
    }
    for record in &started {
        if !ladder.end_all(record).await {
            return Err(format!("slot {} does not end", record.slot));
        }
    }
    Ok(started.len())
}

fn is_alive(record: &SlotRecord, boot: &str) -> bool {
    record.process.as_ref().is_some_and(|process| process.is_alive(boot))
}

/// Asks the slots to end.
fn ask(records: &[SlotRecord], boot: &str) {
    let alive = records.iter().filter(|record| is_alive(record, boot));
    let processes = alive.filter_map(|record| record.process.as_ref());
    for pid in processes.filter_map(|process| Pid::from_raw(process.pid)) {
        // A slot that ended meanwhile needs no signal.
        let _ = kill_process(pid, Signal::TERM);
    }
}
