//! Differences between published processes and the scheduler's shares: processes that should not
//! run, or run on the wrong node. Every such process is reported, and counted where it is, no
//! matter which side is wrong.

use std::collections::{BTreeMap, HashMap};

use crate::api::http::error::{Code, RequestFault};
use crate::converter::{CheckedPublication, LimboProcess, PublishedJob};
use crate::model::{JobId, ShareId, SharePhase};
use crate::scheduler::{ShareView, View};

/// Cycles after which a terminating process that still runs causes a warning.
const OVERDUE_AFTER: u64 = 20;

/// A share in the view.
#[derive(Clone, Copy, Debug)]
struct Issued<'a> {
    job: JobId,
    node: &'a str,
    is_leaving: bool,
}

/// The shares in the view, to compare with the published processes. Shares that died with their
/// node are included.
#[derive(Debug)]
pub struct ViewShares<'a> {
    view: &'a View,
    shares: HashMap<ShareId, Issued<'a>>,
}

impl<'a> ViewShares<'a> {
    /// The shares in `view`.
    pub fn new(view: &'a View) -> ViewShares<'a> {
        let issued = |job: JobId, share: &'a ShareView, is_leaving| {
            (share.id, Issued { job, node: share.node.as_str(), is_leaving })
        };
        let shares = view.jobs.iter().flat_map(|job| {
            let shares = job
                .shares
                .iter()
                .map(move |share| issued(job.id, share, share.state == SharePhase::Leaving));
            shares.chain(job.purged.iter().map(move |share| issued(job.id, share, false)))
        });
        ViewShares { view, shares: shares.collect() }
    }

    /// Returns the job that the share belongs to.
    pub fn owner(&self, share: ShareId) -> Option<&JobId> {
        self.shares.get(&share).map(|issued| &issued.job)
    }

    /// True if the view has the share on this node.
    pub fn has_at(&self, share: ShareId, node: &str) -> bool {
        self.shares.get(&share).is_some_and(|issued| issued.node == node)
    }

    /// The processes of `work` that run elsewhere than their shares are: both places are taken.
    pub fn misplaced_processes(&self, work: &PublishedJob) -> Vec<(ShareId, LimboProcess)> {
        let is_stray = |share: &ShareId, node: &str| {
            self.shares.get(share).is_some_and(|issued| issued.node != node)
        };
        let live = work.processes.iter().filter(|(_, process)| !process.is_gone);
        let misplaced_processes = live.filter(|(share, process)| is_stray(share, &process.node));
        let memory = Some(work.spec.memory);
        misplaced_processes
            .map(|(&share, process)| (share, LimboProcess { node: process.node.clone(), memory }))
            .collect()
    }

    /// Lists problems of the processes of `work`, which is at `prefix` of the publication after
    /// `before`. If a terminating process still runs, notes in `overdue` the cycle in
    /// which that was seen.
    pub fn alarms(
        &self,
        prefix: &str,
        work: &PublishedJob,
        before: Option<&CheckedPublication>,
        overdue: &mut BTreeMap<ShareId, u64>,
    ) -> Vec<RequestFault> {
        let id = work.spec.id;
        let live = work.processes.iter().filter(|(_, process)| !process.is_gone);
        let found = live.filter_map(|(&share, process)| {
            let (code, what) = self
                .misplaced(id, share, &process.node, before)
                .or_else(|| self.overdue(share, overdue))?;
            let detail = format!("job {id}: share {share} on `{}` {what}", process.node);
            Some(RequestFault::new(code, format!("{prefix}/processes"), detail))
        });
        found.collect()
    }

    fn misplaced(
        &self,
        job: JobId,
        share: ShareId,
        node: &str,
        before: Option<&CheckedPublication>,
    ) -> Option<(Code, String)> {
        const COUNTED: &str = "its space is counted as taken";
        // On a first start there may be much that was issued before there was a record.
        let has_record = before.is_some() || ShareId(1) < self.view.next_share;
        let is_known_node =
            || self.view.nodes.binary_search_by(|known| known.name.as_str().cmp(node)).is_ok();
        match self.shares.get(&share) {
            Some(issued) if issued.node != node => {
                let place = issued.node;
                let what = format!("was issued on `{place}`; the space is counted in both places");
                Some((Code::MovedShare, what))
            }
            None if share >= self.view.next_share && has_record => {
                Some((Code::UnissuedShare, format!("was never issued; {COUNTED}")))
            }
            None if before.is_some_and(|before| has_ended(before, job, share)) => {
                let what = "had ended before; it counts again, as what runs takes space";
                Some((Code::ReturnedShare, what.to_owned()))
            }
            _ if !is_known_node() => {
                let what = format!("waits for its node, which never reported; {COUNTED}");
                Some((Code::ProcessOnUnknownNode, what))
            }
            _ => None,
        }
    }

    fn overdue(
        &self,
        share: ShareId,
        since: &mut BTreeMap<ShareId, u64>,
    ) -> Option<(Code, String)> {
        self.shares.get(&share).filter(|issued| issued.is_leaving)?;
        let cycle = self.view.cycle;
        let cycles = cycle.saturating_sub(*since.entry(share).or_insert(cycle));
        let what = format!(
            "has been terminating for {cycles} cycles or more; its space stays taken, and it is not given back"
        );
        (OVERDUE_AFTER <= cycles).then_some((Code::OverdueShare, what))
    }
}

/// True if no process of `job` ran in `share` when `before` was published. A share that the view no
/// longer has had ended then.
fn has_ended(before: &CheckedPublication, job: JobId, share: ShareId) -> bool {
    let process = before.work.get(&job).and_then(|work| work.processes.get(&share));
    process.is_none_or(|process| process.is_gone) && !before.limbo.contains_key(&share)
}
