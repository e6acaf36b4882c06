//! Advance reservations and maintenances over real HTTP, with restarts in between, and a maintenance
//! in seconds.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::daemon::{CONFIG, Daemon, apportion, job, shares};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const HOUR: u64 = 3_600_000;
const PATH: &str = "/v1/reservations";

/// Heartbeats are rare and cycles are frequent: time alone brings the next cycle.
fn config() -> String {
    let scheduler = "[scheduler]\nnotice = \"500ms\"\n";
    let daemon = "[daemon]\nheartbeat_interval = \"100ms\"\n";
    let config = CONFIG.replace("[scheduler]\n", scheduler).replace("[daemon]\n", daemon);
    let rare = "node_stability = 1000\n";
    let config = config.replace("prediction = false\n", &format!("prediction = false\n{rare}"));
    format!(
        "{config}\n[[class]]\nname = \"fixed\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\n"
    )
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// A reservation of `nodes` that starts in some hours, for an hour.
fn request(name: &str, nodes: &str, hours: u64) -> Value {
    let start = now_ms() + hours * HOUR;
    json!({
        "name": name, "kind": "reservation", "nodes": [nodes], "start": start,
        "end": start + HOUR, "users": ["cyd"], "reason": "course",
    })
}

fn with(mut request: Value, more: &Value) -> Value {
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// Status and answer; of a refusal, the code.
async fn post(daemon: &Daemon, request: &Value) -> (u16, Value) {
    let (status, answer) = daemon.try_ask(Method::POST, PATH, Some(request)).await.unwrap();
    (status.as_u16(), answer)
}

#[track_caller]
fn is_refused(answer: &(u16, Value), status: u16, code: &str, words: &str) {
    assert_eq!((answer.0, &answer.1["code"]), (status, &json!(code)), "{}", answer.1);
    assert!(answer.1.to_string().contains(words), "{words}: {}", answer.1);
}

async fn names(daemon: &Daemon) -> Vec<String> {
    let list = daemon.get(PATH).await;
    let all = list["reservations"].as_array().unwrap().iter();
    all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// Ann's fair-share job has n1 and n2, and bob's fixed process is on n3.
async fn occupied(folder: &TempDir) -> Daemon {
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=4 n2=4 n3=1").await;
    let fixed = json!({
        "id": 9, "kind": "job", "user": "bob", "class": "fixed", "state": "schedulable",
        "memory_mb": 1024, "max_processes": 1, "submitted_ms": 1, "nodes": ["n3"],
    });
    let mut anns = job(1, "ann", &[]);
    anns["nodes"] = json!(["n1", "n2"]);
    daemon.publish(1, &[anns, fixed]).await;
    let is_full = |schedule: &Value| {
        shares(schedule, 1, "shares").len() == 8 && shares(schedule, 9, "shares").len() == 1
    };
    daemon.schedule_when(is_full).await;
    daemon
}

#[tokio::test]
async fn reservations_are_created_shown_and_deleted() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let r1 = request("r1", "n[1-2]", 2);

    let (status, dry) = post(&daemon, &with(r1.clone(), &json!({"dry_run": true}))).await;
    assert_eq!((status, &dry["changed"], &dry["dry_run"]), (200, &json!(true), &json!(true)));
    assert_eq!(names(&daemon).await, Vec::<String>::new(), "a dry run changes nothing");

    let (status, done) = post(&daemon, &r1).await;
    assert_eq!((status, &done["changed"], &done["in_the_way"]), (200, &json!(true), &json!([])));
    // The answer follows the commit, so the reservation is there at once.
    let shown = daemon.get("/v1/reservations/r1").await;
    assert_eq!((&shown["nodes"], &shown["users"]), (&json!(["n1", "n2"]), &json!(["cyd"])));
    assert_eq!((&shown["start_ms"], &shown["end_ms"]), (&r1["start"], &r1["end"]));
    let next = &daemon.get("/v1/nodes").await["nodes"][0]["next_window"];
    assert_eq!((&next["name"], &next["kind"]), (&json!("r1"), &json!("reservation")));
    assert_eq!(daemon.get("/v1/nodes/n1").await["next_window"], *next);
    assert_eq!(daemon.get("/v1/nodes/n3").await["next_window"], Value::Null);

    let (status, again) = post(&daemon, &r1).await;
    assert_eq!((status, &again["changed"]), (200, &json!(false)), "a name is a wanted state");
    let other = with(r1.clone(), &json!({"users": ["dan"]}));
    is_refused(&post(&daemon, &other).await, 409, "A008", "another reservation");
    is_refused(&post(&daemon, &request("r2", "n2", 2)).await, 409, "A009", "`r1` keeps some");
    assert_eq!(post(&daemon, &request("r3", "n2", 4)).await.0, 200, "later, nothing is kept");
    assert_eq!(names(&daemon).await, ["r1", "r3"]);

    let delete = async || daemon.try_ask(Method::DELETE, "/v1/reservations/r1", None).await;
    let (status, gone) = delete().await.unwrap();
    assert_eq!((status, &gone["nodes"]), (StatusCode::OK, &json!(["n1", "n2"])));
    assert_eq!(delete().await.unwrap().1["changed"], false);
    assert_eq!(names(&daemon).await, ["r3"]);
    let (status, absent) = daemon.try_get("/v1/reservations/r1").await.unwrap();
    is_refused(&(status.as_u16(), absent), 404, "Q004", "did you mean `r3`?");
    let next = &daemon.get("/v1/nodes").await["nodes"][0]["next_window"];
    assert_eq!(*next, Value::Null, "n1 is free again");
}

#[tokio::test]
async fn work_that_stays_is_in_the_way_unless_forced() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let r1 = request("r1", "n3", 2);
    let refused = post(&daemon, &r1).await;
    is_refused(&refused, 409, "A010", "job 9 of bob is on n3: its end is not known");
    let dry = post(&daemon, &with(r1.clone(), &json!({"dry_run": true}))).await;
    is_refused(&dry, 409, "A010", "job 9 of bob");
    assert_eq!(names(&daemon).await, Vec::<String>::new());

    let forced = with(r1.clone(), &json!({"force": true}));
    let (status, dry) = post(&daemon, &with(forced.clone(), &json!({"dry_run": true}))).await;
    assert_eq!((status, &dry["in_the_way"][0]["job"]), (200, &json!(9)));
    let (status, done) = post(&daemon, &forced).await;
    assert_eq!((status, done["in_the_way"].as_array().unwrap().len()), (200, 1));
    assert_eq!(post(&daemon, &r1).await.1["changed"], false, "it is there already");
    let schedule = daemon.schedule().await;
    assert_eq!(shares(&schedule, 9, "shares").len(), 1, "the work stays");
}

#[tokio::test]
async fn bad_reservations_are_refused_with_their_place() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=4 n2=4").await;
    daemon.publish(1, &[]).await;
    daemon.schedule().await;
    let good = request("r1", "n1", 2);
    let now = now_ms();
    let cases = [
        (json!({"end": good["start"]}), 400, "P031", "/end"),
        (json!({"start": now - 2 * HOUR, "end": now - HOUR}), 400, "P031", "in the past"),
        (json!({"start": now + 1345 * HOUR, "end": now + 1346 * HOUR}), 400, "P031", "8 weeks"),
        (json!({"start": "tomorrow"}), 400, "P031", "RFC 3339"),
        (json!({"start": "2026-12-01T18:00"}), 400, "P031", "an offset from UTC"),
        (json!({"start": -5}), 400, "P018", "RFC 3339"),
        (json!({"start": u64::MAX}), 400, "P031", "after the year 9999"),
        (json!({"nodes": []}), 400, "A003", "/nodes"),
        (json!({"nodes": ["n[1-"]}), 400, "A002", "/nodes/0"),
        (json!({"nodes": ["n11"]}), 404, "A001", "did you mean `n1`?"),
        (json!({"nodes": ["n1", "x7"]}), 404, "A001", "`x7`"),
        (json!({"name": "r 1"}), 400, "P018", "/name"),
        (json!({"name": ""}), 400, "P018", "/name"),
        (json!({"users": ["c d"]}), 400, "P018", "/users/0"),
        (json!({"classes": ["nromal"]}), 422, "P022", "did you mean `normal`?"),
        (json!({"kind": "holiday"}), 400, "P018", "`maintenance`"),
        (json!({"kind": "maintenance"}), 400, "P018", "/users"),
        (json!({"kind": "maintenance", "users": [], "reason": " "}), 400, "A005", "/reason"),
        (json!({"hours": 2}), 400, "P015", "hours"),
    ];
    for (more, status, code, words) in cases {
        let answer = post(&daemon, &with(good.clone(), &more)).await;
        is_refused(&answer, status, code, words);
    }
    assert_eq!(names(&daemon).await, Vec::<String>::new(), "nothing was done");
}

#[tokio::test]
async fn reservations_survive_a_kill() {
    let folder = TempDir::new().unwrap();
    let first = occupied(&folder).await;
    let r1 = request("r1", "n[1-2]", 2);
    assert_eq!(post(&first, &r1).await.0, 200);
    assert_eq!(post(&first, &request("r2", "n1", 5)).await.0, 200);
    first.try_ask(Method::DELETE, "/v1/reservations/r2", None).await.unwrap();
    let before = first.get("/v1/reservations/r1").await;
    first.kill();
    drop(first);

    let second = Daemon::start(folder.path(), &config());
    let after = second.get_until("/v1/reservations/r1", |_| true).await;
    assert_eq!(after, before);
    assert_eq!(names(&second).await, ["r1"]);
    assert_eq!(post(&second, &r1).await.1["changed"], false);
    is_refused(&post(&second, &request("r3", "n1", 2)).await, 409, "A009", "`r1`");
}

/// The daemon is killed at any moment: what was answered is there, once, and nothing is there in
/// part.
#[tokio::test]
async fn a_kill_at_any_moment_keeps_what_was_answered() {
    let folder = TempDir::new().unwrap();
    drop(occupied(&folder).await);
    let mut answered: Vec<String> = Vec::new();
    for life in 0..6_u64 {
        let daemon = Daemon::start(folder.path(), &config());
        daemon.get_until(PATH, |_| true).await;
        let known = names(&daemon).await;
        let is_kept = |name: &String| known.contains(name);
        assert!(answered.iter().all(is_kept), "{answered:?} of {known:?}");
        assert!(known.len() <= answered.len() + 1, "{known:?}: at most one more, unanswered");
        answered = known;
        let killed = async {
            tokio::time::sleep(std::time::Duration::from_millis(10 + 23 * life)).await;
            daemon.kill();
        };
        let created = async {
            for number in 0..300 {
                let name = format!("r{life}-{number}");
                let body = request(&name, "n1", 2 + 2 * (300 * life + number) % 1300);
                match daemon.try_ask(Method::POST, PATH, Some(&body)).await {
                    Ok((StatusCode::OK, _)) => answered.push(name),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        };
        tokio::join!(killed, created);
    }
    assert!(3 < answered.len(), "{answered:?}");
}

/// Fair-share processes are told to go, the node is in maintenance, and up again afterwards. The
/// record of all of it gives the same digests again.
#[tokio::test]
async fn a_maintenance_frees_its_nodes_and_gives_them_back() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let start = now_ms() + 1_500;
    let maintenance = json!({
        "name": "m1", "kind": "maintenance", "nodes": ["n1"], "start": start,
        "end": start + 2_000, "reason": "new disks",
    });
    assert_eq!(post(&daemon, &maintenance).await.0, 200);
    assert!(shares(&daemon.schedule().await, 1, "removed").is_empty(), "not before the notice");

    let told = daemon.schedule_when(|told| shares(told, 1, "removed").len() == 4).await;
    assert!(start <= now_ms() + 500 + 1_000, "no earlier than the notice");
    let removed = &told["jobs"].as_array().unwrap().iter().find(|job| job["id"] == 1).unwrap();
    for share in removed["removed"].as_array().unwrap() {
        assert_eq!((&share["node"], &share["reason"]), (&json!("n1"), &json!("window")));
    }
    let node = daemon.get("/v1/nodes/n1").await;
    assert_eq!(node["states"], json!(["maintenance"]));
    assert_eq!(daemon.get("/v1/nodes?state=maintenance").await["nodes"][0]["name"], "n1");

    // The processes end; nothing else comes.
    let kept = shares(&told, 1, "shares");
    let gone = shares(&told, 1, "removed");
    let processes: Vec<(u64, &str)> =
        kept.iter().filter(|share| !gone.contains(share)).map(|share| (*share, "n2")).collect();
    let mut anns = job(1, "ann", &processes);
    anns["nodes"] = json!(["n1", "n2"]);
    let ended = gone.iter().map(|share| json!({"share": share, "node": "n1", "state": "gone"}));
    anns["processes"].as_array_mut().unwrap().extend(ended);
    let fixed = json!({
        "id": 9, "kind": "job", "user": "bob", "class": "fixed", "state": "schedulable",
        "memory_mb": 1024, "max_processes": 1, "submitted_ms": 1, "nodes": ["n3"],
    });
    daemon.publish(2, &[anns, fixed]).await;
    let is_cleared = |told: &Value| shares(told, 1, "shares").len() == 4;
    daemon.schedule_when(is_cleared).await;
    assert!(daemon.get("/v1/nodes/n1").await["shares"].as_array().unwrap().is_empty());

    daemon.get_until("/v1/nodes/n1", |node| node["states"] == json!(["up"])).await;
    assert!(start + 2_000 <= now_ms(), "not before its end");
    daemon.schedule_when(|told| shares(told, 1, "added").len() == 4).await;
    assert_eq!(names(&daemon).await, Vec::<String>::new(), "it is over");
    drop(daemon);

    let state = folder.path().join("state.db");
    let replayed = apportion(&["replay", state.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success(), "{said}{}", String::from_utf8_lossy(&replayed.stderr));
    assert!(said.contains("are what they were"), "{said}");
}

#[tokio::test]
async fn acts_on_reservations_are_on_record_once() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let r1 = request("r1", "n[1-2]", 2);
    post(&daemon, &r1).await;
    post(&daemon, &r1).await;
    post(&daemon, &with(r1, &json!({"dry_run": true}))).await;
    post(&daemon, &request("r2", "n1", 2)).await;
    daemon.try_ask(Method::DELETE, "/v1/reservations/r1", None).await.unwrap();
    let events = daemon.get("/v1/events?since=0").await;
    let acts: Vec<&Value> = events["events"].as_array().unwrap().iter().collect();
    let acts: Vec<&Value> = acts.into_iter().filter(|it| it["kind"] == "administration").collect();
    let told: Vec<&str> = acts.iter().map(|act| act["action"].as_str().unwrap()).collect();
    assert_eq!(told, ["reserve", "unreserve"]);
    assert!(acts[0]["reason"].as_str().unwrap().starts_with("reservation r1 from "), "{acts:?}");
    let state = folder.path().join("state.db");
    let shown = apportion(&["audit", "show", state.to_str().unwrap(), "--json", "--last", "0"]);
    let rows: Vec<Value> = String::from_utf8(shown.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let outcomes = |act: &str| -> Vec<String> {
        let rows = rows.iter().filter(|row| row["act"] == act);
        rows.map(|row| row["outcome"].as_str().unwrap().chars().take(7).collect()).collect()
    };
    assert_eq!(outcomes("reserve"), ["done", "nothing", "refused"]);
    assert_eq!(outcomes("unreserve"), ["done"]);
}

/// A gang of both nodes for an hour, which waits for job 1; job 1 runs for two hours.
fn line_of_gangs(running: &[Value]) -> Vec<Value> {
    let gang = |id: u64| {
        let (hours, processes) = if id == 1 { (2, running) } else { (1, [].as_slice()) };
        json!({
            "id": id, "kind": "job", "user": "ann", "class": "wide", "state": "schedulable",
            "submitted_ms": id, "remaining": 2, "place": "scatter", "duration_ms": hours * HOUR,
            "chunks": [{ "count": 2, "memory_mb": 4000 }], "processes": processes,
        })
    };
    (1..=24).map(gang).collect()
}

#[tokio::test]
async fn impact_shows_the_starts_that_move() {
    let folder = TempDir::new().unwrap();
    let wide = "\n[[class]]\nname = \"wide\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\ngangs = true\n";
    let daemon = Daemon::start(folder.path(), &format!("{}{wide}", config()));
    daemon.nodes("n1=4 n2=4").await;
    daemon.publish(1, &line_of_gangs(&[])).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 2).await;
    let process = |share: &Value| json!({ "share": share["share"], "node": share["node"], "state": "running" });
    let running = schedule["jobs"][0]["added"].as_array().unwrap().iter().map(process);
    daemon.publish(2, &line_of_gangs(&running.collect::<Vec<_>>())).await;
    let is_told = |job: &Value| job["start_estimate_ms"].is_u64();
    let start = async |id: u64| {
        let job = daemon.get_until(&format!("/v1/jobs/{id}"), is_told).await;
        job["start_estimate_ms"].as_u64().unwrap()
    };
    let (second, third) = (start(2).await, start(3).await);
    assert_eq!(second + HOUR, third);

    // Job 2 would still run when the reservation opens; so it starts at its end, and all others later.
    let from = second + HOUR.div_euclid(2);
    let window = json!({ "name": "r1", "kind": "reservation", "nodes": ["n[1-2]"], "start": from, "end": from + HOUR });
    let (status, dry) = post(&daemon, &with(window.clone(), &json!({"dry_run": true}))).await;
    assert_eq!(status, 200, "{dry}");
    let moved = dry["starts_moved"].as_array().unwrap();
    assert_eq!((moved.len(), &dry["more_starts_moved"]), (20, &json!(3)), "{dry}");
    let moves = |job: u64, before: u64, after: u64| json!({ "job": job, "user": "ann", "before_ms": before, "after_ms": after });
    assert_eq!(moved[0], moves(2, second, from + HOUR));
    assert_eq!(moved[1], moves(3, third, from + 2 * HOUR));
    assert_eq!(start(2).await, second, "a dry run moves nothing");

    let at =
        |ms: u64| jiff::Timestamp::from_millisecond(ms.try_into().unwrap()).unwrap().to_string();
    let told = apportion(&[
        "reservation",
        "create",
        "r1",
        "--nodes",
        "n[1-2]",
        "--start",
        &at(from),
        "--end",
        &at(from + HOUR),
        "--dry-run",
        "--url",
        &daemon.url,
    ]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("23 jobs would start at another time:"), "{told}");
    assert!(told.trim_end().ends_with("and 3 more"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");

    // The answer of the act itself, and of a maintenance far away.
    let (status, done) = post(&daemon, &window).await;
    assert_eq!((status, &done["starts_moved"]), (200, &dry["starts_moved"]));
    daemon.get_until("/v1/jobs/2", |job| job["start_estimate_ms"] == from + HOUR).await;
    let far = from + 900 * HOUR;
    let far = json!({ "name": "m1", "kind": "maintenance", "nodes": ["n1"], "start": far, "end": far + HOUR, "reason": "fan" });
    let (status, far) = post(&daemon, &far).await;
    assert_eq!((status, &far["starts_moved"]), (200, &Value::Null), "{far}");
}

/// The processes on its node make room for a job that waits for its reservation, and the job starts
/// when the reservation opens.
#[tokio::test]
async fn a_reservation_gets_its_node_for_its_job() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let start = now_ms() + 2_500;
    let reservation = json!({
        "name": "r1", "kind": "reservation", "nodes": ["n1"], "start": start,
        "end": start + HOUR, "users": ["cyd"], "reason": "course",
    });
    assert_eq!(post(&daemon, &reservation).await.0, 200);
    let held = shares(&daemon.schedule().await, 1, "shares");
    let on = daemon.get("/v1/nodes/n1").await["shares"].clone();
    let on: Vec<u64> =
        on.as_array().unwrap().iter().filter_map(|it| it["share"].as_u64()).collect();
    let place = |share: &u64| (*share, if on.contains(share) { "n1" } else { "n2" });
    let anns = |gone: &[u64]| {
        let stay = held.iter().filter(|share| !gone.contains(share));
        let mut anns = job(1, "ann", &stay.map(place).collect::<Vec<_>>());
        anns["nodes"] = json!(["n1", "n2"]);
        let ended = gone.iter().map(|share| json!({"share": share, "node": "n1", "state": "gone"}));
        anns["processes"].as_array_mut().unwrap().extend(ended);
        anns
    };
    let fixed = |id: u64, user: &str, node: &str| {
        json!({
            "id": id, "kind": "job", "user": user, "class": "fixed", "state": "schedulable",
            "memory_mb": 1024, "max_processes": 1, "submitted_ms": id, "nodes": [node],
        })
    };
    let more = json!({"memory_mb": 4096, "reservation": "r1", "duration_ms": 60_000});
    let cyds = with(fixed(10, "cyd", "n1"), &more);
    daemon.publish(2, &[anns(&[]), fixed(9, "bob", "n3"), cyds.clone()]).await;
    let why = daemon.get_until("/v1/jobs/10/why", |why| why["reason"].is_object()).await;
    let sentence = why["sentence"].as_str().unwrap();
    assert!(sentence.contains("its advance reservation, which opens in "), "{sentence}");

    let told = daemon.schedule_when(|told| shares(told, 1, "removed").len() == 4).await;
    assert!(start <= now_ms() + 500 + 1_000, "no earlier than the notice");
    let events = daemon.get("/v1/events?since=0").await;
    let removed =
        events["events"].as_array().unwrap().iter().filter_map(|it| it["shares"].as_array());
    let taken: Vec<&Value> = removed.flatten().filter(|share| share["rule"] == "window").collect();
    assert!(taken.len() == 4 && taken.iter().all(|it| it["beneficiary"] == 10), "{events}");
    let gone = shares(&told, 1, "removed");
    daemon.publish(3, &[anns(&gone), fixed(9, "bob", "n3"), cyds]).await;
    daemon.schedule_when(|told| shares(told, 10, "shares").len() == 1).await;
    assert!(start <= now_ms(), "not before the reservation opens");
}
