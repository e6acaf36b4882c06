//! Requests of handlers to the thread that owns the scheduler.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::api::http::error::{ApiError, Code};
use crate::api::ingest::absence::AbsentSums;
use crate::api::ingest::publishers::Publisher;
use crate::api::wire::{self, ItemProblem};
use crate::auth::Actor;
use crate::model::JobSpec;
use crate::scheduler::{
    AdminCommand, CommandError, CommandImpact, CommandOutcome, SchedulerEvent, UrgentGrant,
};

/// A request to the thread that owns the scheduler.
#[derive(Debug)]
pub enum Request {
    /// A publication was taken in. No events means that nothing changed.
    Publication {
        /// Sequence number of the publication.
        sequence: u64,
        /// Changes that the publication makes.
        events: Vec<SchedulerEvent>,
        /// Processes that the publication leaves out.
        absent: AbsentSums,
    },
    /// Changes the accepted orchestrator. Answered once that is stored.
    Publisher {
        /// The accepted orchestrator; `None`: any.
        publisher: Option<Publisher>,
        /// Entry for the audit log about the change.
        note: Option<AuditNote>,
        /// Channel for the answer.
        reply: oneshot::Sender<()>,
    },
    /// An administrator wants something. Answered once the outcome is stored.
    Command {
        /// The command.
        command: AdminCommand,
        /// Administrator who sent the command.
        by: Actor,
        /// Channel for the answer.
        reply: oneshot::Sender<Result<CommandOutcome, CommandError>>,
    },
    /// Accepts or refuses urgent work. Answered once the decision is stored.
    Urgent {
        /// The job.
        spec: Box<JobSpec>,
        /// Client who sent the job.
        by: Actor,
        /// Channel for the answer.
        reply: oneshot::Sender<UrgentReply>,
    },
    /// Computes the effects of a command, which is not carried out.
    Trial {
        /// The command.
        command: AdminCommand,
        /// Turn of the trial, kept to its end even if the client leaves.
        turn: OwnedSemaphorePermit,
        /// Channel for the answer.
        reply: oneshot::Sender<Result<CommandImpact, CommandError>>,
    },
    /// Adds an entry to the audit log. No caller waits for it.
    Audit(AuditNote),
    /// Shows, plans or changes the configuration.
    Configuration(ConfigAsk),
}

/// Promise to an urgent job, or the sentence with the reason of its refusal. An error if the request
/// cannot be decided at all.
pub type UrgentReply = Result<Result<Arc<UrgentGrant>, String>, CommandError>;

/// An entry for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// Actor of the entry.
    pub by: Actor,
    /// Action in a few words.
    pub act: String,
    /// To what.
    pub detail: String,
    /// Outcome of the action.
    pub outcome: String,
}

/// Channel for an answer that may be a refusal.
type ConfigReply<T> = oneshot::Sender<Result<T, ConfigRefusal>>;

/// Requests about the configuration, each with a channel for the answer.
#[derive(Debug)]
pub enum ConfigAsk {
    /// Shows the configuration in effect.
    Show(oneshot::Sender<wire::ConfigInfo>),
    /// Lists all configurations in the store.
    History(oneshot::Sender<wire::ConfigHistory>),
    /// Shows a configuration in the store.
    Generation {
        /// Number of the configuration.
        generation: u64,
        /// Channel for the answer.
        reply: ConfigReply<wire::ConfigGeneration>,
    },
    /// Computes the effect of a configuration.
    Plan {
        /// The configuration.
        request: wire::ConfigRequest,
        /// Channel for the answer.
        reply: ConfigReply<wire::ConfigPlan>,
    },
    /// Puts a configuration into effect. Answered once it is stored.
    Apply {
        /// The configuration.
        request: wire::ConfigRequest,
        /// Administrator who sent the request.
        by: Actor,
        /// Channel for the answer.
        reply: ConfigReply<wire::ConfigPlan>,
    },
    /// Reads the file again after a signal. No caller waits for an answer.
    Reread,
}

/// Reason why a configuration was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigRefusal {
    /// The configuration is wrong in all these places.
    Wrong {
        /// Name of the file.
        name: String,
        /// Faults in the file.
        errors: Vec<ItemProblem>,
    },
    /// The file could not be read, for this reason.
    Unreadable(String),
    /// No such configuration is stored.
    NoGeneration(u64),
}

impl From<ConfigRefusal> for ApiError {
    fn from(refusal: ConfigRefusal) -> ApiError {
        match refusal {
            ConfigRefusal::Wrong { name, errors } => {
                let places = match errors.len() {
                    1 => "one place".to_owned(),
                    many => format!("{many} places"),
                };
                let detail = format!("{name} is wrong in {places}; nothing was changed");
                ApiError::with(Code::WrongConfiguration, detail, errors)
            }
            ConfigRefusal::Unreadable(error) => ApiError::new(
                Code::UnreadableConfiguration,
                format!("{error}; nothing was changed"),
            ),
            ConfigRefusal::NoGeneration(generation) => ApiError::new(
                Code::UnknownGeneration,
                format!(
                    "no generation {generation} is on record; GET /v1/config/generations lists those that are"
                ),
            ),
        }
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> ApiError {
        let detail = error.to_string();
        match error {
            CommandError::NoNodes => ApiError::new(Code::UnconfirmedNodes, detail),
            CommandError::UnknownNodes(_) => ApiError::new(Code::UnknownNode, detail),
            CommandError::StillReporting(_) => ApiError::new(Code::NodeReports, detail),
            CommandError::StillInUse(_) => ApiError::new(Code::NodeInUse, detail),
            CommandError::WindowExists(_) => ApiError::new(Code::ReservationExists, detail),
            CommandError::WindowEndsBeforeStart(_) | CommandError::WindowIsOver(_) => {
                ApiError::new(Code::BadTime, detail)
            }
            CommandError::WindowsCollide(_) => ApiError::new(Code::ReservationOverlaps, detail),
            CommandError::WindowBlocked(_) => ApiError::new(Code::ReservationBlocked, detail),
            CommandError::NotPlanning => ApiError::new(Code::NotReady, detail),
            CommandError::JobIsKnown(_) => ApiError::new(Code::JobIsKnown, detail),
            CommandError::TooManyWindows { .. } => ApiError::new(Code::TooManyReservations, detail),
        }
    }
}
