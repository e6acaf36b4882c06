//! Effects of another configuration, computed on a copy of the state.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{JobView, Removal, View, Waiting};
use super::{AdminCommand, Scheduler};
use crate::model::{JobId, Millis, Name, ShareId, SharePhase, Topology};

/// Effects that a configuration has, or would have, on the current load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyImpact {
    /// The cycle that it is seen in.
    pub cycle: u64,
    /// Shares that have to go for it, by job and why.
    pub evicted: BTreeMap<(JobId, Removal), u64>,
    /// Work lost with the shares, in milliseconds of their processes.
    pub work_lost: Millis,
    /// Shares that stay until their work is done, though they are where configuration does not
    /// allow them, by job.
    pub parked: BTreeMap<JobId, u64>,
    /// Work that is refused now and was not, each with why.
    pub refused: Vec<(JobId, String)>,
    /// Nodes that get no work until such shares have left, and did before.
    pub blacklisted: Vec<Name>,
    /// Nodes that change their pool: which, from where, to where.
    pub moved: Vec<(Name, Name, Name)>,
}

impl Scheduler {
    /// Computes the effects of `topology` in the next cycle, compared with that cycle under the
    /// current configuration. The scheduler itself stays unchanged.
    pub fn try_out(&self, topology: Topology) -> TopologyImpact {
        let mut unchanged = self.clone();
        let expected = unchanged.schedule();
        let mut changed = self.clone();
        if changed.command(AdminCommand::Reconfigure(Box::new(topology))).is_ok() {
            changed.schedule();
        }
        changed.impact_since(&self.view(), &leaving(&expected))
    }

    /// Effects of a new configuration since the view `before`, without the shares in `expected`,
    /// which leave anyway.
    pub fn impact_since(&self, before: &View, expected: &BTreeSet<ShareId>) -> TopologyImpact {
        let after = self.view();
        let known: BTreeSet<ShareId> = expected.union(&leaving(before)).copied().collect();
        let mut impact = TopologyImpact { cycle: after.cycle, ..TopologyImpact::default() };
        for job in after.jobs.iter() {
            for share in job.shares.iter().filter(|share| !known.contains(&share.id)) {
                if let Some(why) = share.removal {
                    *impact.evicted.entry((job.id, why)).or_default() += 1;
                    impact.work_lost = impact.work_lost.saturating_add(share.facts.work_at_stake());
                }
            }
        }
        for (job, share) in self.misplaced() {
            if share.state == SharePhase::Held {
                *impact.parked.entry(job).or_default() += 1;
            }
        }
        let was_refused: BTreeSet<JobId> =
            before.jobs.iter().filter_map(|job| refusal(job).map(|_| job.id)).collect();
        let refused = after.jobs.iter().filter(|job| !was_refused.contains(&job.id));
        impact.refused = refused.filter_map(|job| Some((job.id, refusal(job)?))).collect();
        let nodes_before: BTreeMap<&Name, _> =
            before.nodes.iter().map(|node| (&node.name, node)).collect();
        for node in after.nodes.iter() {
            let Some(earlier) = nodes_before.get(&node.name) else { continue };
            if node.state.is_blacklisted && !earlier.state.is_blacklisted {
                impact.blacklisted.push(node.name.clone());
            }
            if node.pool != earlier.pool {
                impact.moved.push((node.name.clone(), earlier.pool.clone(), node.pool.clone()));
            }
        }
        impact
    }
}

fn leaving(view: &View) -> BTreeSet<ShareId> {
    let shares = view.jobs.iter().flat_map(|job| &job.shares);
    shares.filter(|share| share.state == SharePhase::Leaving).map(|share| share.id).collect()
}

fn refusal(job: &JobView) -> Option<String> {
    match &job.reason {
        Some(Waiting::Refused(refusal)) => Some(refusal.to_string()),
        Some(Waiting::Engine(_)) | None => None,
    }
}
