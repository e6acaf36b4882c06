//! The store: administrative state, share numbers, the decisions of each cycle, and the inputs that
//! led to them.
//!
//! The store is no source of truth for jobs and nodes: these are the orchestrator and the agents.
//! The tables of nodes and shares are for readers, in the state of the last cycle. The journal has
//! the scheduler's inputs, so that its state can be computed again. The content of a batch or a
//! checkpoint belongs to `journal`: here it is bytes.
//!
//! The store is one file for one daemon over one connection; a lock file and a high-water mark lie
//! beside it. A cycle is one transaction. The daemon publishes nothing before its commit, and
//! readers see nothing of a failed transaction.
//!
//! A schedule is to be served at once after a start, so opening reads no more than is needed for that;
//! what it reads has a sum, or is compared with the mark. Whether the whole file is sound is looked
//! into afterwards, and before anything is written: see [`Store::recover`].
//!
//! The store has no connection pool. Readers of the past use an [`ReadOnlyStore`] while the daemon runs,
//! and `SQLite` has a single writer anyway.

mod archive;
mod audit;
mod configurations;
mod error;
mod files;
mod journal;
mod lock;
mod mark;
mod open;
mod owner;
mod rows;
mod sum;
mod write;

use std::path::{Path, PathBuf};

use sqlx::{Connection, SqliteConnection, query};

use crate::model::{Sealed, SharePhase, Steps};

pub use archive::ReadOnlyStore;
pub use audit::{AuditCheck, AuditEntry, AuditFault, AuditHead, AuditRow};
pub use configurations::CONFIGURATIONS_KEPT;
pub use error::StoreError;
pub use journal::{BatchRow, CheckpointRow, FeedRow, PastCheckpoint, PastCycle, Retention};
pub use open::migrations;
pub use owner::PublisherRow;
pub use rows::{
    AdminRow, ConfigurationRow, CycleRecord, NodeRow, Past, PreemptionRow, Recovered, ShareRow,
    StartupPeek,
};
pub use write::{ADMIN_ACTS_KEPT, PREEMPTIONS_KEPT};

use files::Files;
use lock::Lock;
use mark::Mark;

/// The record, open for this daemon alone.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// `None` after a failure: whether a transaction whose commit failed is in the file, only the
    /// file knows; and a full disk may have ended a transaction that the connection thinks open.
    session: Option<Session>,
    retention: Retention,
    mark: Mark,
    /// Id of this daemon in the table of owners; `None` until it took the store over.
    instance: Option<String>,
    files: Files,
    steps: Steps,
    _lock: Lock,
}

/// A connection, and what is known to be in the file at its other end.
#[derive(Debug)]
struct Session {
    connection: SqliteConnection,
    known: Known,
    /// True once the whole file was checked and read. Until then nothing is written.
    is_sound: bool,
}

/// Content of the file's tables, so that a cycle writes only the differences. Lists instead of
/// trees: lists take half the memory, and a cycle replaces them whole.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    last: Last,
    /// By name.
    nodes: Vec<NodeRow>,
    /// By number.
    shares: Vec<ShareRow>,
    /// Up to this cycle nothing is kept.
    cut: u64,
}

/// Numbers after the last committed cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    cycle: u64,
    next_share: u64,
    sequence: Option<u64>,
    /// The cycle in which the schedule came about that holds.
    schedule: Option<u64>,
    /// The last event of the feed.
    event: u64,
}

impl Default for Last {
    /// Before the first cycle.
    fn default() -> Last {
        Last { cycle: 0, next_share: 1, sequence: None, schedule: None, event: 0 }
    }
}

impl Last {
    /// Returns the numbers after committing `record`.
    fn after(&self, record: &CycleRecord) -> Last {
        Last {
            cycle: record.cycle,
            next_share: record.next_share,
            sequence: record.publication_sequence.or(self.sequence),
            schedule: record.schedule_cycle.or(self.schedule),
            event: record.last_event.max(self.event),
        }
    }

    /// True if an earlier commit got further, by the mark.
    fn is_behind(&self, mark: &Last) -> bool {
        self.cycle < mark.cycle || self.next_share < mark.next_share || self.event < mark.event
    }

    /// Raises the numbers to the mark, so that no number is issued twice.
    fn raise(&mut self, mark: &Last) {
        if self.is_behind(mark) {
            self.cycle = self.cycle.max(mark.cycle);
            self.next_share = self.next_share.max(mark.next_share);
            self.sequence = self.sequence.max(mark.sequence);
            self.event = self.event.max(mark.event);
            self.schedule = None;
        }
    }
}

impl Store {
    /// Opens the store at `path` or creates it; migrates an older schema.
    ///
    /// # Errors
    ///
    /// If the file is in use by another daemon, is not ours, is damaged, or was written by a newer
    /// version; or if it can be neither read nor created.
    pub async fn open(path: &Path) -> Result<Store, StoreError> {
        Store::open_telling(path, Steps::default()).await
    }

    /// The same, which takes `steps` as statements get on.
    ///
    /// # Errors
    ///
    /// Same as for [`Store::open`].
    pub async fn open_telling(path: &Path, steps: Steps) -> Result<Store, StoreError> {
        let path = open::resolve(path)?;
        let files = Files::of(&path)?;
        let lock = Lock::claim(&path)?;
        let session = Some(Session::begin(&path, &steps).await?);
        // Only now: a file that is refused gets no other beside it.
        let mark = Mark::open(&path)?;
        Ok(Store {
            path,
            session,
            retention: Retention::default(),
            mark,
            instance: None,
            files,
            steps,
            _lock: lock,
        })
    }

    /// The steps that are taken as statements get on.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Returns the store with this retention.
    #[must_use]
    pub fn keeping(mut self, retention: Retention) -> Store {
        self.retention = retention;
        self
    }

    /// Path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the little that the daemon serves before it has resumed; takes no noticeable time.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn glance(&mut self) -> Result<StartupPeek, StoreError> {
        let mut session = self.take_session().await?;
        let mut last = session.known.last;
        let lost_after = last.is_behind(&self.mark.found).then_some(last.cycle);
        last.raise(&self.mark.found);
        let schedule = session.schedule(last.schedule).await;
        let schedule = schedule.map_err(|source| self.unread(source))?;
        self.session = Some(session);
        let Last { cycle, next_share, sequence, event, .. } = last;
        Ok(StartupPeek { cycle, next_share, sequence, last_event: event, schedule, lost_after })
    }

    /// Checks the whole file, which takes time, and reads the state from which the daemon resumes.
    ///
    /// # Errors
    ///
    /// If the file is damaged or cannot be read.
    pub async fn recover(&mut self) -> Result<Recovered, StoreError> {
        let session = self.sound_session().await?;
        self.session = Some(session);
        self.take_over().await?;
        let mut session = self.take_session().await?;
        let read = session.past().await;
        let (schedule, journal) = read.map_err(|source| self.unread(source))?;
        let Known { last, nodes, shares, .. } = &mut self.session.insert(session).known;
        let varied_off = nodes
            .iter()
            .filter_map(|node| Some((node.name.clone(), node.varied_off.clone()?)))
            .collect();
        let on_record = last.cycle;
        let is_behind = last.is_behind(&self.mark.found);
        last.raise(&self.mark.found);
        Ok(Recovered {
            varied_off,
            next_share: last.next_share,
            cycle: last.cycle,
            lost_after: is_behind.then_some(on_record),
            sequence: last.sequence,
            shares: shares.clone(),
            schedule: schedule.filter(|_| !is_behind),
            last_event: last.event,
            journal: journal.filter(|_| !is_behind),
        })
    }

    /// Commits a cycle in a single durable transaction. The last cycle may be committed again with
    /// later additions: an administrator may act before the next cycle is planned. The content of
    /// `record` is moved and not copied: a large cycle has megabytes of it.
    ///
    /// # Errors
    ///
    /// If cycles or share numbers go back, or the file cannot be written. The next call begins
    /// with what the file holds then.
    pub async fn commit(&mut self, mut record: CycleRecord) -> Result<(), StoreError> {
        let mut session = self.sound_session().await?;
        self.files.check()?;
        if let Err(refusal) = self.check(&session.known.last, &record) {
            self.session = Some(session);
            return Err(refusal);
        }
        let Session { connection, known, .. } = &mut session;
        let (nodes, shares) = record.take_rows();
        if !record.forgotten.is_empty() {
            known.nodes.retain(|node| !record.forgotten.contains(&node.name));
        }
        let changes = write::Changes::between(known, &nodes, &shares);
        // If this fails, all that is known is read again.
        known.forget(&nodes);
        let last = known.last.after(&record);
        known.cut = write::cycle(
            (connection, self.instance.as_deref()),
            (&known.last, known.cut),
            record,
            &changes,
            self.retention,
        )
        .await
        .map_err(|source| self.unwritten("record a cycle", source))?;
        known.last = last;
        known.adopt(nodes, shares);
        self.mark.put(&known.last)?;
        self.session = Some(session);
        Ok(())
    }

    /// Closes the file and empties the write-ahead log, even while another program reads.
    ///
    /// # Errors
    ///
    /// If the log cannot be written back. Nothing is lost; the next opening does it.
    pub async fn close(self) -> Result<(), StoreError> {
        match self.session {
            Some(Session { mut connection, .. }) => {
                let failed = |source| StoreError::of("close", &self.path, source);
                // SQLite does so by itself only for the last that leaves, and if that may write.
                let emptied = query("pragma wal_checkpoint(truncate)").execute(&mut connection);
                emptied.await.map_err(failed)?;
                connection.close().await.map_err(failed)
            }
            None => Ok(()),
        }
    }

    fn check(&self, last: &Last, record: &CycleRecord) -> Result<(), StoreError> {
        let path = || self.path.clone();
        if record.cycle < last.cycle {
            return Err(StoreError::CycleWentBack {
                path: path(),
                stored: last.cycle,
                given: record.cycle,
            });
        }
        if record.next_share < last.next_share {
            return Err(StoreError::ShareNumberWentBack {
                path: path(),
                stored: last.next_share,
                given: record.next_share,
            });
        }
        Ok(())
    }

    fn unread(&self, source: sqlx::Error) -> StoreError {
        StoreError::of("read the record", &self.path, source)
    }

    /// The same, on a file that is sound as a whole.
    async fn sound_session(&mut self) -> Result<Session, StoreError> {
        let mut session = self.take_session().await?;
        if !session.is_sound {
            open::check(&mut session.connection, &self.path).await?;
            let rows = open::read_rows(&mut session.connection).await;
            (session.known.nodes, session.known.shares) =
                rows.map_err(|source| self.unread(source))?;
            session.is_sound = true;
        }
        Ok(session)
    }

    /// A new connection that knows what `session` knew: it is sure what of it is in the file. `None` if the
    /// file cannot be opened now.
    async fn renewed(&mut self, session: Session) -> Option<Session> {
        let Session { connection, known, is_sound } = session;
        drop(connection);
        self.files.forget_log();
        let fresh = Session::begin(&self.path, &self.steps).await.ok()?;
        Some(Session { known, is_sound, ..fresh })
    }

    /// The session, to be put back where nothing failed in it.
    async fn take_session(&mut self) -> Result<Session, StoreError> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        self.files.forget_log();
        Session::begin(&self.path, &self.steps).await
    }
}

impl Session {
    async fn begin(path: &Path, steps: &Steps) -> Result<Session, StoreError> {
        let mut connection = open::connect(path, steps).await?;
        let last = open::read_last(&mut connection)
            .await
            .map_err(|source| StoreError::of("read the record", path, source))?;
        Ok(Session { connection, known: Known { last, ..Known::default() }, is_sound: false })
    }

    /// The schedule that came about in that cycle.
    async fn schedule(&mut self, cycle: Option<u64>) -> Result<Option<(u64, Sealed)>, sqlx::Error> {
        let Some(cycle) = cycle else { return Ok(None) };
        let sealed = journal::schedule_of(&mut self.connection, cycle).await?;
        Ok(sealed.map(|sealed| (cycle, sealed)))
    }

    /// Reads the schedule in effect, and the journal from which the last state can be computed.
    async fn past(&mut self) -> Result<(Option<(u64, Sealed)>, Option<Past>), sqlx::Error> {
        let schedule = self.schedule(self.known.last.schedule).await?;
        let Session { connection, known: Known { last, .. }, .. } = self;
        let Some(checkpoint) =
            journal::checkpoint_before(connection, last.cycle.saturating_add(1)).await?
        else {
            return Ok((schedule, None));
        };
        let cycles = journal::cycles_after(connection, checkpoint.cycle, u32::MAX).await?;
        let rest = journal::batches_before(connection, last.cycle.saturating_add(1)).await?;
        Ok((schedule, Some(Past { checkpoint, cycles, rest })))
    }
}

impl Known {
    /// Forgets what is about to be replaced: all shares, and of `nodes` what was.
    fn forget(&mut self, nodes: &[NodeRow]) {
        self.shares = Vec::new();
        self.nodes.retain(|node| rows::place_of(nodes, &node.name).is_none());
        self.nodes.shrink_to_fit();
    }

    /// Follows the file after a commit of these rows, each in order, of which nothing else is known.
    fn adopt(&mut self, nodes: Vec<NodeRow>, shares: Vec<ShareRow>) {
        self.shares = shares;
        let others = std::mem::replace(&mut self.nodes, nodes);
        if !others.is_empty() {
            self.nodes.extend(others);
            self.nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
    }
}

/// Casts to `SQLite`'s signed integers: a number past 2^63 is stored as a negative number, and read
/// back unchanged.
fn to_sql(number: u64) -> i64 {
    number.cast_signed()
}

fn from_sql(number: i64) -> u64 {
    number.cast_unsigned()
}

fn state_word(state: SharePhase) -> &'static str {
    match state {
        SharePhase::Held => "held",
        SharePhase::Leaving => "leaving",
    }
}

#[cfg(test)]
mod tests;
