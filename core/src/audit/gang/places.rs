//! Checks ranks, tags, sizes and nodes of the processes of a gang.
//!
//! Processes that a gang had before are not judged: tags and sets may change under them.

use std::collections::{BTreeMap, BTreeSet};

use super::crew::{GangLine, GangProcess};
use super::fit::{Fit, GangParts};
use super::sets::{fit_in_one, is_in_one, keys, may_span};
use super::spaces::configured;
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::shapes::is_evolving;
use crate::engine::VictimRule;
use crate::model::{NodeIx, Place, count};

/// Most steps of the check of sets. Beyond that the check stops without findings.
const STEPS: u64 = 6_000_000;

/// Ranks count from 0, in the order of the request. Shares get their numbers in the order of their
/// ranks. The processes that an evolving gang gets later have ranks that no process of it has, and
/// the ranks that it gives back are the highest. Other jobs have no ranks.
pub(in crate::audit) fn check_ranks(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in &ledger.gangs {
        let id = ledger.jobs[gang.place].job.id;
        let begun: Vec<Option<u32>> = gang.begun.iter().map(|member| member.rank).collect();
        let is_ascending = begun.windows(2).all(|pair| pair[0] < pair[1]);
        let ranks: BTreeSet<Option<u32>> = gang.all().map(|member| member.rank).collect();
        let is_start = gang.stayed.is_empty();
        let is_dense = !is_start || (0..).zip(&ranks).all(|(rank, known)| *known == Some(rank));
        let is_new = gang.gains().next().is_some();
        let is_once = count(&ranks) == count(gang.all()) && !ranks.contains(&None);
        if is_new && !(is_ascending && is_dense && is_once) {
            let told: Vec<String> = gang.gains().map(|member| told(member.rank)).collect();
            let detail = format!("gang {id} gets the ranks {}", told.join(", "));
            findings.push(Rule::WrongRank.finding(detail));
        }
        if let Some((gone, kept)) = wrongly_returned(ledger, gang) {
            let detail = format!("gang {id} gives back rank {gone} and keeps rank {kept}");
            findings.push(Rule::WrongRank.finding(detail));
        }
    }
    let shares = ledger.schedule.expansions.iter().map(|new| (new.job, new.rank));
    let promises = ledger.schedule.promises.iter().map(|new| (new.job, new.rank));
    let ranked = shares.chain(promises).filter(|(_, rank)| rank.is_some());
    for (job, rank) in ranked.filter(|(job, _)| !ledger.line(*job).is_gang()) {
        let detail = format!("job {job} is no gang and gets rank {}", told(rank));
        findings.push(Rule::WrongRank.finding(detail));
    }
}

fn told(rank: Option<u32>) -> String {
    rank.map_or_else(|| "none".to_owned(), |rank| rank.to_string())
}

/// A rank that an evolving gang gives back, and a lower rank that it could have kept instead.
fn wrongly_returned(ledger: &Ledger<'_>, gang: &GangLine) -> Option<(u32, u32)> {
    let line = &ledger.jobs[gang.place];
    let returned = ledger.victims.iter().filter(|victim| {
        victim.donor == gang.place
            && victim.receipt.rule == VictimRule::NoLongerAllowed
            && ledger.is_in_pool(line, victim.share.node)
            && line.job.may_use(victim.share.node)
    });
    let lowest = returned.filter_map(|victim| victim.share.rank).min()?;
    let highest = gang.stayed.iter().filter_map(|member| member.rank).max()?;
    (is_evolving(&gang.shape) && lowest < highest).then_some((lowest, highest))
}

/// A process is on a node that has the tags of its chunk.
pub(in crate::audit) fn check_tags(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in &ledger.gangs {
        for member in gang.gains() {
            let chunk = member.rank.and_then(|rank| gang.chunk_of(rank));
            let Some(chunk) = chunk.and_then(|chunk| gang.shape.chunks.get(chunk)) else {
                continue;
            };
            let node = ledger.snapshot.node(member.node);
            if !node.tags.satisfy(&chunk.tags) {
                let id = ledger.jobs[gang.place].job.id;
                let rank = told(member.rank);
                let detail = format!(
                    "rank {rank} of gang {id} on {}, which has {}, and needs {}",
                    node.name, node.tags, chunk.tags
                );
                findings.push(Rule::WrongTags.finding(detail));
            }
        }
    }
}

/// A process has the size of its chunk. On an exclusive node the process of the lowest rank fills
/// the node, which another rule judges.
pub(in crate::audit) fn check_orders(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in &ledger.gangs {
        let mut lowest: BTreeMap<NodeIx, u32> = BTreeMap::new();
        for member in gang.all().filter(|_| gang.shape.is_exclusive) {
            let Some(rank) = member.rank else { continue };
            let known = lowest.entry(member.node).or_insert(rank);
            *known = rank.min(*known);
        }
        for member in gang.gains() {
            let Some(rank) = member.rank else { continue };
            let fills = lowest.get(&member.node) == Some(&rank);
            let is_known = gang.chunk_of(rank).is_some();
            if is_known && !fills && gang.order_of(rank) != Some(member.order) {
                let (id, name) = (ledger.jobs[gang.place].job.id, ledger.name(member.node));
                let order = member.order;
                let detail = format!("rank {rank} of gang {id} has order {order} on {name}");
                findings.push(Rule::WrongOrder.finding(detail));
            }
        }
    }
}

/// Amounts of a gang on a node, in qshares.
#[derive(Default)]
struct OwnAmounts {
    stayed: u64,
    gains: u64,
}

/// The nodes of an exclusive gang are filled by its processes, and no other request gets or keeps
/// space there.
///
/// A node where nothing is new is not judged.
pub(in crate::audit) fn check_exclusive(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in ledger.gangs.iter().filter(|gang| gang.shape.is_exclusive) {
        let mut nodes: BTreeMap<NodeIx, OwnAmounts> = BTreeMap::new();
        for GangProcess { node, order, .. } in &gang.stayed {
            nodes.entry(*node).or_default().stayed += order;
        }
        for GangProcess { node, order, .. } in gang.gains() {
            nodes.entry(*node).or_default().gains += order;
        }
        for (ix, own) in nodes {
            let node = &ledger.nodes[ix];
            let new = (node.expanded + node.promised).saturating_sub(own.gains);
            let old = (node.staying - node.expanded).saturating_sub(own.stayed);
            let is_new = 0 < own.gains;
            let is_full = own.stayed + own.gains == node.order;
            if 0 < new || (is_new && (0 < old || !is_full)) {
                let (id, name) = (ledger.jobs[gang.place].job.id, ledger.name(ix));
                let detail = format!(
                    "gang {id} has {} of the {} qshares of {name}, and other work {}",
                    own.stayed + own.gains,
                    node.order,
                    new + old,
                );
                findings.push(Rule::NotExclusive.finding(detail));
            }
        }
    }
}

/// A scattered gang has a process on each node; a packed gang is on a single node.
pub(in crate::audit) fn check_place(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in ledger.gangs.iter().filter(|gang| gang.gains().next().is_some()) {
        let nodes: BTreeSet<NodeIx> = gang.all().map(|member| member.node).collect();
        let (nodes, processes) = (count(&nodes), count(gang.all()));
        let (is_right, word) = match gang.shape.place {
            Place::Free => (true, ""),
            Place::Scatter => (nodes == processes, "scattered"),
            Place::Pack => (nodes <= 1, "packed"),
        };
        if !is_right {
            let id = ledger.jobs[gang.place].job.id;
            let detail =
                format!("gang {id} is {word}, with {processes} processes on {nodes} nodes");
            findings.push(Rule::WrongPlace.finding(detail));
        }
    }
}

/// A gang is in a single placement set. It may span several only if that is allowed, and if no set
/// could ever hold it.
pub(in crate::audit) fn check_spans(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut steps = STEPS;
    for gang in ledger.gangs.iter().filter(|gang| gang.gains().next().is_some()) {
        let line = &ledger.jobs[gang.place];
        if is_in_one(ledger, &gang.shape, gang.all()) {
            continue;
        }
        let mut could_be_in_one = || {
            // A gang that grows stays in the sets that it has.
            let request = GangParts::of(gang, count(gang.gains()));
            let Some(request) = request.filter(|_| gang.stayed.is_empty()) else {
                return Fit::Unknown;
            };
            let spaces = configured(ledger, gang);
            fit_in_one(&request, &keys(ledger, &gang.shape), &spaces, &mut steps)
        };
        let is_allowed = may_span(ledger, &gang.shape);
        if !is_allowed || Fit::Unknown < could_be_in_one() {
            let why = if is_allowed { "one could hold it" } else { "it may not" };
            let detail = format!("gang {} is in several placement sets, though {why}", line.job.id);
            findings.push(Rule::Spanned.finding(detail));
        }
    }
}
