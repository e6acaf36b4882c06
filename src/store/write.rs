//! The transaction of a cycle.
//!
//! Rows travel as JSON arrays, so that few statements are sent however many rows change: after a
//! restart all 10,000 nodes may.

use serde::{Serialize, Serializer};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, query};

use super::audit;
use super::configurations::put_configuration;
use super::journal::{self, Retention};
use super::owner::check_owner;
use super::rows::place_of;
use super::{CycleRecord, Known, Last, NodeRow, ShareRow};
use super::{state_word, to_sql};
use crate::model::Name;

/// Maximum number of stored preemptions.
pub const PREEMPTIONS_KEPT: u32 = 100_000;
/// Maximum number of stored administrative acts.
pub const ADMIN_ACTS_KEPT: u32 = 10_000;
/// Rows per statement: as JSON, `SQLite` needs several times their size in memory.
const ROWS_AT_A_TIME: usize = 500;

/// Differences between the stored tables of nodes and shares and a cycle's outcome.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    /// New or different.
    pub(super) nodes: Vec<&'a NodeRow>,
    /// New or different.
    pub(super) shares: Vec<&'a ShareRow>,
    /// Stored shares that ended.
    pub(super) gone: Vec<u64>,
}

impl<'a> Changes<'a> {
    /// From what is `known` to these rows, nodes by name and shares by number.
    pub(super) fn between(
        known: &Known,
        nodes: &'a [NodeRow],
        shares: &'a [ShareRow],
    ) -> Changes<'a> {
        let place = |node: &NodeRow| place_of(&known.nodes, &node.name);
        let is_known =
            |node: &NodeRow| place(node).is_some_and(|place| known.nodes[place] == *node);
        let nodes = nodes.iter().filter(|node| !is_known(node)).collect();
        let find = |shares: &[ShareRow], id| shares.binary_search_by_key(&id, |share| share.id);
        let is_known = |share: &ShareRow| {
            find(&known.shares, share.id).is_ok_and(|place| known.shares[place] == *share)
        };
        let is_gone = |share: &&ShareRow| find(shares, share.id).is_err();
        let gone = known.shares.iter().filter(is_gone).map(|share| share.id).collect();
        let shares = shares.iter().filter(|share| !is_known(share)).collect();
        Changes { nodes, shares, gone }
    }
}

/// Writes all of `record` in a transaction, but only the nodes and shares in `changes`. Returns the
/// cycle up to which nothing is kept, which was `cut` before.
pub(super) async fn cycle(
    (connection, instance): (&mut SqliteConnection, Option<&str>),
    (last, cut): (&Last, u64),
    mut record: CycleRecord,
    changes: &Changes<'_>,
    retention: Retention,
) -> Result<u64, sqlx::Error> {
    // Immediate: a lock that another program holds is met here and not halfway through.
    let mut transaction = connection.begin_with("begin immediate").await?;
    check_owner(&mut transaction, instance).await?;
    put_cycle(&mut transaction, last, &mut record).await?;
    remove_nodes(&mut transaction, &record.forgotten).await?;
    put_nodes(&mut transaction, &changes.nodes).await?;
    put_shares(&mut transaction, &changes.shares).await?;
    remove_shares(&mut transaction, &changes.gone).await?;
    add_preemptions(&mut transaction, &record).await?;
    add_admin_acts(&mut transaction, &record).await?;
    if let Some(configuration) = &record.configuration {
        put_configuration(&mut transaction, configuration).await?;
    }
    audit::append(&mut transaction, &record.audit).await?;
    let cycle = record.cycle;
    journal::put(&mut transaction, record).await?;
    let cut = journal::trim(&mut transaction, cycle, retention, cut).await?;
    transaction.commit().await?;
    Ok(cut)
}

/// Writes the row of the cycle. A stored cycle keeps its schedule and its digest: it was published.
async fn put_cycle(
    connection: &mut SqliteConnection,
    last: &Last,
    record: &mut CycleRecord,
) -> Result<(), sqlx::Error> {
    let sql = "insert into cycles (cycle, at_ms, publication_sequence, next_share, schedule_cycle,
                   digest, last_event)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               on conflict (cycle) do update set
                   publication_sequence = excluded.publication_sequence,
                   next_share = excluded.next_share,
                   last_event = excluded.last_event";
    query(sql)
        .bind(to_sql(record.cycle))
        .bind(record.at_ms)
        .bind(record.publication_sequence.or(last.sequence).map(to_sql))
        .bind(to_sql(record.next_share))
        .bind(record.schedule_cycle.or(last.schedule).map(to_sql))
        .bind(record.digest.take())
        .bind(to_sql(record.last_event.max(last.event)))
        .execute(&mut *connection)
        .await?;
    if let (Some(cycle), Some(schedule)) = (record.schedule_cycle, record.schedule.take()) {
        let sql = "insert into schedules (cycle, form, body, sum) values (?1, ?2, ?3, ?4)
                   on conflict (cycle) do nothing";
        query(sql)
            .bind(to_sql(cycle))
            .bind(schedule.version)
            .bind(schedule.body)
            .bind(schedule.sum)
            .execute(connection)
            .await?;
    }
    Ok(())
}

async fn remove_nodes(
    connection: &mut SqliteConnection,
    nodes: &[Name],
) -> Result<(), sqlx::Error> {
    let sql = "delete from nodes where name in (select value from json_each(?1))";
    send(connection, sql, nodes, Name::as_str).await
}

async fn put_nodes(
    connection: &mut SqliteConnection,
    nodes: &[&NodeRow],
) -> Result<(), sqlx::Error> {
    let sql = "replace into nodes
                   (name, pool, memory_mb, order_qshares, used_qshares, states, missed, varied_off)
               select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                   value ->> 6, value ->> 7
               from json_each(?1)";
    send(connection, sql, nodes, |node| {
        (
            node.name.as_str(),
            node.pool.as_str(),
            to_sql(node.memory_mb),
            to_sql(node.order),
            to_sql(node.used),
            &node.states,
            node.missed,
            &node.varied_off,
        )
    })
    .await
}

async fn put_shares(
    connection: &mut SqliteConnection,
    shares: &[&ShareRow],
) -> Result<(), sqlx::Error> {
    let sql = "replace into shares (id, job, node, qshares, state)
               select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
               from json_each(?1)";
    send(connection, sql, shares, |share| {
        (
            to_sql(share.id),
            to_sql(share.job),
            share.node.as_str(),
            to_sql(share.qshares),
            state_word(share.state),
        )
    })
    .await
}

async fn remove_shares(connection: &mut SqliteConnection, gone: &[u64]) -> Result<(), sqlx::Error> {
    let sql = "delete from shares where id in (select value from json_each(?1))";
    send(connection, sql, gone, |id| to_sql(*id)).await
}

async fn add_preemptions(
    connection: &mut SqliteConnection,
    record: &CycleRecord,
) -> Result<(), sqlx::Error> {
    let sql = "insert into preemptions
                   (cycle, at_ms, share, job, node, beneficiary, rule, loss_ms)
               select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                   value ->> 6, value ->> 7
               from json_each(?1)";
    send(connection, sql, &record.preemptions, |preemption| {
        (
            to_sql(record.cycle),
            record.at_ms,
            to_sql(preemption.share),
            to_sql(preemption.job),
            preemption.node.as_str(),
            preemption.beneficiary.map(to_sql),
            preemption.rule,
            to_sql(preemption.loss_ms),
        )
    })
    .await?;
    let sql = "delete from preemptions where id <= (select max(id) from preemptions) - ?1";
    query(sql).bind(PREEMPTIONS_KEPT).execute(connection).await?;
    Ok(())
}

async fn add_admin_acts(
    connection: &mut SqliteConnection,
    record: &CycleRecord,
) -> Result<(), sqlx::Error> {
    let sql = "insert into admin_acts (cycle, at_ms, action, nodes, reason)
               select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
               from json_each(?1)";
    send(connection, sql, &record.admin, |act| {
        (to_sql(record.cycle), act.at_ms, &act.action, act.nodes.join(","), &act.reason)
    })
    .await?;
    let sql = "delete from admin_acts where id <= (select max(id) from admin_acts) - ?1";
    query(sql).bind(ADMIN_ACTS_KEPT).execute(connection).await?;
    Ok(())
}

/// Runs `sql` over `rows`, some at a time, each made into JSON; does nothing where there are none.
///
/// # Panics
///
/// If a row does not become JSON.
pub(super) async fn send<'a, T, R: Serialize>(
    connection: &mut SqliteConnection,
    sql: &'static str,
    rows: &'a [T],
    row: impl Fn(&'a T) -> R,
) -> Result<(), sqlx::Error> {
    for some in rows.chunks(ROWS_AT_A_TIME) {
        let mut text = Vec::new();
        let mut json = serde_json::Serializer::new(&mut text);
        json.collect_seq(some.iter().map(&row)).expect("numbers and texts become JSON");
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        query(sql).bind(text).execute(&mut *connection).await?;
    }
    Ok(())
}
