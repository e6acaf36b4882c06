//! Shapes that are taken, and shapes that are refused, field by field.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::api::ingest::validate::check_work;
use crate::model::{
    CapRules, Chunk, ClassPolicy, GangRules, Mebibytes, NodeTagging, Nodepool, PoolIx,
    ProcessLimit, Quantum, ResourceClass, Settings, Tags, Topology,
};
use crate::scheduler::{JobChannel, Refusal, admit};

const LIMITS: Limits = Limits {
    body: 1,
    time: Duration::ZERO,
    nodes: 9,
    jobs: 9,
    processes: 100,
    string: 20,
    absent_publications: 3,
    absent_time: Duration::ZERO,
};

/// A class, for a user or for all.
fn class(name: &str, takes_gangs: bool, user: Option<&str>) -> ResourceClass {
    ResourceClass {
        gangs: GangRules {
            are_allowed: takes_gangs,
            max_duration: Some(DURATION_MAX - 1),
            ..GangRules::default()
        },
        name: name.into(),
        policy: ClassPolicy::FixedShare,
        priority: 5,
        pool: PoolIx(0),
        cap_rules: CapRules {
            initialization_cap: 0,
            expand_by_doubling: false,
            prediction: false,
            prediction_fudge: 0,
            loss_limit: 0,
        },
        users: user.map(|user| vec![user.to_owned()]),
        is_default: false,
        is_urgent: false,
    }
}

fn topology() -> Topology {
    Topology {
        tagging: NodeTagging::default(),
        settings: Settings::default(),
        pools: vec![Nodepool {
            name: "main".into(),
            parent: None,
            search_order: 100,
            quantum: Quantum::new(Mebibytes(1024)).unwrap(),
            nodes: Vec::new(),
        }]
        .into(),
        classes: vec![
            class("batch", true, None),
            class("plain", false, None),
            class("closed", true, Some("bob")),
        ]
        .into(),
        allotments: BTreeMap::new(),
    }
}

/// An item with a chunk, or with memory, and `more` fields; a field that is `null` is left out.
fn item(has_chunk: bool, more: &Value) -> String {
    let mut item = json!({
        "id": 7, "kind": "job", "user": "ann", "class": "batch", "state": "schedulable",
        "submitted_ms": 1
    });
    let fields = item.as_object_mut().unwrap();
    if has_chunk {
        fields.insert("chunks".to_owned(), json!([{"count": 4, "memory_mb": 2048}]));
    } else {
        fields.insert("memory_mb".to_owned(), json!(1024));
    }
    for (field, value) in more.as_object().unwrap() {
        fields.insert(field.clone(), value.clone());
    }
    fields.retain(|_, value| !value.is_null());
    item.to_string()
}

fn read(text: &str) -> Result<(PublishedJob, Vec<RequestFault>), RequestFault> {
    check_work(text, |_| (None, JobChannel::Publication), &topology(), &LIMITS)
}

fn read_after(before: &str, text: &str) -> Result<(PublishedJob, Vec<RequestFault>), RequestFault> {
    let (before, _) = read(before).unwrap();
    check_work(text, |_| (Some(before), JobChannel::Publication), &topology(), &LIMITS)
}

#[test]
fn all_fields_of_a_gang_are_taken() {
    let text = item(
        false,
        &json!({
            "memory_mb": null, "place": "scatter", "exclusive": true, "group_by": "rack",
            "span": false, "duration_ms": 3_600_000, "elasticity": "rigid", "threads": 3,
            "chunks": [
                {"count": 4, "memory_mb": 8192, "tags": {"color": "yellow"}},
                {"count": 2, "memory_mb": 9000}]
        }),
    );
    let (work, warnings) = read(&text).unwrap();
    assert_eq!(warnings, []);
    let chunk = |count, memory, tags| Chunk { count, memory: Mebibytes(memory), tags };
    let shape = Shape {
        chunks: vec![
            chunk(4, 8192, Tags::of([("color", "yellow")])),
            chunk(2, 9000, Tags::default()),
        ],
        place: Place::Scatter,
        is_exclusive: true,
        group_by: Some("rack".into()),
        may_span: Some(false),
        elasticity: Some(Elasticity::Rigid),
        duration: Some(3_600_000),
        ..Shape::default()
    };
    assert_eq!(work.spec.shape.as_deref(), Some(&shape));
    assert_eq!((work.spec.memory, work.spec.threads), (Mebibytes(9000), 1));
    assert_eq!(work.spec.facts.remaining, 6);
    assert_eq!(work.spec.facts.limit, ProcessLimit::AtMost(6));
}

#[test]
fn sizes_are_taken_in_every_form() {
    let cases = [
        (json!("any"), LegalSizes::Any),
        (json!("power_of_two"), LegalSizes::PowerOfTwo),
        (json!("even"), LegalSizes::Even),
        (json!("odd"), LegalSizes::Odd),
        (json!({"multiple_of": 3}), LegalSizes::MultipleOf(3)),
        (json!([8, 2, 2]), LegalSizes::Listed(vec![2, 8])),
    ];
    for (written, sizes) in cases {
        let more = json!({
            "elasticity": "malleable", "min_processes": 2, "max_processes": 16,
            "legal_sizes": written
        });
        let (work, _) = read(&item(false, &more)).unwrap();
        let shape = work.spec.shape.unwrap();
        assert_eq!((&shape.legal_sizes, shape.min_processes), (&sizes, 2));
        assert_eq!(LegalSizes::from(&wire::SizeRule::from(&sizes)), sizes);
        assert_eq!(work.spec.facts.limit, ProcessLimit::AtMost(16));
    }
    let (plain, _) = read(&item(false, &json!({}))).unwrap();
    assert_eq!(plain.spec.shape, None);
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let chunk = |count: u64, memory: u64| json!({"count": count, "memory_mb": memory});
    let tagged = json!([{"count": 1, "memory_mb": 1, "tags": {"Color": "red"}}]);
    let cases = [
        (true, json!({"chunks": []}), "P033 /chunks", "empty"),
        (true, json!({"chunks": vec![chunk(1, 1); 65]}), "P033 /chunks", "at most 64"),
        (true, json!({"chunks": [chunk(1, 1), chunk(0, 1)]}), "P033 /chunks/1/count", "1"),
        (true, json!({"chunks": [chunk(1, 0)]}), "P033 /chunks/0/memory_mb", "1 MiB"),
        (true, json!({"chunks": [chunk(51, 1), chunk(50, 1)]}), "P033 /chunks", "is 100"),
        (true, json!({"chunks": 7}), "P033 /chunks", "an array"),
        (true, json!({"chunks": [7]}), "P018 /chunks/0", "object"),
        (true, json!({"chunks": [{"count": -1, "memory_mb": 1}]}), "P033 /chunks/0/count", "-1"),
        (true, json!({"chunks": [{"count": 1}]}), "P026 /chunks/0/memory_mb", "missing field"),
        (
            true,
            json!({"chunks": [{"count": 1, "memory_mb": 1, "tgas": {}}]}),
            "P015 /chunks/0/tgas",
            "did you mean `tags`?",
        ),
        (true, json!({"chunks": tagged}), "P032 /chunks/0/tags", "Color"),
        (true, json!({"memory_mb": 5}), "P033 /memory_mb", "leave this out"),
        (true, json!({"max_processes": 5}), "P033 /max_processes", "leave this out"),
        (true, json!({"tags": {"a": "b"}}), "P033 /tags", "leave this out"),
        (true, json!({"kind": "service"}), "P033 /chunks", "leave them out"),
        (true, json!({"group_by": "Rack"}), "P032 /group_by", "a-z"),
        (true, json!({"place": "spread"}), "P018 /place", "`free`, `scatter`, `pack`"),
        (true, json!({"elasticity": "soft"}), "P018 /elasticity", "`rigid`"),
        (false, json!({"legal_sizes": "prime"}), "P018 /legal_sizes", "`power_of_two`"),
        (false, json!({"legal_sizes": {"multiple_of": 0}}), "P034 /legal_sizes", "at least 1"),
        (false, json!({"legal_sizes": []}), "P034 /legal_sizes", "1 to 64"),
        (false, json!({"legal_sizes": vec![1; 65]}), "", ""),
        (false, json!({"min_processes": 4, "max_processes": 3}), "P034 /min_processes", "above"),
        (false, json!({"min_processes": -1}), "P034 /min_processes", "-1"),
        (
            false,
            json!({"min_processes": 5, "max_processes": 7, "legal_sizes": "power_of_two"}),
            "P034 /legal_sizes",
            "between 5 and 7",
        ),
        (
            true,
            json!({"chunks": [chunk(1, 1), chunk(1, 1)], "elasticity": "moldable"}),
            "P034 /elasticity",
            "rigid",
        ),
        (
            true,
            json!({"chunks": [chunk(2, 1), chunk(2, 1)], "min_processes": 2}),
            "P034 /min_processes",
            "rigid",
        ),
        (
            true,
            json!({"elasticity": "evolving", "min_processes": 2}),
            "P034 /min_processes",
            "no minimum",
        ),
        (
            false,
            json!({"kind": "service", "min_processes": 2}),
            "P034 /min_processes",
            "single process",
        ),
        (false, json!({"place": "pack"}), "P033 /place", "no chunks"),
        (false, json!({"exclusive": true}), "P033 /exclusive", "no chunks"),
        (false, json!({"duration_ms": 0}), "P031 /duration_ms", "cannot be"),
        (false, json!({"duration_ms": -5}), "P031 /duration_ms", "-5"),
        (false, json!({"duration_ms": 400_000_000_000_u64}), "P031 /duration_ms", "cannot be"),
        (false, json!({"memory_mb": null}), "P026 /memory_mb", "missing field `memory_mb`"),
    ];
    for (has_chunk, more, place, says) in cases {
        match read(&item(has_chunk, &more)) {
            Ok(_) => assert_eq!(place, "", "{more} is taken"),
            Err(fault) => {
                assert_eq!(format!("{} {}", fault.code.name(), fault.pointer), place, "{more}");
                assert!(fault.detail.contains(says), "{more}: {}", fault.detail);
            }
        }
    }
}

#[test]
fn only_an_evolving_gang_changes_its_count() {
    let gang = |elasticity: &str, count: u64, memory: u64| {
        let chunks = json!([{"count": count, "memory_mb": memory}]);
        item(true, &json!({"elasticity": elasticity, "chunks": chunks}))
    };
    let (work, warnings) = read_after(&gang("evolving", 3, 1), &gang("evolving", 5, 1)).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(work.spec.shape.unwrap().chunks[0].count, 3);
    assert_eq!(work.spec.facts.limit, ProcessLimit::AtMost(5));
    assert_eq!(work.spec.facts.remaining, 5);
    let refused = |before: &str, after: &str| {
        let fault = read_after(before, after).unwrap_err();
        assert_eq!(fault.code, Code::Immutable);
        fault.pointer
    };
    assert_eq!(refused(&gang("rigid", 3, 1), &gang("rigid", 5, 1)), "/chunks");
    assert_eq!(refused(&gang("evolving", 3, 1), &gang("evolving", 3, 2)), "/chunks");
    assert_eq!(refused(&gang("evolving", 3, 1), &gang("rigid", 3, 1)), "/elasticity");
    let with = |more: Value| item(true, &more);
    let plain = with(json!({}));
    assert_eq!(refused(&plain, &with(json!({"place": "pack"}))), "/place");
    assert_eq!(refused(&plain, &with(json!({"exclusive": true}))), "/exclusive");
    assert_eq!(refused(&plain, &with(json!({"group_by": "rack"}))), "/group_by");
    assert_eq!(refused(&plain, &with(json!({"span": true}))), "/span");
    assert_eq!(refused(&plain, &with(json!({"legal_sizes": "even"}))), "/legal_sizes");
    assert_eq!(refused(&plain, &item(false, &json!({}))), "/chunks");
}

#[test]
fn the_owner_changes_times_and_no_minimum() {
    let with = |more: Value| item(false, &more);
    let running = json!([{"share": 7, "node": "n1", "state": "running"}]);
    let cases = [
        (json!({"duration_ms": 5}), json!({"duration_ms": 9}), 0),
        (json!({"duration_ms": 9}), json!({"duration_ms": 5}), 0),
        (json!({"duration_ms": 9}), json!({}), 0),
        (json!({}), json!({"duration_ms": 5, "not_before_ms": 5, "deadline_ms": 6}), 0),
        (json!({"not_before_ms": 5, "deadline_ms": 9}), json!({"deadline_ms": 8}), 0),
        (
            json!({"duration_ms": 5, "processes": running}),
            json!({"duration_ms": 9, "processes": running}),
            1,
        ),
        (
            json!({"duration_ms": 9, "processes": running}),
            json!({"duration_ms": 5, "processes": running}),
            0,
        ),
    ];
    for (before, after, warned) in cases {
        let (work, warnings) = read_after(&with(before.clone()), &with(after.clone())).unwrap();
        let times = work.spec.times();
        let found = [times.duration, times.not_before, times.deadline];
        let asked = ["duration_ms", "not_before_ms", "deadline_ms"];
        let asked = asked.map(|field| after[field].as_u64());
        assert_eq!((found, warnings.len()), (asked, warned), "{before} {after}");
        let is_told = |fault: &RequestFault| {
            (fault.code, fault.pointer.as_str()) == (Code::BadTime, "/duration_ms")
        };
        assert!(warnings.iter().all(is_told), "{warnings:?}");
    }
    let bad = with(json!({"not_before_ms": 5, "deadline_ms": 4}));
    let bad = read_after(&with(json!({"not_before_ms": 3})), &bad).unwrap_err();
    assert_eq!((bad.code, bad.pointer.as_str()), (Code::BadTime, "/deadline_ms"));
    let minimum = |elasticity: &str, least: u64| {
        with(json!({"elasticity": elasticity, "min_processes": least}))
    };
    let (work, warnings) = read_after(&minimum("malleable", 2), &minimum("malleable", 3)).unwrap();
    assert_eq!(work.spec.shape.unwrap().min_processes, 2);
    assert_eq!(warnings[0].pointer, "/min_processes");
    let refused = read_after(&minimum("moldable", 2), &minimum("moldable", 3)).unwrap_err();
    assert_eq!(refused.pointer, "/min_processes");
}

#[test]
fn moments_and_a_reservation_are_taken_with_and_without_chunks() {
    let more = json!({"not_before_ms": 5, "deadline_ms": 6, "reservation": "r1"});
    for has_chunk in [false, true] {
        let (work, warnings) = read(&item(has_chunk, &more)).unwrap();
        assert_eq!(warnings, []);
        let shape = work.spec.shape.unwrap();
        assert_eq!((shape.not_before, shape.deadline), (Some(5), Some(6)));
        assert_eq!(shape.reservation.as_deref(), Some("r1"));
        assert!(shape.has_times());
    }
    let fault = |more: Value| {
        let fault = read(&item(false, &more)).unwrap_err();
        (fault.code, fault.pointer)
    };
    let bad_time = |field: &str| (Code::BadTime, format!("/{field}"));
    assert_eq!(fault(json!({"not_before_ms": 6, "deadline_ms": 6})), bad_time("deadline_ms"));
    assert_eq!(fault(json!({"not_before_ms": -1})), bad_time("not_before_ms"));
    assert_eq!(fault(json!({"deadline_ms": MOMENT_MAX + 1})), bad_time("deadline_ms"));
    assert_eq!(fault(json!({"reservation": "a b"})).0, Code::BadValue);
    let other = json!({"not_before_ms": 5, "deadline_ms": 6, "reservation": "r2"});
    let refused = read_after(&item(false, &more), &item(false, &other)).unwrap_err();
    assert_eq!((refused.code, refused.pointer.as_str()), (Code::Immutable, "/reservation"));
}

#[test]
fn a_class_without_gangs_names_the_classes_that_take_them() {
    let refusal = |has_chunk: bool, more: Value| {
        let (work, _) = read(&item(has_chunk, &more)).unwrap();
        admit(&topology(), &work.spec, JobChannel::Publication).err()
    };
    let not_allowed = |allowing: &[&str]| {
        Some(Refusal::GangNotAllowed {
            class: "plain".into(),
            allowing: allowing.iter().map(|&name| name.into()).collect(),
        })
    };
    let plain = |more: Value| {
        let mut more = more;
        more["class"] = json!("plain");
        more
    };
    assert_eq!(refusal(true, plain(json!({}))), not_allowed(&["batch"]));
    assert_eq!(refusal(true, plain(json!({"user": "bob"}))), not_allowed(&["batch", "closed"]));
    assert_eq!(refusal(false, plain(json!({"min_processes": 2}))), not_allowed(&["batch"]));
    assert_eq!(refusal(false, plain(json!({"legal_sizes": "odd"}))), not_allowed(&["batch"]));
    assert_eq!(refusal(false, plain(json!({"min_processes": 1, "duration_ms": 5}))), None);
    assert_eq!(refusal(true, json!({})), None);
    let too_long = refusal(true, json!({"duration_ms": DURATION_MAX})).unwrap();
    assert_eq!(
        too_long,
        Refusal::TooLong { class: "batch".into(), duration: DURATION_MAX, most: DURATION_MAX - 1 }
    );
    assert_eq!(refusal(true, json!({"duration_ms": DURATION_MAX - 1})), None);
}
