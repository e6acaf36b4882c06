//! The file as written: every section and key there is, with its kind, its limits and its default.
//!
//! Each value has been read on its own; that they fit together is for [`check`](super::check).
//! `config/apportion.toml` explains the same settings to administrators.

use std::time::Duration;

use jiff::tz::TimeZone;
use toml::de::DeTable;

use super::access::{check_listen, read_access};
use super::admission::{AdmissionEntry, read_rule};
use super::gangs::GangEntry;
use super::grid::{GridSettings, read_cluster, read_grid};
use super::hours::{active, zone};
use super::orchestrator::{OrchestratorSettings, read_orchestrator};
use super::problem::{Code, ConfigProblem, ValuePlace};
use super::section::{Reading, Section};
use super::setting::{Located, Setting};
use super::value::{
    PolicyName, address, duration, flag, hosts, millis, name, number, path, policy, size, tag,
    tag_key,
};
use super::{DaemonSettings, Journal, Limits};
use crate::model::{ActiveEntry, CapRules, Mebibytes, NodeTagging, Quantum, Settings};

const HOUR: Duration = Duration::from_hours(1);
/// The shortest interval between anything: demonstrations run fast, nothing runs busy.
const SHORTEST: Duration = Duration::from_millis(10);
/// Largest size, a petabyte: more than any cluster has.
pub(super) const LARGEST: Mebibytes = Mebibytes(1 << 30);
/// Upper bound of counts that have no natural bound.
const MILLION: i64 = 1_000_000;
/// The highest preference of nodes.
const PREFERENCE: i64 = 1000;

/// The whole file.
#[derive(Debug)]
pub(super) struct File {
    pub daemon: DaemonSettings,
    pub orchestrator: OrchestratorSettings,
    /// The admission rules, in order.
    pub admission: Vec<AdmissionEntry>,
    pub grid: GridSettings,
    pub settings: Settings,
    /// The time zone of the hours of classes.
    pub zone: TimeZone,
    /// The quantum of top-level pools that set none.
    pub quantum: Quantum,
    /// Growth of jobs in classes that set none.
    pub growth: Growth,
    pub pools: Vec<PoolEntry>,
    pub classes: Vec<ClassEntry>,
    pub users: Vec<UserEntry>,
    pub tags: Vec<TagEntry>,
    pub tag_keys: TagKeys,
}

/// Settings of `[scheduler]` on keys of tags.
#[derive(Debug)]
pub(super) struct TagKeys {
    /// Keys of tags that agents may report.
    pub reported: Setting<Vec<Located<String>>>,
    /// Keys whose values are placement sets.
    pub sets: Setting<Vec<Located<String>>>,
    /// True if a gang that no set could ever hold may use several.
    pub may_span: bool,
}

/// A `[[nodepool]]` of the file.
#[derive(Debug)]
pub(super) struct PoolEntry {
    pub path: String,
    pub name: Located<String>,
    pub parent: Setting<String>,
    pub search_order: Setting<u32>,
    pub quantum: Setting<Mebibytes>,
    pub nodes: Setting<Vec<Located<Vec<String>>>>,
}

/// A `[[class]]` of the file.
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
    pub gangs: GangEntry,
    pub active: Setting<Vec<Located<ActiveEntry>>>,
    pub urgent: Setting<bool>,
}

/// A `[[user]]` of the file.
#[derive(Debug)]
pub(super) struct UserEntry {
    pub name: Located<String>,
    pub allotment: Setting<Mebibytes>,
    pub urgent_allotment: Setting<Mebibytes>,
    pub grid_weight: Setting<u64>,
}

/// A `[[tags]]` of the file.
#[derive(Debug)]
pub(super) struct TagEntry {
    pub nodes: Setting<Vec<Located<Vec<String>>>>,
    pub set: Setting<Vec<Located<(String, String)>>>,
    pub preference: Setting<i32>,
}

/// Growth settings of a class or of the scheduler, as far as they are set.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub initialization_cap: Setting<u64>,
    pub expand_by_doubling: Setting<bool>,
    pub prediction: Setting<bool>,
    pub prediction_fudge: Setting<Duration>,
    pub loss_limit: Setting<Duration>,
}

impl PoolEntry {
    /// Path of a key of this nodepool.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    /// Lists of nodes of this nodepool, each with its place.
    pub(super) fn lists(&self) -> impl Iterator<Item = &Located<Vec<String>>> {
        self.nodes.given().into_iter().flat_map(|lists| &lists.value)
    }
}

impl ClassEntry {
    /// Path of a key of this class.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    /// Returns this class with its absent settings taken from `parent`. The settings `abstract` and
    /// `default` are not inherited.
    pub(super) fn inheriting(&self, parent: &ClassEntry) -> ClassEntry {
        ClassEntry {
            policy: self.policy.over(&parent.policy),
            nodepool: self.nodepool.over(&parent.nodepool),
            priority: self.priority.over(&parent.priority),
            weight: self.weight.over(&parent.weight),
            users: self.users.over(&parent.users),
            growth: self.growth.over(&parent.growth),
            gangs: self.gangs.over(&parent.gangs),
            active: self.active.over(&parent.active),
            urgent: self.urgent.over(&parent.urgent),
            ..self.clone()
        }
    }
}

impl Growth {
    /// Returns these settings, with absent settings taken from `below`.
    pub(super) fn over(&self, below: &Growth) -> Growth {
        Growth {
            initialization_cap: self.initialization_cap.over(&below.initialization_cap),
            expand_by_doubling: self.expand_by_doubling.over(&below.expand_by_doubling),
            prediction: self.prediction.over(&below.prediction),
            prediction_fudge: self.prediction_fudge.over(&below.prediction_fudge),
            loss_limit: self.loss_limit.over(&below.loss_limit),
        }
    }

    /// Growth without any setting: as UIMA-DUCC is shipped.
    fn defaults() -> CapRules {
        CapRules {
            initialization_cap: 1,
            expand_by_doubling: true,
            prediction: true,
            prediction_fudge: 120_000,
            loss_limit: CapRules::LOSS_LIMIT,
        }
    }

    /// The rules these settings come to.
    pub(super) fn rules(self) -> CapRules {
        let defaults = Growth::defaults();
        let span = |setting: Setting<Duration>| setting.into_value().map(millis);
        CapRules {
            initialization_cap: self.initialization_cap.or(defaults.initialization_cap),
            expand_by_doubling: self.expand_by_doubling.or(defaults.expand_by_doubling),
            prediction: self.prediction.or(defaults.prediction),
            prediction_fudge: span(self.prediction_fudge).unwrap_or(defaults.prediction_fudge),
            loss_limit: span(self.loss_limit).unwrap_or(defaults.loss_limit),
        }
    }

    /// Each setting that was given: its key and where it is.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, &ValuePlace)> {
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

/// Reads the whole file, with the overrides on top.
pub(super) fn read(document: &DeTable<'_>, reading: &mut Reading) -> File {
    let mut root = Section::root(document, reading);
    let daemon = read_daemon(root.section("daemon"));
    let orchestrator = read_orchestrator(root.section("orchestrator"));
    let grid = read_grid(root.section("grid"));
    let (settings, quantum, growth, tag_keys, zone) = read_scheduler(root.section("scheduler"));
    let pools = root.entries("nodepool", read_pool);
    let classes = root.entries("class", read_class);
    let users = root.entries("user", read_user);
    let tags = root.entries("tags", read_tags);
    let clusters = root.entries("cluster", read_cluster);
    let admission = root.entries("admission", read_rule);
    root.finish();
    std::mem::take(&mut reading.overrides).finish(&mut reading.problems);

    let mut at_least_one = |is_empty: bool, path: &str, why: &str| {
        if is_empty {
            let message = format!("no {path} is configured, {why}");
            let remedy = format!("add a section [[{path}]]");
            let problem = ConfigProblem::new(Code::Missing, path, &ValuePlace::File(0..0), message);
            reading.problems.add(problem.remedy(remedy));
        }
    };
    at_least_one(pools.as_ref().is_some_and(Vec::is_empty), "nodepool", "so no node could join");
    at_least_one(
        classes.as_ref().is_some_and(Vec::is_empty),
        "class",
        "so no job could be submitted",
    );

    File {
        daemon,
        orchestrator,
        admission: admission.unwrap_or_default(),
        grid: GridSettings { clusters: clusters.unwrap_or_default(), ..grid },
        settings,
        zone,
        quantum,
        growth,
        pools: pools.unwrap_or_default(),
        classes: classes.unwrap_or_default(),
        users: users.unwrap_or_default(),
        tags: tags.unwrap_or_default(),
        tag_keys,
    }
}

fn read_daemon(mut section: Section<'_>) -> DaemonSettings {
    let defaults = DaemonSettings::default();
    let interval = duration(SHORTEST..=HOUR);
    let listen = section.default_to("listen", &address(), &defaults.listen);
    let daemon = DaemonSettings {
        listen: listen.clone().or(defaults.listen),
        state: section.or("state", &path(), defaults.state),
        cycle_period: section.or("cycle_period", &interval, defaults.cycle_period),
        heartbeat_interval: section.or(
            "heartbeat_interval",
            &interval,
            defaults.heartbeat_interval,
        ),
        init_stability: section.or("init_stability", &number(0..=1000), defaults.init_stability),
        audit_every: section.or("audit_every", &number(1..=MILLION), defaults.audit_every),
        journal: read_journal(section.section("daemon.journal"), defaults.journal),
        limits: read_limits(section.section("daemon.limits"), defaults.limits),
        access: read_access(section.section("daemon.access")),
    };
    check_listen(&listen, &daemon.access, &mut section);
    section.finish();
    daemon
}

fn read_journal(mut section: Section<'_>, defaults: Journal) -> Journal {
    let million = number(1..=MILLION);
    let journal = Journal {
        cycles: section.or("cycles", &million, defaults.cycles),
        schedules: section.or("schedules", &million, defaults.schedules),
        books_every: section.or("books_every", &number(1..=MILLION), defaults.books_every),
    };
    section.finish();
    journal
}

fn read_limits(mut section: Section<'_>, defaults: Limits) -> Limits {
    let body = size(Mebibytes(1)..=Mebibytes::from_gib(1));
    let default = Mebibytes(u64::try_from(defaults.body_bytes >> 20).unwrap_or(u64::MAX));
    let million = number(1..=MILLION);
    let limits = Limits {
        body_bytes: bytes(section.or("body_bytes", &body, default)).unwrap_or(defaults.body_bytes),
        max_nodes: section.or("max_nodes", &million, defaults.max_nodes),
        max_jobs: section.or("max_jobs", &number(1..=10 * MILLION), defaults.max_jobs),
        max_processes_per_job: section.or(
            "max_processes_per_job",
            &million,
            defaults.max_processes_per_job,
        ),
        max_string: section.or("max_string", &number(16..=65_536), defaults.max_string),
        absent_publications: section.or(
            "absent_publications",
            &number(1..=1000),
            defaults.absent_publications,
        ),
        absent_time: section.or("absent_time", &duration(SHORTEST..=HOUR), defaults.absent_time),
        connections: section.or("connections", &number(1..=MILLION), defaults.connections),
        connections_per_peer: section.or(
            "connections_per_peer",
            &number(1..=MILLION),
            defaults.connections_per_peer,
        ),
        reader_rate: section.or("reader_rate", &number(0..=MILLION), defaults.reader_rate),
        agent_rate: section.or("agent_rate", &number(0..=MILLION), defaults.agent_rate),
        orchestrator_rate: section.or(
            "orchestrator_rate",
            &number(0..=MILLION),
            defaults.orchestrator_rate,
        ),
    };
    section.finish();
    limits
}

fn read_scheduler(mut section: Section<'_>) -> (Settings, Quantum, Growth, TagKeys, TimeZone) {
    let any_size = || size(Mebibytes(0)..=LARGEST);
    let quantum = size(Mebibytes(1)..=LARGEST).coded(Code::Quantum);
    let quantum = Quantum::new(section.or("quantum", &quantum, Mebibytes::from_gib(15)))
        .expect("sizes of quanta start at 1 MB");
    let defaults = Settings::default();
    let publication_period = Duration::from_millis(defaults.publication_period);
    let settings = Settings {
        fragmentation_threshold: section.or(
            "fragmentation_threshold",
            &number(1..=MILLION),
            defaults.fragmentation_threshold,
        ),
        defragmentation: section.or("defragmentation", &flag(), defaults.defragmentation),
        allotment: section.setting("allotment", &any_size().coded(Code::Allotment)).into_value(),
        reserve_overage: section.or("reserve_overage", &any_size(), defaults.reserve_overage),
        reserved_memory: section.or("reserved_memory", &any_size(), defaults.reserved_memory),
        publication_period: millis(section.or(
            "publication_period",
            &duration(SHORTEST..=HOUR),
            publication_period,
        )),
        node_stability: section.or("node_stability", &number(1..=1000), defaults.node_stability),
        // More than all nodes can never be lost, so 100 percent means that there is no hold.
        mass_loss_percent: Some(section.or(
            "mass_loss_percent",
            &number(1..=100),
            defaults.mass_loss_percent.unwrap_or(100),
        ))
        .filter(|percent| *percent < 100),
        quiet_stop: Some(section.or(
            "quiet_stop",
            &number(0..=MILLION),
            defaults.quiet_stop.unwrap_or(0),
        ))
        .filter(|cycles| 0 < *cycles),
        notice: millis(section.or(
            "notice",
            &duration(Duration::ZERO..=24 * HOUR),
            Duration::from_millis(defaults.notice),
        )),
        backfill_depth: section.or("backfill_depth", &number(1..=10_000), defaults.backfill_depth),
        urgent_allotment: defaults.urgent_allotment,
    };
    let zone = section.or("timezone", &zone(), TimeZone::UTC);
    let growth = read_growth(&mut section, Some(Growth::defaults()));
    let tag_keys = TagKeys {
        reported: section.list("reported_tags", &tag_key()),
        sets: section.list("placement_sets", &tag_key()),
        may_span: section.or("span_sets", &flag(), NodeTagging::default().may_span),
    };
    section.finish();
    (settings, quantum, growth, tag_keys, zone)
}

/// Reads the growth settings. `defaults` is given for the scheduler, where no further section can
/// set them.
fn read_growth(section: &mut Section<'_>, defaults: Option<CapRules>) -> Growth {
    let cap = number(0..=MILLION);
    let fudge = duration(Duration::ZERO..=24 * HOUR);
    let loss = duration(Duration::ZERO..=1000 * HOUR);
    let Some(defaults) = defaults else {
        return Growth {
            initialization_cap: section.setting("initialization_cap", &cap),
            expand_by_doubling: section.setting("expand_by_doubling", &flag()),
            prediction: section.setting("prediction", &flag()),
            prediction_fudge: section.setting("prediction_fudge", &fudge),
            loss_limit: section.setting("loss_limit", &loss),
        };
    };
    let span = Duration::from_millis;
    Growth {
        initialization_cap: section.default_to(
            "initialization_cap",
            &cap,
            &defaults.initialization_cap,
        ),
        expand_by_doubling: section.default_to(
            "expand_by_doubling",
            &flag(),
            &defaults.expand_by_doubling,
        ),
        prediction: section.default_to("prediction", &flag(), &defaults.prediction),
        prediction_fudge: section.default_to(
            "prediction_fudge",
            &fudge,
            &span(defaults.prediction_fudge),
        ),
        loss_limit: section.default_to("loss_limit", &loss, &span(defaults.loss_limit)),
    }
}

fn read_pool(section: &mut Section<'_>) -> PoolEntry {
    let quantum = size(Mebibytes(1)..=LARGEST).coded(Code::Quantum);
    PoolEntry {
        name: section.name(),
        path: section.path().to_owned(),
        parent: section.setting("parent", &name()),
        search_order: section.default_to("search_order", &number(0..=MILLION), &100),
        quantum: section.setting("quantum", &quantum),
        nodes: section.list("nodes", &hosts().coded(Code::Nodes)),
    }
}

fn read_class(section: &mut Section<'_>) -> ClassEntry {
    ClassEntry {
        name: section.name(),
        path: section.path().to_owned(),
        is_abstract: section.or("abstract", &flag(), false),
        inherit: section.setting("inherit", &name()),
        policy: section.setting("policy", &policy()),
        nodepool: section.setting("nodepool", &name()),
        priority: section.setting("priority", &number(0..=MILLION)),
        weight: section.setting("weight", &number(1..=MILLION).coded(Code::Weight)),
        default: section.default_to("default", &flag(), &false),
        users: section.list("users", &name()),
        growth: read_growth(section, None),
        gangs: GangEntry::read(section),
        active: section.list("active", &active()),
        urgent: section.default_to("urgent", &flag(), &false),
    }
}

fn read_user(section: &mut Section<'_>) -> UserEntry {
    let allotment = size(Mebibytes(0)..=LARGEST).coded(Code::Allotment);
    UserEntry {
        name: section.name(),
        allotment: section.setting("allotment", &allotment),
        urgent_allotment: section.default_to("urgent_allotment", &allotment, &Mebibytes(0)),
        grid_weight: section.default_to("grid_weight", &number(1..=1_000_000), &1),
    }
}

fn read_tags(section: &mut Section<'_>) -> TagEntry {
    TagEntry {
        nodes: section.list("nodes", &hosts().coded(Code::Nodes)),
        set: section.list("set", &tag()),
        preference: section.setting("preference", &number(-PREFERENCE..=PREFERENCE)),
    }
}

/// Returns the size in bytes; `None` if memory addresses are too short for it.
fn bytes(size: Mebibytes) -> Option<usize> {
    usize::try_from(size.0).ok()?.checked_mul(1 << 20)
}
