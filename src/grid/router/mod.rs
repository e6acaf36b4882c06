//! The router: shares the space of all clusters among all campaigns, in the order of a policy.
//!
//! The router works on sights that it decrements as it hands space out. A sight is old by the time
//! that the tasks leave, and no space is handed out twice within a pass.

mod policies;
mod sights;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::flood::{allowed, fit};
use super::predictor::{Predictor, PredictorState, Strictness, sent};
use super::ratio::quotient;
pub use policies::{DEFAULT_POLICY, ROUTER_POLICIES, router_policy};
pub use sights::{CampaignSight, ClusterSight, GridSight, STRESS_LIMIT, TargetSight};

/// Place of a pair in the order of a pass; the smallest goes first.
pub type Position = [u64; 4];

/// Place of a pair among all pairs: tests first, the position, and the number of the pair.
type PairPlace = (bool, Position, usize);

/// A campaign on a cluster, as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct PairView<'a> {
    /// The campaign.
    pub campaign: &'a CampaignSight,
    /// The cluster.
    pub cluster: &'a ClusterSight,
    /// Facts of the campaign on the cluster.
    pub target: &'a TargetSight,
    /// Place of the cluster by declared priority, then power, then name.
    pub place: u64,
    /// Resources of the campaign's user on all clusters for its weight, in millionths.
    pub share: u64,
    /// Number of times that the pair was served in this pass. 0 without interleaving.
    pub round: u64,
}

/// An order of campaigns and clusters.
pub trait RouterPolicy: std::fmt::Debug + Sync {
    /// Name in the configuration.
    fn name(&self) -> &'static str;

    /// Place of a pair. Test campaigns go before all other campaigns, under each policy.
    ///
    /// The share may be a component of the place, and changes no other component.
    fn position(&self, pair: &PairView<'_>) -> Position;
}

/// Tasks of a campaign for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Number of the campaign.
    pub campaign: u64,
    /// Position of the cluster among the sights.
    pub cluster: usize,
    /// Number of tasks.
    pub count: u64,
}

/// A campaign with the clusters on which its scheduler was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of the campaign.
    pub campaign: u64,
    /// Positions of the clusters among the sights, in order.
    pub clusters: Vec<usize>,
}

/// Outcome of a pass of the router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Grants, by campaign and cluster.
    pub grants: Vec<Grant>,
    /// Launches, in the order of the policy.
    pub launches: Vec<Launch>,
}

/// Settings of a pass.
#[derive(Clone, Copy, Debug)]
pub struct RouteSettings<'a> {
    /// The policy.
    pub policy: &'a dyn RouterPolicy,
    /// True if campaigns take turns. Otherwise a cluster's space is the first campaign's until that
    /// campaign is satisfied.
    pub interleaves: bool,
    /// Bounds of the predictors.
    pub strictness: Strictness,
}

/// Space of a cluster within a pass.
#[derive(Clone, Copy, Debug)]
struct ClusterSpace {
    free: u64,
    waiting: u64,
}

/// A campaign on a cluster within a pass.
#[derive(Debug)]
struct Pair<'a> {
    campaign: usize,
    target: &'a TargetSight,
    predictor: &'static dyn Predictor,
    state: PredictorState,
    /// Tasks that the pair may still get.
    quota: u64,
    /// Largest number of tasks at a time.
    step: u64,
    given: u64,
    round: u64,
}

/// Shares the space of all clusters. `states`: the states of the predictors for this pass, by
/// campaign and position of the cluster.
pub fn route(
    sight: &GridSight,
    states: &BTreeMap<(u64, usize), PredictorState>,
    settings: RouteSettings<'_>,
) -> Routing {
    let mut pass = RoutePass::new(sight, states, settings);
    // The share is the same for all pairs of a user, so it does not change their order. Only the
    // user's first pair is compared with the pairs of other users.
    let mut by_user: BTreeMap<&str, BinaryHeap<Reverse<PairPlace>>> = BTreeMap::new();
    for at in 0..pass.pairs.len() {
        by_user.entry(pass.user(at)).or_default().push(Reverse(pass.position(at, 0)));
    }
    let mut order: BinaryHeap<Reverse<(PairPlace, &str)>> = BinaryHeap::new();
    for (user, pairs) in &by_user {
        order.extend(pass.first_of(user, pairs).map(Reverse));
    }
    while let Some(Reverse((_, user))) = order.pop() {
        let Some(pairs) = by_user.get_mut(user) else { continue };
        let Some(Reverse((_, _, at))) = pairs.pop() else { continue };
        if pass.serve(at) {
            pairs.push(Reverse(pass.position(at, 0)));
        }
        order.extend(pass.first_of(user, pairs).map(Reverse));
    }
    pass.end()
}

/// A pass of the router.
struct RoutePass<'a> {
    sight: &'a GridSight,
    settings: RouteSettings<'a>,
    spaces: Vec<ClusterSpace>,
    places: Vec<u64>,
    /// Tasks left of each campaign.
    left: Vec<u64>,
    /// Resources of each user, and the weight.
    users: BTreeMap<&'a str, u64>,
    pairs: Vec<Pair<'a>>,
    launches: Vec<Launch>,
}

impl<'a> RoutePass<'a> {
    fn new(
        sight: &'a GridSight,
        states: &BTreeMap<(u64, usize), PredictorState>,
        settings: RouteSettings<'a>,
    ) -> RoutePass<'a> {
        let spaces = sight.clusters.iter();
        let spaces = spaces.map(|it| ClusterSpace { free: it.free, waiting: it.waiting }).collect();
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        for campaign in &sight.campaigns {
            let held = campaign.targets.iter().map(|it| it.running.saturating_mul(it.resources));
            let user = users.entry(campaign.user.as_str()).or_default();
            *user = user.saturating_add(held.sum());
        }
        let mut pass = RoutePass {
            sight,
            settings,
            spaces,
            places: places(&sight.clusters),
            left: sight.campaigns.iter().map(|campaign| campaign.left).collect(),
            users,
            pairs: Vec::new(),
            launches: Vec::new(),
        };
        for (at, campaign) in sight.campaigns.iter().enumerate() {
            for target in campaign.targets.iter().filter(|it| sight.is_eligible(campaign, it)) {
                pass.add(at, target, states);
            }
        }
        pass
    }

    /// Adds a pair that may get a task.
    fn add(
        &mut self,
        campaign: usize,
        target: &'a TargetSight,
        states: &BTreeMap<(u64, usize), PredictorState>,
    ) {
        let sight = &self.sight.campaigns[campaign];
        let Some(state) = states.get(&(sight.id, target.cluster)) else { return };
        let predictor = self.sight.clusters[target.cluster].predictor;
        let mut pair = Pair {
            campaign,
            target,
            predictor,
            state: *state,
            quota: u64::MAX,
            step: u64::MAX,
            given: 0,
            round: 0,
        };
        pair.quota = if sight.is_test {
            // A test needs a single task on each cluster, and waits there in a class of its own.
            u64::from(!target.has_tested && 0 < sight.left)
        } else {
            self.wanted(&pair)
        };
        if self.settings.interleaves {
            pair.step = pair.quota.div_ceil(64).max(1);
        }
        if 0 < pair.quota {
            self.pairs.push(pair);
        }
    }

    /// The tasks that a pair may get of the space that is left.
    fn wanted(&self, pair: &Pair<'_>) -> u64 {
        let campaign = &self.sight.campaigns[pair.campaign];
        let cluster = &self.sight.clusters[pair.target.cluster];
        let space = self.spaces[pair.target.cluster];
        let mut reading = self.sight.reading(campaign, pair.target);
        (reading.free, reading.waiting) = (space.free, space.waiting);
        reading.left = self.left[pair.campaign];
        reading.own = reading.own.saturating_add(pair.given);
        let count = sent(pair.predictor, &pair.state, &reading, self.settings.strictness);
        if cluster.is_local {
            // Tasks stay in the bag, from where the local slots take them. The router only keeps
            // enough of them.
            let most = fit(space.free, pair.target.resources, 0, 0);
            return count.min(most);
        }
        count
    }

    fn user(&self, at: usize) -> &'a str {
        self.sight.campaigns[self.pairs[at].campaign].user.as_str()
    }

    /// Place of a user: the place of its first pair.
    fn first_of(
        &self,
        user: &'a str,
        pairs: &BinaryHeap<Reverse<PairPlace>>,
    ) -> Option<(PairPlace, &'a str)> {
        let Reverse((_, _, at)) = pairs.peek()?;
        let held = self.users.get(user).copied().unwrap_or(0);
        Some((self.position(*at, held), user))
    }

    /// Place of a pair whose user holds these resources.
    fn position(&self, at: usize, held: u64) -> PairPlace {
        let pair = &self.pairs[at];
        let campaign = &self.sight.campaigns[pair.campaign];
        let view = PairView {
            campaign,
            cluster: &self.sight.clusters[pair.target.cluster],
            target: pair.target,
            place: self.places[pair.target.cluster],
            share: quotient(held, campaign.weight).unwrap_or(u64::MAX),
            round: pair.round,
        };
        (!campaign.is_test, self.settings.policy.position(&view), at)
    }

    /// Hands space to a pair. Returns true if the pair may get more.
    fn serve(&mut self, at: usize) -> bool {
        let pair = &self.pairs[at];
        let campaign = &self.sight.campaigns[pair.campaign];
        let (cluster, resources) = (pair.target.cluster, pair.target.resources.max(1));
        let count = if campaign.is_test {
            pair.quota.min(self.left[pair.campaign])
        } else {
            self.wanted(pair).min(pair.quota).min(pair.step)
        };
        if count == 0 {
            return false;
        }
        if pair.round == 0 {
            self.launch(campaign.id, cluster);
        }
        let space = &mut self.spaces[cluster];
        let starts = count.min(fit(space.free, resources, 0, 0));
        space.free = space.free.saturating_sub(starts.saturating_mul(resources));
        space.waiting = space.waiting.saturating_add(count.saturating_sub(starts));
        let pair = &mut self.pairs[at];
        self.left[pair.campaign] = self.left[pair.campaign].saturating_sub(count);
        if let Some(held) = self.users.get_mut(campaign.user.as_str()) {
            *held = held.saturating_add(count.saturating_mul(resources));
        }
        pair.given = pair.given.saturating_add(count);
        pair.quota = pair.quota.saturating_sub(count);
        pair.round += 1;
        0 < pair.quota
    }

    fn launch(&mut self, campaign: u64, cluster: usize) {
        match self.launches.last_mut().filter(|last| last.campaign == campaign) {
            Some(last) => last.clusters.push(cluster),
            None => self.launches.push(Launch { campaign, clusters: vec![cluster] }),
        }
    }

    fn end(self) -> Routing {
        let sight = self.sight;
        let given = self.pairs.iter().filter(|pair| 0 < pair.given);
        let grants = given.map(|pair| Grant {
            campaign: sight.campaigns[pair.campaign].id,
            cluster: pair.target.cluster,
            count: pair.given,
        });
        Routing { grants: grants.collect(), launches: self.launches }
    }
}

/// Place of each cluster: declared priority, then power, both falling, then name.
fn places(clusters: &[ClusterSight]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..clusters.len()).collect();
    order.sort_by_key(|at| {
        let it = &clusters[*at];
        (Reverse(it.priority), Reverse(it.power), it.name.clone())
    });
    let mut places = vec![0; clusters.len()];
    for (place, at) in (0..).zip(order) {
        places[at] = place;
    }
    places
}

impl GridSight {
    /// The tasks that may wait on a cluster.
    pub fn allowed_on(&self, cluster: usize) -> u64 {
        self.clusters.get(cluster).map_or(0, |it| allowed(it.capacity, it.flood))
    }
}

#[cfg(test)]
mod tests;
