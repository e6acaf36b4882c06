//! Bad inputs and their answers, row by row of a list of 72: the number of the row first, then
//! status, code and place.
//!
//! Row 9 asks for an unknown field that fences; `epoch` is known by now. Rows 53 to 66 and 68 are
//! about configuration and are tested there; `README.md` beside this file names the test of each
//! row. Codes are the codes of the list; where an answer differs, the row says why.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::needless_pass_by_value, reason = "tables read better so")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::http::{CONFIG, Daemon, held, ids, job, process, running, with};
use apportion::api::wire;
use apportion::auth::{Role, Secret, new_line};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request that is refused as a whole.
struct Bad {
    row: &'static str,
    method: Method,
    path: &'static str,
    body: String,
    /// Status, code and pointer.
    answer: &'static str,
    says: &'static str,
}

fn bad(
    row: &'static str,
    (method, path): (Method, &'static str),
    body: impl ToString,
    answer: &'static str,
    says: &'static str,
) -> Bad {
    Bad { row, method, path, body: body.to_string(), answer, says }
}

const PUT: (Method, &str) = (Method::PUT, "/v1/publication");
const BEAT: (Method, &str) = (Method::POST, "/v1/heartbeats");
const OFF: (Method, &str) = (Method::POST, "/v1/nodes/vary-off");
const ON: (Method, &str) = (Method::POST, "/v1/nodes/vary-on");

fn bad_publications() -> Vec<Bad> {
    let nested = |depth| {
        format!("{{\"sequence\": 2, \"work\": {}{}}}", "[".repeat(depth), "]".repeat(depth))
    };
    let at = |sequence: Value| json!({ "sequence": sequence, "work": [] });
    let spaces = " ".repeat(70_000);
    let long = "9".repeat(1000);
    vec![
        bad("1", PUT, "", "400 P001", "the body is empty; expected a JSON object"),
        bad("1", PUT, " \r\n\t", "400 P001", "nothing was changed"),
        bad("2", PUT, "sequence=2", "400 P002", "at byte 1 (line 1 column 1); nothing was changed"),
        bad("2", PUT, r#"{"sequence": 2, "work": []} x"#, "400 P002", "at byte 29"),
        bad("3", PUT, nested(64), "400 P003", "more than 64 levels deep; nothing was changed"),
        bad("4", PUT, spaces, "413 P004", "65536 bytes, the limit that `daemon.limits.body_bytes`"),
        bad(
            "4",
            PUT,
            json!({ "sequence": 58, "work": [1, 2, 3, 4, 5] }),
            "413 P004 /work",
            "5 jobs; the limit is 4, `daemon.limits.max_jobs`",
        ),
        bad("6", PUT, at(json!(56)), "409 P010 /sequence", "56 is older than 57, the last"),
        bad("7", PUT, at(json!(57)), "409 P011 /sequence", "other content, which stands"),
        // An unknown field that fences must not be ignored.
        bad(
            "9",
            PUT,
            json!({ "sequence": 58, "work": [], "era": 1 }),
            "400 P015 /era",
            "unknown field `era`, expected one of `sequence`",
        ),
        bad("10", PUT, at(json!(u64::MAX)), "400 P014 /sequence", "the most is 9007199254740992"),
        bad("10", PUT, at(json!(-1)), "400 P014 /sequence", "`-1`, expected a whole number"),
        bad("10", PUT, at(json!(9.5)), "400 P014 /sequence", "`9.5`, expected a whole number"),
        bad("10", PUT, at(json!("58")), "400 P014 /sequence", "string \"58\", expected a whole"),
        bad("10", PUT, at(Value::Null), "400 P014 /sequence", "null, expected a whole number"),
        bad("10", PUT, at(json!(long)), "400 P014 /sequence", "9…, expected a whole number"),
        bad("10", PUT, r#"{"sequence": 1e400, "work": []}"#, "400 P002", "out of range"),
        bad("10", PUT, r#"{"work": []}"#, "400 P014 /sequence", "missing field `sequence`"),
        // A warning is not enough: a client that omits a field may omit a limit.
        bad(
            "11",
            PUT,
            json!({ "sequence": 58, "wrok": [] }),
            "400 P015 /wrok",
            "(did you mean `work`?); nothing was changed",
        ),
        bad(
            "12",
            PUT,
            r#"{"sequence": 58, "sequence": 59, "work": []}"#,
            "400 P016 /sequence",
            "duplicate field `sequence`; nothing was changed",
        ),
        bad("-", PUT, json!({ "sequence": 58 }), "400 P017 /work", "missing field `work`"),
        bad("-", PUT, json!({ "sequence": 58, "work": {} }), "400 P018 /work", "an array"),
        bad("-", PUT, "[58, false, []]", "400 P018", "expected a JSON object"),
        bad(
            "34",
            PUT,
            "{\"sequence\": 58, \"work\": [{\"user\": \"\u{0}\"}]}",
            "400 P002",
            "at byte 36",
        ),
    ]
}

fn bad_heartbeats() -> Vec<Bad> {
    let beat = |memory: Value| json!({ "node": "n1", "memory_mb": memory });
    let named = |name: &str| json!({ "node": name, "memory_mb": 4096 });
    vec![
        bad("37", BEAT, beat(json!(0)), "400 H002 /memory_mb", "What it reported before stands"),
        bad("37", BEAT, beat(json!(-1)), "400 H002 /memory_mb", "`-1`, expected a whole number"),
        bad("37", BEAT, beat(json!("4GB")), "400 H002 /memory_mb", "\"4GB\", expected a whole"),
        bad("37", BEAT, beat(json!(4.5)), "400 H002 /memory_mb", "`4.5`"),
        bad("37", BEAT, beat(json!(1_u64 << 63)), "400 H002 /memory_mb", "1 to 2147483648"),
        bad("37", BEAT, beat(Value::Null), "400 H002 /memory_mb", "null"),
        bad("37", BEAT, json!({ "node": "n1" }), "400 H002 /memory_mb", "missing field"),
        bad("36", BEAT, named(""), "400 H008 /node", "a name is empty"),
        bad("36", BEAT, named("n 1"), "400 H008 /node", "the name `n 1` contains \\u{20}"),
        bad("36", BEAT, named("../n1"), "400 H008 /node", "contains \\u{2f}"),
        bad("36", BEAT, named("n1\u{0}"), "400 H008 /node", "the name `n1\\0` contains \\u{0}"),
        bad("36", BEAT, named("\u{578}1"), "400 H008 /node", "contains \\u{578}"),
        bad("36", BEAT, named(&"n".repeat(300)), "400 H008 /node", "n…` has 300 characters"),
        bad("-", BEAT, "{}", "400 H008 /node", "missing field `node`"),
        bad("-", BEAT, "[]", "400 P018", "expected a JSON object"),
        bad("-", BEAT, "", "400 P001", "empty"),
        bad("11", BEAT, with(beat(json!(4)), "load", json!(1)), "400 P015 /load", "`quiesced`"),
    ]
}

fn bad_acts() -> Vec<Bad> {
    let off = |nodes: Value| json!({ "nodes": nodes, "reason": "disks" });
    let many: Vec<String> = (0..10_001).map(|_| "n".to_owned()).collect();
    vec![
        bad("46", OFF, off(json!(["nn1"])), "404 A001 /nodes", "did you mean `n1`?"),
        bad("46", OFF, off(json!(["elsewhere"])), "404 A001 /nodes", "`elsewhere` had reported by"),
        bad("46", OFF, off(json!(["x".repeat(300)])), "404 A001 /nodes", "xxx…` had reported"),
        bad("46", ON, json!({ "nodes": ["n9"] }), "404 A001 /nodes", "nothing was done"),
        bad("48", OFF, off(json!(["n1", "n9"])), "400 A002 /nodes", "no node `n9`"),
        bad("48", ON, json!({ "nodes": ["n1", "n9"] }), "400 A002 /nodes", "no node `n9`"),
        bad("48", OFF, off(json!(["n1", "n[1"])), "400 A002 /nodes/1", "`n[1` is no host list"),
        bad("48", OFF, off(json!(["n[1-99]"])), "400 A002 /nodes/0", "more than 6 nodes"),
        bad("48", OFF, off(json!(["n[1-99999999999]"])), "400 A002 /nodes/0", "nothing was done"),
        bad("48", OFF, off(json!(many)), "400 A002 /nodes", "at most 10000 are taken"),
        bad("49", OFF, off(json!([])), "400 A003 /nodes", "name at least one"),
        bad("49", OFF, off(json!(["n[1-3]"])), "400 A003 /nodes", "send `all: true`"),
        bad("49", ON, json!({ "nodes": [] }), "400 A003 /nodes", "name at least one"),
        bad("-", OFF, json!({ "nodes": ["n1"] }), "400 P017 /reason", "missing field `reason`"),
        bad("-", OFF, json!({ "nodes": ["n1"], "reason": " " }), "400 A005 /reason", "say why"),
        bad("-", OFF, json!({ "nodes": ["n1"], "reason": "a\nb" }), "400 A005 /reason", "one line"),
        bad("-", OFF, with(off(json!(["n1"])), "force", json!(1)), "400 P015 /force", "`dry_run`"),
        bad("-", OFF, r#"[["n1"], "disk swap"]"#, "400 P018", "expected a JSON object"),
        bad("-", OFF, "", "400 P001", "empty"),
    ]
}

fn bad_addresses() -> Vec<Bad> {
    let at = |path, answer, says| bad("70", (Method::GET, path), "", answer, says);
    vec![
        at("/v1/nonsense", "404 T002", "nothing at `/v1/nonsense`; /openapi.json lists"),
        at("/v1/nodes/vary-off", "405 T002", "has no method GET; the header `allow` lists"),
        at("/v1/nodes/n9", "404 A001", "n9"),
        at("/v1/nodes?sate=up", "400 T005", "sate"),
        at("/v1/jobs/9", "404 Q001", "no job 9"),
        at("/v1/jobs/x/why", "400 T005", "`x` is no whole number"),
        at("/v1/jobs?cursor=x", "400 T005", "next"),
        at("/v1/schedule?wait=soon", "400 T005", "a duration such as `30s`"),
        bad("70", (Method::DELETE, "/v1/publication"), "", "405 T002", "DELETE"),
        bad("70", (Method::PUT, "/"), "", "405 T002", "has no method PUT"),
    ]
}

/// Three nodes, the work of two users, and 57 as the last sequence.
async fn daemon(folder: &TempDir) -> Daemon {
    let daemon = Daemon::start_with(folder, |config| config.daemon.limits.max_jobs = 4).await;
    daemon.report(&["n1", "n2", "n3"]).await;
    daemon.publish(57, json!([job(1, "ann"), job(2, "bob")])).await;
    let is_settled = |schedule: &Value| held(schedule, 1) == 6 && held(schedule, 2) == 6;
    daemon.get_until("/v1/schedule", is_settled).await;
    daemon
}

async fn everything(daemon: &Daemon) -> (Value, Value) {
    (daemon.get("/v1/jobs").await["jobs"].clone(), daemon.get("/v1/nodes").await["nodes"].clone())
}

/// Status, code and first pointer of a refusal, and its text.
async fn refusal(response: Response) -> (String, String) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/problem+json", "{status}");
    let problem: wire::Problem = response.json().await.unwrap();
    assert_eq!((problem.status, &problem.kind), (status, &format!("/errors/{}", problem.code)));
    let pointer = problem.errors.first().map(|error| error.pointer.as_str()).unwrap_or_default();
    (format!("{status} {} {pointer}", problem.code).trim_end().to_owned(), problem.detail)
}

#[tokio::test]
async fn a_bad_request_is_refused_with_its_place_and_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let before = everything(&daemon).await;
    let rows = [bad_publications(), bad_heartbeats(), bad_acts(), bad_addresses()];
    for bad in rows.into_iter().flatten() {
        let what = format!("row {}: {} {} {:.80}", bad.row, bad.method, bad.path, bad.body);
        let response = daemon.send(bad.method, bad.path, &bad.body).await;
        let is_405 = response.status() == StatusCode::METHOD_NOT_ALLOWED;
        assert_eq!(response.headers().contains_key("allow"), is_405, "{what}");
        let (answer, detail) = refusal(response).await;
        assert_eq!(answer, bad.answer, "{what}: {detail}");
        assert!(detail.contains(bad.says), "{what}: {detail}");
        assert!(!detail.contains(char::is_control) && detail.len() < 700, "{what}: {detail}");
    }
    assert_eq!(everything(&daemon).await, before);
    daemon.stop().await;
}

/// Row 2: wherever it is cut, nothing of it counts.
#[tokio::test]
async fn a_publication_cut_at_any_byte_is_refused_whole() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let before = everything(&daemon).await;
    let whole = json!({ "sequence": 58, "work": [job(3, "cid")] }).to_string();
    for bytes in 1..whole.len() {
        let response = daemon.send(PUT.0, PUT.1, &whole[..bytes]).await;
        let (answer, detail) = refusal(response).await;
        assert_eq!(answer, "400 P002", "{bytes}: {detail}");
        assert!(detail.contains(&format!("ends at byte {bytes} (line 1 ")), "{detail}");
    }
    assert_eq!(everything(&daemon).await, before);
    assert_eq!(daemon.send(PUT.0, PUT.1, &whole).await.status(), StatusCode::ACCEPTED);
    daemon.stop().await;
}

#[tokio::test]
async fn row_5_only_plain_json_is_read() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let cases = [
        ("", "", "415 P005", "no content type is given"),
        ("text/plain", "", "415 P005", "the content type is `text/plain`"),
        ("application/jsonx", "", "415 P005", "`application/jsonx`"),
        ("application/json; charset=utf-16", "", "415 P005", "charset=utf-16"),
        ("application/json", "gzip", "415 P005", "the content encoding is `gzip`"),
        ("application/json", "identity", "400 P001", "empty"),
        ("Application/JSON;charset=\"UTF-8\"", "", "400 P001", "empty"),
    ];
    for (content_type, encoding, answer, says) in cases {
        let mut request = daemon.client.put(format!("{}/v1/publication", daemon.url));
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        if !encoding.is_empty() {
            request = request.header("content-encoding", encoding);
        }
        let (actual, detail) = refusal(request.send().await.unwrap()).await;
        assert_eq!(actual, answer, "{content_type} {encoding}: {detail}");
        assert!(detail.contains(says), "{detail}");
    }
    daemon.stop().await;
}

/// Rows 12 to 34 about single items: row, item, code, place in the item, text of the answer.
fn bad_items() -> Vec<(&'static str, Value, &'static str, &'static str, &'static str)> {
    let new = || job(9, "ann");
    let at = |field: &str, value: Value| with(new(), field, value);
    let process = |share: u64| json!([{ "share": share, "node": "n1", "state": "running" }]);
    let put_right = "shown as refused and gets nothing until this is put right";
    let mut no_memory = new();
    no_memory.as_object_mut().unwrap().remove("memory_mb");
    let mut no_class = at("kind", json!("reservation"));
    no_class.as_object_mut().unwrap().remove("class");
    vec![
        ("11", at("memroy_mb", json!(1)), "P015", "/memroy_mb", "did you mean `memory_mb`?"),
        ("13", job(1, "ann"), "P020", "/id", "the first, at /work/0, stands"),
        (
            "14",
            with(job(2, "bob"), "kind", json!("reservation")),
            "P021",
            "/kind",
            "stays as it was",
        ),
        (
            "14",
            with(job(2, "bob"), "user", json!("ann")),
            "P021",
            "/user",
            "submit it as a new job",
        ),
        ("15", at("class", json!("nromal")), "P022", "/class", "did you mean `normal`?"),
        ("15", at("class", json!("batch")), "P022", "/class", put_right),
        ("15", at("class", json!("a\u{1b}[2J")), "P018", "/class", "contains \\u{1b}"),
        ("16", no_class, "P023", "/class", "name one of `normal`, `restricted`, `fixed`"),
        ("17", at("class", json!("restricted")), "P024", "/user", "`ann` may not use class"),
        ("18", at("kind", json!("service")), "P025", "/class", "which may preempt"),
        ("18", at("kind", json!("arbitrary_process")), "P025", "/class", "which may preempt"),
        ("19", at("memory_mb", json!(0)), "P026", "/memory_mb", "comes to 0; allowed: 1 to"),
        ("19", at("memory_mb", json!(-5)), "P026", "/memory_mb", "`-5`"),
        ("19", at("memory_mb", Value::Null), "P026", "/memory_mb", "null"),
        ("19", at("memory_mb", json!(1.5)), "P026", "/memory_mb", "`1.5`"),
        ("19", at("memory_mb", json!("16GB")), "P026", "/memory_mb", "\"16GB\", expected a whole"),
        // The configuration has no default for the memory of a process.
        ("19", no_memory, "P026", "/memory_mb", "missing field `memory_mb`"),
        ("21", at("memory_mb", json!(u64::MAX)), "P027", "/memory_mb", put_right),
        ("22", at("threads", json!(0)), "P028", "/threads", "comes to 0"),
        ("22", at("threads", json!(-4)), "P028", "/threads", "`-4`"),
        ("23", at("remaining", json!(-3)), "P029", "/remaining", "`-3`"),
        ("23", at("remaining", json!(1_000_000_001)), "P029", "/remaining", "0 to 1000000000"),
        ("24", at("max_processes", json!(0)), "P030", "/max_processes", "comes to 0"),
        ("24", at("max_processes", json!(-1)), "P030", "/max_processes", "`-1`"),
        ("25", at("time_per_item_ms", json!("5s")), "P031", "/time_per_item_ms", "milliseconds"),
        ("-", at("tags", json!({"Gpu": "a100"})), "P032", "/tags", "a key has 1 to 64"),
        ("-", at("tags", json!({"gpu": ""})), "P032", "/tags", "a value has 1 to 255"),
        ("-", at("tags", json!(["gpu"])), "P032", "/tags", "a map"),
        ("-", at("chunks", json!([])), "P033", "/chunks", "is empty"),
        ("-", at("place", json!("spread")), "P018", "/place", "expected one of `free`, `scatter`"),
        ("-", at("legal_sizes", json!("prime")), "P018", "/legal_sizes", "`power_of_two`"),
        ("-", at("legal_sizes", json!([0])), "P034", "/legal_sizes", "1 to 64 sizes from 1"),
        ("-", at("min_processes", json!(2)), "P035", "/class", "takes no gangs"),
        ("-", at("duration_ms", json!(0)), "P031", "/duration_ms", "allowed: 1 to 315360000000"),
        ("-", at("not_before_ms", json!(-1)), "P031", "/not_before_ms", "allowed: 0 to 2534"),
        ("-", at("deadline_ms", json!(1e300)), "P031", "/deadline_ms", "allowed: 0 to 2534"),
        ("-", at("reservation", json!("r 1")), "P018", "/reservation", "allowed are ASCII letters"),
        ("29", at("processes", process(70)), "P042", "/processes", "which job 1 has too"),
        (
            "29",
            at("processes", json!([process(80)[0], process(80)[0]])),
            "P042",
            "/processes/1/share",
            "two processes in share 80",
        ),
        ("34", at("user", json!("")), "P050", "/user", "a name is empty"),
        ("34", at("user", json!("x".repeat(300))), "P050", "/user", "x…` has 300 characters"),
        ("34", at("user", json!("ann\n")), "P050", "/user", "the name `ann\\n` contains \\u{a}"),
        ("34", at("user", json!("ann\0")), "P050", "/user", "contains \\u{0}"),
        ("34", at("user", json!("\u{430}nn")), "P050", "/user", "contains \\u{430}"),
        ("34", at("user", json!("ann\u{202e}")), "P050", "/user", "`ann\\u{202e}` contains"),
        ("34", at("user", json!("'; drop table nodes --")), "P050", "/user", "contains \\u{27}"),
        ("34", at("user", json!(7)), "P050", "/user", "expected a string"),
        ("-", at("kind", json!("jbo")), "P018", "/kind", "did you mean `job`?"),
        ("-", at("id", json!(-1)), "P018", "/id", "none counts as over"),
        ("-", at("nodes", json!(["n1", ""])), "P018", "/nodes/1", "a name is empty"),
        (
            "-",
            at("processes", json!([{ "share": 1, "node": "n1" }])),
            "P017",
            "/processes/0/state",
            "and what runs of it takes its space",
        ),
        ("-", at("processes", process(u64::MAX)), "P018", "/processes", "allowed"),
        ("-", json!("work"), "P018", "", "expected a JSON object"),
    ]
}

#[tokio::test]
async fn a_bad_item_is_refused_by_name_and_spoils_no_other() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let shown = json!([{ "share": 70, "node": "n1", "state": "running" }]);
    let ann = with(job(1, "ann"), "processes", shown);
    for (sequence, (row, item, code, place, says)) in (58..).zip(bad_items()) {
        let what = format!("row {row}: {item}");
        // Work that the bad item is not about, and that about which it is.
        let good = if item["id"] == 2 { json!([ann]) } else { json!([ann, job(2, "bob")]) };
        let count = good.as_array().unwrap().len();
        let mut work = good;
        work.as_array_mut().unwrap().push(item);
        let answer = daemon.publish(sequence, work).await;
        assert_eq!(
            (answer.accepted, answer.refused.len()),
            (count.try_into().unwrap(), 1),
            "{what}"
        );
        let refused = &answer.refused[0];
        let pointer = format!("/work/{count}{place}");
        assert_eq!(
            (refused.code.as_str(), &refused.pointer),
            (code, &pointer),
            "{what}: {refused:?}"
        );
        assert!(refused.detail.contains(says), "{what}: {}", refused.detail);
        assert!(!refused.detail.contains(char::is_control), "{what}: {}", refused.detail);
    }
    let jobs = daemon.get_until("/v1/jobs", |page| ids(page).starts_with(&[1, 2])).await;
    assert_eq!(jobs["jobs"][1]["user"], "bob", "what was known stays as it was");
    daemon.stop().await;
}

/// The class may take gangs some day: until then the job is shown with all that it asked for.
#[tokio::test]
async fn a_gang_in_a_class_without_gangs_is_shown_as_it_asked() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let asked = [
        ("chunks", json!([{"count": 2, "memory_mb": 1024, "tags": {"color": "red"}}])),
        ("place", json!("scatter")),
        ("exclusive", json!(true)),
        ("group_by", json!("rack")),
        ("span", json!(false)),
        ("elasticity", json!("moldable")),
        ("min_processes", json!(2)),
        ("legal_sizes", json!({"multiple_of": 2})),
        ("duration_ms", json!(60_000)),
        ("not_before_ms", json!(1_790_000_000_000_u64)),
        ("deadline_ms", json!(1_790_000_600_000_u64)),
        ("reservation", json!("r1")),
    ];
    let mut gang = job(9, "ann");
    gang.as_object_mut().unwrap().remove("memory_mb");
    for (field, value) in &asked {
        gang = with(gang, field, value.clone());
    }
    let answer = daemon.publish(58, json!([job(1, "ann"), job(2, "bob"), gang])).await;
    let refused: Vec<&str> = answer.refused.iter().map(|item| item.code.as_str()).collect();
    assert_eq!((answer.accepted, refused), (2, vec!["P035"]));
    let page = daemon.get_until("/v1/jobs", |page| ids(page).contains(&9)).await;
    let jobs = page["jobs"].as_array().unwrap();
    let shown = jobs.iter().find(|job| job["id"] == 9).unwrap();
    assert_eq!(
        (&shown["reason"]["code"], &shown["memory_mb"]),
        (&json!("gang_not_allowed"), &json!(1024))
    );
    for (field, value) in &asked {
        assert_eq!(&shown[*field], value, "{field}");
    }
    let plain = jobs.iter().find(|job| job["id"] == 1).unwrap();
    assert!(asked.iter().all(|(field, _)| plain.get(*field).is_none()), "{plain}");
    daemon.stop().await;
}

/// Bad items in bytes that no JSON library would write: rows 12, 19, 25, 34.
#[tokio::test]
async fn a_bad_item_is_refused_by_name_however_it_is_spelled() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let plain = job(9, "ann").to_string();
    let cases = [
        ("12", "\"id\":9", "\"id\":9,\"id\":9", "P016 /work/1/id", "duplicate field `id`"),
        ("19", ":1024", ":1e400", "P026 /work/1/memory_mb", "out of range"),
        ("19", ":1024", ":9444732965739290427392", "P026 /work/1/memory_mb", "expected a whole"),
        ("34", "\"ann\"", "\"\\ud800\"", "P050 /work/1/user", "hex escape"),
    ];
    for (sequence, (row, from, to, answer, says)) in (58..).zip(cases) {
        let (ann, item) = (job(1, "ann"), plain.replacen(from, to, 1));
        assert_ne!(item, plain, "row {row}");
        let body = format!("{{\"sequence\": {sequence}, \"work\": [{ann}, {item}]}}");
        let response = daemon.send(PUT.0, PUT.1, &body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED, "row {row}");
        let read: wire::PublicationAnswer = response.json().await.unwrap();
        let refused = &read.refused[0];
        assert_eq!(format!("{} {}", refused.code, refused.pointer), answer, "{}", refused.detail);
        assert!(refused.detail.contains(says), "row {row}: {}", refused.detail);
        assert_eq!(read.accepted, 1, "row {row}");
    }
    // Text that is not JSON fails as a whole, not as an item.
    for (row, to) in [("19", "NaN"), ("25", "Infinity")] {
        let body = format!("{{\"sequence\": 99, \"work\": [{}]}}", plain.replacen("1024", to, 1));
        let (answer, _) = refusal(daemon.send(PUT.0, PUT.1, &body).await).await;
        assert_eq!(answer, "400 P002", "row {row}");
    }
    let mut body = b"{\"sequence\": 99, \"work\": [{\"user\": \"\xff\"}]}".to_vec();
    for _ in 0..2 {
        let request = daemon.client.put(format!("{}/v1/publication", daemon.url));
        let request = request.header("content-type", "application/json").body(body.clone());
        let (answer, _) = refusal(request.send().await.unwrap()).await;
        assert_eq!(answer, "400 P002", "row 34");
        body = b"\xef\xbb\xbf{}".to_vec();
    }
    daemon.stop().await;
}

/// The codes and places of warnings.
fn warnings(answer: &wire::PublicationAnswer) -> Vec<(&str, &str)> {
    let warnings = answer.warnings.iter();
    warnings.map(|warning| (warning.code.as_str(), warning.pointer.as_str())).collect()
}

#[tokio::test]
async fn row_8_a_gap_is_said_and_costs_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let work = json!([job(1, "ann"), job(2, "bob")]);
    assert_eq!(warnings(&daemon.publish(58, work.clone()).await), []);
    let answer = daemon.publish(61, work.clone()).await;
    assert_eq!((answer.accepted, warnings(&answer)), (2, vec![("P012", "/sequence")]));
    let says = &answer.warnings[0].detail;
    assert!(says.starts_with("sequence 61 follows 58: 2 between them did not arrive"), "{says}");
    assert_eq!(warnings(&daemon.publish(62, work).await), []);
    daemon.stop().await;
}

/// Row 20: the job waits, with its need and the largest node in the answer, and blocks no other
/// job.
#[tokio::test]
async fn row_20_work_too_large_for_every_node_waits_and_says_so() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let large = with(job(9, "ann"), "memory_mb", json!(512 * 1024));
    let answer = daemon.publish(58, json!([large, job(1, "ann"), job(2, "bob")])).await;
    assert_eq!((answer.accepted, answer.refused.len()), (3, 0));
    let page = daemon.get_until("/v1/jobs", |page| ids(page) == [1, 2, 9]).await;
    let reason = &page["jobs"][2]["reason"];
    assert_eq!(reason["code"], "impossible", "{reason}");
    let sentence = reason["sentence"].as_str().unwrap();
    assert!(sentence.contains("512 GB") && sentence.contains("4 GB"), "{sentence}");
    let schedule = daemon.get("/v1/schedule").await;
    assert_eq!([held(&schedule, 1), held(&schedule, 2)], [6, 6]);
    daemon.stop().await;
}

/// Rows 25 and 26: a time that cannot be is as good as none, and costs the work nothing.
#[tokio::test]
async fn rows_25_and_26_times_that_cannot_be_are_taken_as_unknown() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let cases = [
        ("-7", true),
        ("-7.5", true),
        ("1e400", true),
        ("-1e400", true),
        ("1e300", true),
        ("10000000000001", true),
        ("10000000000000", false),
        ("12.25", false),
        ("0", false),
        ("1e3", false),
    ];
    let mut sequence = 57;
    for (field, pointer) in [
        ("time_per_item_ms", "/work/0/time_per_item_ms"),
        ("initialization_ms", "/work/0/processes/0/initialization_ms"),
        ("investment_ms", "/work/0/processes/0/investment_ms"),
    ] {
        for (time, is_warned) in cases {
            sequence += 1;
            let process = r#""processes":[{"share":1,"node":"n1","state":"running""#;
            let plain = job(1, "ann").to_string();
            let item = match field {
                "time_per_item_ms" => plain.replacen('{', &format!("{{\"{field}\":{time},"), 1),
                _ => plain.replacen('{', &format!("{{{process},\"{field}\":{time}}}],"), 1),
            };
            let body = format!("{{\"sequence\":{sequence},\"full\":true,\"work\":[{item}]}}");
            let response = daemon.send(PUT.0, PUT.1, &body).await;
            let answer: wire::PublicationAnswer = response.json().await.unwrap();
            assert_eq!(answer.accepted, 1, "{body}: {answer:?}");
            let expected = if is_warned { vec![("P031", pointer)] } else { vec![] };
            assert_eq!(warnings(&answer), expected, "{field} {time}");
        }
    }
    daemon.stop().await;
}

/// Rows 27, 28, 32 and 33: a running process takes space on its node, even if the orchestrator or
/// the daemon is wrong.
#[tokio::test]
async fn what_runs_and_should_not_is_counted_where_it_is() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    let ann = running(job(1, "ann"), &schedule);
    let bob = running(job(2, "bob"), &schedule);
    let used = async |node: &str, is_right: &dyn Fn(u64) -> bool| {
        let is_right = |info: &Value| is_right(info["used"].as_u64().unwrap());
        daemon.get_until(&format!("/v1/nodes/{node}"), is_right).await
    };
    assert_eq!(warnings(&daemon.publish(58, json!([ann, bob])).await), []);
    daemon.report(&["n4"]).await;

    // 27: a share that was never issued.
    let mut odd = ann.clone();
    let unissued = json!({ "share": 7000, "node": "n1", "state": "running" });
    odd["processes"].as_array_mut().unwrap().push(unissued);
    let answer = daemon.publish(59, json!([odd, bob])).await;
    assert_eq!(warnings(&answer), [("P040", "/work/0/processes")]);
    let n1 = used("n1", &|used| used == 5).await;
    assert_eq!(n1["free"], 0, "{n1}");
    assert!(n1["notes"].to_string().contains("5 GB is in use; nothing is evicted"), "{n1}");

    // 28: a share somewhere else than it was issued.
    let answer = daemon.publish(60, json!([ann, bob])).await;
    assert_eq!(warnings(&answer), []);
    let home = ann["processes"][0]["node"].as_str().unwrap().to_owned();
    used("n1", &|used| used <= 4).await;
    used("n4", &|used| used == 4).await;
    let mut moved = ann.clone();
    moved["processes"][0]["node"] = json!("n4");
    for sequence in [61, 62] {
        let answer = daemon.publish(sequence, json!([moved, bob])).await;
        assert_eq!(warnings(&answer), [("P041", "/work/0/processes")]);
        let says = &answer.warnings[0].detail;
        assert!(says.ends_with("the space is counted in both places"), "{says}");
        moved["processes"][0]["investment_ms"] = json!(sequence);
        let n4 = used("n4", &|used| used == 5).await;
        assert!(n4["notes"].to_string().contains("have no job here"), "{n4}");
        assert_eq!(daemon.get(&format!("/v1/nodes/{home}")).await["used"], 4);
    }
    daemon.publish(63, json!([ann, bob])).await;
    used("n4", &|used| used <= 4).await;

    // 32: a node that never reported.
    let mut far = ann.clone();
    let unknown = json!({ "share": 7001, "node": "n5", "state": "running" });
    far["processes"].as_array_mut().unwrap().push(unknown);
    daemon.publish(64, json!([far, bob])).await;
    let n5 = used("n5", &|used| used == 1).await;
    assert_eq!(n5["states"], json!(["awaited"]), "{n5}");

    // 33: over, but not gone.
    let ended = with(ann.clone(), "state", json!("completed"));
    let answer = daemon.publish(65, json!([ended, bob])).await;
    assert_eq!(warnings(&answer), [("P046", "/work/0/processes")]);
    let page = daemon.get_until("/v1/jobs", |page| page["jobs"][0]["completing"] == true).await;
    assert_eq!(page["jobs"][0]["shares"].as_array().unwrap().len(), 8, "as before: {page}");
    daemon.stop().await;
}

/// Row 32, as it comes about: a start without a record, and nodes that have not reported yet.
#[tokio::test]
async fn row_32_work_on_nodes_that_have_yet_to_report_waits_where_it_is() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let at = |share: u64, node: &str| json!({ "share": share, "node": node, "state": "running" });
    let work = json!([with(job(1, "ann"), "processes", json!([at(3, "n1"), at(4, "n2")]))]);
    let answer = daemon.publish(1, work.clone()).await;
    assert_eq!((answer.accepted, warnings(&answer)), (1, vec![("P045", "/work/0/processes"); 2]));
    assert!(answer.warnings[0].detail.contains("waits for its node"), "{:?}", answer.warnings);
    daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 2).await;
    let nodes = daemon.get("/v1/nodes").await;
    for node in nodes["nodes"].as_array().unwrap() {
        assert_eq!((&node["states"], &node["used"]), (&json!(["awaited"]), &json!(1)), "{node}");
        assert_eq!(notes(node), "", "that says it all");
    }
    daemon.report(&["n1", "n2"]).await;
    daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 8).await;
    assert_eq!(warnings(&daemon.publish(2, work).await), []);
    daemon.stop().await;
}

/// Rows 30 and 31: an ended process that lives counts again; a terminated process that lives stays
/// terminated.
#[tokio::test]
async fn rows_30_and_31_what_ended_and_lives_is_counted_and_said() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    let ann = running(with(job(1, "ann"), "frozen", json!(true)), &schedule);
    let bob = running(with(job(2, "bob"), "frozen", json!(true)), &schedule);
    daemon.publish(58, json!([ann, bob])).await;
    let share = ann["processes"][0]["share"].clone();
    let mut without = ann.clone();
    without["processes"].as_array_mut().unwrap().remove(0);
    assert_eq!(warnings(&daemon.publish(59, json!([without, bob])).await), []);
    daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 5).await;
    let answer = daemon.publish(60, json!([ann, bob])).await;
    assert_eq!(warnings(&answer), [("P043", "/work/0/processes")]);
    assert!(answer.warnings[0].detail.contains("it counts again"), "{:?}", answer.warnings);
    let back = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 6).await;
    assert!(back["jobs"][0]["shares"].as_array().unwrap().iter().any(|one| one["share"] == share));
    assert_eq!(warnings(&daemon.publish(61, json!([ann, bob])).await), [], "it is known again");

    daemon.send(OFF.0, OFF.1, r#"{"nodes": ["n1"], "reason": "disks"}"#).await;
    let leaving = daemon.get("/v1/nodes/n1").await["shares"].as_array().unwrap().len();
    assert_eq!(leaving, 4);
    let mut sequence = 61;
    let overdue = loop {
        sequence += 1;
        let cycle = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
        let answer = daemon.publish(sequence, json!([ann, bob])).await;
        if !answer.warnings.is_empty() {
            break answer;
        }
        daemon.get_until("/v1/status", |status| status["cycle"].as_u64() > Some(cycle)).await;
        assert!(sequence < 200, "nobody minds");
    };
    assert!(sequence > 70, "not at once");
    let codes: Vec<&str> = warnings(&overdue).iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, ["P044"; 4]);
    assert!(overdue.warnings[0].detail.contains("it is not given back"), "{:?}", overdue.warnings);
    assert_eq!(daemon.get("/v1/nodes/n1").await["used"], 4, "its space stays taken");
    daemon.stop().await;
}

/// Row 35, but for more than a cycle: an orchestrator that lost its state knows no better the next
/// time.
#[tokio::test]
async fn row_35_sudden_silence_is_not_believed_until_it_is_confirmed() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1", "n2", "n3"]).await;
    let work = |ids: std::ops::RangeInclusive<u64>| ids.map(|id| job(id, "ann"));
    daemon.publish(1, work(1..=11).collect()).await;
    let all_hold = |schedule: &Value| (1..=11).map(|id| held(schedule, id)).sum::<usize>() == 12;
    let before = daemon.get_until("/v1/schedule", all_hold).await;
    daemon.publish(2, work(1..=11).map(|work| running(work, &before)).collect()).await;
    let shown = |schedule: &Value| {
        let added = |job: &Value| job["added"].as_array().unwrap().is_empty();
        all_hold(schedule) && schedule["jobs"].as_array().unwrap().iter().all(added)
    };
    let before = daemon.get_until("/v1/schedule", shown).await;
    for node in ["n4", "n5", "n6"] {
        let sudden = daemon.send(PUT.0, PUT.1, r#"{"sequence": 3, "work": []}"#).await;
        let (answer, detail) = refusal(sudden).await;
        assert_eq!(answer, "409 P051 /work");
        assert!(detail.contains("from 11 requests to none; nothing was changed"), "{detail}");
        // Cycles go on, and each has the same processes where they were.
        let cycle = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
        daemon.send(BEAT.0, BEAT.1, &json!({ "node": node, "memory_mb": 1 }).to_string()).await;
        daemon.get_until("/v1/status", |status| Some(cycle) < status["cycle"].as_u64()).await;
        let after = daemon.get("/v1/schedule").await;
        assert_eq!(after["jobs"], before["jobs"]);
    }
    let meant = daemon.send(PUT.0, PUT.1, r#"{"sequence": 3, "full": true, "work": []}"#).await;
    assert_eq!(meant.status(), StatusCode::ACCEPTED);
    daemon.get_until("/v1/jobs", |page| ids(page).is_empty()).await;

    // Ten jobs are few enough to end at the same time. Their shares are kept until they are
    // reported gone.
    daemon.publish(4, work(21..=30).collect()).await;
    let few_hold = |schedule: &Value| (21..=30).map(|id| held(schedule, id)).sum::<usize>() == 12;
    daemon.get_until("/v1/schedule", few_hold).await;
    let few = daemon.send(PUT.0, PUT.1, r#"{"sequence": 5, "work": []}"#).await;
    assert_eq!(few.status(), StatusCode::ACCEPTED);
    let is_absent = |status: &Value| status["absent"]["processes"] == 12;
    daemon.get_until("/v1/status", is_absent).await;
    assert!(few_hold(&daemon.get("/v1/schedule").await));
    daemon.publish(6, json!([])).await;
    daemon.get_until("/v1/jobs", |page| ids(page).is_empty()).await;
    daemon.stop().await;
}

fn beat(node: &str, boot_id: &str, sequence: u64) -> Value {
    json!({ "node": node, "memory_mb": 4096, "boot_id": boot_id, "sequence": sequence })
}

/// Status and, if it was refused, code and place.
async fn answer_to(daemon: &Daemon, beat: &Value) -> String {
    let response = daemon.send(BEAT.0, BEAT.1, &beat.to_string()).await;
    if response.status() == StatusCode::ACCEPTED {
        return "202".to_owned();
    }
    refusal(response).await.0
}

async fn node_when(daemon: &Daemon, name: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    daemon.get_until(&format!("/v1/nodes/{name}"), is_right).await
}

fn notes(node: &Value) -> String {
    node["notes"].as_array().map(|notes| json!(notes).to_string()).unwrap_or_default()
}

#[tokio::test]
async fn a_bad_heartbeat_spoils_no_other() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let batch = json!({ "nodes": [
        beat("n1", "a", 5), beat("n1", "a", 5), { "node": "n2" }, 7, beat("n4", "a", 1),
    ] });
    let response = daemon.send(BEAT.0, BEAT.1, &batch.to_string()).await;
    let answer: wire::HeartbeatAnswer = response.json().await.unwrap();
    assert_eq!(answer.accepted, 2);
    let refused: Vec<_> = answer
        .refused
        .iter()
        .map(|problem| (problem.code.as_str(), problem.pointer.as_str()))
        .collect();
    let expected =
        [("H002", "/nodes/2/memory_mb"), ("P018", "/nodes/3"), ("H004", "/nodes/1/sequence")];
    assert_eq!(refused, expected);
    daemon.stop().await;
}

/// Rows 37, 38 and 39: the size of a node, believed or not.
#[tokio::test]
async fn rows_37_to_39_a_node_is_as_large_as_it_last_said_if_it_can_be() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let report =
        async |memory: u64| answer_to(&daemon, &json!({ "node": "n1", "memory_mb": memory })).await;
    assert_eq!(report(1 << 40).await, "400 H002 /memory_mb");
    assert_eq!(daemon.get("/v1/nodes/n1").await["memory_mb"], 4096);

    assert_eq!(report(2048).await, "202");
    let n1 = node_when(&daemon, "n1", |node| node["order"] == 2).await;
    assert_eq!((&n1["used"], &n1["free"], &n1["states"]), (&json!(4), &json!(0), &json!(["up"])));
    assert!(notes(&n1).contains("has 2 GB, but 4 GB is in use; nothing is evicted"), "{n1}");
    let schedule = daemon.get("/v1/schedule").await;
    assert_eq!([held(&schedule, 1), held(&schedule, 2)], [6, 6]);

    let small = json!({ "node": "n4", "memory_mb": 1000 });
    assert_eq!(answer_to(&daemon, &small).await, "202");
    let n4 = node_when(&daemon, "n4", |node| node["order"] == 0).await;
    assert!(notes(&n4).contains("unusable: 1000 MB is less than one quantum, 1 GB"), "{n4}");
    daemon.stop().await;
}

/// Rows 40 and 41: a repeated heartbeat does not count, and of two agents for a node the replaced
/// agent is refused.
#[tokio::test]
async fn rows_40_and_41_replays_count_for_nothing_and_two_agents_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let rows = [
        ("a", 1, "202"),
        ("a", 2, "202"),
        ("a", 2, "409 H004 /sequence"),
        ("a", 1, "409 H004 /sequence"),
        ("b", 1, "202"),
        ("a", 2, "409 H004 /sequence"),
        ("a", 3, "409 H004 /sequence"),
        ("b", 2, "202"),
        ("a", 4, "409 H005 /boot_id"),
        ("b", 3, "202"),
    ];
    for (boot_id, sequence, answer) in rows {
        let beat = beat("n4", boot_id, sequence);
        assert_eq!(answer_to(&daemon, &beat).await, answer, "{beat}");
    }
    let frozen = node_when(&daemon, "n4", |node| node["states"] == json!(["quiesced"])).await;
    assert!(notes(&frozen).contains("boot ids `b` and `a`"), "{frozen}");
    let all = daemon.get("/v1/nodes?state=quiesced").await;
    assert!(notes(&all["nodes"][0]).contains("two agents report as this node"), "{all}");
    for sequence in 4..14 {
        assert_eq!(answer_to(&daemon, &beat("n4", "b", sequence)).await, "202");
    }
    let alone = node_when(&daemon, "n4", |node| node["states"] == json!(["up"])).await;
    assert_eq!(notes(&alone), "");
    daemon.stop().await;
}

/// Rows 42 to 45: strangers, clocks, nodes that are off, and too many names.
#[tokio::test]
async fn rows_42_to_45_who_is_heard_and_what_is_not_believed() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start_with(&folder, |config| {
        config.topology.pools[apportion::model::PoolIx(0)].nodes = vec!["listed".to_owned()];
    })
    .await;
    // 42: in no list, so in the first pool.
    daemon.report(&["n1", "n2", "n3"]).await;
    let n1 = node_when(&daemon, "n1", |node| node["states"] == json!(["up"])).await;
    assert_eq!(n1["pool"], "main");

    // 43: a clock that is years off.
    for (sequence, sent_ms, says) in [(1, 0_i64, "behind ours"), (2, i64::MAX, "ahead of ours")] {
        let beat = with(beat("n1", "a", sequence), "sent_ms", json!(sent_ms));
        assert_eq!(answer_to(&daemon, &beat).await, "202");
        let n1 = daemon.get("/v1/nodes/n1").await;
        assert!(notes(&n1).contains(says), "{n1}");
        assert_eq!((&n1["states"], &n1["missed_heartbeats"]), (&json!(["up"]), &json!(0)));
    }

    // 44: a node that is varied off stays off, even if its agent reports.
    daemon.send(OFF.0, OFF.1, r#"{"nodes": ["n2"], "reason": "disks"}"#).await;
    let cycle = daemon.get("/v1/status").await["cycle"].as_u64();
    daemon.report(&["n2"]).await;
    daemon.publish(1, json!([job(1, "ann")])).await;
    daemon.get_until("/v1/status", |status| status["cycle"].as_u64() > cycle).await;
    daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 8).await;
    assert_eq!(daemon.get("/v1/nodes/n2").await["states"], json!(["varied-off"]));

    // 45: unlisted names are limited in number; listed names are always accepted.
    daemon.report(&["n4", "n5", "n6"]).await;
    assert_eq!(answer_to(&daemon, &beat("n7", "a", 1)).await, "429 H007 /node");
    assert_eq!(answer_to(&daemon, &beat("listed", "a", 1)).await, "202");
    assert_eq!(answer_to(&daemon, &beat("n6", "a", 1)).await, "202");
    node_when(&daemon, "listed", |node| node["states"] == json!(["up"])).await;
    let batch = json!({ "nodes": [beat("n8", "a", 1), beat("n5", "a", 1)] });
    let response = daemon.send(BEAT.0, BEAT.1, &batch.to_string()).await;
    let answer: wire::HeartbeatAnswer = response.json().await.unwrap();
    assert_eq!((answer.accepted, answer.refused[0].code.as_str()), (1, "H007"));
    daemon.stop().await;
}

/// Varies a node off or on; returns the answer.
async fn act(daemon: &Daemon, (method, path): (Method, &str), node: &str) -> wire::VaryAnswer {
    let mut body = json!({ "nodes": [node], "all": true, "reason": "disks" });
    if path.ends_with("on") {
        body = json!({ "nodes": [node] });
    }
    let response = daemon.send(method, path, &body.to_string()).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

/// Rows 47, 50 and 51: an act that changes nothing is no mistake, and the answer names the other
/// states that hold.
#[tokio::test]
async fn rows_47_50_and_51_an_act_says_what_it_changed_and_what_else_holds() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start_with(&folder, |config| {
        config.daemon.heartbeat_interval = Duration::from_millis(50);
        config.topology.settings.node_stability = 2;
        config.topology.settings.mass_loss_percent = None;
    })
    .await;
    daemon.report(&["n1"]).await;
    daemon.publish(1, json!([])).await;
    node_when(&daemon, "n1", |node| node["states"] == json!(["dead"])).await;
    let answer = act(&daemon, ON, "n1").await;
    assert_eq!((answer.changed.len(), answer.unchanged), (0, vec!["n1".to_owned()]));
    assert!(answer.notes[0].starts_with("`n1` is dead: it missed "), "{:?}", answer.notes);
    assert_eq!(act(&daemon, OFF, "n1").await.changed, ["n1"]);
    assert_eq!(act(&daemon, OFF, "n1").await.changed, [""; 0]);
    let both = daemon.get("/v1/nodes/n1").await;
    assert_eq!(both["states"], json!(["dead", "varied-off"]));

    daemon.stop().await;

    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let misplaced = json!([{ "share": 5, "node": "n2", "state": "running" }]);
    let work = with(with(job(1, "ann"), "class", json!("gone")), "processes", misplaced);
    daemon.publish(1, json!([work])).await;
    daemon.report(&["n2"]).await;
    let is_blacklisted =
        |node: &Value| node["states"].as_array().unwrap().contains(&json!("blacklisted"));
    node_when(&daemon, "n2", is_blacklisted).await;
    let answer = act(&daemon, OFF, "n2").await;
    assert_eq!(answer.changed, ["n2"]);
    assert!(answer.notes[0].contains("configuration no longer allows"), "{:?}", answer.notes);
    let states = daemon.get("/v1/nodes/n2").await["states"].to_string();
    assert!(states.contains("varied-off") && states.contains("blacklisted"), "{states}");
    daemon.stop().await;
}

/// Sends bytes, and returns all that is answered until the daemon ends the connection.
async fn converse(daemon: &Daemon, bytes: &str) -> String {
    let address = daemon.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_mins(1), ended).await.expect(bytes).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Row 69: a request that two readers could read in two ways is refused, and ends the connection.
#[tokio::test]
async fn row_69_what_is_not_plain_http_is_refused_and_ends_the_connection() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let before = everything(&daemon).await;
    let post = "POST /v1/heartbeats HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    let smuggled = "GET /v1/status HTTP/1.1\r\nhost: a\r\n\r\n";
    let rows = [
        ("GET /livez\r\n\r\n".to_owned(), ""),
        ("nonsense\r\n\r\n".to_owned(), ""),
        (format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{smuggled}"), "T001"),
        (format!("{post}transfer-encoding: gzip\r\n\r\n{smuggled}"), ""),
        (format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}{smuggled}"), ""),
        (format!("GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n{smuggled}"), "T001"),
        (format!("GET /livez HTTP/1.1\r\n\r\n{smuggled}"), "T001"),
    ];
    for (bytes, code) in rows {
        let answer = converse(&daemon, &bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{bytes}: {answer}");
        assert!(answer.contains(code), "{bytes}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{bytes}: {answer}");
    }
    // Of two lengths that of the chunks holds, as the standard has it; what follows is not read.
    for lengths in [
        "transfer-encoding: chunked\r\ncontent-length: 4",
        "content-length: 4\r\ntransfer-encoding: chunked",
    ] {
        let both = format!("{post}{lengths}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{smuggled}");
        let answer = converse(&daemon, &both).await;
        assert!(answer.contains("H008"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    assert_eq!(everything(&daemon).await, before);
    daemon.stop().await;
}

/// Row 71: an incomplete request has no effect, even if its body looks complete.
#[tokio::test]
async fn row_71_a_client_that_leaves_in_the_middle_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = daemon(&folder).await;
    let before = everything(&daemon).await;
    let body = json!({ "sequence": 58, "work": [job(3, "cid")] }).to_string();
    let head = "PUT /v1/publication HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    let length = body.len() + 1;
    for text in [
        format!("{head}content-length: {length}\r\n\r\n{body}"),
        format!("{head}content-length: {length}\r\n\r\n"),
        format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len()),
    ] {
        let address = daemon.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    assert_eq!(everything(&daemon).await, before);
    let answer = daemon.send(PUT.0, PUT.1, &body).await;
    assert_eq!(answer.status(), StatusCode::ACCEPTED, "58 was never taken in");
    daemon.stop().await;
}

/// Runs `apportion serve` on this store with this configuration; returns its exit status and its
/// output.
fn serve_on(folder: &TempDir, state: &Path, config: &str) -> (Option<i32>, String) {
    let listen = "127.0.0.1:0";
    let daemon = process::spawn(folder.path(), config, state, &[], listen);
    ended(&daemon.wait_with_output().unwrap())
}

fn ended(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A file with this mode.
fn written(folder: &TempDir, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A daemon that requires tokens; and the tokens of the agents of `n1` and `n2`, of an orchestrator
/// and of an operator.
fn guarded(folder: &TempDir) -> (process::Daemon, [Secret; 4]) {
    let whose = [
        ("one", Role::Agent, Some("n1")),
        ("two", Role::Agent, Some("n2")),
        ("batch", Role::Orchestrator, None),
        ("root", Role::Operator, None),
    ];
    let secrets = whose.map(|_| Secret::new().unwrap());
    let line = |((name, role, nodes), secret)| new_line(secret, name, role, nodes, None).unwrap();
    let lines: Vec<String> = whose.into_iter().zip(&secrets).map(line).collect();
    let tokens = written(folder, "tokens", &lines.join("\n"), 0o600);
    let config = format!("{}\n[daemon.access]\ntokens = '{}'\n", process::CONFIG, tokens.display());
    (process::Daemon::start(folder.path(), &config), secrets)
}

/// Sends a request with this token; returns status and text of the answer.
async fn ask_as(
    daemon: &process::Daemon,
    secret: &Secret,
    (method, path): (Method, &str),
    body: &Value,
) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.request(method, format!("{}{path}", daemon.url));
    let response = request.bearer_auth(secret.reveal()).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Row 36: an agent that reports for a foreign node gets the same answer as for an unknown node.
/// The code is the code of all refused callers.
#[tokio::test]
async fn row_36_an_agent_reports_for_its_own_node_and_learns_of_no_other() {
    let folder = TempDir::new().unwrap();
    let (daemon, [one, two, _, root]) = guarded(&folder);
    let beat = async |secret: &Secret, node: &str, memory: u64| {
        let body = json!({ "node": node, "memory_mb": memory });
        ask_as(&daemon, secret, BEAT, &body).await
    };
    assert_eq!(beat(&two, "n2", 4096).await.0, 202);
    let (status, unknown) = beat(&one, "n9", 8192).await;
    assert_eq!((status, &unknown["code"]), (403, &json!("T010")));
    for other in ["n2", "N1", "n11", "n"] {
        assert_eq!(beat(&one, other, 8192).await, (403, unknown.clone()), "{other}");
    }
    assert_eq!(beat(&one, "n1", 4096).await.0, 202);
    let known = async |node: &str| {
        ask_as(&daemon, &root, (Method::GET, &format!("/v1/nodes/{node}")), &json!({})).await
    };
    while known("n1").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(known("n2").await.1["memory_mb"], 4096);
    assert_eq!(known("n9").await.0, 404);
}

/// Row 52: a caller without the right is refused for every act, and the audit log has the attempt.
#[tokio::test]
async fn row_52_agents_and_orchestrators_do_not_administrate_and_trying_is_on_record() {
    let folder = TempDir::new().unwrap();
    let (daemon, [one, _, batch, root]) = guarded(&folder);
    let body = json!({ "node": "n1", "memory_mb": 4096 });
    assert_eq!(ask_as(&daemon, &one, BEAT, &body).await.0, 202);
    let node = (Method::GET, "/v1/nodes/n1");
    while ask_as(&daemon, &root, node.clone(), &json!({})).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let acts = [
        (OFF, json!({ "nodes": ["n1"], "reason": "disks", "all": true })),
        (ON, json!({ "nodes": ["n1"] })),
        ((Method::POST, "/v1/config/plan"), json!({ "text": "" })),
        ((Method::POST, "/v1/config/apply"), json!({ "generation": 1 })),
    ];
    for secret in [&one, &batch] {
        for ((method, path), body) in &acts {
            let (status, answer) = ask_as(&daemon, secret, (method.clone(), path), body).await;
            assert_eq!((status, &answer["code"]), (403, &json!("T010")), "{path}");
        }
    }
    let (_, info) = ask_as(&daemon, &root, node, &json!({})).await;
    assert_eq!(info["states"], json!(["up"]));
    // A later row of the audit log proves that the earlier rows are written.
    assert_eq!(ask_as(&daemon, &root, OFF, &acts[0].1).await.0, 200);
    let record = folder.path().join("state.db").display().to_string();
    let shown = process::apportion(&["audit", "show", &record, "--json", "--last", "0"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let rows = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let refused = rows.filter(|row| row["outcome"].as_str().unwrap().starts_with("refused"));
    let told: Vec<(Value, Value)> =
        refused.map(|row| (row["who"].clone(), row["detail"].clone())).collect();
    let expected: Vec<(Value, Value)> = ["one", "batch"]
        .iter()
        .flat_map(|who| {
            acts.iter().map(move |((_, path), _)| (json!(who), format!("POST {path}").into()))
        })
        .collect();
    assert_eq!(told, expected);
}

/// Row 67: a secret is refused if other users can read it, if it is empty, or if it has more than a
/// line end at its end. The file of tokens has only digests, so its line ends do not matter; an
/// empty file lets no caller in.
#[tokio::test]
async fn row_67_secrets_that_are_open_empty_or_ill_written_are_refused() {
    let folder = TempDir::new().unwrap();
    let line = new_line(&Secret::new().unwrap(), "root", Role::Operator, None, None).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    let read = |name| std::fs::read_to_string(fixtures.join(name)).unwrap();
    let certificate = written(&folder, "one.pem", &read("one.pem"), 0o644);
    let state = folder.path().join("state.db");
    let rows = [
        ("tokens", line.clone(), 0o644, "can be read by others (mode 644)"),
        ("tokens", line.clone(), 0o620, "can be written by others (mode 620)"),
        ("tokens", "root operator\r\n".to_owned(), 0o600, "line 1: "),
        ("key", read("one.key"), 0o640, "can be read by others (mode 640)"),
        ("key", String::new(), 0o600, "there is no private key in"),
    ];
    for (setting, text, mode, says) in rows {
        let file = written(&folder, "secret", &text, mode);
        let pair = match setting {
            "key" => format!("certificate = '{}'\n", certificate.display()),
            _ => String::new(),
        };
        let access = format!("\n[daemon.access]\n{pair}{setting} = '{}'\n", file.display());
        let (status, said) = serve_on(&folder, &state, &format!("{CONFIG}{access}"));
        assert_eq!(status, Some(78), "{says}: {said}");
        for expected in ["C020: cannot set up authentication", says, &file.display().to_string()] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
    for (text, mode, status, says) in [
        ("", 0o600, 1, "holds no token"),
        ("\n", 0o600, 1, "holds no token"),
        ("apn_1\r\n", 0o600, 1, "holds no token"),
        ("apn_1\n\n", 0o600, 1, "holds no token"),
        ("apn_1\n", 0o644, 1, "chmod 600 it"),
        // The token is accepted, but no daemon listens.
        ("apn_1\n", 0o600, 3, "127.0.0.1:1"),
    ] {
        let file = written(&folder, "token", text, mode);
        let output = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(["nodes", "--url", "http://127.0.0.1:1", "--token-file"])
            .arg(&file)
            .output()
            .unwrap();
        let (ended, said) = ended(&output);
        assert_eq!(ended, Some(status), "{text:?}: {said}");
        assert!(said.contains(says), "{text:?}: {said}");
        assert!(!said.contains("apn_"), "{said}");
    }
    let empty = written(&folder, "tokens", "", 0o600);
    let access = format!("\n[daemon.access]\ntokens = '{}'\n", empty.display());
    let daemon = process::Daemon::start(folder.path(), &format!("{CONFIG}{access}"));
    assert_eq!(daemon.ask("/v1/nodes").await.status(), StatusCode::UNAUTHORIZED);
}

/// Row 72: an unusable store is named, with a remedy, and nothing is served. The exit status is 1:
/// 3 means that no daemon answers. Disks that are full or read only, and files that were swapped or
/// cut, are in `faults_files`.
#[tokio::test]
async fn row_72_a_record_that_cannot_be_used_is_named_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let ours = folder.path().join("state.db");
    daemon(&folder).await.stop().await;
    let written = std::fs::read(&ours).unwrap();
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = written.clone();
        change(&mut bytes);
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let foreign = changed("foreign.db", &|bytes| bytes[68..72].fill(7));
    let damaged = changed("damaged.db", &|bytes| bytes[4096..12288].fill(0xff));
    let text = changed("text.db", &|bytes| *bytes = b"this is no database ".repeat(100));
    let rows = [
        (folder.path().to_owned(), "is a folder; name a file in it"),
        (folder.path().join("no/state.db"), "create it"),
        (foreign, "is another program's database; name another file"),
        (damaged, "is damaged"),
        (text, "is not a database; name another file, or move this one away"),
    ];
    for (path, says) in rows {
        let before = std::fs::read(&path).ok();
        let (status, said) = serve_on(&folder, &path, CONFIG);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(says), "{said}");
        assert!(said.contains(&path.display().to_string()), "{said}");
        assert_eq!(std::fs::read(&path).ok(), before, "{says}: it was written to");
    }
    let other = Daemon::start(&folder).await;
    other.get("/v1/status").await;
    let (status, said) = serve_on(&folder, &ours, CONFIG);
    assert_eq!(status, Some(1), "{said}");
    let pid = std::process::id();
    assert!(said.contains(&format!("is in use by another apportion (process {pid})")), "{said}");
    other.stop().await;
}
