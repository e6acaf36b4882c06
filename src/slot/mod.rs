//! The process in a share: it works through tasks, a task after another in each lane.
//!
//! A slot runs as the submitting user from its first instruction on. It is the parent of its tasks
//! and survives the restart of its agent. The slot alone decides that an attempt begins: its
//! journal has each begin before the start of the process, and a slot runs once. The slot keeps
//! results until the orchestrator acknowledges them. It ends leftover processes of a task before
//! the next task begins, and ends all tasks when its lease runs out. No thread waits for a network,
//! and no runtime is in use. A thread decides, a second thread notices ended children, and the
//! remaining threads read the socket.
//!
//! The only types of the orchestrator that the slot uses are its wire types.

mod begin;
mod cgroup;
mod clock;
mod family;
mod finish;
mod journal;
mod known;
mod life;
mod order_to_end;
mod orders;
mod output;
mod ranks;
mod reaper;
mod report;
mod run;
mod serve;
mod shim;
mod spawn;
pub mod wire;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use rustix::process::{getpid, set_child_subreaper};

pub use self::clock::since_boot_ms;
pub use self::family::{ProcessMark, is_alive, mark, session, start_time};
pub use self::report::ReportError;
pub use self::shim::{ProcessChange, ShimError, UserIdentity};

use self::begin::NODE_FILE;
use self::cgroup::SlotCgroup;
use self::journal::{Journal, JournalError, Record};
use self::known::KnownAttempts;
use self::life::{Lane, Phase, RunningSlot, SlotEvent};
use self::output::Spool;
use self::ranks::RankPort;
use self::wire::{JOURNAL, ReadRequest, SETTINGS, SOCKET, SlotSettings};
use crate::orchestrator::wire::SlotEnd;

/// The longest settings that a slot reads, in bytes.
const MAX_SETTINGS: u64 = 4 << 20;

/// The most lanes of a slot.
const MAX_LANES: u64 = 1024;

/// The most events that wait for the slot. More wait in the socket: a message can have 32 MiB, and a task
/// can send as many as it likes.
const MOST_EVENTS: usize = 4;

/// Task of a process in a slot's folder.
#[derive(Clone, Debug)]
pub enum SlotAct {
    /// Runs the slot.
    Run,
    /// Reports a dead slot: results behind this number.
    Report(u64),
    /// Reads output that a dead slot kept.
    Read(ReadRequest),
    /// Removes all files.
    Clear,
}

/// Reason why a process in a slot's folder failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SlotError {
    #[error(transparent)]
    Shim(#[from] ShimError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("cannot read {} in the folder of the slot", SETTINGS)]
    Settings(#[source] io::Error),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot enter the folder {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("cannot set up the slot: {what}")]
    SetUp { what: &'static str, source: io::Error },
}

/// Applies `change` to this process, and does `act` in `folder`. Reports and output go to standard output.
///
/// # Errors
///
/// If the change fails, or the folder is not the folder of a slot.
pub fn run(folder: &Path, change: &ProcessChange, act: &SlotAct) -> Result<(), SlotError> {
    shim::change(change)?;
    match act {
        SlotAct::Run => live(folder).map(|_| ()),
        SlotAct::Report(acked) => {
            Ok(report::report_dead(folder, *acked, &mut io::stdout().lock())?)
        }
        SlotAct::Read(request) => Ok(report::read_dead(folder, request, &mut io::stdout().lock())?),
        SlotAct::Clear => clear(folder),
    }
}

/// Runs the slot to its end.
fn live(folder: &Path) -> Result<SlotEnd, SlotError> {
    let set_up = |what| move |source| SlotError::SetUp { what, source };
    // The path of a socket is short, and that of a folder may be long.
    std::env::set_current_dir(folder)
        .map_err(|source| SlotError::Folder { folder: folder.to_owned(), source })?;
    let settings = read_settings(&folder.join(SETTINGS)).map_err(SlotError::Settings)?;
    let mut journal = Journal::create(&folder.join(JOURNAL))?;
    keep_complaints(folder).map_err(set_up("its log"))?;
    journal
        .append(&Record::Opened { slot: settings.slot.clone() })
        .map_err(set_up("its journal"))?;
    fs::write(folder.join(NODE_FILE), format!("{}\n", settings.node)).map_err(set_up("a file"))?;
    let spool = Spool::open(folder).map_err(set_up("its spool"))?;
    let home = SlotCgroup::of(&settings.limit);
    set_child_subreaper(Some(getpid()))
        .map_err(|errno| set_up("the adoption of leftover processes")(errno.into()))?;
    let (tell, events) = sync_channel(MOST_EVENTS);
    let end = tell.clone();
    order_to_end::start(move || drop(end.send(SlotEvent::EndOrdered)))
        .map_err(set_up("its signals"))?;
    let notice = tell.clone();
    let reaper = reaper::start(move || drop(notice.send(SlotEvent::ChildEnded)))
        .map_err(set_up("a thread"))?;
    serve::start(Path::new(SOCKET), move |heard| drop(tell.send(SlotEvent::Socket(heard))))
        .map_err(set_up("its socket"))?;
    let rank_port = RankPort::open(settings.start.listens, settings.address);
    let rank_port = rank_port.map_err(set_up("the port of its rank"))?;
    let lanes = settings.start.lanes.clamp(1, MAX_LANES);
    let now = since_boot_ms();
    let slot = RunningSlot {
        folder: folder.to_owned(),
        journal,
        spool,
        home,
        lanes: (0..lanes).map(|_| Lane::default()).collect(),
        phase: Phase::Preparing,
        text: None,
        queue: VecDeque::new(),
        specs: BTreeMap::from([(settings.start.spec, Arc::new(settings.spec.clone()))]),
        inputs: BTreeSet::new(),
        known: KnownAttempts::default(),
        results: BTreeMap::new(),
        next_number: 1,
        acked: 0,
        seen_order: 0,
        lease_until_ms: settings.lease_until_ms,
        stop: None,
        prepared_ms: None,
        idle_since: now,
        finished: 0,
        finished_ms: 0,
        paused_until_ms: 0,
        is_full: false,
        over_limit: 0,
        agent: None,
        has_news: false,
        reported_ms: 0,
        looked_ms: now,
        sampled_ms: 0,
        reaper,
        rank_port,
        settings,
    };
    Ok(slot.live(&events))
}

/// Redirects standard error to a file in the slot's folder, for later errors.
fn keep_complaints(folder: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(journal::no_follow());
    let log = options.open(folder.join("slot.log"))?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}

/// The settings in the file at `path`.
fn read_settings(path: &Path) -> io::Result<SlotSettings> {
    let mut options = OpenOptions::new();
    let file: File = options.read(true).custom_flags(journal::no_follow()).open(path)?;
    let mut text = Vec::new();
    file.take(MAX_SETTINGS).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Removes all that is in the folder, which belongs to the user whom this process is.
fn clear(folder: &Path) -> Result<(), SlotError> {
    let failed = |source| SlotError::Folder { folder: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed)?;
    }
    Ok(())
}
