//! The grid: the clusters beside the daemon's own, and the router.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::problem::{Code, ConfigProblem, ValuePlace};
use super::section::Section;
use super::setting::{Located, Setting};
use super::value::{duration, flag, name, number, optional_path, size};
use crate::grid::{
    DEFAULT_POLICY, PREDICTORS, REMOTE_PREDICTOR, ROUTER_POLICIES, Strictness, predictor,
    router_policy,
};
use crate::model::{Mebibytes, Name};

/// The largest priority and power of a cluster.
const MAX_POWER: i64 = 1_000_000;
/// Percent in millionths.
const PERCENT: u64 = 10_000;

/// Passes that may fail before a lease runs out.
const PASSES: u32 = 3;

/// The router, and its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridSettings {
    /// Name of the router's policy.
    pub policy: String,
    /// Longest time between two passes.
    pub pass_every: Duration,
    /// Lease of forwarded tasks: their cluster ends them unless a pass renews it.
    pub lease: Duration,
    /// The flood rate, in millionths.
    pub flood: u64,
    /// Name of the predictor of remote clusters.
    pub predictor: String,
    /// Bounds of the predictors.
    pub strictness: Strictness,
    /// True if campaigns take turns on a cluster.
    pub interleaves: bool,
    /// Memory of a resource, in MiB.
    pub resource_mb: u64,
    /// The other clusters. Empty: there is no grid.
    pub clusters: Vec<ClusterSettings>,
    /// Weights of users for the policies that level their shares. Other users have weight 1.
    pub weights: BTreeMap<String, u64>,
}

/// A cluster beside the daemon's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Name of the cluster.
    pub name: Name,
    /// Address of its orchestrator.
    pub url: String,
    /// Certificate authority of the address, if it is `https`.
    pub authority: Option<PathBuf>,
    /// File with a token of the role submitter.
    pub token_file: Option<PathBuf>,
    /// Priority; clusters of higher priority are served first.
    pub priority: i64,
    /// Power of a resource, in the administrator's unit.
    pub power: u64,
    /// Users whose home the cluster is.
    pub home: Vec<String>,
    /// Users with an affinity to the cluster.
    pub affinity: Vec<String>,
    /// Program that prints the stress of the cluster, in thousandths. `None`: it has none.
    pub stress: Option<PathBuf>,
    /// Input that is transferred to the cluster in a second, in MiB. `None`: transfers take no time.
    pub bandwidth_mb: Option<u64>,
}

impl Default for GridSettings {
    fn default() -> GridSettings {
        GridSettings {
            policy: DEFAULT_POLICY.to_owned(),
            pass_every: Duration::from_secs(10),
            lease: Duration::from_mins(10),
            flood: 50 * PERCENT,
            predictor: REMOTE_PREDICTOR.to_owned(),
            strictness: Strictness::default(),
            interleaves: true,
            resource_mb: 1024,
            clusters: Vec::new(),
            weights: BTreeMap::new(),
        }
    }
}

/// Reads the section `grid`.
pub(super) fn read_grid(mut section: Section<'_>) -> GridSettings {
    let defaults = GridSettings::default();
    let policies: Vec<&str> = ROUTER_POLICIES.iter().map(|policy| policy.name()).collect();
    let predictors: Vec<&str> = PREDICTORS.iter().map(|it| it.name()).collect();
    let bounds = Strictness::ALL.map(Strictness::word);
    let knows_policy = |name: &str| router_policy(ROUTER_POLICIES, name).is_some();
    let knows_predictor = |name: &str| predictor(PREDICTORS, name).is_some();
    let knows_bounds = |name: &str| Strictness::from_word(name).is_some();
    let policy = one_of(&mut section, "policy", &defaults.policy, knows_policy, &policies);
    let predictor =
        one_of(&mut section, "predictor", &defaults.predictor, knows_predictor, &predictors);
    let word = defaults.strictness.word();
    let strictness = one_of(&mut section, "strictness", word, knows_bounds, &bounds);
    let spans = Duration::from_millis(100)..=Duration::from_hours(1);
    let leases = Duration::from_secs(1)..=Duration::from_hours(24);
    let pass_every = section.or("pass_every", &duration(spans), defaults.pass_every);
    let lease = section.or("lease", &duration(leases), defaults.lease);
    let resource = size(Mebibytes(1)..=Mebibytes(1 << 20));
    let settings = GridSettings {
        policy,
        predictor,
        strictness: Strictness::from_word(&strictness).unwrap_or_default(),
        pass_every,
        lease: lease.max(pass_every.saturating_mul(PASSES)),
        flood: section.or("flood_percent", &number::<u64>(0..=1000), 50).saturating_mul(PERCENT),
        interleaves: section.or("interleave", &flag(), defaults.interleaves),
        resource_mb: section.or("resource", &resource, Mebibytes(defaults.resource_mb)).0,
        clusters: Vec::new(),
        weights: BTreeMap::new(),
    };
    section.finish();
    settings
}

/// The word under `key`: it has to be among `words`.
fn one_of(
    section: &mut Section<'_>,
    key: &'static str,
    default: &str,
    is_known: impl Fn(&str) -> bool,
    words: &[&str],
) -> String {
    let default = default.to_owned();
    let setting = section.default_to(key, &name(), &default);
    if let Setting::Given(Located { value, place }) = &setting
        && !is_known(value)
    {
        let path = format!("{}.{key}", section.path());
        let message = format!("`{value}` is unknown");
        let problem = ConfigProblem::new(Code::Range, &path, place, message);
        section.complain(problem.remedy(format!("write one of {}", words.join(", "))));
        return default;
    }
    setting.or(default)
}

/// Reads a `[[cluster]]`.
pub(super) fn read_cluster(section: &mut Section<'_>) -> ClusterSettings {
    let Located { value: cluster, place } = section.name();
    let url = match section.required("url", &name()) {
        Setting::Given(Located { value, place }) => {
            check_url(section, &value, &place);
            value
        }
        Setting::Absent | Setting::Refused => String::new(),
    };
    if cluster == "local" {
        let path = format!("{}.name", section.path());
        let message = "`local` is the daemon's own cluster".to_owned();
        let problem = ConfigProblem::new(Code::Range, &path, &place, message);
        section.complain(problem.remedy("give the cluster another name"));
    }
    ClusterSettings {
        name: Name::from(cluster),
        url,
        authority: section.or("ca", &optional_path(), None),
        token_file: section.or("token_file", &optional_path(), None),
        priority: section.or("priority", &number(-MAX_POWER..=MAX_POWER), 0),
        power: section.or("power", &number(0..=MAX_POWER), 1),
        home: names(section, "home"),
        affinity: names(section, "affinity"),
        stress: section.or("stress", &optional_path(), None),
        bandwidth_mb: bandwidth(section),
    }
}

fn bandwidth(section: &mut Section<'_>) -> Option<u64> {
    match section.setting("bandwidth", &size(Mebibytes(1)..=Mebibytes(1 << 20))) {
        Setting::Given(Located { value, .. }) => Some(value.0),
        Setting::Absent | Setting::Refused => None,
    }
}

fn names(section: &mut Section<'_>, key: &'static str) -> Vec<String> {
    let listed = section.list(key, &name()).or(Vec::new());
    listed.into_iter().map(|item| item.value).collect()
}

fn check_url(section: &mut Section<'_>, text: &str, place: &ValuePlace) {
    let schemes = ["http", "https", "unix"];
    let is_address = url::Url::parse(text).is_ok_and(|url| schemes.contains(&url.scheme()));
    if !is_address {
        let path = format!("{}.url", section.path());
        let message = format!("`{text}` is no address");
        let problem = ConfigProblem::new(Code::Range, &path, place, message);
        section.complain(problem.remedy("write it as \"https://HOST:PORT\""));
    }
}
