//! Recovery: restores the last state from the store. If the journal does not lead to it, the next
//! publication decides.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::converter::CheckedPublication;
use crate::journal::{Digest, JournalingScheduler, Replay, ReplayError, seal_checkpoint};
use crate::model::{ShareId, SharePhase, Steps};
use crate::scheduler::{AdminCommand, Scheduler};
use crate::store::{CheckpointRow, Past, Recovered, ShareRow};

/// Restored state to continue with.
#[derive(Debug)]
pub struct Resumed {
    /// Restored scheduler.
    pub scheduler: Scheduler,
    /// Recorder with the inputs since the store's last cycle.
    pub recorder: JournalingScheduler,
    /// The work in them, as the orchestrator had shown it. `None`: they have none, and wait for a
    /// publication.
    pub taken_over: Option<Arc<CheckedPublication>>,
    /// Shares that an earlier run left, if the scheduler does not know them.
    pub shares_from_last_run: Vec<ShareRow>,
    /// First checkpoint, if no stored input leads to it.
    pub beginning: Option<CheckpointRow>,
    /// Number of cycles computed again, and the time that it took.
    pub replayed: (u64, Duration),
}

/// Restores the scheduler from `recovered`, under `config`; counts `steps` on the way.
pub fn resume(config: &Config, recovered: Recovered, steps: &Steps) -> Resumed {
    let Some(past) = &recovered.journal else { return begin(config, recovered) };
    let started = Instant::now();
    match replayed(past, steps) {
        Ok(scheduler) => {
            let cycles = u64::try_from(past.cycles.len()).unwrap_or(u64::MAX);
            let took = started.elapsed();
            tracing::info!(cycle = scheduler.cycle(), cycles, ?took, "the last state is restored");
            go_on(config, scheduler, (cycles, took))
        }
        Err(why) => {
            tracing::error!(
                why,
                "the record does not lead to the last state; jobs are taken over from the next publication, \
                 varied-off nodes and share numbers from the record"
            );
            begin(config, recovered)
        }
    }
}

/// Computes the last state again from a stored checkpoint.
fn replayed(past: &Past, steps: &Steps) -> Result<Scheduler, String> {
    // Input from another version may cause a panic, which an error message cannot express.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut replay =
            Replay::from(past.checkpoint.cycle, &past.checkpoint.sealed)?.telling(steps);
        for cycle in &past.cycles {
            let recorded = digest_of(cycle.digest.as_deref());
            replay.cycle(cycle.cycle, &cycle.batches, &recorded)?;
        }
        replay.redo(&past.rest)?;
        Ok(replay.into_scheduler())
    }));
    match outcome {
        Ok(Ok(scheduler)) => Ok(scheduler),
        Ok(Err(trouble)) => Err(ReplayError::to_string(&trouble)),
        Err(panic) => {
            Err(format!("the replay panicked: {}", super::error::message_of(panic.as_ref())))
        }
    }
}

/// Converts a stored digest. Malformed bytes give a digest that equals none.
pub fn digest_of(recorded: Option<&[u8]>) -> Digest {
    recorded.and_then(|bytes| bytes.try_into().ok()).map(Digest).unwrap_or_default()
}

/// Continues with the restored state. Heartbeats count from zero, and a configuration that was
/// written meanwhile takes effect.
fn go_on(config: &Config, mut scheduler: Scheduler, replayed: (u64, Duration)) -> Resumed {
    let taken_over = Arc::new(CheckedPublication::of_state(&scheduler.state()));
    let mut recorder = JournalingScheduler::default();
    recorder.restart(&mut scheduler);
    if **scheduler.topology() != config.topology {
        tracing::info!("the configuration has changed since the last run");
        let command = AdminCommand::Reconfigure(Box::new(config.topology.clone()));
        recorder
            .command(&mut scheduler, command)
            .expect("a configuration that was checked is taken");
    }
    Resumed {
        scheduler,
        recorder,
        taken_over: Some(taken_over),
        shares_from_last_run: Vec::new(),
        beginning: None,
        replayed,
    }
}

/// Begins with the stored acts of administrators and numbers; the next publication provides the
/// rest.
fn begin(config: &Config, recovered: Recovered) -> Resumed {
    let mut scheduler = Scheduler::new(config.topology.clone(), ShareId(recovered.next_share));
    scheduler.resume_after_cycle(recovered.cycle);
    scheduler.restore_varied_off(recovered.varied_off);
    let leaving = recovered.shares.iter().filter(|share| share.state == SharePhase::Leaving);
    scheduler.restore_leaving(leaving.map(|share| ShareId(share.id)));
    let beginning = CheckpointRow {
        cycle: recovered.cycle,
        is_beginning: true,
        is_lasting: true,
        sealed: seal_checkpoint(&scheduler.state()),
    };
    Resumed {
        scheduler,
        recorder: JournalingScheduler::default(),
        taken_over: None,
        shares_from_last_run: recovered.shares,
        beginning: Some(beginning),
        replayed: (0, Duration::ZERO),
    }
}
