//! Reads of the database: rows of the book after a restart, and answers for people.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions, Row, query, query_scalar};

use super::convert::{self, from_sql, json, maybe_number, number, to_sql};
use super::write::chunk_of;
use super::{BUSY, CampaignStore, DbError};
use super::{faults, filed, leases, rows};
use crate::orchestrator::book::{
    AttemptRow, CampaignRow, Saved, SlotRow, TaskRow, TaskState, WorkRow,
};
use crate::orchestrator::spec::CampaignSpec;

/// A campaign as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignInfo {
    /// Row of the campaign.
    pub row: CampaignRow,
    /// Name of the campaign.
    pub name: String,
    /// Time at which the tasks were folded into a summary, in milliseconds since the epoch. `None`:
    /// the tasks are on record.
    pub folded_ms: Option<u64>,
}

/// A page of touched tasks.
pub type TaskPage = Vec<TaskRow>;
/// Attempts, first to last.
pub type AttemptPage = Vec<AttemptRow>;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteInfo {
    /// Number of the note.
    pub id: u64,
    /// Time of the note, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Task, if the note concerns a task.
    pub task: Option<u64>,
    /// Node, if the note concerns a node.
    pub node: Option<String>,
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub text: String,
}

const LIVE: &str = "('waiting', 'running', 'suspended', 'finishing', 'cancelling')";

impl CampaignStore {
    /// Reads the rows from which the book is restored.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn saved(&mut self) -> Result<Saved, DbError> {
        let failed = self.failed("read the state");
        read_saved(&mut self.connection, &self.boot).await.map_err(failed)
    }

    /// Reads the specification of a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no such specification.
    pub async fn spec(&mut self, row: &CampaignRow) -> Result<Arc<CampaignSpec>, DbError> {
        let failed = self.failed("read a specification");
        spec_of(&mut self.connection, row).await.map_err(failed)
    }

    /// Reads the parameters from position `first` on, in the chunk that holds `position`, counted
    /// from 0. `None` if the campaign has no parameters.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn params(
        &mut self,
        campaign: u64,
        position: u64,
    ) -> Result<Option<(u64, Vec<String>)>, DbError> {
        let failed = self.failed("read parameters");
        chunk_of(&mut self.connection, campaign, position).await.map_err(failed)
    }

    /// Reads a campaign, its touched tasks in `states`, and its touched tasks beyond the cursor.
    /// `None`: the campaign does not exist, or its tasks were folded.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn finals(
        &mut self,
        id: u64,
        states: &[TaskState],
    ) -> Result<Option<(CampaignRow, Vec<TaskRow>, Vec<TaskRow>)>, DbError> {
        let failed = self.failed("read a campaign");
        let found = async {
            let sql = "select * from campaigns where id = ?1 and folded_ms is null";
            let row = query(sql).bind(to_sql(id));
            let Some(row) = row.fetch_optional(&mut self.connection).await? else {
                return Ok(None);
            };
            let row = convert::campaign(&row)?;
            let spec = spec_of(&mut self.connection, &row).await?;
            let sql = "select * from tasks where campaign = ?1 and state in
                           ('failed', 'cancelled', 'dropped', 'done')";
            let rows = query(sql).bind(to_sql(id)).fetch_all(&mut self.connection).await?;
            let tasks: Vec<TaskRow> = rows.iter().map(convert::task).collect::<Result<_, _>>()?;
            let at = |task: &TaskRow| spec.tasks.position(task.task);
            let beyond = tasks.iter().filter(|task| at(task).is_some_and(|at| row.taken <= at));
            let beyond = beyond.cloned().collect();
            let chosen = tasks.iter().filter(|task| states.contains(&task.state));
            Ok(Some((row, chosen.cloned().collect(), beyond)))
        };
        found.await.map_err(failed)
    }

    /// Reads the work of each memory step of a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn works(&mut self, campaign: u64) -> Result<Vec<WorkRow>, DbError> {
        let failed = self.failed("read works");
        rows::read_works(&mut self.connection, campaign).await.map_err(failed)
    }

    /// Returns the campaign of an earlier submission with `key`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn submitted(&mut self, owner: &str, key: &str) -> Result<Option<u64>, DbError> {
        let failed = self.failed("read submissions");
        let sql = "select campaign from submissions where owner = ?1 and key = ?2";
        let found = query_scalar(sql).bind(owner).bind(key).fetch_optional(&mut self.connection);
        found.await.map(|found| found.map(from_sql)).map_err(failed)
    }
}

/// Reads the specification of a campaign, with the present number of tasks.
async fn spec_of(
    connection: &mut SqliteConnection,
    row: &CampaignRow,
) -> Result<Arc<CampaignSpec>, sqlx::Error> {
    Ok(read_spec(connection, row.spec).await?.with_total(row.total))
}

async fn read_spec(
    connection: &mut SqliteConnection,
    number: u64,
) -> Result<Arc<CampaignSpec>, sqlx::Error> {
    let sql = "select text from specs where number = ?1";
    let text: String = query_scalar(sql).bind(to_sql(number)).fetch_one(connection).await?;
    json(&text).map(Arc::new)
}

async fn read_saved(connection: &mut SqliteConnection, boot: &str) -> Result<Saved, sqlx::Error> {
    let next = query_scalar("select next from meta").fetch_one(&mut *connection).await?;
    let sql = format!("select * from campaigns where state in {LIVE}");
    let rows = query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut *connection).await?;
    let mut specs: BTreeMap<u64, Arc<CampaignSpec>> = BTreeMap::new();
    let mut campaigns = Vec::new();
    for row in &rows {
        let row = convert::campaign(row)?;
        let spec = match specs.get(&row.spec) {
            Some(spec) => Arc::clone(spec),
            None => read_spec(connection, row.spec).await?,
        };
        specs.insert(row.spec, Arc::clone(&spec));
        let spec = spec.with_total(row.total);
        campaigns.push((row, spec));
    }
    let (mut works, mut tasks, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    for (campaign, spec) in &campaigns {
        let id = to_sql(campaign.id);
        works.extend(rows::read_works(connection, campaign.id).await?);
        let beyond = spec.tasks.at(campaign.taken).unwrap_or(u64::MAX >> 1);
        let sql =
            "select * from tasks where campaign = ?1 and state in ('queued', 'assigned', 'running')
                   union all
                   select * from tasks where campaign = ?1 and task >= ?2 and
                       state not in ('queued', 'assigned', 'running')";
        let rows = query(sql).bind(id).bind(to_sql(beyond)).fetch_all(&mut *connection).await?;
        for row in &rows {
            tasks.push(convert::task(row)?);
        }
        let sql = "select * from attempts where campaign = ?1 and result is null";
        for row in &query(sql).bind(id).fetch_all(&mut *connection).await? {
            attempts.push(convert::attempt(row)?);
        }
    }
    let rows: Vec<String> =
        query_scalar("select facts from slots").fetch_all(&mut *connection).await?;
    let slots = rows.iter().map(|text| json::<SlotRow>(text)).collect::<Result<_, _>>()?;
    let faults = faults::read_open(connection).await?;
    let leases = leases::read(connection, boot).await?;
    let (filed, next_filed) = filed::read_open(connection).await?;
    let next = from_sql(next);
    let meta = query("select attempts_ms, interruptions from meta").fetch_one(connection).await?;
    let interruptions = (number(&meta, "attempts_ms")?, number(&meta, "interruptions")?);
    Ok(Saved {
        next,
        campaigns,
        works,
        tasks,
        attempts,
        slots,
        faults,
        leases,
        filed,
        next_filed,
        interruptions,
    })
}

/// A connection for readers. It sees committed rows only.
#[derive(Debug)]
pub struct StoreReader {
    path: PathBuf,
    pub(super) connection: SqliteConnection,
}

impl StoreReader {
    /// Opens the database at `path` for reading.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub async fn open(path: &Path) -> Result<StoreReader, DbError> {
        let options = SqliteConnectOptions::new().filename(path).read_only(true);
        let connected = options.busy_timeout(BUSY).disable_statement_logging().connect().await;
        let path = path.to_owned();
        match connected {
            Ok(connection) => Ok(StoreReader { path, connection }),
            Err(source) => Err(DbError::Sql { action: "open for reading", path, source }),
        }
    }

    pub(super) fn failed(&self) -> impl FnOnce(sqlx::Error) -> DbError + use<> {
        let path = self.path.clone();
        move |source| DbError::Sql { action: "read", path, source }
    }

    /// Reads at most `limit` campaigns with numbers in `range`, the newest first. With `owner`,
    /// reads campaigns of this user only.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn campaigns(
        &mut self,
        owner: Option<&str>,
        range: RangeInclusive<u64>,
        limit: u32,
    ) -> Result<Vec<CampaignInfo>, DbError> {
        let failed = self.failed();
        // Two statements: an index serves a comparison, but no comparison that is optional.
        let sql = match owner {
            Some(_) => {
                "select * from campaigns where owner = ?1 and id between ?3 and ?4 order by id desc limit ?2"
            }
            None => {
                "select * from campaigns where ?1 is null and id between ?3 and ?4 order by id desc limit ?2"
            }
        };
        let (first, last) = (to_sql(*range.start()), to_sql(*range.end()));
        let rows = query(sql).bind(owner).bind(limit).bind(first).bind(last);
        let rows = rows.fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(info).collect()).map_err(failed)
    }

    /// Reads a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn campaign(&mut self, id: u64) -> Result<Option<CampaignInfo>, DbError> {
        let failed = self.failed();
        let row = query("select * from campaigns where id = ?1").bind(to_sql(id));
        let row = row.fetch_optional(&mut self.connection).await;
        row.and_then(|row| row.as_ref().map(info).transpose()).map_err(failed)
    }

    /// Reads the specification of a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn spec(&mut self, row: &CampaignRow) -> Result<Arc<CampaignSpec>, DbError> {
        let failed = self.failed();
        spec_of(&mut self.connection, row).await.map_err(failed)
    }

    /// Returns the number of a user's campaigns that are not final, without prologues and epilogues.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn live(&mut self, owner: &str) -> Result<u64, DbError> {
        let failed = self.failed();
        let sql = format!(
            "select count(*) from campaigns
                 where state in {LIVE} and owner = ?1 and hook_of is null"
        );
        let count = query_scalar(sqlx::AssertSqlSafe(sql)).bind(owner);
        count.fetch_one(&mut self.connection).await.map(from_sql).map_err(failed)
    }

    /// True if a slot of `node` belongs to a campaign of specification `spec`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn is_ordered(&mut self, node: &str, spec: u64) -> Result<bool, DbError> {
        let failed = self.failed();
        let sql = "select count(*) from slots join campaigns on campaigns.id = slots.campaign
                   where slots.node = ?1 and campaigns.spec = ?2";
        let count = query_scalar(sql).bind(node).bind(to_sql(spec));
        let count: Result<i64, _> = count.fetch_one(&mut self.connection).await;
        count.map(|count| 0 < count).map_err(failed)
    }

    /// Reads the standard input of a specification.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn stdin(&mut self, spec: u64) -> Result<Option<Vec<u8>>, DbError> {
        let failed = self.failed();
        let sql = "select stdin from specs where number = ?1";
        let found = query_scalar(sql).bind(to_sql(spec)).fetch_optional(&mut self.connection);
        found.await.map(Option::flatten).map_err(failed)
    }

    /// Reads the parameter of the task at `position`, counted from 0. `None`: the task has no
    /// parameter.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn param(&mut self, campaign: u64, position: u64) -> Result<Option<String>, DbError> {
        let failed = self.failed();
        let chunk = chunk_of(&mut self.connection, campaign, position).await.map_err(failed)?;
        Ok(chunk.and_then(|(first, texts)| {
            let at = usize::try_from(position.saturating_sub(first)).ok()?;
            texts.into_iter().nth(at)
        }))
    }

    /// Reads at most `limit` touched tasks after number `after`. With `state`, reads tasks in this
    /// state only.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn tasks(
        &mut self,
        campaign: u64,
        state: Option<TaskState>,
        after: u64,
        limit: u32,
    ) -> Result<TaskPage, DbError> {
        let failed = self.failed();
        let sql = match state {
            Some(_) => {
                "select * from tasks where campaign = ?1 and state = ?2 and task > ?3
                     order by task limit ?4"
            }
            None => {
                "select * from tasks where campaign = ?1 and ?2 is null and task > ?3
                     order by task limit ?4"
            }
        };
        let rows = query(sql)
            .bind(to_sql(campaign))
            .bind(state.map(TaskState::word))
            .bind(to_sql(after))
            .bind(limit)
            .fetch_all(&mut self.connection)
            .await;
        rows.and_then(|rows| rows.iter().map(convert::task).collect()).map_err(failed)
    }

    /// Reads a touched task.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn task(&mut self, campaign: u64, task: u64) -> Result<Option<TaskRow>, DbError> {
        let failed = self.failed();
        let sql = "select * from tasks where campaign = ?1 and task = ?2";
        let row = query(sql).bind(to_sql(campaign)).bind(to_sql(task));
        let row = row.fetch_optional(&mut self.connection).await;
        row.and_then(|row| row.as_ref().map(convert::task).transpose()).map_err(failed)
    }

    /// Reads all attempts of a task.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn attempts(&mut self, campaign: u64, task: u64) -> Result<AttemptPage, DbError> {
        let failed = self.failed();
        let sql = "select * from attempts where campaign = ?1 and task = ?2 order by attempt";
        let rows = query(sql).bind(to_sql(campaign)).bind(to_sql(task));
        let rows = rows.fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(convert::attempt).collect()).map_err(failed)
    }

    /// Reads all attempts of the tasks from `first` to `last`, by task and number.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn attempts_between(
        &mut self,
        campaign: u64,
        first: u64,
        last: u64,
    ) -> Result<AttemptPage, DbError> {
        let failed = self.failed();
        let sql = "select * from attempts where campaign = ?1 and task between ?2 and ?3
                   order by task, attempt";
        let rows = query(sql).bind(to_sql(campaign)).bind(to_sql(first)).bind(to_sql(last));
        let rows = rows.fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(convert::attempt).collect()).map_err(failed)
    }

    /// Returns the number of a campaign's touched tasks in each state.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn in_flight(&mut self, campaign: u64) -> Result<BTreeMap<String, u64>, DbError> {
        let failed = self.failed();
        let sql = "select state, count(*) as tasks from tasks where campaign = ?1 and
                       state in ('queued', 'assigned', 'running') group by state";
        let rows = query(sql).bind(to_sql(campaign)).fetch_all(&mut self.connection).await;
        let pair = |row: &SqliteRow| Ok((row.try_get("state")?, number(row, "tasks")?));
        rows.and_then(|rows| rows.iter().map(pair).collect()).map_err(failed)
    }

    /// Reads the works of a campaign, with their numbers at the resource manager.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn works(&mut self, campaign: u64) -> Result<Vec<WorkRow>, DbError> {
        let failed = self.failed();
        rows::read_works(&mut self.connection, campaign).await.map_err(failed)
    }

    /// Reads the last `limit` notes of a campaign, first to last, without its history. The history
    /// is among the events.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn notes(&mut self, campaign: u64, limit: u32) -> Result<Vec<NoteInfo>, DbError> {
        let failed = self.failed();
        let sql =
            "select * from (select * from notes where campaign = ?1 and code not in
                       ('submitted', 'suspended', 'resumed', 'resubmitted', 'extended', 'ending', 'ended', 'waiting', 'begins')
                   order by id desc limit ?2) order by id";
        let rows = query(sql).bind(to_sql(campaign)).bind(limit).fetch_all(&mut self.connection);
        rows.await.and_then(|rows| rows.iter().map(note).collect()).map_err(failed)
    }
}

fn info(row: &SqliteRow) -> Result<CampaignInfo, sqlx::Error> {
    Ok(CampaignInfo {
        row: convert::campaign(row)?,
        name: row.try_get("name")?,
        folded_ms: maybe_number(row, "folded_ms")?,
    })
}

fn note(row: &SqliteRow) -> Result<NoteInfo, sqlx::Error> {
    Ok(NoteInfo {
        id: number(row, "id")?,
        at_ms: number(row, "at_ms")?,
        task: maybe_number(row, "task")?,
        node: row.try_get("node")?,
        code: row.try_get("code")?,
        text: row.try_get("text")?,
    })
}
