//! The exchange: what an agent reports, and what its node should do.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::output::OutputRequest;
use super::rung::Rung;
use super::spec::TaskSpec;

/// The version of the exchange that this program speaks.
pub const VERSION: u32 = 1;

/// One start of one task. Written as `[campaign, task, attempt]`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct AttemptId {
    /// The number of the campaign.
    pub campaign: u64,
    /// The number of the task in its campaign.
    pub task: u64,
    /// The number of the attempt, from 1; a later attempt has a higher one.
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

/// The report of an agent: all slots of its node, and what is new in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The version of the exchange, [`VERSION`]. Absent: 1.
    #[serde(default = "version")]
    pub v: u32,
    /// The boot of the node: the kernel's boot id. Another one means that all processes ended.
    pub boot: String,
    /// The start of the agent. Another one begins its numbers anew.
    pub life: String,
    /// The number of this exchange. Grows within a `life`.
    pub number: u64,
    /// How memory limits are enforced on the node.
    pub limits: Rung,
    /// The only user whose work can run on the node, by name. Absent: the node can run several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<String>,
    /// The highest epoch of this orchestrator that the agent has seen. 0: none yet.
    #[serde(default)]
    pub epoch: u64,
    /// Every slot of this orchestrator on the node, those that ended and are not forgotten included.
    pub slots: Vec<SlotReport>,
}

fn version() -> u32 {
    VERSION
}

/// The report on one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotReport {
    /// The number of the share, which is the identity of the slot.
    pub share: u64,
    /// The stage of its life.
    pub state: SlotStage,
    /// Attempts that it holds and has not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<AttemptId>,
    /// Attempts that it has begun and that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningTask>,
    /// How many more tasks it can hold now. 0 unless `working` or `idle`.
    #[serde(default)]
    pub want: u64,
    /// Results that are not acknowledged yet, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<TaskResult>,
    /// The highest order that it has carried out. 0: none.
    #[serde(default)]
    pub seen_order: u64,
    /// Time from its start order to its first task begun, in milliseconds. Absent: not prepared yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_ms: Option<u64>,
    /// Why it ended. Present if and only if `gone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SlotEnd>,
    /// The sentence for people that goes with `end`, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The stage of the life of a slot, as its agent sees it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SlotStage {
    /// Its process is being started.
    Starting,
    /// Its prologue runs.
    Preparing,
    /// It runs tasks.
    Working,
    /// It has no task.
    Idle,
    /// It begins no task any more; what runs is being ended.
    Stopping,
    /// Nothing of it can run any more. What it held and did not begin is among the results.
    Gone,
}

/// Why a slot ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SlotEnd {
    /// It had no task for longer than it may linger.
    Idle,
    /// It was told to stop.
    Stopped,
    /// Its lease ran out.
    Unheard,
    /// Its process died. Attempts begun without a result are lost.
    Died,
    /// Its process could not be started; the text says why.
    NotStarted,
    /// The node has no such user, or may not run work of that user.
    NoUser,
    /// The limit of memory could not be set, or read back as another.
    NoLimit,
    /// Its prologue failed.
    Prologue,
    /// Files in shared memory fill too much of its share: a new slot has to go on.
    SharedMemory,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningTask {
    /// The attempt.
    pub task: AttemptId,
    /// Time since it began, in milliseconds.
    pub ms: u64,
    /// Time since it began or last confirmed a checkpoint, in milliseconds: what its end would cost.
    pub unsaved_ms: u64,
    /// Whether it has confirmed a checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_saved: bool,
    /// The most memory that it was seen to use, in MiB. 0: not measured yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rss_mb: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    /// Its number among the results of its slot, from 1 without gaps.
    pub number: u64,
    /// The attempt.
    pub task: AttemptId,
    /// Why it ended.
    pub why: Reason,
    /// The exit status of its process, 0 to 255. Absent: it did not exit by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// The signal that ended its process. Absent: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// Time from its begin to its end, in milliseconds. 0 if it did not begin.
    #[serde(default)]
    pub ms: u64,
    /// Time of processors that it used, in milliseconds.
    #[serde(default)]
    pub cpu_ms: u64,
    /// The most memory that it used, page cache included, in MiB.
    #[serde(default)]
    pub peak_mb: u64,
    /// The most memory of its own, without page cache, in MiB.
    #[serde(default)]
    pub rss_mb: u64,
    /// Bytes that it wrote to its standard output and to its standard error.
    #[serde(default)]
    pub out: [u64; 2],
    /// The last 4 KiB of its standard error, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// The first 2 KiB of what it wrote to `$APPORTION_ERROR_FILE`, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Whether it had confirmed a checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_saved: bool,
}

/// Why an attempt ended: a closed list.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It exited with 0.
    Done,
    /// It exited with another status.
    Exit,
    /// A signal ended it that was not ours.
    Signal,
    /// It used more memory than its share has.
    Memory,
    /// It ran longer than its time limit.
    TimeLimit,
    /// The resource manager took its share.
    Preempted,
    /// Its node was varied off.
    VariedOff,
    /// Its slot or node died, or its lease ran out.
    Lost,
    /// Too many of its attempts were lost.
    NodeKiller,
    /// Its program was not found.
    NotFound,
    /// Its program cannot be executed.
    NotExecutable,
    /// Its working directory is not there.
    NoCwd,
    /// Its user is unknown on the node, or may not run work there.
    NoUser,
    /// The prologue of its slot failed.
    Prologue,
    /// Its owner or an operator cancelled it.
    Cancelled,
    /// Another attempt of the task counted before.
    Superseded,
    /// It did not begin: its slot gave it back.
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

/// The answer of the orchestrator: what every slot of the node should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExchangeAnswer {
    /// The version of the exchange, [`VERSION`].
    #[serde(default = "version")]
    pub v: u32,
    /// The identity of the orchestrator: part of the names of folders, units and cgroups of slots.
    pub orchestrator: String,
    /// The epoch of its database. An agent that has seen a higher one carries out nothing.
    pub epoch: u64,
    /// How long slots go on after the last exchange that succeeded was sent, in milliseconds.
    pub lease_ms: u64,
    /// Every slot that the node should know.
    pub slots: Vec<SlotOrder>,
    /// The specifications that `start` and `tasks` of this answer name, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub specs: BTreeMap<u64, TaskSpec>,
    /// Output that people wait for. Repeated until the first chunk of each arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRequest>,
}

/// What one slot should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotOrder {
    /// The number of the share.
    pub share: u64,
    /// The number of this order. The slot ignores one that is older than what it has carried out.
    pub order: u64,
    /// The number of the last result that is on record.
    #[serde(default)]
    pub acked: u64,
    /// Attempts that are committed for the slot and that its agent did not list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<NewTask>,
    /// How to start it. Present until the agent reports the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<SlotStart>,
    /// Present: it has to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<SlotStop>,
    /// Attempts to give back if they are not begun: as results with the reason `returned`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recall: Vec<AttemptId>,
    /// Attempts to end, begun or not: as results with the reason `cancelled` or `superseded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<AttemptId>,
    /// Signals to send once, if the slot has not carried out this order yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<TaskSignal>,
    /// Whether its end and all its results are on record: the agent may remove what is left of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
}

/// An attempt for a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewTask {
    /// The attempt.
    pub task: AttemptId,
    /// The number of its specification.
    pub spec: u64,
    /// The parameter of the task: a line, or an item as JSON. Absent: the task has its number only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
}

/// How to start a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotStart {
    /// The number of the campaign.
    pub campaign: u64,
    /// The name of the user that it runs as.
    pub user: String,
    /// The number of the user at the head. Absent: not known there. The agent refuses one that
    /// differs from its own, with `no-user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The memory of the share, in MiB: the limit.
    pub memory_mb: u64,
    /// Tasks at a time, at least 1.
    pub lanes: u64,
    /// The number of the specification: its prologue, epilogue and grace.
    pub spec: u64,
    /// Time without a task after which the slot ends by itself, in milliseconds.
    pub linger_ms: u64,
    /// Whether the slot may be started only where the kernel enforces its limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_kernel_limit: bool,
}

/// How a slot has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotStop {
    /// Time until what still runs is killed, in milliseconds from the receipt. Absent: tasks that
    /// run may end by themselves, however long they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<u64>,
    /// Why: the reason of results of tasks that are ended.
    pub why: StopReason,
}

/// Why a slot has to stop.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The resource manager took the share.
    Preempted,
    /// The node was varied off.
    VariedOff,
    /// The campaign is suspended, or may have fewer slots.
    Drained,
    /// The campaign is cancelled.
    Cancelled,
    /// The campaign has no more tasks.
    Finished,
}

impl StopReason {
    /// The reason of an attempt that ended for this one.
    pub fn of_task(self) -> Reason {
        match self {
            StopReason::VariedOff => Reason::VariedOff,
            StopReason::Cancelled => Reason::Cancelled,
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
            needs_kernel_limit: true,
        };
        let task = NewTask { task: id(1), spec: 5, param: Some("a \"b\"\t".to_owned()) };
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
