//! The gang of a campaign: several nodes that run a single program together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SpecProblem;
use super::campaign::{CampaignSpec, CampaignType};
use super::fields::Fields;
use super::params::{Params, TaskRange, short};
use crate::model::{LegalSizes, is_tag_key, is_tag_value};
use crate::orchestrator::wire::signal_number;

/// Most nodes of a gang: each rank is told of all ranks.
pub const MAX_RANKS: u64 = 1024;

/// Signal that tells a program of a new size, unless the campaign names another: SIGUSR1.
const RESIZE_SIGNAL: u8 = 10;

/// Sizes of a malleable gang, whose number of nodes changes while its program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangSizes {
    /// Fewest nodes that the program can work with.
    pub min_nodes: u64,
    /// Numbers of nodes that the program can work with, as a word of the resource manager.
    pub legal_sizes: String,
    /// Number of the signal that tells the program of a new size.
    pub resize_signal: u8,
}

impl GangSizes {
    /// The rule for numbers of nodes.
    pub fn legal(&self) -> LegalSizes {
        let mut named = LegalSizes::NAMED.into_iter();
        let found = named.find(|(word, _)| *word == self.legal_sizes);
        found.map(|(_, sizes)| sizes).unwrap_or_default()
    }
}

/// The gang of a campaign, checked. Its ranks are the tasks of the campaign: rank 0 is task 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangSpec {
    /// Number of nodes, each with a rank: 1 to [`MAX_RANKS`]. Of a malleable gang, the most.
    pub nodes: u64,
    /// Sizes of a malleable gang. Absent: the number of nodes is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<GangSizes>,
    /// True if no other work may be on the nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// True if every rank runs the program. False: rank 0 runs it, and starts programs at the other
    /// ranks by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_node: bool,
    /// Tags that each node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Key of a tag of which all nodes must have the same value. Absent: as the resource manager is
    /// configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
}

impl GangSpec {
    /// The number of nodes in words: `4 nodes`, `2 to 8 nodes`.
    pub fn words(&self) -> String {
        let nodes = crate::model::counted(self.nodes, "node");
        let least = self.sizes.as_ref().map(|sizes| sizes.min_nodes);
        least.map_or(nodes.clone(), |least| format!("{least} to {nodes}"))
    }

    /// True if the number of nodes varies while the program runs.
    pub fn is_malleable(&self) -> bool {
        self.sizes.is_some()
    }

    /// The rank that a task of the campaign is.
    pub fn rank_of(task: u64) -> u64 {
        task.saturating_sub(1)
    }

    /// The task that is `rank`.
    pub fn task_of(rank: u64) -> u64 {
        rank.saturating_add(1)
    }
}

/// Takes the section `gang`.
pub(super) fn take(fields: &mut Fields<'_>) -> Option<GangSpec> {
    let section = fields.section("gang")?;
    let mut problems = Vec::new();
    let mut inner = Fields::new("gang.", section, &mut problems);
    let nodes = inner.range("nodes", 1, MAX_RANKS);
    let sizes = sizes(&mut inner, nodes);
    let gang = GangSpec {
        nodes: nodes.map_or(1, |(_, most)| most),
        sizes,
        exclusive: inner.flag("exclusive"),
        every_node: inner.flag("every_node"),
        tags: inner.texts("tags").unwrap_or_default(),
        group_by: inner.text("group_by", "write the key of a tag, such as \"rack\""),
    };
    inner.finish();
    let has_number = nodes.is_some() || problems.iter().any(|it| it.field == "gang.nodes");
    if !has_number {
        let remedy = "write the number of nodes, such as gang = { nodes = 4 }, or --nodes 4";
        problems.push(SpecProblem::new("gang.nodes", "is absent", remedy));
    }
    refuse_with_sizes(&gang, &mut problems);
    let tags = gang.tags.iter().filter(|(key, value)| !is_tag_key(key) || !is_tag_value(value));
    problems.extend(tags.map(|(key, value)| {
        let message = format!("`{}={}` is no tag", short(key), short(value));
        let remedy = "write KEY=VALUE, the key of a-z, 0-9, `_`, `.` and `-`, as gpu=a100";
        SpecProblem::new("gang.tags", message, remedy)
    }));
    if let Some(key) = gang.group_by.as_deref().filter(|key| !is_tag_key(key)) {
        let message = format!("`{}` is no key of a tag", short(key));
        problems.push(SpecProblem::new("gang.group_by", message, "write it as \"rack\""));
    }
    for SpecProblem { field, message, remedy } in problems {
        fields.fault(&field, message, remedy);
    }
    Some(gang)
}

/// Takes the sizes of a malleable gang.
fn sizes(inner: &mut Fields<'_>, nodes: Option<(u64, u64)>) -> Option<GangSizes> {
    let words: Vec<&str> = LegalSizes::NAMED.iter().map(|(word, _)| *word).collect();
    let remedy = format!("write one of {}", words.join(", "));
    let legal_sizes = inner.text("legal_sizes", &remedy);
    let signal = inner.signal("resize_signal");
    let (min_nodes, most) = nodes?;
    if most <= min_nodes {
        for (key, is_there) in
            [("legal_sizes", legal_sizes.is_some()), ("resize_signal", signal.is_some())]
        {
            if is_there {
                let message = "the number of nodes is fixed";
                inner.fault(key, message, "write the nodes as \"2-8\", or remove it");
            }
        }
        return None;
    }
    let legal_sizes = legal_sizes.unwrap_or_else(|| "any".to_owned());
    let resize_signal = signal.unwrap_or(RESIZE_SIGNAL);
    let sizes = GangSizes { min_nodes, legal_sizes, resize_signal };
    let first = sizes.legal().at_least(min_nodes);
    if !words.contains(&sizes.legal_sizes.as_str()) {
        let message = format!("`{}` is no rule for sizes", short(&sizes.legal_sizes));
        inner.fault("legal_sizes", message, remedy);
    } else if first.is_none_or(|first| most < first) {
        let message = format!("no such number is from {min_nodes} to {most}");
        inner.fault("legal_sizes", message, "write another rule, or other numbers of nodes");
    }
    if ["KILL", "STOP"].into_iter().filter_map(signal_number).any(|it| it == resize_signal) {
        let message = "a program cannot catch this signal";
        inner.fault("resize_signal", message, "write another, such as \"USR1\"");
    }
    Some(sizes)
}

/// Reports fields that contradict the sizes of a malleable gang. Such a gang grows and shrinks with
/// its fair share, a slot of `memory` at a time, on any nodes that have its tags.
fn refuse_with_sizes(gang: &GangSpec, problems: &mut Vec<SpecProblem>) {
    let refused = [
        (
            "gang.every_node",
            gang.every_node,
            "the number of nodes varies, and only a program on the first node is told",
            "write a single number of nodes, or remove it",
        ),
        (
            "gang.exclusive",
            gang.exclusive,
            "the number of nodes varies by slots of one size, and a whole node has a size of its own",
            "ask for as much `memory` as a node has, or write a single number of nodes",
        ),
        (
            "gang.group_by",
            gang.group_by.is_some(),
            "the number of nodes varies with the fair share, which no group of nodes bounds",
            "name the group by its tag, such as tags = { rack = \"r1\" }, or write a single number of nodes",
        ),
    ];
    for (field, _, message, remedy) in refused.into_iter().filter(|it| it.1 && gang.sizes.is_some())
    {
        problems.push(SpecProblem::new(field, message, remedy));
    }
}

/// Makes the ranks the tasks of a campaign with a gang. Reports fields that contradict the gang.
pub(super) fn settle(spec: &mut CampaignSpec, params: &Params, problems: &mut Vec<SpecProblem>) {
    let Some(gang) = &spec.gang else { return };
    let has_tasks = spec.tasks != TaskRange::up_to(1) || *params != Params::Numbers;
    let each = "submit a campaign for each, or drop the gang";
    let single = "a gang has one slot on each node; remove it, or drop the gang";
    let refused = [
        ("tasks", has_tasks, "a gang runs one program, and its ranks are the tasks", each),
        ("lanes", spec.lanes != 1, "a gang runs one task at a time", single),
        ("max", spec.max.is_some(), "a gang has as many slots as nodes", single),
        (
            "keep",
            spec.keep,
            "a gang cannot be kept by this field",
            "name a class of the policy `fixed-share` that allows gangs",
        ),
        (
            "memory_retry",
            spec.memory_retry.is_some(),
            "the memory of a gang stays as it is",
            "ask for enough `memory`, or drop the gang",
        ),
        (
            "may_run_twice",
            spec.may_run_twice,
            "a gang never runs twice at a time",
            "remove it, or drop the gang",
        ),
        (
            "on_unheard",
            spec.task.finishes_unheard,
            "a gang ends whole when a node is unreachable",
            "write \"stop\", or remove it",
        ),
        ("type", spec.kind == CampaignType::Test, "a gang has no trial task", "remove it"),
    ];
    for (field, _, message, remedy) in refused.into_iter().filter(|(_, is_there, ..)| *is_there) {
        problems.push(SpecProblem::new(field, message, remedy));
    }
    spec.tasks = TaskRange::up_to(gang.nodes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CampaignSpec, Vec<String>> {
        let document = toml::from_str(&format!("command = [\"mpirun\"]\n{text}")).unwrap();
        let told = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        CampaignSpec::read(document).map(|(spec, _)| spec).map_err(told)
    }

    #[test]
    fn the_ranks_are_the_tasks() {
        let text =
            r#"gang = { nodes = 4, exclusive = true, tags = { gpu = "a100" }, group_by = "rack" }"#;
        let spec = read(text).unwrap();
        let gang = spec.gang.unwrap();
        assert_eq!((gang.nodes, gang.exclusive, gang.every_node), (4, true, false));
        assert_eq!((gang.tags["gpu"].as_str(), gang.group_by.as_deref()), ("a100", Some("rack")));
        assert_eq!(spec.tasks, TaskRange::up_to(4));
        assert_eq!((GangSpec::rank_of(4), GangSpec::task_of(0)), (3, 1));
        assert_eq!(read("").unwrap().gang, None);
    }

    #[test]
    fn two_numbers_of_nodes_make_a_malleable_gang() {
        let gang = |text: &str| read(text).unwrap().gang.unwrap();
        let plain = gang("gang = { nodes = \"2-8\" }");
        let sizes = plain.sizes.unwrap();
        assert_eq!((plain.nodes, sizes.min_nodes, sizes.resize_signal), (8, 2, 10));
        assert_eq!(sizes.legal(), LegalSizes::Any);
        let text = "gang = { nodes = \"2-8\", legal_sizes = \"even\", resize_signal = \"USR2\" }";
        let sizes = gang(text).sizes.unwrap();
        assert_eq!((sizes.legal(), sizes.resize_signal), (LegalSizes::Even, 12));
        assert_eq!(gang("gang = { nodes = \"4\" }").sizes, None);
        let tagged = gang("gang = { nodes = \"2-8\", tags = { rack = \"r1\" } }");
        assert_eq!((tagged.tags["rack"].as_str(), tagged.is_malleable()), ("r1", true));
    }

    #[test]
    fn what_contradicts_a_gang_is_named_with_its_remedy() {
        let text = r#"
            tasks = "1-9"
            lanes = 2
            max = 3
            keep = true
            memory_retry = "2x2"
            may_run_twice = true
            on_unheard = "finish"
            type = "test"
            gang = { nodes = 2 }
        "#;
        let told = read(text).unwrap_err();
        for start in [
            "tasks: a gang runs one program, and its ranks are the tasks; submit a campaign",
            "lanes: a gang runs one task at a time; a gang has one slot",
            "max: a gang has as many slots as nodes",
            "keep: a gang cannot be kept by this field; name a class of the policy `fixed-share`",
            "memory_retry: the memory of a gang stays as it is; ask for enough `memory`",
            "may_run_twice: a gang never runs twice at a time; remove it",
            "on_unheard: a gang ends whole when a node is unreachable; write \"stop\"",
            "type: a gang has no trial task; remove it",
        ] {
            assert!(told.iter().any(|it| it.starts_with(start)), "{start}: {told:#?}");
        }
    }

    #[test]
    fn a_gang_that_cannot_be_is_refused() {
        for (text, start) in [
            ("gang = 4", "gang: `4` does not fit; write it as a section, [gang]"),
            ("gang = { exclusive = true }", "gang.nodes: is absent; write the number of nodes"),
            ("gang = { nodes = 0 }", "gang.nodes: `0` does not fit; write a whole number from 1"),
            ("gang = { nodes = \"8-2\" }", "gang.nodes: `\"8-2\"` does not fit; write a whole"),
            (
                "gang = { nodes = \"2-8\", every_node = true }",
                "gang.every_node: the number of nodes varies, and only a program on the first",
            ),
            (
                "gang = { nodes = \"2-8\", exclusive = true }",
                "gang.exclusive: the number of nodes varies by slots of one size, and a whole node has a \
                 size of its own; ask for as much `memory` as a node has",
            ),
            (
                "gang = { nodes = \"2-8\", group_by = \"rack\" }",
                "gang.group_by: the number of nodes varies with the fair share, which no group of nodes \
                 bounds; name the group by its tag",
            ),
            ("gang = { nodes = \"2-8\", legal_sizes = \"few\" }", "gang.legal_sizes: `few` is no"),
            (
                "gang = { nodes = \"5-7\", legal_sizes = \"power_of_two\" }",
                "gang.legal_sizes: no such number is from 5 to 7",
            ),
            ("gang = { nodes = 2, legal_sizes = \"odd\" }", "gang.legal_sizes: the number of"),
            (
                "gang = { nodes = \"2-8\", resize_signal = \"KILL\" }",
                "gang.resize_signal: a program cannot catch this signal",
            ),
            ("gang = { nodes = 2, node = 3 }", "gang.node: is unknown; did you mean `nodes`?"),
            ("gang = { nodes = 2, tags = { \"G P\" = \"x\" } }", "gang.tags: `G P=x` is no tag"),
            ("gang = { nodes = 2, group_by = \"a b\" }", "gang.group_by: `a b` is no key"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.len() == 1 && told[0].starts_with(start), "{text}: {told:#?}");
        }
    }
}
