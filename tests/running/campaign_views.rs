//! Campaigns as users see them: commands, answers and pages of a real orchestrator with real tasks,
//! and the messages about wrong input.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::time::Duration;

use crate::support::up::Up;
use reqwest::Client;
use serde_json::{Value, json};

/// A campaign of ten tasks, of which task 3 says why it fails.
const TASKS: &str = "if [ $APPORTION_TASK_ID = 3 ]; then echo no such input >&2; exit 7; fi";

#[test]
fn a_campaign_is_followed_by_commands() {
    let up = Up::start();
    let submit =
        ["submit", "--memory", "64MB", "--name", "sweep", "--array", "1-10", "--wait", "--shell"];
    let (status, out, err) = up.run(&[&submit[..], &[TASKS]].concat());
    assert_eq!(status, 1, "{out}{err}");
    assert!(out.contains("campaign 1: 1 task failed"), "{out}");

    let short = up.ask(&["campaign", "stat"]);
    let line = short.lines().nth(1).unwrap();
    assert!(line.contains("!  sweep") && line.contains("100 %"), "{short}");
    assert_eq!(up.ask(&["campaign", "stat", "2-*"]).lines().count(), 1);
    let csv = up.ask(&["campaign", "stat", "*-*", "-o", "csv"]);
    let page: Value = serde_json::from_str(&up.ask(&["campaign", "stat", "1", "--json"])).unwrap();
    let (fields, cells) = csv.split_once('\n').unwrap();
    for (field, cell) in fields.split(',').zip(cells.trim_end().split(',')) {
        let value = &page["campaigns"][0][field];
        assert_eq!(value.to_string().trim_matches('"'), cell, "{field}");
    }
    let full = up.ask(&["campaign", "stat", "-f", "last"]);
    assert!(
        full.contains("9 done, 1 failed") && full.contains("! task 1.3: exit status 7"),
        "{full}"
    );
    let shown = up.ask(&["campaign", "show", "last"]);
    assert!(shown.contains("asked for 64 MB a slot; used"), "{shown}");
    assert!(!shown.contains("0 GB") && shown.contains("task 1.3 on "), "{shown}");
    let why = up.ask(&["campaign", "why", "1"]);
    assert!(why.contains("it needs no slots"), "{why}");
    let events = up.ask(&["campaign", "events", "--since", "0"]);
    for words in ["submitted, 10 tasks", "exit status 7", "campaign 1: failed: 9 done, 1 failed"] {
        assert!(events.contains(words), "{words}: {events}");
    }
    let event = up.ask(&["campaign", "events", "--since", "1", "--json"]);
    let event: Value = serde_json::from_str(event.lines().next().unwrap()).unwrap();
    assert_eq!((&event["sequence"], &event["campaign"]), (&json!(2), &json!(1)), "{event}");
    let (status, _, err) = up.run(&["campaign", "stat", "9-5"]);
    assert!(status == 1 && err.contains("write 5, 5-9, 5-*, *-9 or *-*"), "{err}");

    let wide = up.ask(&["nodes", "-o", "wide"]);
    assert!(wide.lines().next().unwrap().ends_with("LIMITS"), "{wide}");
    let rungs = ["systemd", "cgroup2", "cgroup1", "watched"];
    assert!(rungs.iter().any(|rung| wide.trim_end().ends_with(rung)), "{wide}");
}

#[tokio::test]
async fn what_a_campaign_asked_for_is_told_and_lines_are_added() {
    let up = Up::start();
    up.write("first", "a\nb\n");
    up.write("more", "c d\n\n\"e\"");
    let submit = ["submit", "--memory", "64MB", "--may-run-twice", "--on-unheard", "finish"];
    // The task waits for the file that comes once all lines are there.
    let shell = [
        "--each-line",
        "first",
        "--shell",
        "while [ ! -e go ]; do sleep 0.1; done; echo \"<$APPORTION_ENTRY>\"",
    ];
    assert!(up.ask(&[&submit[..], &shell].concat()).contains("campaign 1: 2 tasks"));
    let shown = up.ask(&["campaign", "show", "1"]);
    assert!(shown.contains("its tasks may run twice"), "{shown}");
    assert!(shown.contains("slots that nothing reaches finish what they have"), "{shown}");
    assert!(up.ask(&["task", "show", "1.1"]).contains("it may run twice"));
    for page in ["/campaigns/1", "/campaigns/1/tasks/1"] {
        let shown = up.page(page).await;
        for fact in ["begin again elsewhere at once", "finish what they have"] {
            assert!(shown.contains(fact), "{page}: {shown}");
        }
    }

    let added = up.ask(&["campaign", "add", "last", "--each-line", "more"]);
    assert_eq!(added.trim_end(), "campaign 1: 3 tasks added from 1.3 on, 5 in all");
    let (status, _, err) = up.run(&["campaign", "add", "1", "--array", "2"]);
    assert!(status == 6 && err.contains("add `lines` or `items` to it"), "{status}: {err}");
    let (status, _, err) = up.run(&["campaign", "add", "1"]);
    assert!(status == 2 && err.contains("--each-line"), "{err}");
    up.write("go", "");
    assert_eq!(up.run(&["campaign", "wait", "1"]).0, 0);
    for (task, entry) in [("1.2", "<b>"), ("1.3", "<c d>"), ("1.4", "<>"), ("1.5", "<\"e\">")] {
        assert_eq!(up.ask(&["task", "logs", task]).trim_end(), entry);
    }
    let (status, _, err) = up.run(&["campaign", "add", "1", "--each-line", "more"]);
    assert!(status == 6 && err.contains("has ended, and takes no more tasks; submit"), "{err}");
    assert!(
        up.ask(&["campaign", "events", "--since", "0"]).contains("3 tasks were added, 5 in all")
    );
}

#[test]
fn a_task_over_its_memory_says_what_helps_and_gets_more() {
    let up = Up::start();
    let hog = ["perl", "-e", "my $x = 'x' x (100 << 20); select(undef, undef, undef, 1.0);"];
    let (status, _, err) = up.run(&[&["run", "--memory", "64MB", "--"], &hog[..]].concat());
    assert_eq!(status, 137, "{err}");
    assert!(err.contains("over its memory") && err.contains("--task 1 --memory 96MB"), "{err}");
    let shown = up.ask(&["task", "show", "last.1"]);
    assert!(shown.contains("(limit 64 MB)"), "{shown}");
    let again = ["campaign", "resubmit", "last", "--task", "1", "--memory"];
    let (status, _, err) = up.run(&[&again[..], &["900TB"]].concat());
    assert!(status == 1 && err.contains("more than the largest node has; ask for"), "{err}");
    assert!(up.ask(&[&again[..], &["512MB"]].concat()).contains("1 task queued again"));
    assert_eq!(up.run(&["campaign", "wait", "last"]).0, 0);
    let works = up.ask(&["task", "show", "last.1"]);
    assert!(works.contains("attempt 2 on ") && works.contains(": done"), "{works}");
}

/// The slots of campaign 2 on a node, once its task runs.
async fn slots_of_campaign_2(up: &Up, node: &str) -> Vec<Value> {
    for _ in 0..600 {
        let told = up.page(&format!("/v1/grid/{node}")).await;
        let told: Value = serde_json::from_str(&told).unwrap();
        let slots = told["slots"].as_array().unwrap().iter();
        let slots = slots
            .filter(|slot| slot["campaign"] == 2 && slot["running"][0]["task"] == json!([2, 1, 1]));
        let slots: Vec<Value> = slots.cloned().collect();
        if !slots.is_empty() {
            return slots;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the task does not run: {}", up.page(&format!("/v1/grid/{node}")).await);
}

#[tokio::test]
async fn a_campaign_is_followed_on_pages_and_acted_on_from_there_only() {
    let up = Up::start();
    let submit = [
        "submit",
        "--memory",
        "64MB",
        "--name",
        "a <b> & c",
        "--array",
        "1-10",
        "--wait",
        "--shell",
    ];
    assert_eq!(up.run(&[&submit[..], &[TASKS]].concat()).0, 1);
    let list = up.page("/campaigns").await;
    assert!(list.contains("a &#60;b&#62; &#38; c") && !list.contains("<b>"), "{list}");
    assert!(list.contains("href=\"/topology\""), "the sections of the daemon");
    let one = up.page("/campaigns/1").await;
    for words in
        ["no such input", "exit status 7", "1.3", "Memory, asked and used", "9 attempts done"]
    {
        assert!(one.contains(words), "{words}: {one}");
    }
    assert!(!one.contains("name=\"state\""), "it has ended");
    assert!(up.page("/campaigns/1/tasks/3").await.contains("exit status 7"));
    assert!(up.page("/assets/dashboard.css").await.contains("--ground"));

    up.ask(&["run", "--detach", "--memory", "64MB", "--", "sleep", "1000"]);
    let grid: Value = serde_json::from_str(&up.page("/v1/grid").await).unwrap();
    let node = grid["nodes"][0]["node"].as_str().unwrap();
    let slots = slots_of_campaign_2(&up, node).await;
    assert_eq!((&slots[0]["memory_mb"], &slots[0]["state"]), (&json!(64), &json!("working")));
    let since = slots[0]["running"][0]["since_ms"].as_u64().unwrap();
    let campaign: Value = serde_json::from_str(&up.page("/v1/campaigns/2").await).unwrap();
    assert!(campaign["campaign"]["submitted_ms"].as_u64().unwrap() <= since, "{since}: {campaign}");
    let shown = up.page(&format!("/campaigns/on/{node}")).await;
    for words in
        ["Limits of memory", "href=\"/campaigns/2\"", "href=\"/campaigns/2/tasks/1\"", "64 MB"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(up.page(&format!("/node/{node}")).await.contains("data-part=\"/campaigns/on/"));
    let shown = up.page("/campaigns/on/none").await;
    assert!(shown.contains("This node runs no slots"), "{shown}");
    let one = up.page("/campaigns/2").await;
    assert!(one.contains("value=\"suspended\"") && one.contains("Cancel campaign 2"), "{one}");
    let no_redirect = reqwest::redirect::Policy::none();
    let client = Client::builder().redirect(no_redirect).build().unwrap();
    let form = "application/x-www-form-urlencoded";
    let login = client.post(format!("{}/login", up.orchestrator)).header("content-type", form);
    let login = login.body(format!("token={}&next=/campaigns", up.token)).send().await.unwrap();
    let cookie = login.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let act = async |origin: Option<&str>, state: &str| {
        let request = client.post(format!("{}/campaigns/2/state", up.orchestrator));
        let request = match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        };
        let request = request.header("content-type", form).header("cookie", cookie);
        request.body(format!("state={state}")).send().await.unwrap().status().as_u16()
    };
    assert_eq!(act(Some("http://evil.example"), "cancelled").await, 403);
    assert_eq!(act(None, "cancelled").await, 403);
    let state = up.ask(&["campaign", "show", "2"]);
    assert!(state.contains(": running") || state.contains(": finishing"), "{state}");
    assert_eq!(act(Some(&up.orchestrator), "suspended").await, 303);
    assert!(up.ask(&["campaign", "show", "2"]).contains("suspended"));
    let why = up.ask(&["campaign", "why", "2"]);
    assert!(why.contains("campaign resume 2"), "{why}");
    assert_eq!(act(Some(&up.orchestrator), "cancelled").await, 303);
    assert_eq!(act(Some(&up.orchestrator), "lost").await, 400);
    assert_eq!(up.run(&["campaign", "wait", "2"]).0, 6);
}

#[tokio::test]
async fn events_of_campaigns_come_as_a_stream() {
    let up = Up::start();
    let submit = ["submit", "--memory", "64MB", "--array", "1-2", "--wait", "--", "true"];
    up.ask(&submit);
    let url = format!("{}/v1/campaigns/events?since=0", up.orchestrator);
    let ask = || {
        let request = Client::new().get(&url).bearer_auth(&up.token);
        request.header("accept", "text/event-stream").timeout(Duration::from_mins(2))
    };
    let mut stream = ask().send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut told = String::new();
    // Existing events come first, and later events come when they happen.
    read_until(&mut stream, &mut told, "campaign\":1,").await;
    read_until(&mut stream, &mut told, "event: ended").await;
    up.ask(&submit);
    read_until(&mut stream, &mut told, "campaign\":2,").await;
    let ids: Vec<u64> = told
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|id| id.parse().unwrap())
        .collect();
    assert_eq!(ids, (1..=u64::try_from(ids.len()).unwrap()).collect::<Vec<_>>(), "{told}");
    // A client that comes again goes on where it was.
    let mut stream = ask().header("last-event-id", "2").send().await.unwrap();
    let mut told = String::new();
    read_until(&mut stream, &mut told, "id: 3").await;
    assert!(!told.contains("id: 2\n"), "{told}");
    let refused = ask().header("last-event-id", "x").send().await.unwrap();
    assert_eq!(refused.status(), 400);
}

/// Reads on until all that was read has these words.
async fn read_until(stream: &mut reqwest::Response, told: &mut String, words: &str) {
    while !told.contains(words) {
        let part = stream.chunk().await.unwrap().unwrap_or_else(|| panic!("{words}: {told}"));
        told.push_str(std::str::from_utf8(&part).unwrap());
    }
}

#[tokio::test]
async fn output_that_never_comes_is_not_waited_for() {
    let up = Up::start();
    let tasks = ["--array", "1-3", "--max", "1", "--", "sleep", "1000"];
    up.ask(&[&["submit", "--memory", "64MB"][..], &tasks].concat());
    up.ask(&["campaign", "cancel", "1"]);
    assert_eq!(up.run(&["campaign", "wait", "1"]).0, 6);
    for (task, words) in [(99, "campaign 1 has no task 99; it has 3"), (3, "ended before it began")]
    {
        let url = format!("{}/v1/campaigns/1/tasks/{task}/output?follow=true", up.orchestrator);
        let request = Client::new().get(url).bearer_auth(&up.token);
        let answer = request.timeout(Duration::from_mins(1)).send().await.unwrap();
        assert_eq!(answer.status(), 404);
        let text = answer.text().await.unwrap();
        assert!(text.contains(words), "{task}: {text}");
    }
}

#[test]
fn bad_input_is_told_with_its_place_and_loses_nothing() {
    let up = Up::start();
    let long = "x".repeat(10 << 20);
    up.write("long.json", &json!({ "command": ["echo", long] }).to_string());
    up.write("zero.json", &json!({ "command": ["echo", "a\0b"] }).to_string());
    up.write("sweep.toml", "command = [\"true\"]\nmemroy = \"1GB\"\n");
    up.write("lines", "a\nb\nc");
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["--class", "nromal", "--", "true"],
            &["class: `nromal` is unknown", "did you mean `normal`?"],
        ),
        (
            &["--memory", "900TB", "--", "true"],
            &["memory: 900 TB is more than the largest node has", "ask for "],
        ),
        (&["long.json"], &["long.json", "command: a word of 10485760 bytes", "put it in a file"]),
        (&["zero.json"], &["zero.json", "command: has a zero byte", "leave it out"]),
        (&["--name", "a\nb", "--", "true"], &["name: `a?b` has hidden characters", "remove them"]),
        (&["--", ""], &["command: `[\"\"]` does not fit", "write a list of words"]),
        (&[], &["command: no program is given", "write it after `--`"]),
        (&["sweep.toml"], &["sweep.toml:2: memroy: is unknown", "did you mean `memory`?"]),
        (&["--each-line", "none", "--", "true"], &["none: No such file"]),
    ];
    for (args, words) in cases {
        let (status, out, err) = up.run(&[&["submit"], args].concat());
        assert_eq!((status, out.as_str()), (1, ""), "{args:?}: {err}");
        for words in words {
            assert!(err.contains(words), "{args:?}: {words}: {err}");
        }
    }
    assert_eq!(up.ask(&["campaign", "list"]).lines().count(), 1, "nothing was taken");

    // The last line needs no end.
    let lines = [
        "submit",
        "--memory",
        "64MB",
        "--each-line",
        "lines",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo {entry} >> got",
    ];
    assert!(up.ask(&lines).contains("campaign 1: 3 tasks"));
    let mut got: Vec<String> = fs::read_to_string(up.folder.path().join("got"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    got.sort();
    assert_eq!(got, ["a", "b", "c"]);

    // A file that cannot be made is the task's failure, and is named.
    let output =
        ["submit", "--memory", "64MB", "--output", "/dev/null/out", "--wait", "--", "true"];
    assert_eq!(up.run(&output).0, 1);
    let shown = up.ask(&["task", "show", "last.1"]);
    assert!(shown.contains("/dev/null/out"), "{shown}");
}
