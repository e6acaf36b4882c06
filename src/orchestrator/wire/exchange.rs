//! The exchange: the report of an agent, and the orders for its node.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::gang::{GangResize, RankStart};
use super::output::OutputRequest;
use super::rung::Rung;
use super::spec::TaskSpec;

/// Version of the exchange that this program supports.
pub const VERSION: u32 = 1;

/// A start of a task. Written as `[campaign, task, attempt]`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct AttemptId {
    /// The number of the campaign.
    pub campaign: u64,
    /// The number of the task in its campaign.
    pub task: u64,
    /// Number of the attempt, from 1; a later attempt has a higher number.
    pub attempt: u64,
}

impl PartialSchema for AttemptId {
    fn schema() -> RefOr<Schema> {
        Vec::<u64>::schema()
    }
}

impl ToSchema for AttemptId {}

impl From<[u64; 3]> for AttemptId {
    fn from([campaign, task, attempt]: [u64; 3]) -> AttemptId {
        AttemptId { campaign, task, attempt }
    }
}

impl From<AttemptId> for [u64; 3] {
    fn from(id: AttemptId) -> [u64; 3] {
        [id.campaign, id.task, id.attempt]
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}#{}", self.campaign, self.task, self.attempt)
    }
}

/// The report of an agent: all slots of its node, with their news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The version of the exchange, [`VERSION`]. Absent: 1.
    #[serde(default = "version")]
    pub v: u32,
    /// Boot of the node: the kernel's boot id. After another boot, all earlier processes have
    /// ended.
    pub boot: String,
    /// Start of the agent. An agent that starts again has another `life`, and begins its numbers
    /// anew.
    pub life: String,
    /// The number of this exchange. Grows within a `life`.
    pub number: u64,
    /// Enforcement of memory limits on the node.
    pub limits: Rung,
    /// Only user whose work can run on the node, by name. Absent: the node can run work of several
    /// users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<String>,
    /// Address of the node for other nodes. Absent: not known, and no gang can run on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The highest epoch of this orchestrator that the agent has seen. 0: none yet.
    #[serde(default)]
    pub epoch: u64,
    /// Every slot of this orchestrator on the node, including ended slots that are not forgotten.
    pub slots: Vec<SlotReport>,
}

fn version() -> u32 {
    VERSION
}

/// The report on a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotReport {
    /// The number of the share, which is the identity of the slot.
    pub share: u64,
    /// Stage of the life of the slot.
    pub state: SlotStage,
    /// Attempts that the slot holds and has not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<AttemptId>,
    /// Attempts that the slot has begun and that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningTask>,
    /// Number of tasks that the slot can hold besides its present ones. 0 unless `working` or
    /// `idle`.
    #[serde(default)]
    pub want: u64,
    /// Results that are not acknowledged yet, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<TaskResult>,
    /// Highest order that the slot has carried out. 0: none.
    #[serde(default)]
    pub seen_order: u64,
    /// Time from the start order to the begin of the first task, in milliseconds. Absent: not
    /// prepared yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_ms: Option<u64>,
    /// Port on which the slot listens for the other ranks of its gang. Absent: it does not listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Reason of the slot's end. Present if and only if `gone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SlotEnd>,
    /// Sentence for people about `end`, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The stage of the life of a slot, as its agent sees it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SlotStage {
    /// The process of the slot is being started.
    Starting,
    /// The prologue runs.
    Preparing,
    /// The slot runs tasks.
    Working,
    /// The slot has no task.
    Idle,
    /// The slot begins no task any more; running tasks are being ended.
    Stopping,
    /// No process of the slot can run any more. Held attempts that did not begin are among the
    /// results.
    Gone,
}

/// Reason of a slot's end.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SlotEnd {
    /// The slot had no task for longer than it may linger.
    Idle,
    /// An order stopped the slot.
    Stopped,
    /// The lease ran out.
    Unheard,
    /// The process of the slot died. Begun attempts without a result are lost.
    Died,
    /// The process of the slot could not be started; the text has the cause.
    NotStarted,
    /// The node has no such user, or may not run work of that user.
    NoUser,
    /// The limit of memory could not be set, or read back as another limit.
    NoLimit,
    /// The prologue failed.
    Prologue,
    /// Files in shared memory fill too much of the share: a new slot has to go on.
    SharedMemory,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningTask {
    /// The attempt.
    pub task: AttemptId,
    /// Time since the attempt began, in milliseconds.
    pub ms: u64,
    /// Time since the attempt began or last confirmed a checkpoint, in milliseconds: the loss if it
    /// ends now.
    pub unsaved_ms: u64,
    /// True if the attempt has confirmed a checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_saved: bool,
    /// Highest measured memory of the attempt, in MiB. 0: not measured yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rss_mb: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    /// Number among the results of the slot, from 1 without gaps.
    pub number: u64,
    /// The attempt.
    pub task: AttemptId,
    /// Reason of the end.
    pub why: Reason,
    /// Exit status of the process, 0 to 255. Absent: the process did not exit by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Signal that ended the process. Absent: no signal did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// Time from begin to end, in milliseconds. 0 if the attempt did not begin.
    #[serde(default)]
    pub ms: u64,
    /// Used processor time, in milliseconds.
    #[serde(default)]
    pub cpu_ms: u64,
    /// Highest memory, page cache included, in MiB.
    #[serde(default)]
    pub peak_mb: u64,
    /// Highest memory of the processes themselves, without page cache, in MiB.
    #[serde(default)]
    pub rss_mb: u64,
    /// Bytes written to standard output and to standard error.
    #[serde(default)]
    pub out: [u64; 2],
    /// Last 4 KiB of standard error, if the attempt failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// First 2 KiB of the file `$APPORTION_ERROR_FILE`, if the attempt failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// True if the attempt had confirmed a checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_saved: bool,
}

/// Reason of an attempt's end: a closed list.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The attempt exited with 0.
    Done,
    /// The attempt exited with another status.
    Exit,
    /// A signal ended the attempt, and no slot had sent it.
    Signal,
    /// The attempt used more memory than its share has.
    Memory,
    /// The attempt ran longer than its time limit.
    TimeLimit,
    /// The resource manager preempted the share.
    Preempted,
    /// The node was varied off.
    VariedOff,
    /// The slot or the node died, or the lease ran out.
    Lost,
    /// Too many attempts of the task were lost.
    NodeKiller,
    /// The program was not found.
    NotFound,
    /// The program cannot be executed.
    NotExecutable,
    /// The working directory does not exist.
    NoCwd,
    /// The user is unknown on the node, or may not run work there.
    NoUser,
    /// The prologue of the slot failed.
    Prologue,
    /// The owner or an operator cancelled the task.
    Cancelled,
    /// Another attempt of the task counted before.
    Superseded,
    /// The attempt did not begin: its slot returned it.
    Returned,
}

impl Reason {
    /// Every reason, in the order of the declaration.
    pub const ALL: [Reason; 17] = [
        Reason::Done,
        Reason::Exit,
        Reason::Signal,
        Reason::Memory,
        Reason::TimeLimit,
        Reason::Preempted,
        Reason::VariedOff,
        Reason::Lost,
        Reason::NodeKiller,
        Reason::NotFound,
        Reason::NotExecutable,
        Reason::NoCwd,
        Reason::NoUser,
        Reason::Prologue,
        Reason::Cancelled,
        Reason::Superseded,
        Reason::Returned,
    ];

    /// The word on the wire, in the database and in texts.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Done => "done",
            Reason::Exit => "exit",
            Reason::Signal => "signal",
            Reason::Memory => "memory",
            Reason::TimeLimit => "time-limit",
            Reason::Preempted => "preempted",
            Reason::VariedOff => "varied-off",
            Reason::Lost => "lost",
            Reason::NodeKiller => "node-killer",
            Reason::NotFound => "not-found",
            Reason::NotExecutable => "not-executable",
            Reason::NoCwd => "no-cwd",
            Reason::NoUser => "no-user",
            Reason::Prologue => "prologue",
            Reason::Cancelled => "cancelled",
            Reason::Superseded => "superseded",
            Reason::Returned => "returned",
        }
    }

    /// The reason of that word; `None` if there is no such word.
    pub fn from_word(word: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// The answer of the orchestrator: an order for every slot of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExchangeAnswer {
    /// The version of the exchange, [`VERSION`].
    #[serde(default = "version")]
    pub v: u32,
    /// The identity of the orchestrator: part of the names of folders, units and cgroups of slots.
    pub orchestrator: String,
    /// Epoch of the orchestrator's database. An agent that has seen a higher epoch carries out
    /// nothing.
    pub epoch: u64,
    /// Time that slots go on after the last successful exchange was sent, in milliseconds.
    pub lease_ms: u64,
    /// Every slot that the node should know.
    pub slots: Vec<SlotOrder>,
    /// Specifications that `start` and `tasks` of this answer name, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub specs: BTreeMap<u64, TaskSpec>,
    /// Output that readers wait for. Repeated until the first chunk of each arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRequest>,
}

/// The order for a slot: its wanted state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotOrder {
    /// The number of the share.
    pub share: u64,
    /// Number of this order. The slot ignores an order that is older than the last order that it
    /// carried out.
    pub order: u64,
    /// Number of the last result that is on record.
    #[serde(default)]
    pub acked: u64,
    /// Attempts that are committed for the slot and that its agent did not list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<NewTask>,
    /// Start of the slot. Present until the agent reports the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<SlotStart>,
    /// Stop of the slot. Absent: the slot goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<SlotStop>,
    /// Attempts to return if they are not begun: as results with the reason `returned`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recall: Vec<AttemptId>,
    /// Attempts to end, begun or not: as results with the reason `cancelled` or `superseded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<AttemptId>,
    /// Signals to send once, if the slot has not carried out this order yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<TaskSignal>,
    /// Ranks of a malleable gang, for the slot of its rank 0. Absent: the ranks are fixed, or nothing
    /// is known of them now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<GangResize>,
    /// True if the end and all results of the slot are on record. The agent may remove its remains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
}

/// An attempt for a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewTask {
    /// The attempt.
    pub task: AttemptId,
    /// Number of the attempt's specification.
    pub spec: u64,
    /// The parameter of the task: a line, or an item as JSON. Absent: the task has its number only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// Rank of the attempt in its gang. Absent: the task belongs to no gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<RankStart>,
}

/// Start of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotStart {
    /// The number of the campaign.
    pub campaign: u64,
    /// Name of the user that runs the slot.
    pub user: String,
    /// Number of the user at the head. Absent: unknown there. The agent refuses a number that
    /// differs from its own, with `no-user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The memory of the share, in MiB: the limit.
    pub memory_mb: u64,
    /// Number of tasks at a time, at least 1.
    pub lanes: u64,
    /// Number of the specification: its prologue, epilogue and grace.
    pub spec: u64,
    /// Time without a task after which the slot ends by itself, in milliseconds.
    pub linger_ms: u64,
    /// Mean time between two interruptions of a task in this cluster, in milliseconds. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption_ms: Option<u64>,
    /// True if the slot may be started only on a node where the kernel enforces its limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_kernel_limit: bool,
    /// True if the slot is for a rank of a gang: it listens, and reports its port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listens: bool,
}

/// Stop of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotStop {
    /// Time until running tasks are killed, in milliseconds from the receipt. Absent: running tasks
    /// may end by themselves, however long they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<u64>,
    /// Cause of the stop: it determines the reason in results of ended tasks.
    pub why: StopReason,
}

/// Cause of a slot's stop.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The resource manager preempted the share.
    Preempted,
    /// The node was varied off.
    VariedOff,
    /// The campaign is suspended, or may have fewer slots.
    Drained,
    /// The campaign is cancelled.
    Cancelled,
    /// The campaign has no more tasks.
    Finished,
    /// The work ran longer than it declared, and its class ends such work.
    TimeLimit,
}

impl StopReason {
    /// Returns the reason of attempts that end for this cause.
    pub fn of_task(self) -> Reason {
        match self {
            StopReason::VariedOff => Reason::VariedOff,
            StopReason::Cancelled => Reason::Cancelled,
            StopReason::TimeLimit => Reason::TimeLimit,
            StopReason::Preempted | StopReason::Drained | StopReason::Finished => Reason::Preempted,
        }
    }
}

/// A signal for an attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskSignal {
    /// The attempt.
    pub task: AttemptId,
    /// The number of the signal, 1 to 64.
    pub signal: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T>(value: &T) -> String
    where
        T: Serialize + for<'de> Deserialize<'de> + PartialEq + fmt::Debug,
    {
        let text = serde_json::to_string(value).unwrap();
        assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
        text
    }

    fn id(task: u64) -> AttemptId {
        AttemptId { campaign: 9, task, attempt: 1 }
    }

    #[test]
    fn an_exchange_survives_the_wire() {
        let result = TaskResult {
            number: 3,
            task: id(4710),
            why: Reason::Exit,
            exit: Some(7),
            signal: None,
            ms: 812,
            cpu_ms: 700,
            peak_mb: 190,
            rss_mb: 140,
            out: [0, 120],
            tail: "bad\n".to_owned(),
            error: String::new(),
            has_saved: false,
        };
        let slot = SlotReport {
            share: 77,
            state: SlotStage::Working,
            held: vec![id(4712)],
            running: vec![RunningTask {
                task: id(4711),
                ms: 5,
                unsaved_ms: 5,
                has_saved: false,
                rss_mb: 7,
            }],
            want: 3,
            results: vec![result],
            seen_order: 41,
            prepared_ms: Some(12),
            port: None,
            end: None,
            text: None,
        };
        let exchange = Exchange {
            v: VERSION,
            boot: "7f".to_owned(),
            life: "7f-88123-4711".to_owned(),
            number: 912,
            limits: Rung::SystemdUser,
            only_user: None,
            address: None,
            epoch: 2,
            slots: vec![slot],
        };
        let text = round_trip(&exchange);
        assert!(text.contains(r#""held":[[9,4712,1]]"#), "{text}");
        assert!(text.contains(r#""limits":"systemd-user""#), "{text}");
    }

    #[test]
    fn an_answer_survives_the_wire() {
        let start = SlotStart {
            campaign: 9,
            user: "ann".to_owned(),
            uid: Some(1000),
            memory_mb: 4096,
            lanes: 1,
            spec: 5,
            linger_ms: 2000,
            interruption_ms: None,
            needs_kernel_limit: true,
            listens: false,
        };
        let task =
            NewTask { task: id(1), spec: 5, param: Some("a \"b\"\t".to_owned()), gang: None };
        let slots = vec![
            SlotOrder { share: 81, order: 1, start: Some(start), ..SlotOrder::default() },
            SlotOrder { share: 77, order: 42, acked: 3, tasks: vec![task], ..SlotOrder::default() },
            SlotOrder {
                share: 60,
                order: 9,
                stop: Some(SlotStop { by_ms: Some(30_000), why: StopReason::Preempted }),
                recall: vec![id(8)],
                cancel: vec![id(9)],
                signals: vec![TaskSignal { task: id(7), signal: 10 }],
                forget: true,
                ..SlotOrder::default()
            },
        ];
        let answer = ExchangeAnswer {
            v: VERSION,
            orchestrator: "o1".to_owned(),
            epoch: 2,
            lease_ms: 600_000,
            slots,
            specs: BTreeMap::from([(5, TaskSpec::example())]),
            outputs: Vec::new(),
        };
        let text = round_trip(&answer);
        assert!(text.contains(r#""specs":{"5":{"#), "{text}");
    }

    #[test]
    fn unknown_fields_are_refused_in_and_ignored_out() {
        let report = r#"{"share": 1, "state": "idle", "color": "red"}"#;
        let error = serde_json::from_str::<SlotReport>(report).unwrap_err();
        assert!(error.to_string().contains("color"), "{error}");
        let order: SlotOrder =
            serde_json::from_str(r#"{"share": 1, "order": 2, "color": "red"}"#).unwrap();
        assert_eq!(order, SlotOrder { share: 1, order: 2, ..SlotOrder::default() });
    }

    #[test]
    fn reasons_have_their_words_on_the_wire() {
        for reason in Reason::ALL {
            assert_eq!(round_trip(&reason), format!("{:?}", reason.word()));
            assert_eq!(Reason::from_word(reason.word()), Some(reason));
        }
        assert_eq!(Reason::from_word("tired"), None);
        for rung in [Rung::Systemd, Rung::SystemdUser, Rung::Cgroup2, Rung::Cgroup1, Rung::Watched]
        {
            assert_eq!(round_trip(&rung), format!("{:?}", rung.word()));
        }
    }
}
