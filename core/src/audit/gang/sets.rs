//! Placement sets: groups of nodes that a gang may use together.

use std::collections::{BTreeMap, BTreeSet};

use super::crew::{GangLine, GangProcess};
use super::fit::{Fit, GangParts};
use super::spaces::{FreeNode, configured};
use crate::audit::ledger::Ledger;
use crate::audit::shapes::fewest_at_start;
use crate::model::{Name, NodeIx, Shape, Tags};

/// Value of a key that a node does not have. The set of such nodes is not judged.
const ABSENT: &str = "false";

/// Keys whose values are placement sets for `shape`, in the order in which they are tried.
pub(super) fn keys<'l>(ledger: &'l Ledger<'_>, shape: &'l Shape) -> Vec<&'l Name> {
    match &shape.group_by {
        Some(key) => vec![key],
        None => ledger.snapshot.topology.tagging.sets.iter().collect(),
    }
}

/// True if a gang of this shape may use several sets where no single set could ever hold it.
pub(super) fn may_span(ledger: &Ledger<'_>, shape: &Shape) -> bool {
    shape.may_span.unwrap_or(ledger.snapshot.topology.tagging.may_span)
}

/// True if all `members` are in the same set, or there are no sets.
pub(super) fn is_in_one<'m>(
    ledger: &Ledger<'_>,
    shape: &Shape,
    members: impl Iterator<Item = &'m GangProcess>,
) -> bool {
    let nodes: BTreeSet<NodeIx> = members.map(|member| member.node).collect();
    let tags = || nodes.iter().map(|&ix| &ledger.snapshot.nodes[ix].tags);
    let keys = keys(ledger, shape);
    let is_one = |key: &&Name| {
        let values: BTreeSet<&str> =
            tags().map(|tags: &std::sync::Arc<Tags>| tags.value(key)).collect();
        values.len() <= 1
    };
    keys.is_empty() || keys.iter().any(is_one)
}

/// The best answer of any single set in `spaces`.
pub(super) fn fit_in_one(
    request: &GangParts<'_>,
    keys: &[&Name],
    spaces: &[FreeNode],
    steps: &mut u64,
) -> Fit {
    let mut best = Fit::No;
    for (is_judged, set) in sets(keys, spaces) {
        let fit = request.fit(&set, steps);
        best = best.max(if is_judged { fit } else { fit.min(Fit::Unknown) });
        if best == Fit::Yes {
            break;
        }
    }
    best
}

/// Spaces of each set, and if the set is judged.
pub(super) fn sets(keys: &[&Name], spaces: &[FreeNode]) -> Vec<(bool, Vec<FreeNode>)> {
    let mut sets: BTreeMap<(usize, &str), Vec<FreeNode>> = BTreeMap::new();
    for (number, key) in keys.iter().enumerate() {
        for space in spaces {
            sets.entry((number, space.tags.value(key))).or_default().push(space.clone());
        }
    }
    sets.into_iter().map(|((_, value), spaces)| (value != ABSENT, spaces)).collect()
}

/// Decides if `request` of `gang` fits into `spaces`: into a single set; into several only if they
/// are allowed and no set could ever hold it. A gang whose size the planner chooses waits for a set
/// that could hold the fewest processes with which it starts.
pub(super) fn fit_in_sets(
    ledger: &Ledger<'_>,
    gang: &GangLine,
    request: &GangParts<'_>,
    spaces: &[FreeNode],
    steps: &mut u64,
) -> Fit {
    let keys = keys(ledger, &gang.shape);
    if keys.is_empty() {
        return request.fit(spaces, steps);
    }
    let in_one = fit_in_one(request, &keys, spaces, steps);
    if Fit::Unknown < in_one || !may_span(ledger, &gang.shape) {
        return in_one;
    }
    let fewest = fewest_at_start(&gang.shape).and_then(|size| GangParts::of(gang, size));
    let request_of_sets = fewest.as_ref().unwrap_or(request);
    match fit_in_one(request_of_sets, &keys, &configured(ledger, gang), steps) {
        Fit::No => in_one.max(request.fit(spaces, steps)),
        Fit::Unknown => Fit::Unknown,
        Fit::Packed | Fit::Yes => in_one,
    }
}
