//! Codes of the problems that the orchestrator answers with.

/// Kind of a problem of the orchestrator. Codes are stable: clients and runbooks refer to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrchestratorCode {
    /// A caller without the needed permission.
    NotAllowed,
    /// A campaign, task or output that does not exist.
    Absent,
    /// A body or a parameter that cannot be used.
    Bad,
    /// A caller that asks too often.
    TooOften,
    /// A user with too many campaigns that are not final.
    TooManyCampaigns,
    /// Output that a node did not send in time.
    Late,
    /// A report of an agent that is older than the last.
    OldExchange,
    /// A database that cannot be read.
    Database,
    /// A campaign that cannot run as written.
    BadCampaign,
    /// A campaign of which only counts are left.
    Folded,
    /// A campaign that takes no more tasks.
    Closed,
    /// A reading of the orchestrator's clock, or a lease counted from it, that is too old.
    Stale,
    /// An orchestrator that has stopped.
    Stopped,
    /// A database that is an older copy.
    SetBack,
}

impl OrchestratorCode {
    /// All there are.
    pub const ALL: [OrchestratorCode; 14] = [
        OrchestratorCode::NotAllowed,
        OrchestratorCode::Absent,
        OrchestratorCode::Bad,
        OrchestratorCode::TooOften,
        OrchestratorCode::TooManyCampaigns,
        OrchestratorCode::Late,
        OrchestratorCode::OldExchange,
        OrchestratorCode::Database,
        OrchestratorCode::BadCampaign,
        OrchestratorCode::Folded,
        OrchestratorCode::Closed,
        OrchestratorCode::Stale,
        OrchestratorCode::Stopped,
        OrchestratorCode::SetBack,
    ];

    /// Name, status and title.
    fn facts(self) -> (&'static str, u16, &'static str) {
        match self {
            OrchestratorCode::NotAllowed => ("O001", 403, "not allowed"),
            OrchestratorCode::Absent => ("O002", 404, "no such thing"),
            OrchestratorCode::Bad => ("O003", 400, "bad request"),
            OrchestratorCode::TooOften => ("O004", 429, "too often"),
            OrchestratorCode::TooManyCampaigns => ("O005", 429, "too many campaigns"),
            OrchestratorCode::Late => ("O006", 504, "no output in time"),
            OrchestratorCode::OldExchange => ("O007", 409, "old exchange"),
            OrchestratorCode::Database => ("O008", 500, "database"),
            OrchestratorCode::BadCampaign => ("O009", 422, "bad campaign"),
            OrchestratorCode::Folded => ("O010", 410, "tasks folded"),
            OrchestratorCode::Closed => ("O011", 409, "takes no more tasks"),
            OrchestratorCode::Stale => ("O012", 409, "stale reading"),
            OrchestratorCode::Stopped => ("orchestrator-stopped", 503, "orchestrator stopped"),
            OrchestratorCode::SetBack => ("orchestrator-set-back", 503, "orchestrator set back"),
        }
    }

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Returns the HTTP status of an answer that fails for it.
    pub fn status(self) -> u16 {
        self.facts().1
    }

    /// Returns its meaning in a few words.
    pub fn title(self) -> &'static str {
        self.facts().2
    }

    /// Returns what to change, and where, in a sentence or two.
    pub fn remedy(self) -> &'static str {
        match self {
            OrchestratorCode::NotAllowed => {
                "Ask the owner of the campaign or an operator, or use the token of that user."
            }
            OrchestratorCode::Absent => {
                "Name a campaign that `apportion campaign list` shows, and a task that it has."
            }
            OrchestratorCode::Bad => {
                "Correct the field or parameter that `detail` names. `/orchestrator/openapi.json` describes them."
            }
            OrchestratorCode::TooOften => {
                "Wait, and ask less often. Rates for each role are in `[daemon.limits]`."
            }
            OrchestratorCode::TooManyCampaigns => {
                "Put many tasks into a campaign with `apportion submit --each-line`, or wait until campaigns end."
            }
            OrchestratorCode::Late => {
                "Look whether the agent of the node runs, then ask again. Output of ended tasks stays on the node."
            }
            OrchestratorCode::OldExchange => {
                "An agent that was just started again needs no remedy. If it repeats, stop the second agent of that node."
            }
            OrchestratorCode::Database => {
                "Look in the log of the orchestrator. The usual causes are a full disk and rights of the file."
            }
            OrchestratorCode::BadCampaign => {
                "Correct the fields in `errors`, and submit again. Nothing was submitted."
            }
            OrchestratorCode::Folded => {
                "Read the counts with `apportion campaign show`. `retention_days` in `[orchestrator]` keeps tasks longer."
            }
            OrchestratorCode::Closed => {
                "Submit the tasks as a new campaign. One that has ended takes no more."
            }
            OrchestratorCode::Stale => {
                "Read `clock` of `/v1/grid` again, and send the reading back at once."
            }
            OrchestratorCode::Stopped => {
                "Repair the cause that the log of the daemon names, then restart the daemon."
            }
            OrchestratorCode::SetBack => {
                "Run `apportion orchestrator adopt`, which takes over the attempts that nodes have."
            }
        }
    }
}
