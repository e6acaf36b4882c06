//! Snapshots of the stored names, which later versions must be able to read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use insta::assert_snapshot;

use super::text::{self, Line};
use super::*;
use crate::engine::{GangProgress, PaidTurn};
use crate::model::{
    CapRules, Chunk, ClassPolicy, Elasticity, GangRules, JobFacts, JobId, JobKind, JobSpec,
    JobTimes, LegalSizes, Mebibytes, Name, NodeReport, NodeTagging, Nodepool, Order, Place, PoolIx,
    ProcessLimit, Quantum, ResourceClass, Settings, Shape, ShareFacts, ShareId, SharePhase,
    TagRule, Tags, Topology, UserAllotment, Window, WindowKind,
};
use crate::scheduler::checkpoint::{
    HeartbeatExceptions, Limbo, SavedJob, SavedNode, SavedPromise, SavedQuiescence, SavedShare,
    SchedulerState,
};
use crate::scheduler::{
    AdminCommand, Removal, SchedulerEvent, TurnSavings, UrgentGrant, UrgentVictim,
};

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
        is_urgent: name == "wide",
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
            may_span: false,
            sets: vec!["rack".into()],
            rules: vec![
                TagRule {
                    preference: None,
                    nodes: vec!["main01".into()],
                    set: Tags::of([("rack", "r1")]),
                },
                TagRule { preference: Some(-5), nodes: vec!["gpu01".into()], set: Tags::default() },
            ],
            reported: vec!["gpu".into()],
        },
        settings: Settings {
            allotment: Some(Mebibytes(9)),
            quiet_stop: Some(12),
            notice: 30_000,
            backfill_depth: 7,
            urgent_allotment: Some(Mebibytes(5)),
            ..Settings::default()
        },
        pools: vec![pool("main", None), pool("gpu", Some(PoolIx(0)))].into(),
        classes: vec![
            class("normal", ClassPolicy::FairShare { weight: 7 }),
            class("fixed", ClassPolicy::FixedShare),
            class("whole", ClassPolicy::Reserve),
            ResourceClass { gangs: gang_rules(), ..class("wide", ClassPolicy::FixedShare) },
        ]
        .into(),
        allotments: BTreeMap::from([
            ("ann".to_owned(), UserAllotment::of_fixed(Mebibytes(3))),
            ("bob".to_owned(), UserAllotment { fixed: None, urgent: Some(Mebibytes(4)) }),
        ]),
    }
}

fn gang_rules() -> GangRules {
    GangRules {
        are_allowed: true,
        patience: 9,
        hold_limit: 60_000,
        default_duration: Some(3_000),
        max_duration: Some(7_000),
        ends_overruns: true,
    }
}

/// A request with every field of a shape.
fn gang(id: u64) -> JobSpec {
    let chunk = |count, tags| Chunk { count, memory: Mebibytes(700), tags };
    let shape = Shape {
        chunks: vec![chunk(2, Tags::of([("color", "red")])), chunk(1, Tags::default())],
        place: Place::Scatter,
        is_exclusive: true,
        group_by: Some("rack".into()),
        may_span: Some(false),
        elasticity: Some(Elasticity::Rigid),
        min_processes: 0,
        legal_sizes: LegalSizes::Any,
        duration: Some(5_000),
        not_before: Some(6_000),
        deadline: Some(60_000),
        reservation: Some("r1".into()),
    };
    JobSpec {
        shape: Some(Arc::new(shape)),
        class: "wide".into(),
        tags: Tags::default(),
        ..spec(id, JobKind::Job)
    }
}

/// A request whose number of processes is bound to sizes.
fn sized(id: u64, legal_sizes: LegalSizes) -> JobSpec {
    let elasticity = Some(Elasticity::Malleable);
    let shape = Shape { elasticity, min_processes: 2, legal_sizes, ..Shape::default() };
    JobSpec { shape: Some(Arc::new(shape)), ..spec(id, JobKind::Job) }
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
        except_nodes: vec!["main03".into()],
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
        SchedulerEvent::JobArrived(gang(11)),
        SchedulerEvent::JobArrived(sized(12, LegalSizes::PowerOfTwo)),
        SchedulerEvent::JobArrived(sized(13, LegalSizes::MultipleOf(3))),
        SchedulerEvent::JobArrived(sized(14, LegalSizes::Listed(vec![2, 5]))),
        SchedulerEvent::JobChanged { job, facts: facts(ProcessLimit::Unlimited) },
        SchedulerEvent::JobChanged { job, facts: facts(ProcessLimit::Frozen) },
        SchedulerEvent::JobRetimed {
            job,
            times: JobTimes { duration: Some(60_000), not_before: Some(5), deadline: Some(9) },
        },
        SchedulerEvent::JobRetimed { job, times: JobTimes::default() },
        SchedulerEvent::JobExcepted { job, nodes: vec!["main01".into(), "main02".into()] },
        SchedulerEvent::JobExcepted { job, nodes: Vec::new() },
        SchedulerEvent::JobCompleted { job },
        SchedulerEvent::ShareSeen { job, share, node: "main01".into(), facts: process() },
        SchedulerEvent::LimboShareSeen { share, node: "main01".into(), memory: Some(Mebibytes(5)) },
        SchedulerEvent::LimboShareSeen { share, node: "main01".into(), memory: None },
        SchedulerEvent::LimboShareGone { share },
        SchedulerEvent::ShareExited { job, share },
        SchedulerEvent::TimeIs { now: 1_700_000_000_000 },
        SchedulerEvent::ClassHours {
            hours: vec![("normal".into(), vec![(1_700_000_000_000, 1_700_000_300_000)])],
        },
    ];
    let nodes = || vec!["main01".to_owned(), "gpu01".to_owned()];
    let others = [
        JournalEntry::IntervalPassed(HeartbeatExceptions::default()),
        JournalEntry::IntervalPassed(HeartbeatExceptions {
            silent: vec!["a".into()],
            back: vec!["b".into()],
        }),
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
        JournalEntry::Command(AdminCommand::Reserve {
            window: Box::new(window("r1", WindowKind::Reservation)),
            is_forced: false,
        }),
        JournalEntry::Command(AdminCommand::Reserve {
            window: Box::new(window("m1", WindowKind::Maintenance)),
            is_forced: true,
        }),
        JournalEntry::Command(AdminCommand::Unreserve { name: "r1".into() }),
        JournalEntry::Command(AdminCommand::Urgent(Box::new(gang(13)))),
        JournalEntry::Command(AdminCommand::Reconfigure(Box::new(topology()))),
        JournalEntry::Restarted,
    ];
    events.into_iter().map(JournalEntry::Event).chain(others).collect()
}

fn window(name: &str, kind: WindowKind) -> Window {
    Window {
        name: name.into(),
        kind,
        nodes: vec!["gpu01".into(), "main01".into()],
        from: 1_700_000_100_000,
        to: 1_700_000_200_000,
        users: vec!["ann".into()],
        classes: vec!["fixed".into()],
        reason: "disks".to_owned(),
    }
}

fn grant() -> UrgentGrant {
    let node = || Name::from("main01");
    let victim = UrgentVictim { job: JobId(7), share: ShareId(2), node: node(), loss: 500 };
    UrgentGrant { cycle: 30, promised: vec![(node(), 0)], preempted: vec![victim] }
}

fn quiescence() -> SavedQuiescence {
    SavedQuiescence {
        have_claims_changed: false,
        has_news: true,
        quiet_cycles: 9,
        rest_cycles: 4,
        takings: vec![(JobId(7), JobId(8))],
        is_unfinished: true,
    }
}

fn checkpoint() -> SchedulerState {
    let node = |name: &str| SavedNode {
        report: NodeReport { name: name.into(), ..report() },
        missed: 2,
        has_reported: true,
        is_awaited: false,
        is_dead: true,
        is_dying: true,
        died_at: Some(40),
        is_given_up: false,
        has_had_work: true,
        heard_intervals: 1,
        vary_off_reason: Some("fan".to_owned()),
    };
    let share = |id, state, removal| SavedShare {
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
    let ranked = |id, rank, removal| SavedShare { rank: Some(rank), ..leaving(id, removal) };
    let waiting = SavedJob {
        gang: GangProgress { waits_since: Some(29), ..GangProgress::default() },
        spec: gang(11),
        shares: Vec::new(),
        purged: Vec::new(),
        behind_since: None,
        is_spent: false,
        urgent: None,
    };
    let broken = SavedJob {
        gang: GangProgress {
            size: Some(3),
            waits_since: None,
            turn: Some(PaidTurn { from: 20, until: 30, price: 5_000 }),
            started: Some(1_700_000_000_000),
            is_overrun: true,
        },
        spec: gang(12),
        shares: vec![ranked(8, 2, Removal::GangBroken)],
        purged: vec![ranked(7, 0, Removal::NodeDied)],
        urgent: Some(grant()),
        ..waiting.clone()
    };
    SchedulerState {
        topology: Arc::new(topology()),
        cycle: 31,
        interval: 41,
        next_share: ShareId(99),
        nodes: vec![node("main01"), SavedNode { is_awaited: true, ..node("gpu01") }],
        jobs: vec![
            SavedJob {
                gang: GangProgress::default(),
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
                urgent: None,
            },
            waiting,
            broken,
        ],
        now: Some(1_700_000_000_000),
        hours: vec![("normal".into(), vec![(1_700_000_000_000, 1_700_000_300_000)])],
        windows: vec![window("r1", WindowKind::Reservation)],
        limbo: vec![Limbo { id: ShareId(6), node: "gpu01".into(), memory: Some(Mebibytes(8)) }],
        told_to_leave: vec![ShareId(50)],
        crowded: vec!["main01".into()],
        turns: vec![(
            "fair".into(),
            "ann".into(),
            TurnSavings { base: -5, since: 7, rate: 3, most: 900 },
        )],
        put_off: vec![JobId(7)],
        promises: [(7, None), (11, Some(1))]
            .map(|(job, rank)| SavedPromise {
                rank,
                job: JobId(job),
                node: "gpu01".into(),
                order: Order::new(2).unwrap(),
            })
            .to_vec(),
        quiescence: quiescence(),
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
fn a_checkpoint_is_read_as_it_was_written() {
    assert_eq!(open_checkpoint(&seal_checkpoint(&checkpoint())).unwrap(), checkpoint());
    assert_snapshot!(
        serde_json::to_string_pretty(&text::CheckpointText::from(&checkpoint())).unwrap()
    );
}

#[test]
fn sizes_and_places_are_read_as_they_were_written() {
    let sizes = [
        LegalSizes::Any,
        LegalSizes::PowerOfTwo,
        LegalSizes::Even,
        LegalSizes::Odd,
        LegalSizes::MultipleOf(4),
        LegalSizes::Listed(vec![1, 8]),
    ];
    let places = [Place::Free, Place::Scatter, Place::Pack];
    let elasticities = [
        None,
        Some(Elasticity::Rigid),
        Some(Elasticity::Moldable),
        Some(Elasticity::Malleable),
        Some(Elasticity::Evolving),
    ];
    for legal_sizes in sizes {
        for place in places {
            for elasticity in elasticities {
                let legal_sizes = legal_sizes.clone();
                let shape = Shape { place, elasticity, legal_sizes, ..Shape::default() };
                let arrived = JobSpec { shape: Some(Arc::new(shape)), ..spec(7, JobKind::Job) };
                let entry = JournalEntry::Event(SchedulerEvent::JobArrived(arrived));
                let mut batch = Batch::default();
                batch.push(&entry);
                assert_eq!(Batch::open(&batch.seal()).unwrap(), [entry]);
            }
        }
    }
}

#[test]
fn without_gangs_the_text_says_nothing_of_them() {
    let mut without = topology();
    without.tagging = NodeTagging { rules: without.tagging.rules, ..NodeTagging::default() };
    without.tagging.rules.truncate(1);
    without.classes = without.classes.into_iter().take(3).collect();
    without.allotments.retain(|_, own| own.urgent.take().is_none());
    without.settings = Settings {
        notice: 20_000,
        backfill_depth: 100,
        urgent_allotment: Some(Mebibytes(0)),
        ..without.settings
    };
    let topology = Arc::new(without);
    let mut checkpoint = SchedulerState {
        topology,
        now: None,
        windows: Vec::new(),
        hours: Vec::new(),
        ..checkpoint()
    };
    checkpoint.jobs.truncate(1);
    checkpoint.promises.truncate(1);
    let text = serde_json::to_string(&text::CheckpointText::from(&checkpoint)).unwrap();
    let words = [
        "gang",
        "shape",
        "rank",
        "placement_sets",
        "span_sets",
        "patience",
        "hold_limit",
        "default_duration",
        "max_duration",
        "ends_overruns",
        "overrun",
        "preference",
        "notice",
        "backfill_depth",
        "now",
        "windows",
        "hours",
        "urgent",
    ];
    for word in words {
        assert!(!text.contains(&format!("\"{word}")), "{word}: {text}");
    }
    assert_eq!(open_checkpoint(&seal_checkpoint(&checkpoint)).unwrap(), checkpoint);
}

#[test]
fn a_fresh_batch_is_empty() {
    assert!(JournalingScheduler::default().take().is_none());
    assert_eq!(Batch::open(&Batch::default().seal()).unwrap(), []);
}
