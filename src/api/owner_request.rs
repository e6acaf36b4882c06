//! What handlers ask of the thread that owns the scheduler.

use tokio::sync::oneshot;

use crate::access::Actor;
use crate::api::http::error::{ApiError, Code};
use crate::api::ingest::absence::AbsentWork;
use crate::api::ingest::publishers::Publisher;
use crate::api::wire::{self, ItemProblem};
use crate::scheduler::{AdminCommand, CommandError, CommandOutcome, SchedulerEvent};

/// Something for whoever owns the scheduler.
#[derive(Debug)]
pub enum Request {
    /// A publication was taken in. No events means that nothing changed.
    Publication {
        /// Its number.
        sequence: u64,
        /// What it changes.
        events: Vec<SchedulerEvent>,
        /// What it leaves out.
        absent: AbsentWork,
    },
    /// Whose publications count is another. Answered once that is on record.
    Publisher {
        /// Whose; `None`: anyone's.
        publisher: Option<Publisher>,
        /// What is to stand in the audit log with it.
        note: Option<AuditNote>,
        /// Where to answer.
        reply: oneshot::Sender<()>,
    },
    /// An administrator wants something. Answered once the outcome is stored.
    Command {
        /// What.
        command: AdminCommand,
        /// Who.
        by: Actor,
        /// Where to answer.
        reply: oneshot::Sender<Result<CommandOutcome, CommandError>>,
    },
    /// Something is to stand in the audit log. Nobody waits for it.
    Audit(AuditNote),
    /// Somebody asks about the configuration, or for another one.
    Configuration(ConfigAsk),
}

/// Something for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// Who.
    pub by: Actor,
    /// What, in a few words.
    pub act: String,
    /// To what.
    pub detail: String,
    /// What came of it.
    pub outcome: String,
}

/// Where the answer goes that may be a refusal.
type ConfigReply<T> = oneshot::Sender<Result<T, ConfigRefusal>>;

/// What can be asked about the configuration, each with where to answer.
#[derive(Debug)]
pub enum ConfigAsk {
    /// What is in effect.
    Show(oneshot::Sender<wire::ConfigInfo>),
    /// What was in effect.
    History(oneshot::Sender<wire::ConfigHistory>),
    /// One that was in effect.
    Generation {
        /// Which.
        generation: u64,
        /// Where to answer.
        reply: ConfigReply<wire::ConfigGeneration>,
    },
    /// What another one would come to.
    Plan {
        /// Which.
        request: wire::ConfigRequest,
        /// Where to answer.
        reply: ConfigReply<wire::ConfigPlan>,
    },
    /// Put another one into effect. Answered once it is on record.
    Apply {
        /// Which.
        request: wire::ConfigRequest,
        /// Who wants it.
        by: Actor,
        /// Where to answer.
        reply: ConfigReply<wire::ConfigPlan>,
    },
    /// The file may have changed: a signal said so. Nobody waits for an answer.
    Reread,
}

/// Why a configuration was not taken. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigRefusal {
    /// It is wrong, in all these places.
    Wrong {
        /// What the file is called.
        name: String,
        /// What is wrong with it.
        errors: Vec<ItemProblem>,
    },
    /// The file could not be read, for this reason.
    Unreadable(String),
    /// No such configuration is on record.
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
