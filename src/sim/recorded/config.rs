//! A scenario's configuration, checked into a topology.
//!
//! Absent keys take the defaults in the original's code, not the defaults of its shipped file:
//! `ducc-behaviour.md` section F.

use std::num::NonZeroUsize;
use std::str::FromStr;

use super::scenario::{
    ClassInput, NodeTagsInput, PolicyInput, PoolInput, ScenarioConfig, UserInput,
};
use crate::model::{
    CapRules, ClassPolicy, GangRules, Mebibytes, Name, NodeTagging, Nodepool, PoolIx, Quantum,
    ResourceClass, Settings, TagRule, Tags, Topology, UserAllotment, expand_hostlist,
};
use crate::sim::error::Flaw;

const QUANTUM_GB: u64 = 15;
const FRAGMENTATION_THRESHOLD: u64 = 2;
const INITIALIZATION_CAP: u64 = 2;
const PREDICTION_FUDGE_MS: u64 = 60_000;
const ORCHESTRATOR_RATE_MS: u64 = 10_000;
const RM_RATIO: u64 = 4;
const NODE_STABILITY: u32 = 5;
const SEARCH_ORDER: u32 = 100;
const WEIGHT: u32 = 100;

/// Builds the topology that `config` describes. In a scenario with a clock, a cycle follows on each
/// publication unless it says otherwise.
pub(super) fn topology(config: &ScenarioConfig, has_clock: bool) -> Result<Topology, Flaw> {
    let mut config = config.clone();
    config.take_properties()?;
    if has_clock {
        config.rm_ratio.get_or_insert(1);
    }
    let pools = pools(&config)?;
    let classes = classes(&config, &pools)?;
    let allotment = |user: &UserInput| (user.name.clone(), allotment_of(user));
    Ok(Topology {
        tagging: NodeTagging {
            rules: tag_rules(&config)?,
            reported: Vec::new(),
            sets: config.placement_sets.iter().map(Name::from).collect(),
            may_span: config.span_sets.unwrap_or(true),
        },
        settings: settings(&config),
        pools: pools.into(),
        classes: classes.into(),
        allotments: config.users.iter().map(allotment).collect(),
    })
}

fn allotment_of(user: &UserInput) -> UserAllotment {
    UserAllotment {
        fixed: Some(Mebibytes::from_gib(user.max_allotment_gb)),
        urgent: user.urgent_allotment_gb.map(Mebibytes::from_gib),
    }
}

fn tag_rules(config: &ScenarioConfig) -> Result<Vec<TagRule>, Flaw> {
    let rule = |(ix, input): (usize, &NodeTagsInput)| {
        let names = expand_hostlist(&input.nodes).map_err(|error| {
            let place = format!("config.nodeTags[{ix}].nodes");
            Flaw::new(place, error.to_string(), "write a host list, as n[1-4]")
        })?;
        let step = input.every.map_or(1, NonZeroUsize::get);
        Ok(TagRule {
            preference: input.preference,
            nodes: names.iter().step_by(step).map(Name::from).collect(),
            set: Tags::of(&input.tags),
        })
    };
    config.node_tags.iter().enumerate().map(rule).collect()
}

impl ScenarioConfig {
    /// Applies the original's own properties. Properties of features that this scheduler does not
    /// have are ignored.
    fn take_properties(&mut self) -> Result<(), Flaw> {
        for (property, value) in std::mem::take(&mut self.properties) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (property, value) = (property.as_str(), text.trim());
            let outcome = match property {
                "ducc.rm.share.quantum" => set(&mut self.quantum_gb, property, value),
                "ducc.rm.fragmentation.threshold" => {
                    set(&mut self.fragmentation_threshold, property, value)
                }
                "ducc.rm.defragmentation" => set(&mut self.defragmentation, property, value),
                "ducc.rm.global_allotment" => set(&mut self.global_allotment_gb, property, value),
                "ducc.rm.use_global_allotment" => {
                    set(&mut self.use_global_allotment, property, value)
                }
                "ducc.rm.initialization.cap" => set(&mut self.initialization_cap, property, value),
                "ducc.rm.expand.by.doubling" => set(&mut self.expand_by_doubling, property, value),
                "ducc.rm.prediction" => set(&mut self.prediction, property, value),
                "ducc.rm.prediction.fudge" => set(&mut self.prediction_fudge_ms, property, value),
                "ducc.rm.reserve_overage" => set(&mut self.reserve_overage_gb, property, value),
                "ducc.rm.reserved.dram" => set(&mut self.reserved_dram_gb, property, value),
                "ducc.rm.node.stability" => set(&mut self.node_stability, property, value),
                "ducc.rm.state.publish.ratio" => set(&mut self.rm_ratio, property, value),
                "ducc.orchestrator.state.publish.rate" => {
                    set(&mut self.orchestrator_rate_ms, property, value)
                }
                _ => Ok(()),
            };
            outcome?;
        }
        Ok(())
    }
}

fn set<T: FromStr>(setting: &mut Option<T>, property: &str, value: &str) -> Result<(), Flaw> {
    let flaw = |_| {
        let problem = format!("`{property}` is `{value}`");
        Flaw::new(
            "config.properties",
            problem,
            "give a whole number, or true or false where it is a switch",
        )
    };
    *setting = Some(value.parse().map_err(flaw)?);
    Ok(())
}

fn settings(config: &ScenarioConfig) -> Settings {
    let gib = |gb: Option<u64>| Mebibytes::from_gib(gb.unwrap_or(0));
    let is_limited = config.use_global_allotment.unwrap_or(true);
    Settings {
        fragmentation_threshold: config.fragmentation_threshold.unwrap_or(FRAGMENTATION_THRESHOLD),
        defragmentation: config.defragmentation.unwrap_or(true),
        allotment: config.global_allotment_gb.filter(|_| is_limited).map(Mebibytes::from_gib),
        reserve_overage: gib(config.reserve_overage_gb),
        reserved_memory: gib(config.reserved_dram_gb),
        publication_period: config.orchestrator_rate_ms.unwrap_or(ORCHESTRATOR_RATE_MS)
            * config.rm_ratio.unwrap_or(RM_RATIO),
        node_stability: config.node_stability.unwrap_or(NODE_STABILITY),
        mass_loss_percent: None,
        quiet_stop: Settings::default().quiet_stop,
        notice: config.notice_ms.unwrap_or(Settings::default().notice),
        backfill_depth: Settings::default().backfill_depth,
        // A scenario limits urgent work by what there is.
        urgent_allotment: None,
    }
}

/// The pools, parents before children and otherwise in the order of the file.
fn pools(config: &ScenarioConfig) -> Result<Vec<Nodepool>, Flaw> {
    let mut waiting: Vec<(usize, &PoolInput)> = config.nodepools.iter().enumerate().collect();
    if waiting.is_empty() {
        return Err(Flaw::new("config.nodepools", "there is none", "add one with the nodes in it"));
    }
    let mut pools: Vec<Nodepool> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_placed = |name: &str| pools.iter().any(|pool| pool.name == name);
        let is_next =
            |(_, pool): &(usize, &PoolInput)| pool.parent.as_deref().is_none_or(is_placed);
        let Some(next) = waiting.iter().position(is_next) else {
            let (ix, pool) = waiting[0];
            let problem =
                format!("the parent of pool `{}` is not defined, or lies in it", pool.name);
            let remedy = "name a pool of this list that has no way back to it";
            return Err(Flaw::new(format!("config.nodepools[{ix}]"), problem, remedy));
        };
        let (ix, input) = waiting.remove(next);
        let pool = pool(ix, input, &pools, config)?;
        pools.push(pool);
    }
    Ok(pools)
}

fn pool(
    ix: usize,
    input: &PoolInput,
    placed: &[Nodepool],
    config: &ScenarioConfig,
) -> Result<Nodepool, Flaw> {
    let place = format!("config.nodepools[{ix}]");
    if placed.iter().any(|pool| pool.name == input.name) {
        let problem = format!("there are two pools `{}`", input.name);
        return Err(Flaw::new(place, problem, "rename one of them"));
    }
    let parent =
        input.parent.as_ref().and_then(|name| placed.iter().position(|pool| pool.name == *name));
    let quantum = if let Some(parent) = parent {
        placed[parent].quantum
    } else {
        let gb = input.quantum_gb.or(config.quantum_gb).unwrap_or(QUANTUM_GB);
        Quantum::new(Mebibytes::from_gib(gb))
            .ok_or_else(|| Flaw::new(place, "its quantum is 0", "give `quantumGB` of at least 1"))?
    };
    Ok(Nodepool {
        name: input.name.as_str().into(),
        parent: parent.map(PoolIx),
        search_order: input.search_order.unwrap_or(SEARCH_ORDER),
        quantum,
        nodes: input.nodes.clone(),
    })
}

/// The classes; the first of each policy is its default.
fn classes(config: &ScenarioConfig, pools: &[Nodepool]) -> Result<Vec<ResourceClass>, Flaw> {
    let mut classes: Vec<ResourceClass> = Vec::with_capacity(config.classes.len());
    for (ix, input) in config.classes.iter().enumerate() {
        let place = || format!("config.classes[{ix}]");
        if classes.iter().any(|class| class.name == input.name) {
            let problem = format!("there are two classes `{}`", input.name);
            return Err(Flaw::new(place(), problem, "rename one of them"));
        }
        let pool = match &input.nodepool {
            None => PoolIx(0),
            Some(name) => {
                pools.iter().position(|pool| pool.name == *name).map(PoolIx).ok_or_else(|| {
                    let known =
                        pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
                    let problem = format!("pool `{name}` of class `{}` is not defined", input.name);
                    Flaw::new(place(), problem, format!("the pools are {known}"))
                })?
            }
        };
        let is_default = config.classes[..ix].iter().all(|earlier| earlier.policy != input.policy);
        classes.push(class(input, pool, is_default, config));
    }
    Ok(classes)
}

fn class(
    input: &ClassInput,
    pool: PoolIx,
    is_default: bool,
    config: &ScenarioConfig,
) -> ResourceClass {
    let split = |names: &String| names.split_whitespace().map(str::to_owned).collect();
    ResourceClass {
        gangs: GangRules {
            are_allowed: input.gangs.unwrap_or(false),
            patience: input.patience.unwrap_or(GangRules::PATIENCE),
            max_duration: input.max_duration_ms,
            ..GangRules::default()
        },
        name: input.name.as_str().into(),
        policy: match input.policy {
            PolicyInput::FairShare => {
                ClassPolicy::FairShare { weight: input.weight.unwrap_or(WEIGHT).max(1) }
            }
            PolicyInput::FixedShare => ClassPolicy::FixedShare,
            PolicyInput::Reserve => ClassPolicy::Reserve,
        },
        priority: input.priority.unwrap_or(match input.policy {
            PolicyInput::FairShare => 10,
            PolicyInput::FixedShare => 5,
            PolicyInput::Reserve => 1,
        }),
        pool,
        cap_rules: CapRules {
            initialization_cap: input
                .initialization_cap
                .or(config.initialization_cap)
                .unwrap_or(INITIALIZATION_CAP),
            expand_by_doubling: input
                .expand_by_doubling
                .or(config.expand_by_doubling)
                .unwrap_or(true),
            prediction: input.use_prediction.or(config.prediction).unwrap_or(true),
            prediction_fudge: input
                .prediction_fudge_ms
                .or(config.prediction_fudge_ms)
                .unwrap_or(PREDICTION_FUDGE_MS),
            loss_limit: CapRules::LOSS_LIMIT,
        },
        users: input.users.as_ref().map(split),
        is_default,
        is_urgent: input.urgent.unwrap_or(false),
    }
}
