//! The real binary, killed and started again: it goes on as if nothing had happened. If its store
//! does not lead there, it warns and takes over the running processes from the next publication.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;

use crate::support::daemon::{CONFIG, Daemon, job, shares};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, raw_sql};

/// Ann has all of two nodes, a process of hers runs in half of the shares, and Bob has come.
async fn taking_turns(daemon: &Daemon) {
    daemon.nodes("n1=4 n2=4").await;
    daemon.publish(1, &[job(1, "ann", &[])]).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 8).await;
    assert_eq!(shares(&schedule, 1, "added"), [1, 2, 3, 4, 5, 6, 7, 8]);
    daemon.publish(2, &[ann(), job(2, "bob", &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 1, "removed").len() == 4).await;
}

/// Ann's job with processes in her first four shares, on the first node.
fn ann() -> serde_json::Value {
    job(1, "ann", &[(1, "n1"), (2, "n1"), (3, "n1"), (4, "n1")])
}

async fn execute(folder: &Path, sql: &str) {
    let options = SqliteConnectOptions::new().filename(folder.join("state.db"));
    let mut client = options.connect().await.unwrap();
    raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut client).await.unwrap();
    client.close().await.unwrap();
}

/// I22, I26, I27: no node has reported and nothing was published since the start.
#[tokio::test]
async fn what_was_served_is_served_at_once_and_planning_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let first = Daemon::start(folder.path(), CONFIG);
    taking_turns(&first).await;
    let before = first.schedule_text().await;
    let cycle = first.get("/v1/status").await["cycle"].as_u64().unwrap();
    let nodes = first.get("/v1/nodes").await["nodes"].clone();
    drop(first);

    let second = Daemon::start(folder.path(), CONFIG);
    assert_eq!(second.schedule_text().await, before, "the same bytes under the same name");
    second.cycle(cycle + 1).await;
    assert_eq!(second.get("/v1/nodes").await["nodes"], nodes, "no node has to report first");
    assert_eq!(second.schedule_text().await, before);
    // The orchestrator has not noticed anything.
    second.publish(2, &[ann(), job(2, "bob", &[])]).await;
    for sequence in 3..20 {
        second.publish(sequence, &[ann(), job(2, "bob", &[])]).await;
        second.cycle(cycle + sequence).await;
        let now = second.schedule().await;
        for list in ["added", "removed", "shares"] {
            let told: serde_json::Value = serde_json::from_str(&before.1).unwrap();
            assert_eq!(shares(&now, 1, list), shares(&told, 1, list), "{list} of ann");
            assert_eq!(shares(&now, 2, list), shares(&told, 2, list), "{list} of bob");
        }
    }
    second.logs("the last state is restored").await;
}

/// The orchestrator is the truth about work: what ended and came while the daemon was away counts
/// from the first publication on.
#[tokio::test]
async fn what_happened_meanwhile_is_taken_in() {
    let folder = tempfile::tempdir().unwrap();
    let first = Daemon::start(folder.path(), CONFIG);
    taking_turns(&first).await;
    let removed = shares(&first.schedule().await, 1, "removed");
    drop(first);
    let second = Daemon::start(folder.path(), CONFIG);
    // Ann gave way where she ran, and so did the processes she was never shown to have started.
    let places: Vec<(u64, &str)> = (1..=8)
        .filter(|id| !removed.contains(id))
        .map(|id| (id, if id < 5 { "n1" } else { "n2" }))
        .collect();
    second.publish(3, &[job(1, "ann", &places), job(2, "bob", &[])]).await;
    let given = second.schedule_when(|schedule| shares(schedule, 2, "added").len() == 4).await;
    let new = shares(&given, 2, "shares");
    assert!(new.iter().all(|share| 8 < *share), "no number is used again: {new:?}");
    assert!(shares(&given, 1, "shares").iter().all(|share| (1..=8).contains(share)));
}

/// F46: work of a single process gets no second process, even if the end of the first was not
/// published.
#[tokio::test]
async fn a_service_that_ended_meanwhile_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let fixed = "[[class]]\nname = \"fixed\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\n";
    let config = format!("{CONFIG}{fixed}");
    let service = |processes: &[(u64, &str)]| {
        let mut service = job(1, "ann", processes);
        (service["kind"], service["class"]) = (json!("service"), json!("fixed"));
        service
    };
    let first = Daemon::start(folder.path(), &config);
    first.nodes("n1=4").await;
    first.publish(1, &[service(&[])]).await;
    first.schedule_when(|schedule| shares(schedule, 1, "added") == [1]).await;
    first.publish(2, &[service(&[(1, "n1")])]).await;
    first.schedule_when(|schedule| shares(schedule, 1, "added").is_empty()).await;
    drop(first);
    let second = Daemon::start(folder.path(), &config);
    second.publish(3, &[service(&[])]).await;
    let over = second.schedule_when(|schedule| shares(schedule, 1, "shares").is_empty()).await;
    assert_eq!(over["jobs"][0]["reason"]["code"], "spent");
}

/// An orchestrator that lost its memory as well does not end everything by saying nothing.
#[tokio::test]
async fn a_sudden_silence_after_a_restart_is_held_for_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let jobs: Vec<_> = (1..=20).map(|id| job(id, "ann", &[])).collect();
    let first = Daemon::start(folder.path(), CONFIG);
    first.nodes("n1=4").await;
    first.publish(1, &jobs).await;
    let before = first.schedule_when(|schedule| !shares(schedule, 1, "added").is_empty()).await;
    drop(first);
    let second = Daemon::start(folder.path(), CONFIG);
    let nothing = json!({ "sequence": 2, "work": [] });
    let answer = second.send(reqwest::Method::PUT, "/v1/publication", &nothing).await;
    assert_eq!(answer.status(), reqwest::StatusCode::CONFLICT);
    assert_eq!(second.schedule().await["jobs"], before["jobs"]);
}

/// A changed schedule is not served; the stored state leads to the published schedule.
#[tokio::test]
async fn a_schedule_that_was_changed_on_record_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let first = Daemon::start(folder.path(), CONFIG);
    taking_turns(&first).await;
    let before = first.schedule().await;
    drop(first);
    execute(folder.path(), "update schedules set body = cast(body || ' ' as blob)").await;
    let second = Daemon::start(folder.path(), CONFIG);
    assert_eq!(second.schedule().await["jobs"], before["jobs"]);
    second.logs("the last schedule on record is not served").await;
    second.logs("the last state is restored").await;
}

/// Another configuration holds from the start on, as if it had been given to the running daemon.
#[tokio::test]
async fn another_configuration_holds_from_the_start_on() {
    let folder = tempfile::tempdir().unwrap();
    let first = Daemon::start(folder.path(), CONFIG);
    taking_turns(&first).await;
    drop(first);
    let renamed = CONFIG.replace("name = \"normal\"", "name = \"other\"");
    let second = Daemon::start(folder.path(), &renamed);
    let schedule = second
        .schedule_when(|schedule| {
            schedule["jobs"].as_array().unwrap().iter().all(|job| job["refused"] == true)
        })
        .await;
    assert_eq!(shares(&schedule, 1, "removed").len(), 8, "refused work leaves");
    drop(second);
    // The configuration is stored, and the daemon goes on from it.
    let third = Daemon::start(folder.path(), &renamed);
    assert_eq!(third.schedule().await, schedule);
    third.cycle(schedule["cycle"].as_u64().unwrap() + 1).await;
    third.logs("the last state is restored").await;
}

/// The daemon warns of changed rows, and uses nothing of them.
#[tokio::test]
async fn a_record_that_does_not_lead_on_is_said_and_left_behind() {
    let cases = [
        ("update books set body = x'3d7b7d'", "the checkpoint after cycle 0 cannot be read"),
        ("update books set form = 9", "it is in form 9"),
        ("update batches set body = cast(body || x'0a' as blob)", "cannot be read: entry"),
        ("delete from batches where id = (select max(id) from batches)", "the decision of cycle"),
        ("update cycles set digest = x'00'", "the decision of cycle 1 differs"),
        ("delete from cycles where cycle = 1", "cycle 1 is missing"),
    ];
    for (damage, said) in cases {
        let folder = tempfile::tempdir().unwrap();
        let first = Daemon::start(folder.path(), CONFIG);
        taking_turns(&first).await;
        let leaving = shares(&first.schedule().await, 1, "removed");
        first.vary_off("n2").await;
        drop(first);
        execute(folder.path(), damage).await;

        let second = Daemon::start(folder.path(), CONFIG);
        second.nodes("n1=4 n2=4").await;
        second.publish(3, &[ann(), job(2, "bob", &[])]).await;
        let schedule =
            second.schedule_when(|schedule| !shares(schedule, 1, "shares").is_empty()).await;
        second.logs("does not lead to the last state").await;
        second.logs(said).await;
        assert_eq!(shares(&schedule, 1, "shares"), [1, 2, 3, 4], "taken over from the publication");
        let again = shares(&schedule, 1, "removed");
        assert!(leaving.iter().filter(|id| **id < 5).all(|id| again.contains(id)), "{damage}");
        assert_eq!(second.get("/v1/nodes/n2").await["vary_off_reason"], "a test", "{damage}");
        let status = second.get("/v1/status").await;
        second.cycle(status["cycle"].as_u64().unwrap()).await;
        drop(second);

        // From there on the record leads on again.
        let third = Daemon::start(folder.path(), CONFIG);
        assert_eq!(third.get("/v1/nodes/n1").await["name"], json!("n1"));
        third.logs("the last state is restored").await;
    }
}
