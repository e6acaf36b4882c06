//! Writes the rows of a batch: only the last version of each row, and many rows in a statement.
//!
//! A statement is a round trip to the thread of the connection, which takes longer than a row. A
//! batch often has several versions of a row: each exchange adds a version of its campaign.

use std::collections::BTreeMap;

use sqlx::query_builder::Separated;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteRow};
use sqlx::{QueryBuilder, query};

use super::convert::{ending_word, maybe_number, number, text, to_sql};
use super::gang::new_key;
use super::write::Batch;
use super::{faults, filed, leases};
use crate::model::Name;
use crate::orchestrator::book::{
    AttemptRow, CampaignRow, Effect, FaultRow, LeaseRow, Note, SlotRow, TaskRow, TaskState, WorkRow,
};
use crate::orchestrator::wire::{AttemptId, GridEvent, Reason};

/// Numbers of rows in a statement. Few sizes, so that all statements stay prepared.
const SIZES: [usize; 3] = [64, 8, 1];

/// The last version of each row.
#[derive(Default)]
struct Latest<'a> {
    next: Option<u64>,
    campaigns: BTreeMap<u64, &'a CampaignRow>,
    works: BTreeMap<(u64, u64), &'a WorkRow>,
    tasks: BTreeMap<(u64, u64), &'a TaskRow>,
    attempts: BTreeMap<AttemptId, &'a AttemptRow>,
    /// `None`: the slot is forgotten.
    slots: BTreeMap<u64, Option<&'a SlotRow>>,
    notes: Vec<&'a Note>,
    faults: Vec<&'a FaultRow>,
    /// `None`: the lease is forgotten.
    leases: BTreeMap<u64, Option<&'a LeaseRow>>,
    filed: Vec<&'a GridEvent>,
    suspects: Vec<(u64, &'a str, u64, u64)>,
}

impl<'a> Latest<'a> {
    fn of(effects: &'a [Effect]) -> Latest<'a> {
        let mut latest = Latest::default();
        for effect in effects {
            match effect {
                Effect::Next(next) => latest.next = Some(*next),
                Effect::Campaign(row) => drop(latest.campaigns.insert(row.id, row)),
                Effect::Work(row) => drop(latest.works.insert((row.campaign, row.step), row)),
                Effect::Task(row) => drop(latest.tasks.insert((row.campaign, row.task), row)),
                Effect::Attempt(row) => drop(latest.attempts.insert(row.id, row)),
                Effect::Slot(row) => drop(latest.slots.insert(row.share, Some(row))),
                Effect::SlotForgotten(share) => drop(latest.slots.insert(*share, None)),
                Effect::Note(note) => latest.notes.push(note),
                Effect::Fault(row) => latest.faults.push(row),
                Effect::Filed(event) => latest.filed.push(event),
                Effect::Suspect(campaign, node, ms, since) => {
                    latest.suspects.push((*campaign, node.as_str(), *ms, *since));
                }
                Effect::Lease(row) => drop(latest.leases.insert(row.number, Some(row))),
                Effect::LeaseForgotten(number) => drop(latest.leases.insert(*number, None)),
                Effect::Wake(_) | Effect::Publish => {}
            }
        }
        latest
    }
}

/// Stores the effects of a batch, within a transaction.
///
/// # Errors
///
/// If the file cannot be written.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    batch: &Batch,
    boot: &str,
) -> Result<(), sqlx::Error> {
    let latest = Latest::of(&batch.effects);
    if let Some(next) = latest.next {
        let sql = "update meta set next = ?1";
        query(sql).bind(to_sql(next)).execute(&mut *connection).await?;
    }
    for row in latest.campaigns.into_values() {
        put_campaign(connection, row, batch).await?;
    }
    for row in latest.works.into_values() {
        put_work(connection, row).await?;
    }
    let tasks: Vec<&TaskRow> = latest.tasks.into_values().collect();
    put_many(connection, TASKS, &tasks, |row, task| push_task(row, task)).await?;
    let attempts = latest.attempts.into_values();
    let attempts: Vec<Attempt<'_>> = attempts.map(Attempt::of).collect::<Result<_, _>>()?;
    put_many(connection, ATTEMPTS, &attempts, push_attempt).await?;
    let mut slots = Vec::new();
    for (share, row) in latest.slots {
        if let Some(row) = row {
            slots.push((row, text(row)?));
        } else {
            let sql = "delete from slots where share = ?1";
            query(sql).bind(to_sql(share)).execute(&mut *connection).await?;
        }
    }
    put_many(connection, SLOTS, &slots, push_slot).await?;
    for row in latest.faults {
        faults::put(connection, row).await?;
    }
    for event in latest.filed {
        filed::put(connection, event).await?;
    }
    for (campaign, node, ms, since) in latest.suspects {
        faults::suspect(connection, campaign, node, (ms, since)).await?;
    }
    for (number, row) in latest.leases {
        leases::put(connection, boot, number, row).await?;
    }
    for note in latest.notes {
        put_note(connection, note, batch.at_ms).await?;
    }
    Ok(())
}

/// Puts rows behind `head`, the beginning of a statement up to `values`.
async fn put_many<T>(
    connection: &mut SqliteConnection,
    head: &'static str,
    rows: &[T],
    push: impl Fn(&mut Separated<'_, Sqlite, &'static str>, &T),
) -> Result<(), sqlx::Error> {
    let mut rest = rows;
    for size in SIZES {
        while let Some((now, later)) = rest.split_at_checked(size) {
            let mut statement = QueryBuilder::<Sqlite>::new(head);
            statement.push_values(now, |mut row, item| push(&mut row, item));
            statement.build().execute(&mut *connection).await?;
            rest = later;
        }
    }
    Ok(())
}

async fn put_campaign(
    connection: &mut SqliteConnection,
    row: &CampaignRow,
    batch: &Batch,
) -> Result<(), sqlx::Error> {
    let new = batch.submissions.iter().find(|submission| submission.campaign == row.id);
    if let Some(new) = new {
        let sql = "insert into campaigns (id, owner, uid, spec, name, total, submitted_ms, state, ending,
                       taken, positions, done, failed, cancelled, dropped, init_fails, has_begun, ended_ms,
                       ended, prepared_ms, rss_mb, gang_key)
                   values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running', null, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                       ?8)
                   on conflict do nothing";
        query(sql)
            .bind(to_sql(row.id))
            .bind(&row.owner)
            .bind(row.uid.map(i64::from))
            .bind(to_sql(row.spec))
            .bind(&new.spec.task.name)
            .bind(to_sql(row.total))
            .bind(to_sql(row.submitted_ms))
            .bind(new.spec.gang.is_some().then(new_key).transpose()?)
            .execute(&mut *connection)
            .await?;
    }
    let sql = "update campaigns set state = ?2, ending = ?3, taken = ?4, positions = ?5, done = ?6,
                   failed = ?7, cancelled = ?8, dropped = ?9, init_fails = ?10, has_begun = ?11,
                   ended_ms = ?12, ended = ?13, prepared_ms = ?14, rss_mb = ?15, final_ms = ?16,
                   total = ?17, verdict = ?18, waits_for = ?19, opens_ms = ?20,
                   hook_of = ?21, epilogue = ?22, hook_cluster = ?23, prepared = ?24, epilogues = ?25
               where id = ?1";
    query(sql)
        .bind(to_sql(row.id))
        .bind(row.state.word())
        .bind(row.ending.map(ending_word))
        .bind(to_sql(row.taken))
        .bind(to_sql(row.limit))
        .bind(to_sql(row.done))
        .bind(to_sql(row.failed))
        .bind(to_sql(row.cancelled))
        .bind(to_sql(row.dropped))
        .bind(to_sql(row.init_fails))
        .bind(row.has_begun)
        .bind(to_sql(row.ended_ms))
        .bind(to_sql(row.ended))
        .bind(to_sql(row.prepared_ms))
        .bind(to_sql(row.rss_mb))
        .bind(row.state.is_final().then_some(to_sql(batch.at_ms)))
        .bind(to_sql(row.total))
        .bind(row.verdict.map(TaskState::word))
        .bind((!row.waits_for.is_empty()).then(|| text(&row.waits_for)).transpose()?)
        .bind(row.opens_ms.map(to_sql))
        .bind(row.hook_of.map(to_sql))
        .bind(row.epilogue.map(to_sql))
        .bind(row.hook_cluster.as_ref().map(Name::as_str))
        .bind((!row.prepared.is_empty()).then(|| text(&row.prepared)).transpose()?)
        .bind((!row.epilogues.is_empty()).then(|| text(&row.epilogues)).transpose()?)
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads the work of each memory step of a campaign.
pub(super) async fn read_works(
    connection: &mut SqliteConnection,
    campaign: u64,
) -> Result<Vec<WorkRow>, sqlx::Error> {
    let sql = "select * from works where campaign = ?1 order by step";
    let rows = query(sql).bind(to_sql(campaign)).fetch_all(connection).await?;
    rows.iter().map(work).collect()
}

fn work(row: &SqliteRow) -> Result<WorkRow, sqlx::Error> {
    Ok(WorkRow {
        campaign: number(row, "campaign")?,
        step: number(row, "step")?,
        memory_mb: number(row, "memory_mb")?,
        number: maybe_number(row, "number")?,
    })
}

async fn put_work(connection: &mut SqliteConnection, row: &WorkRow) -> Result<(), sqlx::Error> {
    let sql = "insert into works (campaign, step, memory_mb, number) values (?1, ?2, ?3, ?4)
               on conflict (campaign, step) do update set number = excluded.number";
    query(sql)
        .bind(to_sql(row.campaign))
        .bind(to_sql(row.step))
        .bind(to_sql(row.memory_mb))
        .bind(row.number.map(to_sql))
        .execute(connection)
        .await?;
    Ok(())
}

const TASKS: &str =
    "insert or replace into tasks (campaign, task, state, attempt, tries, losses, resubmits,
                         priority, step, share, cancel, reason, live) ";

fn push_task(columns: &mut Separated<'_, Sqlite, &'static str>, row: &TaskRow) {
    columns
        .push_bind(to_sql(row.campaign))
        .push_bind(to_sql(row.task))
        .push_bind(row.state.word())
        .push_bind(to_sql(row.attempt))
        .push_bind(to_sql(row.tries))
        .push_bind(to_sql(row.losses))
        .push_bind(to_sql(row.resubmits))
        .push_bind(i64::from(row.priority))
        .push_bind(to_sql(row.step))
        .push_bind(row.share.map(to_sql))
        .push_bind(row.cancel)
        .push_bind(row.reason.map(Reason::word))
        .push_bind(row.live.map(to_sql));
}

const ATTEMPTS: &str =
    "insert or replace into attempts (campaign, task, attempt, share, node, assigned_ms,
                            ended_ms, reason, result) ";

/// An attempt, with its result as text.
struct Attempt<'a> {
    row: &'a AttemptRow,
    result: Option<String>,
}

impl Attempt<'_> {
    fn of(row: &AttemptRow) -> Result<Attempt<'_>, sqlx::Error> {
        let result = row.result.as_ref().map(text).transpose()?;
        Ok(Attempt { row, result })
    }
}

fn push_attempt(columns: &mut Separated<'_, Sqlite, &'static str>, attempt: &Attempt<'_>) {
    let Attempt { row, result } = attempt;
    columns
        .push_bind(to_sql(row.id.campaign))
        .push_bind(to_sql(row.id.task))
        .push_bind(to_sql(row.id.attempt))
        .push_bind(to_sql(row.share))
        .push_bind(row.node.as_str())
        .push_bind(to_sql(row.assigned_ms))
        .push_bind(row.ended_ms.map(to_sql))
        .push_bind(row.result.as_ref().map(|result| result.why.word()))
        .push_bind(result.as_deref());
}

const SLOTS: &str = "insert or replace into slots (share, node, campaign, facts) ";

fn push_slot(columns: &mut Separated<'_, Sqlite, &'static str>, slot: &(&SlotRow, String)) {
    let (row, facts) = slot;
    columns
        .push_bind(to_sql(row.share))
        .push_bind(row.node.as_str())
        .push_bind(to_sql(row.campaign))
        .push_bind(facts.as_str());
}

async fn put_note(
    connection: &mut SqliteConnection,
    note: &Note,
    at_ms: u64,
) -> Result<(), sqlx::Error> {
    let sql = "insert into notes (at_ms, campaign, task, node, code, text) values (?1, ?2, ?3, ?4, ?5, ?6)";
    query(sql)
        .bind(to_sql(at_ms))
        .bind(to_sql(note.campaign))
        .bind(note.task.map(to_sql))
        .bind(note.node.as_deref())
        .bind(note.code)
        .bind(&note.text)
        .execute(connection)
        .await?;
    Ok(())
}
