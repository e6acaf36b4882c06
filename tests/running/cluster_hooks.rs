//! Prologue and epilogue of the cluster, with real processes.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::support::fleet::{CONFIG, Fleet, Part, Plan};
use reqwest::{Method, StatusCode};
use serde_json::json;

fn plan() -> Plan<'static> {
    let (agent_flags, head_flags) = (&["--memory", "512MB"], &["--linger", "1s"]);
    Plan {
        config: CONFIG,
        agents: 2,
        agent_flags,
        head_flags,
        detours: BTreeMap::new(),
        ports: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_of_the_cluster_run_once_around_all_tasks_over_kills() {
    let mut fleet = Fleet::start(&plan()).await;
    let hook = |word: &str| json!({ "shell": format!("sleep 0.3; echo {word} >> story"), "scope": "cluster" });
    let body = json!({
        "shell": "sleep 0.2; echo task >> story", "tasks": 40,
        "prologue": hook("fetched"), "epilogue": hook("collected"),
    });
    let id = fleet.submit(body).await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        fleet.kill(Part::Orchestrator);
        fleet.revive();
    }
    let detail = fleet.until_state(id, "done").await;
    assert_eq!((detail.campaign.done, detail.epilogue), (40, None));
    let story = fleet.lines("story");
    let word = |place: usize| story.get(place).map(String::as_str);
    assert_eq!(
        (story.len(), word(0), word(41)),
        (42, Some("fetched"), Some("collected")),
        "{story:?}"
    );
    assert!(story[1..41].iter().all(|word| word == "task"), "{story:?}");
    for hook in [id + 1, id + 2] {
        assert_eq!(fleet.campaign(hook).await.unwrap().campaign.hook_of, Some(id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prologue_that_fails_blocks_and_says_so_until_it_is_mended() {
    let fleet = Fleet::start(&plan()).await;
    let body = json!({
        "shell": "echo task >> story", "tasks": 3,
        "prologue": { "shell": "[ -e mended ] || exit 3", "scope": "cluster" },
    });
    let id = fleet.submit(body).await;
    fleet.until_state(id + 1, "failed").await;
    let detail = fleet.until_state(id, "waiting").await;
    assert_eq!(detail.waits_for, [id + 1]);
    let told = detail.notes.iter().find(|note| note.code == "prologue-failed").unwrap();
    let text = format!(
        "campaign {id} waits for its prologue, campaign {}, which is failed: `apportion campaign resubmit",
        id + 1
    );
    assert!(told.text.starts_with(&text), "{}", told.text);
    assert_eq!(fleet.lines("story"), [""; 0]);
    fs::write(fleet.work().join("mended"), "").unwrap();
    let path = format!("/v1/campaigns/{}/resubmit", id + 1);
    let (status, _) =
        fleet.ask(Method::POST, &path, Some(json!({ "failed": true }))).await.unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(fleet.until_state(id, "done").await.campaign.done, 3);
}
