//! Processes on silent nodes: they keep their space, and may run or not.

use std::collections::BTreeSet;

use crate::api::wire::Unblock;
use crate::model::{Name, SharePhase, fold_hostlist, plural};
use crate::scheduler::{JobView, View};

/// The silent nodes on which a job holds processes.
#[derive(Debug)]
pub(in crate::api) struct SilentNodes {
    /// Their names, folded.
    names: String,
    /// Number of nodes.
    nodes: usize,
    processes: u64,
}

impl SilentNodes {
    /// Finds the silent nodes that hold processes of `job`, if there are any.
    pub(in crate::api) fn of(view: &View, job: &JobView) -> Option<SilentNodes> {
        let dead = view.nodes.iter().filter(|node| node.state.is_dead);
        let dead = dead.map(|node| node.name.as_str());
        let held_back = view.lost_held_back.iter().map(Name::as_str);
        let all: BTreeSet<&str> = dead.chain(held_back).collect();
        let held = job.shares.iter().filter(|share| share.state == SharePhase::Held);
        let silent: Vec<&str> =
            held.map(|share| share.node.as_str()).filter(|node| all.contains(node)).collect();
        let mut names = silent.clone();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| SilentNodes {
            nodes: names.len(),
            names: fold_hostlist(names),
            processes: silent.iter().map(|_| 1).sum(),
        })
    }

    /// "1 process is on a node that is silent (n7)".
    pub(in crate::api) fn sentence(&self) -> String {
        let SilentNodes { names, nodes, processes } = self;
        let are = if *processes == 1 { "is" } else { "are" };
        let where_ = if *nodes == 1 { "a node that is silent" } else { "nodes that are silent" };
        format!("{processes} {} {are} on {where_} ({names})", plural(*processes, "process"))
    }

    /// Returns the condition under which the job's processes there count again.
    pub(in crate::api) fn unblock(&self) -> Unblock {
        let SilentNodes { names, nodes, .. } = self;
        let (is, it) = if *nodes == 1 { ("is", "it is") } else { ("are", "they are") };
        let sentence = format!(
            "{names} {is} up again; or an operator says that {it} dead: apportion node lost {names}"
        );
        Unblock { sentence, needs_a_change: true, estimate: None }
    }
}
