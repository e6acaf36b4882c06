//! Configurations that are accepted, and the problems of refused files.

use std::fmt::Write;

use serde_json::Value;

use super::section::Asked;
use super::*;
use crate::model::{ClassIx, ClassPolicy, GangRules, Mebibytes, Millis, PoolIx, Quantum};

const SAMPLE: &str = include_str!("../../config/apportion.toml");

/// Smallest valid file.
const SMALL: &str =
    "[[nodepool]]\nname = \"p\"\n[[class]]\nname = \"c\"\npolicy = \"reserve\"\nnodepool = \"p\"\n";

/// The problems with `text`, each as "C010 line:column path".
fn places(text: &str) -> Vec<String> {
    let problems = parse("test.toml", text).unwrap_err();
    problems.iter().map(place).collect()
}

fn place(problem: &ConfigProblem) -> String {
    let at = match (problem.line, problem.column) {
        (Some(line), Some(column)) => format!("{line}:{column}"),
        _ => problem.outside.clone().unwrap_or_default(),
    };
    format!("{} {at} {}", problem.code, problem.path)
}

#[test]
fn the_sample_loads() {
    let config = parse("apportion.toml", SAMPLE).unwrap_or_else(|problems| panic!("{problems}"));
    let topology = &config.topology;
    assert_eq!(topology.pools.len(), 2);
    assert_eq!(topology.pools[PoolIx(1)].parent, Some(PoolIx(0)));
    assert_eq!(topology.pools[PoolIx(0)].nodes.len(), 24);
    assert_eq!(topology.pools_by_node()["gpu03"], PoolIx(1));
    let names: Vec<_> = topology.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["normal", "weekly", "fixed", "wide", "night", "alarm", "reserve"]);
    let wide = GangRules {
        are_allowed: true,
        default_duration: Some(3_600_000),
        max_duration: Some(24 * 3_600_000),
        ..GangRules::default()
    };
    assert_eq!(topology.classes[ClassIx(3)].gangs, wide);
    assert_eq!(topology.classes[ClassIx(2)].gangs, GangRules::default());
    let hours = config.calendar.text("night");
    assert_eq!(hours.as_deref(), Some("mon-fri 20:00-06:00, sat-sun (UTC)"));
    assert_eq!(config.calendar.classes.len(), 1);
    assert_eq!(topology.tagging.sets, ["rack"]);
    assert!(topology.tagging.may_span);
    assert_eq!(topology.tagging.preferences()["node07"], 0);
    assert_eq!(topology.classes[ClassIx(1)].policy, ClassPolicy::FairShare { weight: 50 });
    assert_eq!(topology.classes[ClassIx(1)].cap_rules.prediction_fudge, 30_000);
    assert!(!topology.classes[ClassIx(1)].is_default && topology.classes[ClassIx(0)].is_default);
    assert!(
        topology.classes[ClassIx(1)].admits("bob") && !topology.classes[ClassIx(1)].admits("eve")
    );
    assert_eq!(topology.allotment_of("ann"), Some(Mebibytes::from_gib(720)));
    assert_eq!(topology.allotment_of("bob"), Some(Mebibytes::from_gib(360)));
    assert_eq!(topology.urgent_allotment_of("ann"), Some(Mebibytes::from_gib(60)));
    assert_eq!(topology.urgent_allotment_of("bob"), Some(Mebibytes(0)));
    let urgent = topology.classes.iter().filter(|class| class.is_urgent);
    assert_eq!(urgent.map(|class| class.name.as_str()).collect::<Vec<_>>(), ["alarm"]);
}

/// The sample claims to state the defaults. A file without those settings must load the same,
/// except for settings that the sample changes on purpose.
#[test]
fn the_sample_states_the_defaults() {
    let sample = parse("apportion.toml", SAMPLE).unwrap();
    let small = parse("small.toml", SMALL).unwrap();
    assert_eq!(small.daemon, DaemonSettings::default());
    assert_eq!(sample.daemon, small.daemon);
    let mut settings = sample.topology.settings;
    settings.allotment = None;
    assert_eq!(small.topology.settings, settings);
    assert_eq!(small.topology.pools[PoolIx(0)].quantum, sample.topology.pools[PoolIx(0)].quantum);
    let rules = |config: &Config| {
        config.topology.classes.iter().next_back().map(|class| (class.cap_rules, class.priority))
    };
    assert_eq!(rules(&small), rules(&sample));
}

/// Every key that the loader reads is in the sample, in its own section, with an explanation.
#[test]
fn the_sample_has_every_setting_and_says_what_it_means() {
    let asked = schema::every_setting();
    assert!(40 < asked.len());
    let documented = schema::descriptions(SAMPLE);
    let mut sections: Vec<Vec<&str>> = Vec::new();
    for line in SAMPLE.lines() {
        if line.starts_with('[') {
            sections.push(vec![line.trim_matches(['[', ']'])]);
        } else if let Some(section) = sections.last_mut() {
            section.push(line);
        }
    }
    for Asked { section, key, .. } in asked {
        // An example of a cluster would be a cluster: the sample has it as a comment. So with rules.
        if ["cluster", "admission"].contains(&section) {
            let says =
                |line: &str| line.starts_with(&format!("# {key} = ")) && line.contains("  # ");
            assert!(SAMPLE.lines().any(says), "{section}.{key} is not explained");
            continue;
        }
        let is_set = |lines: &&Vec<&str>| {
            lines[0] == section && lines.iter().any(|line| line.starts_with(&format!("{key} = ")))
        };
        assert_eq!(sections.iter().filter(is_set).take(1).count(), 1, "{section}.{key} is not set");
        // The sample explains the growth of classes in the section `scheduler`, where the same
        // settings hold for all classes.
        let is_explained = |section: &str| documented.contains_key(&format!("{section}.{key}"));
        assert!(
            is_explained(section) || (section == "class" && is_explained("scheduler")),
            "{section}.{key} is not explained"
        );
    }
}

/// A sample with an unknown setting is refused, so the sample has exactly the known settings.
#[test]
fn the_schema_takes_the_sample_and_refuses_what_the_loader_refuses() {
    let schema = schema();
    let sample: toml::Table = SAMPLE.parse().unwrap();
    assert_eq!(violations(&schema, &serde_json::to_value(sample).unwrap(), ""), [""; 0]);
    let wrong = [
        ("wieght = 1", "/class/0/wieght: unknown"),
        ("[scheduler]\nnode_stability = 0", "/scheduler/node_stability: range"),
        ("[scheduler]\nprediction = 'yes'", "/scheduler/prediction: not a boolean"),
        ("[[class]]\nname='d'\npolicy='fairshare'\nnodepool='p'", "/class/1/policy: no such word"),
        ("[[user]]\nallotment='1GB'", "/user/0/name: missing"),
        ("[daemon.limits]\nmax_nodes = '7'", "/daemon/limits/max_nodes: not a integer"),
        ("[[nodepool]]\nname='a'\nnodes=['n1', 5]", "/nodepool/1/nodes/1: not a string"),
    ];
    for (addition, expected) in wrong {
        let text = format!("{SMALL}{addition}");
        assert!(parse("test.toml", &text).is_err(), "{addition}");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(violations(&schema, &serde_json::to_value(table).unwrap(), ""), [expected]);
    }
    let quantum = &schema["properties"]["scheduler"]["properties"]["quantum"];
    assert_eq!(quantum["default"], "15GB");
    assert!(quantum["description"].as_str().unwrap().starts_with("The smallest allocation;"));
}

/// Checks `value` against the parts of JSON schema that the configuration uses, without patterns.
fn violations(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let kind = schema["type"].as_str().unwrap();
    let is_right = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        other => panic!("{path}: what is a {other}?"),
    };
    if !is_right {
        return vec![format!("{path}: not a {kind}")];
    }
    let mut found = Vec::new();
    for key in schema["required"].as_array().into_iter().flatten() {
        if value.get(key.as_str().unwrap()).is_none() {
            found.push(format!("{path}/{}: missing", key.as_str().unwrap()));
        }
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => found.extend(violations(schema, value, &format!("{path}/{key}"))),
            None => found.push(format!("{path}/{key}: unknown")),
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(violations(&schema["items"], item, &format!("{path}/{index}")));
    }
    let is_below = schema["minimum"].as_i64().is_some_and(|least| value.as_i64() < Some(least));
    let is_above = schema["maximum"].as_i64().is_some_and(|most| Some(most) < value.as_i64());
    if is_below || is_above {
        found.push(format!("{path}: range"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        found.push(format!("{path}: no such word"));
    }
    found
}

/// Returns the rows of the listing as "path = value < origin", for paths with this prefix.
fn listed(config: &Config, prefix: &str) -> Vec<String> {
    let rows = config.listing.rows().filter(|row| row.path.starts_with(prefix));
    let row = |row: &Row| {
        let value = row.value.as_deref().unwrap_or("not set");
        format!("{} = {value} < {}", row.path, row.origin)
    };
    rows.map(row).collect()
}

#[test]
fn every_setting_in_effect_is_listed_with_who_set_it() {
    let text = "[scheduler]\nquantum = '2048MB'\nprediction_fudge = '90s'\n\
        [[nodepool]]\nname = 'p'\nnodes = ['n1', 'n[2-3]']\n\
        [[class]]\nname = 'base'\nabstract = true\npolicy = 'fair-share'\nnodepool = 'p'\n\
        [[class]]\nname = 'c'\ninherit = 'base'\nweight = 7\nprediction = false\n\
        [[class]]\nname = 'r'\npolicy = 'reserve'\nnodepool = 'p'\n\
        [[user]]\nname = 'ann'\nallotment = '1024GB'\n";
    let overrides = Overrides::of(&[("APPORTION__SCHEDULER__NODE_STABILITY", "3")]);
    let flag = |path: &str, value: &str| Flag {
        path: path.to_owned(),
        value: value.to_owned(),
        flag: "--set".to_owned(),
    };
    let flags = [flag("daemon.listen", "[::1]:80"), flag("scheduler.node_stability", "4")];
    let config = parse_over("test.toml", text, overrides.with(&flags)).unwrap();
    assert_eq!(config.topology.settings.node_stability, 4, "flags are above variables");
    let single = listed(&config, "");
    for expected in [
        "daemon.listen = \"[::1]:80\" < flag, --set",
        "daemon.limits.body_bytes = \"50MB\" < default",
        "scheduler.quantum = \"2GB\" < line 2",
        "scheduler.node_stability = 4 < flag, --set",
        "scheduler.allotment = not set < default",
        "scheduler.prediction_fudge = \"90s\" < line 3",
        "scheduler.loss_limit = \"2000s\" < default",
        "nodepool.p.quantum = \"2GB\" < default",
        "nodepool.p.nodes = [\"n1\", \"n[2-3]\"] < line 6",
        "user.ann.allotment = \"1024GB\" < line 23",
    ] {
        assert!(single.iter().any(|row| row == expected), "{expected}: {single:#?}");
    }
    assert_eq!(
        listed(&config, "class.c."),
        [
            "class.c.policy = \"fair-share\" < line 10",
            "class.c.nodepool = \"p\" < line 11",
            "class.c.priority = 10 < default",
            "class.c.weight = 7 < line 15",
            "class.c.default = false < default",
            "class.c.users = not set < default",
            "class.c.active = not set < default",
            "class.c.gangs = false < default",
            "class.c.patience = 5 < default",
            "class.c.hold_limit = \"1h\" < default",
            "class.c.default_duration = not set < default",
            "class.c.max_duration = not set < default",
            "class.c.on_overrun = \"wait\" < default",
            "class.c.initialization_cap = 1 < default",
            "class.c.expand_by_doubling = true < default",
            "class.c.prediction = false < line 16",
            "class.c.prediction_fudge = \"90s\" < line 3",
            "class.c.loss_limit = \"2000s\" < default",
        ]
    );
    assert_eq!(listed(&config, "class.base"), [""; 0]);
    assert_eq!(listed(&config, "class.r.").len(), 6, "only fair-share classes grow");
}

/// The listing, written into a file, loads as the same configuration: so the listing is complete.
#[test]
fn the_listing_says_it_all() {
    let sample = parse("apportion.toml", SAMPLE).unwrap();
    let mut text = String::new();
    for row in sample.listing.rows() {
        let mut parts: Vec<&str> = row.path.split('.').collect();
        let key = parts.pop().unwrap();
        let lists = ["nodepool", "class", "user", "tags"];
        let entry = lists.contains(&parts[0]).then(|| parts.pop().unwrap());
        let section = match entry {
            // Sections of tags have no name, only a place.
            Some(place) if parts[0] == "tags" => format!("[[tags]]\n# {place}\n"),
            Some(name) => format!("[[{}]]\nname = '{name}'\n", parts[0]),
            None => format!("[{}]\n", parts.join(".")),
        };
        if !text.contains(&section) {
            text.push_str(&section);
        }
        if let Some(value) = row.value.as_ref().filter(|_| row.path != "nodepool.gpu.quantum") {
            writeln!(text, "{key} = {value}").unwrap();
        }
    }
    let again = parse("again.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((again.daemon, again.topology), (sample.daemon, sample.topology));
    assert_eq!(sample.listing.changes_to(&again.listing), []);
}

#[test]
fn users_have_weights_in_the_grid() {
    let text = format!(
        "{SMALL}[[user]]\nname = 'ann'\ngrid_weight = 3\n[[user]]\nname = 'bob'\nallotment = '1GB'\n"
    );
    let grid = parse("test.toml", &text).unwrap().grid;
    let weights: Vec<(&str, u64)> =
        grid.weights.iter().map(|(user, weight)| (user.as_str(), *weight)).collect();
    assert_eq!(weights, [("ann", 3), ("bob", 1)]);
    let none = format!("{SMALL}[[user]]\nname = 'ann'\n");
    let problems = parse("test.toml", &none).unwrap_err().to_string();
    assert!(problems.contains("no `allotment`, `urgent_allotment` or `grid_weight`"), "{problems}");
}

#[test]
fn differences_are_told_setting_by_setting() {
    let text = |text: &str| parse("test.toml", &format!("{SMALL}{text}")).unwrap().listing;
    let before = text("[scheduler]\nquantum = '16GB'\n[[nodepool]]\nname = 'old'\nnodes=['n1']");
    let after = text(
        "[scheduler]\nquantum = '16384MB'\nallotment = '1GB'\n[[user]]\nname='u'\nallotment='2GB'",
    );
    let changes = before.changes_to(&after).into_iter().map(|change| {
        let side = |side: Option<String>| side.unwrap_or_default();
        format!("{}: {} -> {}", change.path, side(change.before), side(change.after))
    });
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [
            "scheduler.allotment:  -> \"1GB\"",
            "nodepool.old.search_order: 100 -> ",
            "nodepool.old.quantum: \"16GB\" -> ",
            "nodepool.old.nodes: [\"n1\"] -> ",
            "user.u.allotment:  -> \"2GB\"",
            "user.u.urgent_allotment:  -> \"0GB\"",
            "user.u.grid_weight:  -> 1",
        ]
    );
}

/// A single slip is a single problem at its own place, though it confuses the parser to the end of
/// the file.
#[test]
fn what_is_never_closed_is_named_once() {
    let cases = [
        ("[[nodepool]]\nname = 'q'\nnodes = ['a',\n[[class]]\nname = 'd'\n", "C005 9:9 "),
        ("[[nodepool]]\nname = 'q'\nnodes = ['a', # ]\n  'b'\nsearch_order = 3\n", "C005 9:9 "),
        ("[[nodepool]]\nname = 'q'\nnodes = [\n'[', ']'\n", "C005 9:9 "),
        ("user = { name = 'u',\n[daemon]\n", "C005 7:8 "),
    ];
    for (addition, expected) in cases {
        assert_eq!(places(&format!("{SMALL}{addition}")), [expected], "{addition}");
    }
    let problems = parse("t", &format!("{SMALL}{}", cases[0].0)).unwrap_err().to_string();
    assert!(problems.contains("this `[` is never closed"), "{problems}");
    assert!(problems.contains("the file goes on here"), "{problems}");
}

#[test]
fn remedies_fit_the_slip() {
    let cases = [
        ("[scheduler]\nquantum = 15GB", "write it in quotes: \"15GB\""),
        ("Class normal { policy = FAIR_SHARE }", "`apportion config import-ducc` translates it"),
        ("[daemon]\nlisten =", "the file is TOML 1.1"),
        ("[[tags]]\nset = 'gpu=a100'", "write `set = [\"gpu=a100\"]`"),
        ("[[tags]]\nset = { gpu = 'a100', ssd = 'true' }", "`set = [\"gpu=a100\", \"ssd=true\"]`"),
        ("[[tags]]\nset = 7", "write `set = [\"…\", \"…\"]`"),
    ];
    for (addition, remedy) in cases {
        let problems = parse("t", &format!("{SMALL}{addition}")).unwrap_err();
        let remedies: Vec<_> = problems.iter().map(|problem| &problem.remedy).collect();
        assert!(remedies[0].contains(remedy), "{addition}: {remedies:?}");
    }
}

#[test]
fn sizes_and_times_have_units() {
    let cases = [
        ("15GB", 15 << 10),
        ("15GiB", 15 << 10),
        ("15 gb", 15 << 10),
        ("1536MB", 1536),
        ("2T", 2 << 20),
    ];
    for (written, mebibytes) in cases {
        let text = format!("{SMALL}[scheduler]\nquantum = \"{written}\"");
        let quantum = parse("test.toml", &text).unwrap().topology.pools[PoolIx(0)].quantum;
        assert_eq!(Some(quantum), Quantum::new(Mebibytes(mebibytes)), "{written}");
    }
    let cases: [(&str, Millis); 4] =
        [("10s", 10_000), ("500ms", 500), ("1m 30s", 90_000), ("PT2M", 120_000)];
    for (written, millis) in cases {
        let text = format!("{SMALL}[scheduler]\npublication_period = \"{written}\"");
        assert_eq!(
            parse("test.toml", &text).unwrap().topology.settings.publication_period,
            millis,
            "{written}"
        );
    }
}

/// Parents after children, quanta from the top, siblings in their own order.
#[test]
fn pools_come_in_the_order_of_the_tree() {
    let text = "nodepool = [\n{ name = 'top' },\n{ name = 'leaf', parent = 'b' },\n{ name = 'a', parent = 'other' },\n\
        { name = 'b', parent = 'other' },\n{ name = 'other', quantum = '1GB' } ]\n\
        [[class]]\nname = 'c'\npolicy = 'reserve'\nnodepool = 'leaf'\n";
    let topology = parse("test.toml", text).unwrap().topology;
    let pools =
        topology.pools.iter().map(|pool| (pool.name.as_str(), pool.parent.map(|parent| parent.0)));
    let in_order =
        [("top", None), ("other", None), ("a", Some(1)), ("b", Some(1)), ("leaf", Some(3))];
    assert_eq!(pools.collect::<Vec<_>>(), in_order);
    assert_eq!(topology.classes[ClassIx(0)].pool, PoolIx(4));
    assert_eq!(topology.pools[PoolIx(4)].quantum.memory(), Mebibytes::from_gib(1));
}

#[test]
fn classes_inherit_what_they_do_not_set() {
    let text = "[[nodepool]]\nname = 'p'\n\
        [[class]]\nname = 'grandchild'\ninherit = 'child'\nweight = 3\nusers = []\n\
        [[class]]\nname = 'base'\nabstract = true\npolicy = 'fair-share'\nnodepool = 'p'\nweight = 1\nprediction = false\n\
        [[class]]\nname = 'child'\ninherit = 'base'\npriority = 12\nweight = 2\ndefault = true\nabstract = false\n";
    let classes = parse("test.toml", text).unwrap().topology.classes;
    let seen = classes.iter().map(|class| {
        (class.name.as_str(), class.policy.weight(), class.priority, class.is_default)
    });
    assert_eq!(seen.collect::<Vec<_>>(), [("grandchild", 3, 12, false), ("child", 2, 12, true)]);
    assert!(
        classes
            .iter()
            .all(|class| !class.cap_rules.prediction && class.cap_rules.expand_by_doubling)
    );
    assert!(!classes[ClassIx(0)].admits("ann") && classes[ClassIx(1)].admits("ann"));
}

#[test]
fn classes_inherit_the_settings_for_gangs() {
    let text = "[[nodepool]]\nname = 'p'\n\
        [[class]]\nname = 'base'\nabstract = true\npolicy = 'fixed-share'\nnodepool = 'p'\n\
        gangs = true\npatience = 0\nhold_limit = '2m'\nmax_duration = '3s'\non_overrun = 'end'\n\
        [[class]]\nname = 'heir'\ninherit = 'base'\npatience = 7\ndefault_duration = '1s'\n\
        [[class]]\nname = 'other'\ninherit = 'base'\ngangs = false\n";
    let classes = parse("test.toml", text).unwrap().topology.classes;
    let heir = GangRules {
        are_allowed: true,
        patience: 7,
        hold_limit: 120_000,
        default_duration: Some(1_000),
        max_duration: Some(3_000),
        ends_overruns: true,
    };
    assert_eq!(classes[ClassIx(0)].gangs, heir);
    let other = GangRules { are_allowed: false, patience: 0, default_duration: None, ..heir };
    assert_eq!(classes[ClassIx(1)].gangs, other);
    let reserve = parse("t", &format!("{SMALL}gangs = false\nmax_duration = '1h'")).unwrap();
    assert_eq!(reserve.topology.classes[ClassIx(0)].gangs.max_duration, Some(3_600_000));
}

#[test]
fn classes_inherit_their_hours_and_may_be_always_open_again() {
    let text = "[scheduler]\ntimezone = 'europe/vienna'\n[[nodepool]]\nname = 'p'\n\
        [[class]]\nname = 'base'\nabstract = true\npolicy = 'fair-share'\nnodepool = 'p'\n\
        active = ['fri-mon 20:00-24:00']\n\
        [[class]]\nname = 'heir'\ninherit = 'base'\n\
        [[class]]\nname = 'day'\ninherit = 'base'\nactive = ['Mon 8:00-16:00', 'tue']\n\
        [[class]]\nname = 'all'\ninherit = 'base'\nactive = ['mon-sun']\n";
    let calendar = parse("test.toml", text).unwrap().calendar;
    let hours = |class| calendar.text(class);
    assert_eq!(hours("heir").as_deref(), Some("fri-mon 20:00-24:00 (Europe/Vienna)"));
    assert_eq!(hours("day").as_deref(), Some("mon 08:00-16:00, tue (Europe/Vienna)"));
    assert_eq!((hours("all"), hours("base")), (None, None));
    let plain = parse("test.toml", SMALL).unwrap().calendar;
    assert_eq!(plain, ClassCalendar::default());
}

#[test]
fn wrong_hours_name_their_remedy() {
    let cases = [
        ("active = ['mon-fry']", "`fry` is not a day", "\"mon-fri 20:00-06:00\""),
        ("active = []", "class `c` is never open", "`users = []`"),
        ("active = ['sat-fri']", "class `c` is always open", "remove `active`"),
        ("[scheduler]\ntimezone = 'Europe/Viena'", "not a time zone", "`Europe/Vienna`?"),
        ("[scheduler]\ntimezone = 'zzz/none/x'", "not a time zone", "`timedatectl"),
    ];
    for (addition, problem, remedy) in cases {
        let problems = parse("test.toml", &format!("{SMALL}{addition}")).unwrap_err();
        let found = problems.iter().next().unwrap();
        assert!(found.message.contains(problem), "{}", found.message);
        assert!(found.remedy.contains(remedy), "{}", found.remedy);
    }
}

/// Tags of a node that no nodepool lists are a slip, unless a nodepool takes any node.
#[test]
fn tags_are_for_nodes_that_a_nodepool_lists() {
    let tags = "[[tags]]\nnodes = ['n[1-3]']\n[[tags]]\nnodes = ['n2', 'n[3-5]', 'm1']\n";
    let file = |pool: &str| format!("{}{tags}", SMALL.replacen("\"p\"\n", pool, 1));
    assert!(parse("test.toml", &file("\"p\"\n")).is_ok());
    assert!(parse("test.toml", &file("\"p\"\nnodes = ['n[1-9]', 'm1']\n")).is_ok());
    let listed = file("\"p\"\nnodes = ['n[1-3]']\n");
    assert_eq!(places(&listed), ["C018 11:16 tags[1].nodes", "C018 11:26 tags[1].nodes"]);
    let problems = parse("test.toml", &listed).unwrap_err();
    let first = problems.iter().next().unwrap();
    assert_eq!(first.message, "`n[4-5]` are in no nodepool");
    assert!(first.remedy.contains("list the nodes in a nodepool"), "{}", first.remedy);
}

#[test]
fn later_tags_replace_the_preference() {
    let tags = "[[tags]]\nnodes = ['n[1-3]']\npreference = -5\n[[tags]]\nnodes = ['n2']\n\
        set = ['a=b']\n[[tags]]\nnodes = ['n3']\npreference = 9\n";
    let config = parse("test.toml", &format!("{SMALL}{tags}")).unwrap();
    let preferences = config.topology.tagging.preferences();
    let preferences: Vec<i32> = preferences.into_values().collect();
    assert_eq!(preferences, [-5, -5, 9]);
}

/// Additions to a small valid file, and the problems that each causes. The rows are the rows of the
/// list of bad inputs; the addition begins at line 7.
const MISTAKES: &[(&str, &[&str])] = &[
    // Row 54: not TOML.
    ("[daemon", &["C005 7:8 "]),
    ("[daemon]\nlisten =", &["C005 8:9 "]),
    ("[daemon]\nlisten = \"x", &["C005 8:12 "]),
    // Row 55: twice.
    ("[scheduler]\nquantum = '1GB'\nquantum = '2GB'", &["C006 9:1 quantum"]),
    ("[[nodepool]]\nname = 'p'", &["C006 8:8 nodepool.p.name"]),
    ("[[class]]\nname = 'c'\npolicy = 'reserve'\nnodepool = 'p'", &["C006 8:8 class.c.name"]),
    (
        "[[user]]\nname='u'\nallotment='1GB'\n[[user]]\nname='u'\nallotment='1GB'",
        &["C006 11:6 user.u.name"],
    ),
    // Rows 56 and 57: pools that are not there, or in themselves.
    (
        "[[nodepool]]\nname='a'\nparent='d'\n[[nodepool]]\nname='d'\nparent='e'\n[[nodepool]]\nname='e'\nparent='a'",
        &["C007 9:8 nodepool.a.parent"],
    ),
    ("[[nodepool]]\nname='a'\nparent='a'", &["C007 9:8 nodepool.a.parent"]),
    ("[[nodepool]]\nname='a'\nparent='q'", &["C008 9:8 nodepool.a.parent"]),
    ("[[class]]\nname='d'\npolicy='reserve'\nnodepool='q'", &["C009 10:10 class.d.nodepool"]),
    // Row 58: unknown words.
    ("[scheduler]\nquantom = 1", &["C010 8:1 scheduler.quantom"]),
    ("[schedular]\nx = 1", &["C010 7:2 schedular"]),
    ("wieght = 1", &["C010 7:1 class.c.wieght"]),
    ("[[class]]\nname='d'\npolicy='FAIR_SHARE'\nnodepool='p'", &["C010 9:8 class.d.policy"]),
    // Row 59: inheritance.
    (
        "[[class]]\nname='d'\ninherit='e'\n[[class]]\nname='e'\ninherit='d'",
        &["C011 9:9 class.d.inherit"],
    ),
    ("[[class]]\nname='d'\nabstract=true\ndefault=true", &["C012 10:9 class.d.default"]),
    ("[[class]]\nname='d'\ninherit='q'", &["C024 9:9 class.d.inherit"]),
    // Rows 60 and 61: classes that contradict each other.
    (
        "default = true\n[[class]]\nname='d'\npolicy='reserve'\nnodepool='p'\ndefault=true",
        &["C013 12:9 class.d.default"],
    ),
    (
        "[[class]]\nname='d'\npolicy='fixed-share'\nnodepool='p'\npriority=1",
        &["C014 11:10 class.d.priority"],
    ),
    (
        "priority = 10\n[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'",
        &["C014 9:6 class.d.priority"],
    ),
    // Row 62: weights.
    (
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\nweight=0",
        &["C015 11:8 class.d.weight"],
    ),
    (
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\nweight=-3",
        &["C015 11:8 class.d.weight"],
    ),
    (
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\nweight=1_000_001",
        &["C015 11:8 class.d.weight"],
    ),
    (
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\nweight='1'",
        &["C015 11:8 class.d.weight"],
    ),
    ("weight = 5", &["C025 7:10 class.c.weight"]),
    (
        "initialization_cap = 5\nprediction_fudge = '1s'",
        &["C025 7:22 class.c.initialization_cap", "C025 8:20 class.c.prediction_fudge"],
    ),
    // Row 63: quanta.
    ("[scheduler]\nquantum = '0GB'", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = -1", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = 15", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = 'much'", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = '1.5GB'", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = '512KB'", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = 'GB'", &["C016 8:11 scheduler.quantum"]),
    ("[scheduler]\nquantum = '99999999999999999999TB'", &["C016 8:11 scheduler.quantum"]),
    ("[[nodepool]]\nname='a'\nparent='p'\nquantum='1GB'", &["C016 10:9 nodepool.a.quantum"]),
    // Row 64: allotments.
    ("[scheduler]\nallotment = true", &["C017 8:13 scheduler.allotment"]),
    ("[[user]]\nname='u'\nallotment='-1GB'", &["C017 9:11 user.u.allotment"]),
    ("[[user]]\nname='u'", &["C023 8:6 user.u"]),
    // Row 65: nodes.
    ("[[nodepool]]\nname='a'\nnodes=['n1', 'n[1-3]']", &["C018 9:14 nodepool.a.nodes"]),
    ("[[nodepool]]\nname='a'\nnodes=['n1,n1']", &["C018 9:8 nodepool.a.nodes"]),
    (
        "[[nodepool]]\nname='a'\nnodes=['n[3-1]', 5]",
        &["C018 9:8 nodepool.a.nodes", "C018 9:18 nodepool.a.nodes"],
    ),
    ("[[nodepool]]\nname='a'\nnodes=['']", &["C018 9:8 nodepool.a.nodes"]),
    ("[[nodepool]]\nname='a'\nnodes='n1'", &["C022 9:7 nodepool.a.nodes"]),
    (
        "[daemon.limits]\nmax_nodes=2\n[[nodepool]]\nname='a'\nnodes=['n[1-3]']",
        &["C018 11:8 nodepool.a.nodes"],
    ),
    // Row 66: ranges.
    ("[scheduler]\ninitialization_cap = 0", &["C019 8:22 scheduler.initialization_cap"]),
    ("[scheduler]\nfragmentation_threshold = 0", &["C019 8:27 scheduler.fragmentation_threshold"]),
    ("[scheduler]\nnode_stability = 0", &["C019 8:18 scheduler.node_stability"]),
    ("[scheduler]\nmass_loss_percent = 101", &["C019 8:21 scheduler.mass_loss_percent"]),
    ("[scheduler]\nnode_stability = 99999999999999999999", &["C019 8:18 scheduler.node_stability"]),
    ("[scheduler]\nprediction_fudge = '-1s'", &["C019 8:20 scheduler.prediction_fudge"]),
    ("[orchestrator]\nlease = '0s'", &["C019 8:9 orchestrator.lease"]),
    ("[orchestrator]\nlinger = 10", &["C022 8:10 orchestrator.linger"]),
    ("[orchestrator]\ntest_class = 'a b'", &["C019 8:14 orchestrator.test_class"]),
    ("[orchestrator]\nretention_days = 0", &["C019 8:18 orchestrator.retention_days"]),
    ("[orchestrator]\nretention_rows = '5M'", &["C022 8:18 orchestrator.retention_rows"]),
    ("[orchestrator]\nretention_days = 401", &["C019 8:18 orchestrator.campaign_retention_days"]),
    ("[daemon]\nheartbeat_interval = '0s'", &["C019 8:22 daemon.heartbeat_interval"]),
    ("[daemon]\ncycle_period = '2h'", &["C019 8:16 daemon.cycle_period"]),
    ("[daemon.journal]\ncycles = 0", &["C019 8:10 daemon.journal.cycles"]),
    (
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\ninitialization_cap=0",
        &["C019 11:20 class.d.initialization_cap"],
    ),
    (
        "[scheduler]\ninitialization_cap=0\nexpand_by_doubling=false\n\
             [[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\nexpand_by_doubling=true",
        &["C019 8:20 class.d.initialization_cap"],
    ),
    ("[[user]]\nname='a b'\nallotment='1GB'", &["C019 8:6 user[0].name"]),
    // Row 68: addresses.
    ("[daemon]\nlisten = '0.0.0.0:7070'", &["C021 8:10 daemon.listen"]),
    ("[daemon]\nlisten = '[::]:7070'", &["C021 8:10 daemon.listen"]),
    (
        "[daemon]\nlisten = '0.0.0.0:7070'\n[daemon.access]\ntokens = '/t'",
        &["C021 8:10 daemon.listen"],
    ),
    (
        "[daemon]\nlisten = '0.0.0.0:7070'\n[daemon.access]\ncertificate = '/c'\nkey = '/k'",
        &["C021 8:10 daemon.listen"],
    ),
    ("[daemon.access]\ncertificate = '/c'", &["C020 8:15 daemon.access.certificate"]),
    ("[daemon.access]\nkey = '/k'", &["C020 8:7 daemon.access.key"]),
    ("[daemon.access]\noperators = 'ann'", &["C022 8:13 daemon.access.operators"]),
    ("[daemon]\nlisten = 'localhost:7070'", &["C022 8:10 daemon.listen"]),
    // Kinds.
    ("[daemon]\ncycle_period = 10", &["C022 8:16 daemon.cycle_period"]),
    ("[daemon]\nstate = ''", &["C022 8:9 daemon.state"]),
    ("[scheduler]\nprediction = 1", &["C022 8:14 scheduler.prediction"]),
    ("[scheduler]\nnode_stability = 1.5", &["C022 8:18 scheduler.node_stability"]),
    ("[user]\nname = 'u'", &["C022 7:1 user"]),
    // Gangs.
    (
        "[[class]]\nname='d'\npolicy='reserve'\nnodepool='p'\ngangs=true\npatience=3\nhold_limit='2h'",
        &[
            "C025 11:7 class.d.gangs",
            "C025 12:10 class.d.patience",
            "C025 13:12 class.d.hold_limit",
        ],
    ),
    ("patience = 1001", &["C019 7:12 class.c.patience"]),
    ("hold_limit = '1001h'", &["C019 7:14 class.c.hold_limit"]),
    ("on_overrun = 'stop'", &["C010 7:14 class.c.on_overrun"]),
    (
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\non_overrun='end'",
        &["C025 11:12 class.d.on_overrun"],
    ),
    ("max_duration = '0s'", &["C019 7:16 class.c.max_duration"]),
    ("default_duration = '87601h'", &["C019 7:20 class.c.default_duration"]),
    ("default_duration = '2h'\nmax_duration = '1h'", &["C019 7:20 class.c.default_duration"]),
    ("[grid]\npolicy = 'lottery'", &["C019 8:10 grid.policy"]),
    ("[grid]\nflood_percent = -1", &["C019 8:17 grid.flood_percent"]),
    ("[grid]\nstrictness = 'lax'", &["C019 8:14 grid.strictness"]),
    ("[[cluster]]\nname = 'a'\nurl = 'nowhere'", &["C019 9:7 cluster.a.url"]),
    ("[[cluster]]\nname = 'local'\nurl = 'http://h'", &["C019 8:8 cluster.local.name"]),
    ("[[admission]]\nname = 'a'", &["C023 8:8 admission.a.name"]),
    ("[[admission]]\nname = 'a'\nmax_tasks = 0", &["C019 9:13 admission.a.max_tasks"]),
    (
        "[[admission]]\nname = 'a'\nmax_taks = 9",
        &["C023 8:8 admission.a.name", "C010 9:1 admission.a.max_taks"],
    ),
    ("[[admission]]\nname = 'a'\ntypes = ['tset']\nmax_live = 1", &["C010 9:10 admission.a.types"]),
    (
        "[[admission]]\nname = 'a'\nclasses = ['d']\nmax_live = 1",
        &["C024 9:12 admission.a.classes"],
    ),
    ("[[admission]]\nname = 'a'\nclass = 'd'", &["C024 9:9 admission.a.class"]),
    (
        "[[admission]]\nname = 'a'\nprogram = '/bin/true'\nmax_live = 1",
        &["C025 9:11 admission.a.program"],
    ),
    (
        "[[admission]]\nname = 'a'\nmax_memory = '4GB'\nmemory = '5GB'",
        &["C019 10:10 admission.a.memory"],
    ),
    (
        "[[admission]]\nname = 'a'\nmax_time = '1h'\ntime_limit = '61m'",
        &["C019 10:14 admission.a.time_limit"],
    ),
    (
        "[[admission]]\nname = 'a'\nmax_live = 1\n[[admission]]\nname = 'a'\nmax_live = 2",
        &["C006 11:8 admission.a.name"],
    ),
    ("[[tags]]\npreference = 1001", &["C019 8:14 tags[0].preference"]),
    ("[[tags]]\npreference = -1001", &["C019 8:14 tags[0].preference"]),
    ("[scheduler]\nplacement_sets = ['Rack']", &["C019 8:19 scheduler.placement_sets"]),
    (
        "[scheduler]\nplacement_sets = ['rack', 'switch', 'rack']",
        &["C006 8:37 scheduler.placement_sets"],
    ),
    ("[scheduler]\nreported_tags = ['gpu', 'gpu']", &["C006 8:25 scheduler.reported_tags"]),
    ("[scheduler]\nspan_sets = 'no'", &["C022 8:13 scheduler.span_sets"]),
    ("[scheduler]\nbackfill_depth = 0", &["C019 8:18 scheduler.backfill_depth"]),
    ("[scheduler]\nbackfill_depth = 10001", &["C019 8:18 scheduler.backfill_depth"]),
    ("[scheduler]\nnotice = '25h'", &["C019 8:10 scheduler.notice"]),
    // Hours.
    ("active = 'mon'", &["C022 7:10 class.c.active"]),
    ("active = []", &["C027 7:10 class.c.active"]),
    ("active = ['mon-sun']", &["C027 7:10 class.c.active"]),
    ("active = ['mon-sun 06:00-20:00', 'sun-sat 20:00-06:00']", &["C027 7:10 class.c.active"]),
    ("active = ['mon', 'mon-', 7]", &["C027 7:18 class.c.active", "C027 7:26 class.c.active"]),
    (
        "active = ['mon 8-9', 'mon 08:00-08:00']",
        &["C027 7:11 class.c.active", "C027 7:22 class.c.active"],
    ),
    ("active = ['mon 08:00-24:01']", &["C027 7:11 class.c.active"]),
    ("[scheduler]\ntimezone = 'Europe/Viena'", &["C028 8:12 scheduler.timezone"]),
    ("[scheduler]\ntimezone = ''", &["C028 8:12 scheduler.timezone"]),
    ("[scheduler]\ntimezone = 1", &["C028 8:12 scheduler.timezone"]),
    ("urgent = 1", &["C022 7:10 class.c.urgent"]),
    ("urgent = true", &["C025 7:10 class.c.urgent"]),
    (
        "[[class]]\nname = 'u'\npolicy = 'fixed-share'\nnodepool = 'p'\npriority = 11\nurgent = true",
        &["C029 11:12 class.u.priority"],
    ),
    (
        "[[user]]\nname = 'ann'\nallotment = '1GB'\nurgent_allotment = '1'",
        &["C017 10:20 user.ann.urgent_allotment"],
    ),
    // Required settings.
    ("[[nodepool]]", &["C023 7:1 nodepool[1].name"]),
    ("[[class]]\nname='d'", &["C023 8:6 class.d.policy", "C023 8:6 class.d.nodepool"]),
    // Several at once, in the order of the file.
    (
        "[[class]]\nname='d'\npolicy='fare-share'\nnodepool='q'\nweight=0\n[scheduler]\nx=1",
        &[
            "C010 9:8 class.d.policy",
            "C009 10:10 class.d.nodepool",
            "C015 11:8 class.d.weight",
            "C010 13:1 scheduler.x",
        ],
    ),
];

#[test]
fn each_mistake_has_a_code_and_a_place() {
    for (addition, expected) in MISTAKES {
        assert_eq!(places(&format!("{SMALL}{addition}")), *expected, "{addition}");
    }
}

#[test]
fn an_allotment_that_a_user_lacks_is_that_of_the_cluster() {
    let text = "[scheduler]\nallotment = '8GB'\n[[user]]\nname = 'ann'\nurgent_allotment = '2GB'\n\
                [[user]]\nname = 'bob'\nallotment = '4GB'\n";
    let config = parse("test.toml", &format!("{SMALL}{text}")).unwrap();
    let gib = |size: u64| Some(Mebibytes::from_gib(size));
    for (user, fixed, urgent) in [("ann", gib(8), gib(2)), ("bob", gib(4), gib(0))] {
        let topology = &config.topology;
        assert_eq!(topology.allotment_of(user), fixed, "{user}");
        assert_eq!(topology.urgent_allotment_of(user), urgent, "{user}");
    }
}

/// Row 55 asks for both places.
#[test]
fn what_is_there_twice_is_shown_twice() {
    let text = "[[nodepool]]\nname='p'\n[[nodepool]]\nname='q'\nname='r'\n";
    let rendered = parse("test.toml", text).unwrap_err().to_string();
    assert!(
        rendered.contains("4 | name='q'\n  | ---- the first\n5 | name='r'\n  | ^^^^"),
        "{rendered}"
    );
}

#[test]
fn mistakes_of_the_whole_file() {
    let pool = "[[nodepool]]\nname='p'\n";
    let class = "[[class]]\nname='c'\npolicy='reserve'\nnodepool='p'\n";
    let cases: &[(String, &[&str])] = &[
        (String::new(), &["C023 1:1 nodepool", "C023 1:1 class"]),
        (pool.to_owned(), &["C023 1:1 class"]),
        (format!("daemon=3\n{pool}{class}"), &["C022 1:8 daemon"]),
        (format!("{class}[nodepool]\nname='p'"), &["C022 5:1 nodepool"]),
        (
            format!("[[nodepool]]\nname='a'\nparent='p'\n{pool}{class}"),
            &["C026 3:8 nodepool.a.parent"],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(places(text), *expected, "{text}");
    }
}

/// A mistake, and the suggestion for it.
#[test]
fn slips_of_the_keyboard_are_recognized() {
    let cases = [
        ("[scheduler]\nquantom = 1", "did you mean `quantum`? "),
        ("[schedular]\nx = 1", "did you mean `scheduler`? "),
        ("[[class]]\nname='d'\npolicy='fairshare'\nnodepool='p'", "did you mean `fair-share`? "),
        ("[[nodepool]]\nname='gpu'\n[[nodepool]]\nname='a'\nparent='gpus'", "did you mean `gpu`?"),
        ("[[class]]\nname='d'\npolicy='reserve'\nnodepool='main'", "there is `p`"),
        (
            "[[class]]\nname='normal'\ninherit='c'\n[[class]]\nname='e'\ninherit='nromal'",
            "did you mean `normal`?",
        ),
    ];
    for (addition, guess) in cases {
        let problems = parse("test.toml", &format!("{SMALL}{addition}")).unwrap_err();
        let remedy = &problems.iter().next().unwrap().remedy;
        assert!(remedy.starts_with(guess), "{addition}: {remedy}");
    }
}

#[test]
fn problems_look_like_the_compiler_s() {
    let text = "\
[[nodepool]]
name = \"main\"
parent = \"leaf\"
[[nodepool]]
name = \"leaf\"
parent = \"main\"
nodes = [\"n[01-04]\", \"n[03-06]\"]
[[class]]
name = \"normal\"
policy = \"fair-share\"
nodepool = \"maim\"
wieght = 100
";
    let overrides = Overrides::of(&[("APPORTION__DAEMON__LISTEN", "0.0.0.0:80")]);
    let problems = parse_over("apportion.toml", text, overrides).unwrap_err();
    insta::assert_snapshot!(problems.to_string());
}

#[test]
fn the_environment_overrides_the_file() {
    let overrides = Overrides::of(&[
        ("APPORTION__DAEMON__LISTEN", "[::1]:80"),
        ("APPORTION__DAEMON__LIMITS__MAX_NODES", "7"),
        ("APPORTION__SCHEDULER__QUANTUM", "4GB"),
        ("APPORTION__SCHEDULER__PREDICTION", "false"),
        ("APPORTION_CONFIG", "another program's business"),
        ("PATH", "/bin"),
    ]);
    let config =
        parse_over("apportion.toml", &format!("{SMALL}[scheduler]\nquantum = '1GB'"), overrides)
            .unwrap();
    assert_eq!(config.daemon.listen.to_string(), "[::1]:80");
    assert_eq!(config.daemon.limits.max_nodes, 7);
    assert_eq!(config.topology.pools[PoolIx(0)].quantum.memory(), Mebibytes::from_gib(4));
    assert!(!config.topology.classes[ClassIx(0)].cap_rules.prediction);
}

#[test]
fn a_wrong_variable_is_named() {
    let cases = [
        ("APPORTION__DAEMON__LISTEN", "10.0.0.1:80", "C021", "daemon.listen"),
        ("APPORTION__SCHEDULER__NODE_STABILITY", "0", "C019", "scheduler.node_stability"),
        ("APPORTION__SCHEDULER__NODE_STABILITY", "six", "C022", "scheduler.node_stability"),
        ("APPORTION__SCHEDULER__INITIALIZATION_CAP", "0", "C019", "scheduler.initialization_cap"),
        ("APPORTION__SCHEDULER__PREDICTION", "yes", "C022", "scheduler.prediction"),
        ("APPORTION__SCHEDULER__QUANTOM", "1GB", "C010", "scheduler.quantom"),
        ("APPORTION__CLASS__C__WEIGHT", "1", "C010", "class.c.weight"),
    ];
    for (variable, value, code, path) in cases {
        let problems =
            parse_over("apportion.toml", SMALL, Overrides::of(&[(variable, value)])).unwrap_err();
        let found: Vec<_> = problems.iter().map(place).collect();
        assert_eq!(
            found,
            [format!("{code} environment variable {variable} {path}")],
            "{variable}={value}"
        );
        assert!(problems.to_string().contains(variable), "{problems}");
    }
}

#[test]
fn a_missing_file_a_directory_and_bytes_that_are_no_text_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("apportion.toml");
    let code = |path: &Path| load(path).unwrap_err().to_string()[..4].to_owned();
    assert_eq!(code(&file), "C001");
    assert_eq!(code(directory.path()), "C003");
    let below_a_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml/apportion.toml");
    assert_eq!(code(&below_a_file), "C002");
    std::fs::write(&file, b"[daemon]\n\xff").unwrap();
    assert_eq!(code(&file), "C004");
    std::fs::write(&file, SAMPLE).unwrap();
    load(&file).unwrap();
}

#[test]
fn a_file_of_nothing_but_mistakes_is_answered_in_bounds() {
    let mistakes =
        (0..1000).map(|number| format!("key{number} = 1")).collect::<Vec<_>>().join("\n");
    let problems = parse("test.toml", &format!("{SMALL}{mistakes}")).unwrap_err();
    assert_eq!(problems.iter().count(), 100);
    assert!(problems.to_string().ends_with("and 900 more problems"));
}

/// A file cut off at any byte is accepted as a whole or refused as a whole, and the refusal can be
/// rendered. A file cut off within a comment is the file before it.
#[test]
fn every_prefix_loads_or_is_refused() {
    assert!(SAMPLE.is_ascii(), "then every byte is a place to cut");
    let whole = parse("apportion.toml", SAMPLE).unwrap();
    let is_in_comment =
        |end: &usize| SAMPLE[..*end].lines().next_back().is_some_and(|line| line.starts_with("# "));
    let (mut refused, mut cuts) = (0, 0);
    for end in (0..SAMPLE.len()).filter(|end| !is_in_comment(end)) {
        cuts += 1;
        match parse("apportion.toml", &SAMPLE[..end]) {
            Ok(config) => assert!(config.topology.classes.len() <= whole.topology.classes.len()),
            Err(problems) => {
                assert!(problems.iter().all(|problem| !problem.remedy.is_empty()), "{problems}");
                assert!(!problems.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(cuts < 2 * refused, "{refused} of {cuts}");
}

proptest::proptest! {
    /// Damaged bytes at any place cause no panic, neither in reading nor in rendering.
    #[test]
    fn damage_is_survived(at in 0..SAMPLE.len(), damage in "[\\[\\]{}=\"'\\\\#,.é0-9a\n-]{0,4}", cut in 0..12_usize) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, damage.into_bytes());
        if let Err(problems) = parse("apportion.toml", &String::from_utf8_lossy(&bytes)) {
            proptest::prop_assert!(!problems.to_string().is_empty());
        }
    }
}
