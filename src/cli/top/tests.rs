//! Screens of `top`, at the size of an old terminal and of a new terminal.

use insta::assert_snapshot;
use serde_json::json;

use super::data::ClusterData;
use super::frame::{PaintedLine, frame};
use super::stand::UiState;
use crate::api::wire::{
    Account, ClassLoad, Load, NodeInfo, NodeList, NodeState, Policy, Status, UserClass, UserInfo,
    UserList, UserLoad,
};
use crossterm::event::KeyCode;

fn text(lines: &[PaintedLine]) -> String {
    let line = |line: &PaintedLine| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn class(name: &str, deserved: u64, held: u64) -> ClassLoad {
    ClassLoad {
        class: name.to_owned(),
        policy: Policy::FairShare,
        jobs: deserved.min(7),
        quantum_mb: 15_360,
        account: Account { wanted: 120, deserved, given: deserved, held },
        users: vec![UserLoad {
            user: "ann".to_owned(),
            account: Account { wanted: 60, deserved: 44, given: 44, held: 20 },
        }],
    }
}

fn user(name: &str, deserved: u64, held: u64) -> UserInfo {
    UserInfo {
        user: name.to_owned(),
        jobs: 2,
        jobs_without_shares: 1,
        shares: held,
        memory_mb: held * 15_360,
        fixed_memory_mb: 0,
        allotment_mb: None,
        classes: vec![UserClass {
            savings: None,
            class: "normal".to_owned(),
            account: Account { wanted: 60, deserved, given: deserved, held },
        }],
    }
}

fn node(number: usize) -> NodeInfo {
    NodeInfo {
        preference: 0,
        tags: std::collections::BTreeMap::new(),
        name: format!("node{number:02}"),
        pool: "--default--".to_owned(),
        states: vec![if number == 3 { NodeState::Dead } else { NodeState::Up }],
        memory_mb: 122_880,
        quantum_mb: 15_360,
        order: 8,
        used: 6,
        free: 2,
        next_window: None,
        missed_heartbeats: if number == 3 { 6 } else { 0 },
        vary_off_reason: None,
        notes: Vec::new(),
        shares: Vec::new(),
    }
}

fn data() -> ClusterData {
    let counts = json!({ "total": 53, "up": 51, "awaited": 0, "dead": 1, "varied_off": 1, "quiesced": 0, "blacklisted": 0 });
    let status: Status = serde_json::from_value(json!({
        "version": "0.1.0", "ready": true, "cycle": 431, "nodes": counts,
        "jobs": { "total": 21, "waiting": 14, "refused": 0 },
        "shares": { "held": 104, "leaving": 3, "used_mb": 1_905_664, "outside_mb": 46_080, "schedulable_mb": 2_119_680 },
        "calm": { "quiet_cycles": 4, "rest_cycles": 0 }, "silent_together": [], "net_strikes": 0,
        "cycle_times": { "cycles": 430, "planned_mean_us": 1, "planned_max_us": 1, "stored_mean_us": 1, "stored_max_us": 1 },
        "last_event": 9, "planned_in_us": 1210, "stored_in_us": 3090, "audit_findings": [], "audit_findings_total": 0,
    }))
    .unwrap();
    let job = |id: u64, held: u64| {
        json!({
            "id": id, "user": "ann", "class": "normal", "kind": "job", "memory_mb": 28_672, "order": 2, "threads": 4,
            "submitted_ms": 1_795_363_271_000_u64, "remaining": 3000, "running": true, "completing": false,
            "disposition": if held == 0 { "dormant" } else { "stable" },
            "sums": { "wanted": 90, "deserved": 22, "given": 11, "held": held, "promised": 0, "behind_cycles": 0 },
            "reason": { "code": "fair_share_used", "sentence": "fair share used: counted 11 of the 90 it could use" },
            "shares": [],
        })
    };
    let jobs: Vec<_> = (1..30).map(|id| job(id, id % 3)).collect();
    let event = json!({
        "sequence": 9, "cycle": 431, "at_ms": 1_795_363_331_000_i64, "kind": "added",
        "shares": [{ "job": 7, "share": 90, "node": "node01", "memory_mb": 30_720 }, { "job": 7, "share": 91, "node": "node02", "memory_mb": 30_720 }],
    });
    ClusterData {
        status,
        load: Load {
            cycle: 431,
            classes: vec![
                class("normal", 88, 106),
                class("urgent\u{1b}[2J", 44, 12),
                class("weekend", 0, 0),
                ClassLoad {
                    policy: Policy::FixedShare,
                    jobs: 1,
                    users: Vec::new(),
                    ..class("fixed", 0, 12)
                },
            ],
            pools: Vec::new(),
            unmet: Vec::new(),
        },
        users: UserList { cycle: 431, users: vec![user("ann", 44, 60), user("bob", 44, 20)] },
        jobs: serde_json::from_value(json!({ "cycle": 431, "jobs": jobs })).unwrap(),
        nodes: NodeList { cycle: 431, nodes: (1..40).map(node).collect() },
        events: [serde_json::from_value(event).unwrap()].into(),
        sequence: 9,
        now_ms: 1_795_363_331_000,
        trouble: None,
    }
}

#[test]
fn a_screen_is_filled_and_never_overflows() {
    let data = data();
    for (width, height) in [(80, 24), (140, 50), (40, 10), (20, 3), (200, 6), (1, 1)] {
        for keys in ["1", "2", "3", "4"] {
            let mut stand = UiState::default();
            stand.take(KeyCode::Char(keys.chars().next().unwrap()));
            let lines = frame(&data, &mut stand, (width, height));
            assert!(lines.len() <= height, "{width}x{height}");
            let shown = text(&lines);
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{shown}");
            assert!(!shown.contains('\u{1b}'), "names give no orders to the terminal");
        }
    }
    assert_eq!(frame(&data, &mut UiState::default(), (80, 24)).len(), 24);
}

#[test]
fn every_pane_is_reached_and_shows_what_it_is_of() {
    let data = data();
    let mut stand = UiState::default();
    let mut shown = Vec::new();
    for key in [KeyCode::Char('1'), KeyCode::Tab, KeyCode::Char('w'), KeyCode::Char('4')] {
        stand.take(key);
        shown.push(text(&frame(&data, &mut stand, (80, 24))));
    }
    stand.take(KeyCode::Char('1'));
    shown.push(text(&frame(&data, &mut stand, (140, 30))));
    assert_snapshot!(shown.join("\n----\n"));
}

#[test]
fn one_scrolls_to_the_end_and_no_further() {
    let data = data();
    let mut stand = UiState::default();
    stand.take(KeyCode::Char('4'));
    let mut shown = |key| {
        stand.take(key);
        text(&frame(&data, &mut stand, (80, 24)))
    };
    let first = shown(KeyCode::Home);
    assert!(first.contains("node01 ") && first.contains(" lines 1-11 of 39\n"), "{first}");
    let end = shown(KeyCode::End);
    assert!(end.contains("node39 ") && !end.contains("node01 "), "{end}");
    assert!(end.contains(" lines 29-39 of 39\n"), "{end}");
    assert_eq!(shown(KeyCode::Down), end);
    assert_ne!(shown(KeyCode::PageUp), end);
    assert!(shown(KeyCode::Home).contains("node01 "));
}
