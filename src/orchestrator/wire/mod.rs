//! Messages between the orchestrator, the agents of nodes, and clients.
//!
//! # The exchange
//!
//! An agent sends `POST /v1/nodes/{node}/exchange?wait=25s` with an [`Exchange`] and receives an
//! [`ExchangeAnswer`]. The orchestrator answers at once if the answer has news for the agent.
//! Otherwise it answers at the next change, at the latest after `wait`. An agent with a report
//! sends a second exchange without `wait` while the first exchange waits.
//!
//! Rules for both sides:
//!
//! 1. **Slots are levels.** An answer names every slot that the node should know, with its
//!    wanted state. A slot that two answers in a row of one `orchestrator` and `epoch` do not name is
//!    an orphan: its agent stops it.
//! 2. **Tasks are pulled.** `want` of a slot is the number of tasks that it can still hold. The
//!    answer never has more.
//! 3. **Results are repeated.** Results of a slot have numbers from 1 without gaps. The agent sends
//!    each until `acked` reaches its number. The same number always names the same result.
//! 4. **Attempts are repeated.** An attempt that stands in `tasks` is committed. It is repeated with
//!    the same number until the agent lists it in `held`, `running` or `results`. A slot begins an
//!    attempt only if its journal does not have it.
//! 5. **Numbers order.** `number` grows with each exchange of a `life`; a smaller number is refused
//!    with 409. `order` grows for each slot; a slot ignores an answer with an older order.
//! 6. **An end is whole.** A slot is reported as `gone` only if no process of it can run any more, and
//!    with all results that are not acknowledged. Until they fit into one report it is `stopping`.
//! 7. **A stop is answered.** An agent that gets `stop` for a slot that it does not have reports the
//!    slot as `gone`, and never starts it.
//! 8. **Unknown fields** are refused on the way in and ignored on the way out, so that heads are
//!    upgraded before agents.

mod admission;
mod adoption;
mod campaigns;
mod exchange;
mod gang;
mod grid;
mod grid_events;
mod leases;
mod output;
mod rung;
mod signals;
mod slots;
mod spec;
mod stats;
mod words;

pub use admission::{
    AdmissionList, AdmissionRecord, AdmissionRule, AdmissionTrial, RuleChange, RuleVerdict,
};
pub use adoption::{Adopt, Adoption, FoundAttempt};
pub use campaigns::{
    AddedTasks, AttemptInfo, AvoidedNode, CampaignDetail, CampaignPage, CampaignSummary, LostNode,
    NoteLine, Resubmit, Resubmitted, SignalRequest, StateChange, Submitted, TaskInfo, TaskList,
    WantedState,
};
pub use exchange::{
    AttemptId, Exchange, ExchangeAnswer, NewTask, Reason, RunningTask, SlotEnd, SlotOrder,
    SlotReport, SlotStage, SlotStart, SlotStop, StopReason, TaskResult, TaskSignal, VERSION,
};
pub use gang::{GangInfo, GangKey, GangResize, RankInfo, RankPlace, RankStart};
pub use grid::{CampaignForecast, ClusterChange, ForecastList, GridCluster, GridHistory, places};
pub use grid_events::{
    CampaignFault, EventClass, FiledNumber, GridEvent, GridEventList, NOTIFY_FAILED, NewGridEvent,
};
pub use leases::{HeadClock, LeaseRenewal, LeaseTerms, RenewedLeases};
pub use output::{Channel, ChunkAnswer, ChunkQuery, MAX_CHUNK, OutputProblem, OutputRequest};
pub use rung::Rung;
pub use signals::{signal_name, signal_number};
pub use slots::{NodeSlot, NodeSlots, SlotTask};
pub use spec::{Checkpoint, Command, Stdin, TaskSpec, YoungBounds};
pub use stats::{
    CampaignEvent, CampaignEvents, CampaignStats, CampaignWhy, Grid, GridNode, NodeStats, Spread,
};
