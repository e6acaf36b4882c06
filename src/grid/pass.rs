//! A pass over all campaigns and clusters: the order of its steps, and the states between passes.

use std::collections::BTreeMap;

use super::predictor::{PredictorState, Strictness};
use super::router::{GridSight, Routing};
use crate::model::Name;

/// A step of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassStep {
    /// Read the state of all clusters.
    Observe,
    /// Compute the states of the predictors.
    Predict,
    /// Share the space of the clusters among the campaigns.
    Route,
    /// Send tasks.
    Submit,
    /// Withdraw the surplus.
    Withdraw,
}

/// The steps of a pass, in order.
pub const STEPS: [PassStep; 5] =
    [PassStep::Observe, PassStep::Predict, PassStep::Route, PassStep::Submit, PassStep::Withdraw];

impl PassStep {
    /// The word in logs.
    pub fn word(self) -> &'static str {
        match self {
            PassStep::Observe => "observe",
            PassStep::Predict => "predict",
            PassStep::Route => "route",
            PassStep::Submit => "submit",
            PassStep::Withdraw => "withdraw",
        }
    }
}

/// States of the predictors between passes, by campaign and name of the cluster: a state for
/// each running campaign on each of its clusters.
pub type PairStates = BTreeMap<(u64, Name), PredictorState>;

/// Computes the states of the predictors for this pass, by campaign and position of the cluster.
pub fn predict(
    sight: &GridSight,
    old: &PairStates,
    strictness: Strictness,
) -> BTreeMap<(u64, usize), PredictorState> {
    let mut states = BTreeMap::new();
    for campaign in &sight.campaigns {
        for target in &campaign.targets {
            let Some(cluster) = sight.clusters.get(target.cluster) else { continue };
            let before = old.get(&(campaign.id, cluster.name.clone()));
            let reading = sight.reading(campaign, target);
            let mut state = cluster.predictor.next(before, &reading, strictness);
            state.free = reading.free;
            states.insert((campaign.id, target.cluster), state);
        }
    }
    states
}

/// Enters the sent tasks of a pass into its states, for the prediction of the next pass.
pub fn settle(
    sight: &GridSight,
    mut states: BTreeMap<(u64, usize), PredictorState>,
    routing: &Routing,
) -> PairStates {
    for grant in &routing.grants {
        if let Some(state) = states.get_mut(&(grant.campaign, grant.cluster)) {
            state.sent = grant.count;
        }
    }
    let named = states.into_iter().filter_map(|((campaign, at), state)| {
        sight.clusters.get(at).map(|cluster| ((campaign, cluster.name.clone()), state))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_pass_are_in_their_order() {
        let words: Vec<&str> = STEPS.iter().map(|step| step.word()).collect();
        assert_eq!(words, ["observe", "predict", "route", "submit", "withdraw"]);
        assert!(STEPS.is_sorted());
    }
}
