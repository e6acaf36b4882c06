//! Snapshots of the stored names, which later versions must be able to read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use insta::assert_snapshot;

use super::text::{self, Line};
use super::*;
use crate::model::{
    CapRules, ClassPolicy, GangRules, JobFacts, JobId, JobKind, JobSpec, Mebibytes, NodeReport,
    NodeTagging, Nodepool, Order, PoolIx, ProcessLimit, Quantum, ResourceClass, Settings,
    ShareFacts, ShareId, SharePhase, TagRule, Tags, Topology,
};
use crate::scheduler::checkpoint::{
    CalmRecord, Hearing, JobRecord, Limbo, NodeRecord, PromiseRecord, SchedulerState, ShareRecord,
};
use crate::scheduler::{AdminCommand, Removal, SchedulerEvent};

fn topology() -> Topology {
    let cap_rules = CapRules {
        initialization_cap: 2,
        expand_by_doubling: true,
        prediction: false,
        prediction_fudge: 30_000,
        loss_limit: 5,
    };
    let class = |name: &str, policy| ResourceClass {
        gangs: GangRules::default(),
        name: name.into(),
        policy,
        priority: 10,
        pool: PoolIx(0),
        cap_rules,
        users: (name == "fixed").then(|| vec!["ann".to_owned()]),
        is_default: name == "normal",
    };
    let pool = |name: &str, parent| Nodepool {
        name: name.into(),
        parent,
        search_order: 100,
        quantum: Quantum::new(Mebibytes(1024)).unwrap(),
        nodes: vec![format!("{name}01")],
    };
    Topology {
        tagging: NodeTagging {
            may_span: true,
            sets: Vec::new(),
            rules: vec![TagRule {
                preference: None,
                nodes: vec!["main01".into()],
                set: Tags::of([("rack", "r1")]),
            }],
            reported: vec!["gpu".into()],
        },
        settings: Settings {
            allotment: Some(Mebibytes(9)),
            quiet_stop: Some(12),
            ..Settings::default()
        },
        pools: vec![pool("main", None), pool("gpu", Some(PoolIx(0)))],
        classes: vec![
            class("normal", ClassPolicy::FairShare { weight: 7 }),
            class("fixed", ClassPolicy::FixedShare),
            class("whole", ClassPolicy::Reserve),
        ],
        allotments: BTreeMap::from([("ann".to_owned(), Mebibytes(3))]),
    }
}

fn facts(limit: ProcessLimit) -> JobFacts {
    JobFacts {
        remaining: 40,
        limit,
        is_running: true,
        time_per_item: Some(1500),
        is_completing: false,
    }
}

fn spec(id: u64, kind: JobKind) -> JobSpec {
    JobSpec {
        shape: None,
        tags: Tags::of([("gpu", "a100"), ("rack", "r1")]),
        id: JobId(id),
        user: "ann".into(),
        class: "normal".into(),
        kind,
        memory: Mebibytes(2000),
        threads: 2,
        submitted: 1_700_000,
        nodes: vec!["main01".to_owned()],
        service: 4,
        facts: facts(ProcessLimit::AtMost(5)),
    }
}

fn report() -> NodeReport {
    NodeReport {
        tags: Tags::of([("gpu", "a100")]),
        name: "main01".into(),
        memory: Mebibytes(65_536),
        is_quiesced: true,
    }
}

fn process() -> ShareFacts {
    ShareFacts { is_initialized: true, initialization: 700, investment: 90_000 }
}

fn entries() -> Vec<JournalEntry> {
    let (job, share, node) = (JobId(7), ShareId(12), "main01".into());
    let events = [
        SchedulerEvent::NodeReported(report()),
        SchedulerEvent::NodeMissedHeartbeats { node: "main01".into(), missed: 2 },
        SchedulerEvent::NodeDied { node },
        SchedulerEvent::JobArrived(spec(7, JobKind::Job)),
        SchedulerEvent::JobArrived(spec(8, JobKind::Service)),
        SchedulerEvent::JobArrived(spec(9, JobKind::ArbitraryProcess)),
        SchedulerEvent::JobArrived(spec(10, JobKind::Reservation)),
        SchedulerEvent::JobChanged { job, facts: facts(ProcessLimit::Unlimited) },
        SchedulerEvent::JobChanged { job, facts: facts(ProcessLimit::Frozen) },
        SchedulerEvent::JobCompleted { job },
        SchedulerEvent::ShareSeen { job, share, node: "main01".into(), facts: process() },
        SchedulerEvent::LimboShareSeen { share, node: "main01".into(), memory: Some(Mebibytes(5)) },
        SchedulerEvent::LimboShareSeen { share, node: "main01".into(), memory: None },
        SchedulerEvent::LimboShareGone { share },
        SchedulerEvent::ShareExited { job, share },
    ];
    let nodes = || vec!["main01".to_owned(), "gpu01".to_owned()];
    let others = [
        JournalEntry::IntervalPassed(Hearing::default()),
        JournalEntry::IntervalPassed(Hearing { silent: vec!["a".into()], back: vec!["b".into()] }),
        JournalEntry::Command(AdminCommand::VaryOff {
            nodes: nodes(),
            reason: "disk swap".to_owned(),
        }),
        JournalEntry::Command(AdminCommand::VaryOn { nodes: nodes() }),
        JournalEntry::Command(AdminCommand::NodesLost {
            nodes: nodes(),
            reason: "burnt".to_owned(),
        }),
        JournalEntry::Command(AdminCommand::ForgetNodes {
            nodes: nodes(),
            reason: "sold".to_owned(),
        }),
        JournalEntry::Command(AdminCommand::Reconfigure(Box::new(topology()))),
        JournalEntry::Restarted,
    ];
    events.into_iter().map(JournalEntry::Event).chain(others).collect()
}

fn books() -> SchedulerState {
    let node = |name: &str| NodeRecord {
        report: NodeReport { name: name.into(), ..report() },
        missed: 2,
        is_heard: true,
        is_awaited: false,
        is_dead: true,
        is_dying: true,
        died_at: Some(40),
        is_given_up: false,
        has_had_work: true,
        heard_intervals: 1,
        vary_off_reason: Some("fan".to_owned()),
    };
    let share = |id, state, removal| ShareRecord {
        rank: None,
        id: ShareId(id),
        node: "main01".into(),
        order: Order::new(2).unwrap(),
        state,
        removal,
        is_seen: removal.is_none(),
        facts: process(),
    };
    let leaving = |id, removal| share(id, SharePhase::Leaving, Some(removal));
    SchedulerState {
        topology: Arc::new(topology()),
        cycle: 31,
        interval: 41,
        next_share: ShareId(99),
        nodes: vec![node("main01"), NodeRecord { is_awaited: true, ..node("gpu01") }],
        jobs: vec![JobRecord {
            gang: crate::engine::GangProgress::default(),
            spec: spec(7, JobKind::Job),
            shares: vec![
                share(1, SharePhase::Held, None),
                leaving(2, Removal::Preempted),
                leaving(3, Removal::VariedOff),
                leaving(4, Removal::Blacklisted),
            ],
            purged: vec![leaving(5, Removal::NodeDied)],
            behind_since: Some(30),
            is_spent: true,
        }],
        limbo: vec![Limbo { id: ShareId(6), node: "gpu01".into(), memory: Some(Mebibytes(8)) }],
        told_to_leave: vec![ShareId(50)],
        crowded: vec!["main01".into()],
        put_off: vec![JobId(7)],
        promises: vec![PromiseRecord {
            rank: None,
            job: JobId(7),
            node: "gpu01".into(),
            order: Order::new(2).unwrap(),
        }],
        calm: CalmRecord {
            have_claims_changed: false,
            has_news: true,
            quiet_cycles: 9,
            rest_cycles: 4,
            takings: vec![(JobId(7), JobId(8))],
            is_unfinished: true,
        },
    }
}

#[test]
fn everything_that_happens_is_read_as_it_was_written() {
    let (mut batch, mut shown) = (Batch::default(), String::new());
    for entry in entries() {
        batch.push(&entry);
        let line = serde_json::to_string(&Line::from(&entry)).unwrap();
        writeln!(shown, "{entry}\n    {line}").unwrap();
    }
    assert_eq!(Batch::open(&batch.seal()).unwrap(), entries());
    assert_snapshot!(shown);
}

#[test]
fn books_are_read_as_they_were_written() {
    assert_eq!(open_books(&seal_books(&books())).unwrap(), books());
    assert_snapshot!(serde_json::to_string_pretty(&text::BooksText::from(&books())).unwrap());
}

#[test]
fn a_fresh_batch_is_empty() {
    assert!(JournalingScheduler::default().take().is_none());
    assert_eq!(Batch::open(&Batch::default().seal()).unwrap(), []);
}
