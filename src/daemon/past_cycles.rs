//! Past cycles, computed again beside the daemon: from the nearest checkpoint before them, on a
//! thread of their own, a request at a time.
//!
//! The scheduler's thread takes no part in it and waits for nothing here. Time is bounded: a replay
//! that takes long answers "not yet" and keeps what it has, so that the next request goes on from
//! there. Memory is bounded: some views, and a scheduler.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::readers::RecordReaders;
use super::resume::digest_of;
use crate::api::{self, CyclesOnRecord, FromRecord, NoPastCycle, PastCycles};
use crate::journal::{Replay, ReplayError};
use crate::scheduler::View;
use crate::store::{PastCycle, ReadOnlyStore, StoreError};

/// Views in the cache: a slider goes back and forth over few cycles.
const KEPT: usize = 4;

/// Requests that may wait while another is computed; further requests are refused.
const WAITING: usize = 8;

/// Longest computation of a request; the next request goes on from there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Cycles that are read from the store at a time, so that a long replay needs little memory.
const CHUNK: u32 = 64;

/// Age up to which the range of the stored cycles is not read again.
const RANGE_AGE: Duration = Duration::from_secs(2);

/// Computing time for the charts after a start. Older parts of a chart have a point for each
/// checkpoint.
const COURSE_WORK: Duration = Duration::from_secs(15);

/// Pause of the charts as a multiple of their computing time: a cycle that is due goes first.
const REST: u32 = 2;

/// Longest pause: the end of the daemon waits for it.
const REST_MAX: Duration = Duration::from_millis(500);

/// The past cycles of one record.
#[derive(Debug)]
pub struct Replays {
    shared: Arc<Shared>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    readers: RecordReaders,
    stop: CancellationToken,
    /// Replay of the latest request. A request for a later cycle continues it.
    replay: Arc<tokio::sync::Mutex<LatestReplay>>,
    waiting: Semaphore,
    /// The latest views, the newest first.
    views: Mutex<VecDeque<Arc<api::PastView>>>,
    /// The ends of the record, and when they were read.
    range: tokio::sync::Mutex<Option<(Instant, Option<CyclesOnRecord>)>>,
}

/// Replay that the latest request left, to be continued.
#[derive(Debug, Default)]
struct LatestReplay {
    /// The replay, and when its last cycle ran.
    at: Option<(Replay, i64)>,
}

/// Why a replay ended before the cycle that was asked for.
enum Stuck {
    /// There are no such cycles.
    NotOnRecord,
    /// It took too long, or the daemon stops.
    NotYet,
    /// The record cannot be read, or leads elsewhere.
    Unreadable(String),
}

impl From<StoreError> for Stuck {
    fn from(error: StoreError) -> Stuck {
        Stuck::Unreadable(error.to_string())
    }
}

impl From<ReplayError> for Stuck {
    fn from(trouble: ReplayError) -> Stuck {
        Stuck::Unreadable(trouble.to_string())
    }
}

impl Replays {
    /// The past cycles in the record, until the daemon stops.
    pub fn new(readers: RecordReaders, stop: CancellationToken) -> Replays {
        let shared = Shared {
            readers,
            stop: stop.clone(),
            replay: Arc::default(),
            waiting: Semaphore::new(WAITING),
            views: Mutex::default(),
            range: tokio::sync::Mutex::default(),
        };
        Replays { shared: Arc::new(shared), stop }
    }
}

impl PastCycles for Replays {
    fn on_record(&self) -> FromRecord<'_, Option<CyclesOnRecord>> {
        Box::pin(self.shared.range())
    }

    fn after(&self, cycle: u64) -> FromRecord<'_, Result<Arc<api::PastView>, NoPastCycle>> {
        Box::pin(async move {
            if let Some(known) = self.shared.known(cycle) {
                return Ok(known);
            }
            let Ok(_place) = self.shared.waiting.try_acquire() else {
                return Err(NoPastCycle::Busy);
            };
            let replay = Arc::clone(&self.shared.replay).lock_owned().await;
            if let Some(known) = self.shared.known(cycle) {
                return Ok(known);
            }
            let shared = Arc::clone(&self.shared);
            let computed = self.shared.readers.compute(async move |record| {
                let mut replay = replay;
                let past = replay.to(record, &shared.stop, cycle).await?;
                Ok(shared.keep(past))
            });
            match computed.await {
                Ok(past) => Ok(past),
                Err(Stuck::NotYet) => Err(NoPastCycle::NotYet),
                Err(Stuck::NotOnRecord) => Err(NoPastCycle::NotOnRecord(self.shared.range().await)),
                Err(Stuck::Unreadable(why)) => {
                    tracing::error!(cycle, why, "a past cycle cannot be computed again");
                    Err(NoPastCycle::Unreadable(why))
                }
            }
        })
    }

    fn course(&self) -> mpsc::Receiver<api::PastView> {
        let (views, all) = mpsc::channel(1);
        let (readers, stop) = (self.shared.readers.clone(), self.stop.clone());
        tokio::spawn(async move {
            let course = Trend { stop, views, worked: Duration::ZERO };
            let run = readers.compute(async move |record| course.run(record).await);
            if let Err(Stuck::Unreadable(why)) = run.await {
                tracing::warn!(why, "charts begin anew: the record cannot be computed again");
            }
        });
        all
    }
}

impl Shared {
    async fn range(&self) -> Option<CyclesOnRecord> {
        let mut range = self.range.lock().await;
        if let Some((at, known)) = *range
            && at.elapsed() < RANGE_AGE
        {
            return known;
        }
        let read = self.readers.range().await;
        let read = read.map_err(|error| tracing::error!(%error, "the record cannot be read"));
        let read = read.ok().flatten();
        let read = read.map(|(oldest, newest)| CyclesOnRecord { oldest, newest });
        *range = Some((Instant::now(), read));
        read
    }

    fn known(&self, cycle: u64) -> Option<Arc<api::PastView>> {
        let views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.iter().find(|past| past.view.cycle == cycle).cloned()
    }

    fn keep(&self, past: api::PastView) -> Arc<api::PastView> {
        let past = Arc::new(past);
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.truncate(KEPT - 1);
        views.push_front(Arc::clone(&past));
        past
    }
}

impl LatestReplay {
    /// The cluster after `cycle`.
    async fn to(
        &mut self,
        archive: &mut ReadOnlyStore,
        stop: &CancellationToken,
        cycle: u64,
    ) -> Result<api::PastView, Stuck> {
        // After a failure all begins anew.
        let at = self.at.take();
        let checkpoint = archive.checkpoint_before(cycle).await?.ok_or(Stuck::NotOnRecord)?;
        let is_on_the_way = |(replay, _): &(Replay, i64)| {
            // Checkpoints alone are not what a cycle decided.
            (checkpoint.cycle + 1..=cycle).contains(&replay.scheduler().cycle())
        };
        let (mut replay, mut at_ms) = match at.filter(is_on_the_way) {
            Some(at) => at,
            None => (Replay::from(checkpoint.cycle, &checkpoint.sealed)?, 0),
        };
        let started = Instant::now();
        while replay.scheduler().cycle() < cycle {
            let next = archive.cycles_after(replay.scheduler().cycle(), CHUNK).await?;
            if next.is_empty() {
                return Err(Stuck::NotOnRecord);
            }
            for past in next.into_iter().take_while(|past| past.cycle <= cycle) {
                at_ms = past.at_ms;
                replay = computed(replay, past)?.0;
                if stop.is_cancelled() {
                    return Err(Stuck::NotYet);
                }
                if PATIENCE < started.elapsed() && replay.scheduler().cycle() < cycle {
                    self.at = Some((replay, at_ms));
                    return Err(Stuck::NotYet);
                }
            }
        }
        let view = replay.scheduler().view();
        self.at = Some((replay, at_ms));
        Ok(api::PastView { at_ms, view })
    }
}

/// The next cycle. What was written by another version may be more than a message can say.
fn computed(mut replay: Replay, past: PastCycle) -> Result<(Replay, View), Stuck> {
    let PastCycle { cycle, beginning, batches, digest, .. } = past;
    let outcome = catch_unwind(AssertUnwindSafe(|| -> Result<(Replay, View), ReplayError> {
        if let Some(checkpoint) = beginning {
            // What came before does not lead here: the daemon took over from a publication.
            replay = Replay::from(cycle - 1, &checkpoint)?;
        }
        let view = replay.cycle(cycle, &batches, &digest_of(digest.as_deref()))?;
        Ok((replay, view))
    }));
    match outcome {
        Ok(view) => Ok(view?),
        Err(panic) => Err(Stuck::Unreadable(super::error::message_of(panic.as_ref()))),
    }
}

/// Rows of every cycle on record, for charts.
struct Trend {
    stop: CancellationToken,
    views: mpsc::Sender<api::PastView>,
    /// So long it has computed.
    worked: Duration,
}

impl Trend {
    async fn run(mut self, archive: &mut ReadOnlyStore) -> Result<(), Stuck> {
        let Some((_, newest)) = archive.range().await? else { return Ok(()) };
        let mut until = newest;
        for start in archive.checkpoint_cycles().await? {
            if start < until && !self.segment(archive, start, until).await? {
                return Ok(());
            }
            until = until.min(start);
        }
        Ok(())
    }

    /// The cycles after `start` up to `until`, or the first of them where too much was computed
    /// already. Returns whether there is more to do.
    async fn segment(
        &mut self,
        archive: &mut ReadOnlyStore,
        start: u64,
        until: u64,
    ) -> Result<bool, Stuck> {
        let Some(checkpoint) = archive.checkpoint_before(start + 1).await? else {
            return Ok(false);
        };
        let until = if COURSE_WORK < self.worked { start + 1 } else { until };
        let mut replay = Replay::from(checkpoint.cycle, &checkpoint.sealed)?;
        let mut at = checkpoint.cycle;
        while at < until {
            let next = archive.cycles_after(at, CHUNK).await?;
            if next.is_empty() {
                return Ok(true);
            }
            for past in next.into_iter().take_while(|past| past.cycle <= until) {
                let started = Instant::now();
                let at_ms = past.at_ms;
                at = past.cycle;
                let (next, view) = computed(replay, past)?;
                replay = next;
                let took = started.elapsed();
                self.worked += took;
                let is_left = self.views.send(api::PastView { at_ms, view }).await.is_err();
                if is_left || self.stop.is_cancelled() {
                    return Ok(false);
                }
                // On a thread of its own, which outlives the runtime's timer by this much at most.
                std::thread::sleep((took * REST).min(REST_MAX));
            }
        }
        Ok(true)
    }
}
