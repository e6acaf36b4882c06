//! Campaigns over several clusters: predictors, flood control, forecasts and the router.
//!
//! Pure and synchronous, as the engine: no clock, no I/O, no other layer. Callers read the state of
//! the clusters and of the campaigns, and carry out the outcome. All ratios are integers in
//! millionths, so equal input gives equal output.
//!
//! A pass has the steps of [`PassStep`], in that order:
//!
//! ```text
//!  observe ─► predict ─► route ─► submit ─► withdraw
//!  sights     Predictor  Router   tasks     surplus
//! ```
//!
//! Words, from seed 004: a **cluster** is an orchestrator with its own resource manager. The
//! **predictor** estimates tasks per free resource, for each campaign on each cluster. The **flood
//! rate** is the part of a cluster's resources for which tasks may wait there. The **affinity** of
//! a task to a cluster falls with failures there. A **forecast** is an estimate of a campaign's end
//! on a cluster.

mod affinity;
mod flood;
mod forecast;
mod lease;
mod pass;
mod predictor;
mod ratio;
mod router;

pub use affinity::{AFFINITY_PERIOD_MS, Affinities, by_affinity};
pub use flood::{
    ARRIVAL_MS, SentTask, WAITING_LIMIT_MS, Withdrawal, WithdrawalCause, allowed, fit, surplus,
};
pub use forecast::{
    CampaignProgress, EndedTask, ForecastBasis, TaskFigures, WINDOW_MS, failure_rate, resubmit_rate,
};
pub use lease::ForwardingLease;
pub use pass::{PairStates, PassStep, STEPS, predict, settle};
pub use predictor::{
    LOCAL_PREDICTOR, PREDICTORS, PairReading, Predictor, PredictorState, REMOTE_PREDICTOR,
    Strictness, predictor, sent,
};
pub use ratio::{ONE, part_of, quotient};
pub use router::{
    CampaignSight, ClusterSight, DEFAULT_POLICY, Grant, GridSight, Launch, PairView, Position,
    ROUTER_POLICIES, RouteSettings, RouterPolicy, Routing, STRESS_LIMIT, TargetSight, route,
    router_policy,
};
