//! Past cycles, computed again from a daemon's record: whether they are what they were, and why.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::args::ReplayArgs as Args;
use super::failure::{Failure, FailureKind};
use super::output::show;
use super::text::TextStyle;
use super::why;
use crate::api::{self, wire};
use crate::journal::{Digest, Excerpt, Replay, ReplayError};
use crate::model::JobId;
use crate::scheduler::View;
use crate::store::{PastCycle, ReadOnlyStore};

/// Cycles of a read: few enough to keep memory small.
const CHUNK: u32 = 256;

/// Result of a replay.
#[derive(Debug, Serialize)]
struct Replayed {
    /// The first cycle that was computed again.
    from: u64,
    /// The last.
    to: u64,
    /// Number of cycles.
    cycles: u64,
    /// Times of the first and of the last cycle.
    ran: [String; 2],
    /// Explanation of the job, if `--why` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<wire::Why>,
    /// Text on the inputs and decisions of the last cycle.
    #[serde(skip)]
    last: String,
    /// The file that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    exported: Option<String>,
}

/// Runs the command.
///
/// # Errors
///
/// If the record cannot be read, does not reach back so far, or a cycle is not what it was.
pub async fn run(args: &Args) -> Result<(), Failure> {
    let mut archive = ReadOnlyStore::open(&args.store).await?;
    let (from, to) = asked(args, archive.range().await?)?;
    let mut course =
        ReplayRun::begin(&mut archive, from, args.export.is_some(), &args.store).await?;
    while course.at < to {
        let cycles = archive.cycles_after(course.at, CHUNK).await?;
        if cycles.is_empty() {
            return Err(ReplayError::Missing { cycle: course.at + 1 }.into());
        }
        for cycle in cycles.into_iter().take_while(|cycle| cycle.cycle <= to) {
            course.step(cycle)?;
        }
    }
    let replayed = course.end(args, to)?;
    Ok(show(&replayed, args.json, render)?)
}

/// Returns the requested range of cycles, out of the recorded range.
fn asked(args: &Args, range: Option<(u64, u64)>) -> Result<(u64, u64), Failure> {
    let store = args.store.display();
    let Some((oldest, newest)) = range else {
        let message = format!("no cycle is on record in `{store}` that could be computed again");
        return Err(Failure::new(FailureKind::NotFound, message));
    };
    let from = args.cycle.or(args.from).unwrap_or(oldest);
    let to = args.cycle.or(args.to).unwrap_or(newest);
    for cycle in [from, to] {
        if !(oldest..=newest).contains(&cycle) {
            let message = format!(
                "cycle {cycle} is not on record in `{store}`, which has {oldest} to {newest}; \
                 `daemon.journal.cycles` in the configuration says how many are kept"
            );
            return Err(Failure::new(FailureKind::NotFound, message));
        }
    }
    if to < from {
        let message =
            format!("cycle {to} comes before cycle {from}; give the earlier one with --from");
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    Ok((from, to))
}

/// The way through the record.
struct ReplayRun {
    replay: Replay,
    /// The last cycle computed.
    at: u64,
    /// First requested cycle; earlier cycles only lead to it.
    from: u64,
    /// Times of the first and of the last requested cycle.
    ran: Option<(i64, i64)>,
    view: Option<View>,
    happened: Vec<String>,
    name: String,
    excerpt: Option<Excerpt>,
    is_exported: bool,
}

impl ReplayRun {
    async fn begin(
        archive: &mut ReadOnlyStore,
        from: u64,
        is_exported: bool,
        store: &Path,
    ) -> Result<ReplayRun, Failure> {
        let checkpoint = archive.checkpoint_before(from).await?;
        let checkpoint = checkpoint.context("no checkpoint is on record that leads there")?;
        let replay = Replay::from(checkpoint.cycle, &checkpoint.sealed)?;
        let name = store.file_name().unwrap_or_default().display().to_string();
        Ok(ReplayRun {
            replay,
            at: checkpoint.cycle,
            from,
            ran: None,
            view: None,
            happened: Vec::new(),
            name,
            excerpt: None,
            is_exported,
        })
    }

    fn step(&mut self, past: PastCycle) -> Result<(), ReplayError> {
        let PastCycle { cycle, at_ms, beginning, batches, digest } = past;
        if let Some(checkpoint) = beginning {
            // The daemon took over from a publication, so the replayed state does not lead to this
            // cycle.
            self.replay = Replay::from(cycle - 1, &checkpoint)?;
            self.excerpt = None;
        }
        if self.from <= cycle {
            self.ran = Some((self.ran.map_or(at_ms, |(first, _)| first), at_ms));
            let entries = Replay::entries(cycle, &batches)?;
            self.happened = entries.iter().map(ToString::to_string).collect();
            if self.is_exported {
                let name = format!("{} from cycle {cycle}", self.name);
                let state = || self.replay.scheduler().state();
                self.excerpt
                    .get_or_insert_with(|| Excerpt::new(name, &state()))
                    .push(cycle, &entries);
            }
        }
        let recorded =
            digest.and_then(|bytes| bytes.try_into().ok()).map(Digest).unwrap_or_default();
        self.view = Some(self.replay.cycle(cycle, &batches, &recorded)?);
        self.at = cycle;
        Ok(())
    }

    fn end(self, args: &Args, to: u64) -> Result<Replayed, Failure> {
        let exported = match (&args.export, &self.excerpt) {
            (Some(path), Some(excerpt)) => {
                let text = serde_json::to_string_pretty(excerpt)? + "\n";
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Some(path.display().to_string())
            }
            _ => None,
        };
        let view = self.view.as_ref().context("no cycle was computed")?;
        let why = match args.explain {
            None => None,
            Some(id) => {
                let job = view.jobs.iter().find(|job| job.id == JobId(id));
                let job = job.ok_or_else(|| {
                    Failure::new(
                        FailureKind::NotFound,
                        format!("there was no job {id} in cycle {to}"),
                    )
                })?;
                Some(api::why(view, job, &api::CivilTime::recorded(view)))
            }
        };
        let ran = self.ran.map(|(first, last)| [time_of(first), time_of(last)]);
        Ok(Replayed {
            from: self.from,
            to,
            cycles: to - self.from + 1,
            ran: ran.unwrap_or_default(),
            why,
            last: summary(view, &self.happened),
            exported,
        })
    }
}

fn time_of(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| format!("{ms} ms"), |time| format!("{time:.0}"))
}

/// Inputs in the text; the text counts the rest.
const HAPPENED_SHOWN: usize = 10;

/// Describes the inputs of a cycle and its decisions.
fn summary(view: &View, happened: &[String]) -> String {
    let mut lines = Vec::new();
    match happened {
        [] => lines.push("nothing happened before it".to_owned()),
        happened => {
            lines.push("before it:".to_owned());
            lines.extend(happened.iter().take(HAPPENED_SHOWN).map(|what| format!("  {what}")));
            if let more @ 1.. = happened.len().saturating_sub(HAPPENED_SHOWN) {
                lines.push(format!("  and {more} more"));
            }
        }
    }
    if let Some(planned) = &view.planned {
        let decided = &planned.schedule;
        lines.push(format!(
            "it decided: {} shares new, {} taken back, {} promised",
            decided.expansions.len(),
            decided.preemptions.len(),
            decided.promises.len()
        ));
    }
    lines.join("\n")
}

fn render(replayed: &Replayed) -> String {
    let Replayed { from, to, cycles, ran: [first, last], why, .. } = replayed;
    let mut parts = vec![match cycles {
        1 => format!("cycle {to} ({last}), computed again: what it was\n{}", replayed.last),
        _ => format!(
            "cycles {from} to {to} ({first} to {last}), computed again: all {cycles} are what they were"
        ),
    }];
    if let Some(why) = why {
        parts.push(format!("\n{}", why::render(why, TextStyle::default())));
    }
    if let Some(file) = &replayed.exported {
        parts.push(format!("written to {file}; `apportion simulate --recorded {file}` plays it"));
    }
    parts.join("\n")
}
