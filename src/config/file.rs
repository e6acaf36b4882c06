//! The file as written: every section and key there is, with its kind, its limits and its default.
//!
//! Each value has been read on its own; that they fit together is for [`check`](super::check).
//! `config/apportion.toml` explains the same settings to administrators.

use std::time::Duration;

use toml::de::DeTable;

use super::environment::Overrides;
use super::problem::{Code, Place, Problem, Problems};
use super::section::{Located, Section, Setting};
use super::value::{
    PolicyName, coded, duration, flag, hosts, loopback, name, number, path, policy, size,
};
use super::{DaemonSettings, Journal, Limits};
use crate::model::{CapRules, Mebibytes, Millis, Quantum, Settings};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
/// The shortest interval between anything: demonstrations run fast, nothing runs busy.
const SHORTEST: Duration = Duration::from_millis(10);
/// More than any cluster has: one PB.
pub(super) const LARGEST: Mebibytes = Mebibytes(1 << 30);
/// Where a count needs some bound and none suggests itself.
const MILLION: i64 = 1_000_000;

/// The whole file.
#[derive(Debug)]
pub(super) struct File {
    pub daemon: DaemonSettings,
    pub settings: Settings,
    /// The quantum of top-level pools that set none.
    pub quantum: Quantum,
    /// How jobs grow in classes that do not say.
    pub growth: Growth,
    pub pools: Vec<PoolEntry>,
    pub classes: Vec<ClassEntry>,
    pub users: Vec<UserEntry>,
}

/// One `[[nodepool]]`.
#[derive(Debug)]
pub(super) struct PoolEntry {
    pub path: String,
    pub name: Located<String>,
    pub parent: Setting<String>,
    pub search_order: u32,
    pub quantum: Setting<Mebibytes>,
    pub nodes: Vec<Located<Vec<String>>>,
}

/// One `[[class]]`.
#[derive(Clone, Debug)]
pub(super) struct ClassEntry {
    pub path: String,
    pub name: Located<String>,
    pub is_abstract: bool,
    pub inherit: Setting<String>,
    pub policy: Setting<PolicyName>,
    pub nodepool: Setting<String>,
    pub priority: Setting<u32>,
    pub weight: Setting<u32>,
    pub default: Setting<bool>,
    pub users: Setting<Vec<Located<String>>>,
    pub growth: Growth,
}

/// One `[[user]]`.
#[derive(Debug)]
pub(super) struct UserEntry {
    pub name: Located<String>,
    pub allotment: Mebibytes,
}

/// How jobs grow, as far as it was written.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub initialization_cap: Setting<u64>,
    pub expand_by_doubling: Setting<bool>,
    pub prediction: Setting<bool>,
    pub prediction_fudge: Setting<Duration>,
    pub loss_limit: Setting<Duration>,
}

impl PoolEntry {
    /// The path of one of its keys.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }
}

impl ClassEntry {
    /// The path of one of its keys.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    /// This class with whatever it leaves out taken from `parent`. What makes a class abstract or
    /// a default is not handed down.
    pub(super) fn inheriting(&self, parent: &ClassEntry) -> ClassEntry {
        ClassEntry {
            policy: self.policy.over(&parent.policy),
            nodepool: self.nodepool.over(&parent.nodepool),
            priority: self.priority.over(&parent.priority),
            weight: self.weight.over(&parent.weight),
            users: self.users.over(&parent.users),
            growth: self.growth.over(&parent.growth),
            ..self.clone()
        }
    }
}

impl Growth {
    /// These settings, and those of `below` where they are silent.
    pub(super) fn over(&self, below: &Growth) -> Growth {
        Growth {
            initialization_cap: self.initialization_cap.over(&below.initialization_cap),
            expand_by_doubling: self.expand_by_doubling.over(&below.expand_by_doubling),
            prediction: self.prediction.over(&below.prediction),
            prediction_fudge: self.prediction_fudge.over(&below.prediction_fudge),
            loss_limit: self.loss_limit.over(&below.loss_limit),
        }
    }

    /// The rules these settings come to, with the defaults of the original as shipped.
    pub(super) fn rules(self) -> CapRules {
        CapRules {
            initialization_cap: self.initialization_cap.or(1),
            expand_by_doubling: self.expand_by_doubling.or(true),
            prediction: self.prediction.or(true),
            prediction_fudge: millis(self.prediction_fudge.or(120 * SECOND)),
            loss_limit: self.loss_limit.into_value().map_or(CapRules::LOSS_LIMIT, millis),
        }
    }

    /// Each setting that was given: its key and where it is.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, &Place)> {
        let places = [
            ("initialization_cap", self.initialization_cap.place()),
            ("expand_by_doubling", self.expand_by_doubling.place()),
            ("prediction", self.prediction.place()),
            ("prediction_fudge", self.prediction_fudge.place()),
            ("loss_limit", self.loss_limit.place()),
        ];
        places.into_iter().filter_map(|(key, place)| Some((key, place?)))
    }
}

/// Reads the whole file, with `overrides` on top.
pub(super) fn read(
    document: &DeTable<'_>,
    mut overrides: Overrides,
    problems: &mut Problems,
) -> File {
    let mut root = Section::root(document, &mut overrides, problems);
    let daemon = read_daemon(root.section("daemon"));
    let (settings, quantum, growth) = read_scheduler(root.section("scheduler"));
    let pools = root.entries("nodepool", read_pool);
    let classes = root.entries("class", read_class);
    let users = root.entries("user", read_user);
    root.finish();
    overrides.finish(problems);

    let mut at_least_one = |is_empty: bool, path: &str, why: &str| {
        if is_empty {
            let message = format!("no {path} is configured, {why}");
            let remedy = format!("add a section [[{path}]]");
            problems
                .add(Problem::new(Code::Missing, path, &Place::File(0..0), message).remedy(remedy));
        }
    };
    at_least_one(pools.as_ref().is_some_and(Vec::is_empty), "nodepool", "so no node could join");
    at_least_one(
        classes.as_ref().is_some_and(Vec::is_empty),
        "class",
        "so no work could be submitted",
    );

    File {
        daemon,
        settings,
        quantum,
        growth,
        pools: pools.unwrap_or_default(),
        classes: classes.unwrap_or_default(),
        users: users.unwrap_or_default(),
    }
}

fn read_daemon(mut section: Section<'_>) -> DaemonSettings {
    let defaults = DaemonSettings::default();
    let interval = || duration(SHORTEST..=HOUR);
    let daemon = DaemonSettings {
        listen: section.setting("listen", loopback).or(defaults.listen),
        state: section.setting("state", path).or(defaults.state),
        cycle_period: section.setting("cycle_period", interval()).or(defaults.cycle_period),
        heartbeat_interval: section
            .setting("heartbeat_interval", interval())
            .or(defaults.heartbeat_interval),
        init_stability: section
            .setting("init_stability", number(0..=1000))
            .or(defaults.init_stability),
        audit_every: section.setting("audit_every", number(1..=MILLION)).or(defaults.audit_every),
        journal: read_journal(section.section("journal"), defaults.journal),
        limits: read_limits(section.section("limits"), defaults.limits),
    };
    section.finish();
    daemon
}

fn read_journal(mut section: Section<'_>, defaults: Journal) -> Journal {
    let journal = Journal {
        cycles: section.setting("cycles", number(1..=MILLION)).or(defaults.cycles),
        schedules: section.setting("schedules", number(1..=MILLION)).or(defaults.schedules),
        books_every: section.setting("books_every", number(1..=MILLION)).or(defaults.books_every),
    };
    section.finish();
    journal
}

fn read_limits(mut section: Section<'_>, defaults: Limits) -> Limits {
    let body = size(Mebibytes(1)..=Mebibytes::from_gib(1));
    let body_bytes = section.setting("body_bytes", body).into_value();
    let limits = Limits {
        body_bytes: body_bytes.and_then(bytes).unwrap_or(defaults.body_bytes),
        max_nodes: section.setting("max_nodes", number(1..=MILLION)).or(defaults.max_nodes),
        max_jobs: section.setting("max_jobs", number(1..=10 * MILLION)).or(defaults.max_jobs),
        max_processes_per_job: section
            .setting("max_processes_per_job", number(1..=MILLION))
            .or(defaults.max_processes_per_job),
        max_string: section.setting("max_string", number(16..=65_536)).or(defaults.max_string),
    };
    section.finish();
    limits
}

fn read_scheduler(mut section: Section<'_>) -> (Settings, Quantum, Growth) {
    let any_size = || size(Mebibytes(0)..=LARGEST);
    let quantum = section.setting("quantum", coded(Code::Quantum, size(Mebibytes(1)..=LARGEST)));
    let quantum =
        Quantum::new(quantum.or(Mebibytes::from_gib(15))).expect("sizes of quanta start at 1 MB");
    let defaults = Settings::default();
    // More than all nodes can never be lost, so 100 percent means that there is no hold.
    let mass_loss = section
        .setting("mass_loss_percent", number::<u32>(1..=100))
        .or(defaults.mass_loss_percent.unwrap_or(100));
    let publication_period =
        section.setting("publication_period", duration(SHORTEST..=HOUR)).into_value();
    let quiet_stop = section
        .setting("quiet_stop", number::<u64>(0..=MILLION))
        .or(defaults.quiet_stop.unwrap_or(0));
    let settings = Settings {
        fragmentation_threshold: section
            .setting("fragmentation_threshold", number(1..=MILLION))
            .or(defaults.fragmentation_threshold),
        defragmentation: section.setting("defragmentation", flag).or(defaults.defragmentation),
        allotment: section.setting("allotment", coded(Code::Allotment, any_size())).into_value(),
        reserve_overage: section
            .setting("reserve_overage", any_size())
            .or(defaults.reserve_overage),
        reserved_memory: section
            .setting("reserved_memory", any_size())
            .or(defaults.reserved_memory),
        publication_period: publication_period.map_or(defaults.publication_period, millis),
        node_stability: section
            .setting("node_stability", number(1..=1000))
            .or(defaults.node_stability),
        mass_loss_percent: (mass_loss < 100).then_some(mass_loss),
        quiet_stop: (0 < quiet_stop).then_some(quiet_stop),
    };
    let growth = read_growth(&mut section);
    section.finish();
    (settings, quantum, growth)
}

fn read_growth(section: &mut Section<'_>) -> Growth {
    Growth {
        initialization_cap: section.setting("initialization_cap", number(0..=MILLION)),
        expand_by_doubling: section.setting("expand_by_doubling", flag),
        prediction: section.setting("prediction", flag),
        prediction_fudge: section.setting("prediction_fudge", duration(Duration::ZERO..=24 * HOUR)),
        loss_limit: section.setting("loss_limit", duration(Duration::ZERO..=1000 * HOUR)),
    }
}

fn read_pool(section: &mut Section<'_>) -> PoolEntry {
    PoolEntry {
        name: section.name(),
        path: section.path().to_owned(),
        parent: section.setting("parent", name),
        search_order: section.setting("search_order", number(0..=MILLION)).or(100),
        quantum: section.setting("quantum", coded(Code::Quantum, size(Mebibytes(1)..=LARGEST))),
        nodes: section.list("nodes", coded(Code::Nodes, hosts)).into_value().unwrap_or_default(),
    }
}

fn read_class(section: &mut Section<'_>) -> ClassEntry {
    ClassEntry {
        name: section.name(),
        path: section.path().to_owned(),
        is_abstract: section.setting("abstract", flag).or(false),
        inherit: section.setting("inherit", name),
        policy: section.setting("policy", policy),
        nodepool: section.setting("nodepool", name),
        priority: section.setting("priority", number(0..=MILLION)),
        weight: section.setting("weight", coded(Code::Weight, number(1..=MILLION))),
        default: section.setting("default", flag),
        users: section.list("users", name),
        growth: read_growth(section),
    }
}

fn read_user(section: &mut Section<'_>) -> UserEntry {
    let allotment = coded(Code::Allotment, size(Mebibytes(0)..=LARGEST));
    UserEntry {
        name: section.name(),
        allotment: section.required("allotment", allotment).or(Mebibytes(0)),
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// So many bytes; `None` where memory addresses are too short for them.
fn bytes(size: Mebibytes) -> Option<usize> {
    usize::try_from(size.0).ok()?.checked_mul(1 << 20)
}
