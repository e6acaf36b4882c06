//! A client that follows the jobs of the resource manager and judges preemptions by the pages it
//! got.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apportion::api::wire::{JobPage, RemovalReason, ShareInfo, ShareState};

use super::fleet::Fleet;

/// Memory of a witness.
#[derive(Debug, Default)]
pub struct Witness {
    cycle: u64,
    /// Shares that were terminated.
    leaving: BTreeSet<u64>,
    /// Preempted shares that were judged. Other shares stay beside them, and the cycle before was
    /// seen too, so that the preempted shares of this cycle are known.
    pub judged: usize,
}

/// Loss of a share for a comparison: an initializing share goes before any initialized share.
fn stake(share: &ShareInfo) -> (bool, u64) {
    let ShareInfo { initialized, initialization_ms, investment_ms, .. } = *share;
    (initialized, if initialized { investment_ms } else { initialization_ms })
}

impl Witness {
    /// Looks at the jobs as often as they change, until `story` has ended.
    pub async fn during(&mut self, fleet: &Fleet, story: impl Future<Output = ()>) {
        let watch = async {
            loop {
                if let Some(page) = fleet.jobs().await {
                    self.look(&page);
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        };
        tokio::select! {
            () = story => {}
            () = watch => {}
        }
    }

    /// Row A5: what is preempted on a node has the least to lose of its job there.
    fn look(&mut self, page: &JobPage) {
        let is_next = page.cycle == self.cycle + 1;
        self.cycle = page.cycle;
        for job in &page.jobs {
            let mut places: BTreeMap<&str, [Vec<&ShareInfo>; 2]> = BTreeMap::new();
            for share in &job.shares {
                let is_leaving = share.state == ShareState::Leaving;
                if is_leaving && !self.leaving.insert(share.share) {
                    continue;
                }
                if !is_leaving || share.removal == Some(RemovalReason::Preempted) {
                    places.entry(&share.node).or_default()[usize::from(is_leaving)].push(share);
                }
            }
            for [stay, went] in places.values().filter(|_| is_next) {
                for gone in went.iter().filter(|_| !stay.is_empty()) {
                    self.judged += 1;
                    let cheaper = stay.iter().find(|share| stake(share) < stake(gone));
                    assert!(cheaper.is_none(), "{gone:?} was preempted, and not {cheaper:?}");
                }
            }
        }
    }
}
