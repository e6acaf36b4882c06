//! Prologues and epilogues: of each slot, or of the whole cluster.
//!
//! A program of a slot runs in the slot, before its first or after its last task. A program of the cluster is a
//! campaign of a single task: the tasks of its campaign begin once the prologue is done, and the campaign ends once
//! the epilogue is done.

use super::campaign::{CampaignSpec, CampaignType, adopt};
use super::fields::Fields;
use super::mode::CampaignMode;
use super::params::{TaskRange, short};
use super::times::CampaignTimes;
use crate::orchestrator::wire::{Command, Stdin, TaskSpec};

/// A program beside the tasks of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// Before the first task.
    Prologue,
    /// After the last task.
    Epilogue,
}

impl HookKind {
    /// The word in texts.
    pub fn word(self) -> &'static str {
        match self {
            HookKind::Prologue => "prologue",
            HookKind::Epilogue => "epilogue",
        }
    }
}

/// Programs of slots and of the cluster.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    prologue: Option<ScopedHook>,
    epilogue: Option<ScopedHook>,
}

#[derive(Debug)]
struct ScopedHook {
    command: Command,
    is_of_cluster: bool,
}

/// Takes both sections.
pub(super) fn take(fields: &mut Fields<'_>) -> Hooks {
    Hooks {
        prologue: hook(fields, "prologue", "prologue."),
        epilogue: hook(fields, "epilogue", "epilogue."),
    }
}

fn hook(fields: &mut Fields<'_>, key: &'static str, prefix: &'static str) -> Option<ScopedHook> {
    let section = fields.section(key)?;
    let mut problems = Vec::new();
    let mut inner = Fields::new(prefix, section, &mut problems);
    let command = inner.command("write `command` or `shell`");
    let remedy = "write \"slot\" or \"cluster\"";
    let is_of_cluster = match inner.text("scope", remedy).as_deref() {
        None | Some("slot") => false,
        Some("cluster") => true,
        Some(other) => {
            inner.fault("scope", format!("`{}` is unknown", short(other)), remedy);
            false
        }
    };
    inner.finish();
    adopt(fields, problems);
    Some(ScopedHook { command: command?, is_of_cluster })
}

/// Puts the programs where they run.
pub(super) fn settle(spec: &mut CampaignSpec, hooks: Hooks) {
    let split = |hook: Option<ScopedHook>| match hook {
        Some(ScopedHook { command, is_of_cluster: true }) => (None, Some(command)),
        Some(ScopedHook { command, is_of_cluster: false }) => (Some(command), None),
        None => (None, None),
    };
    (spec.task.prologue, spec.cluster_prologue) = split(hooks.prologue);
    (spec.task.epilogue, spec.cluster_epilogue) = split(hooks.epilogue);
}

impl CampaignSpec {
    /// True if a program runs once in the cluster, before or after the tasks.
    pub fn has_cluster_hook(&self) -> bool {
        self.cluster_prologue.is_some() || self.cluster_epilogue.is_some()
    }

    /// The campaign of the prologue or epilogue of the cluster: a single task with the memory, class,
    /// environment and nodes of this campaign. `None`: there is no such program.
    pub fn hook_campaign(&self, kind: HookKind) -> Option<CampaignSpec> {
        let command = match kind {
            HookKind::Prologue => self.cluster_prologue.clone()?,
            HookKind::Epilogue => self.cluster_epilogue.clone()?,
        };
        let name = match self.task.name.as_str() {
            "" => kind.word().to_owned(),
            name => format!("{name}: {}", kind.word()),
        };
        let task = TaskSpec {
            name,
            command,
            stdin: Stdin::Nothing,
            output: None,
            error: None,
            checkpoint: None,
            prologue: None,
            epilogue: None,
            ..self.task.clone()
        };
        Some(CampaignSpec {
            task,
            kind: CampaignType::Default,
            tasks: TaskRange::up_to(1),
            lanes: 1,
            max: Some(1),
            retries: 0,
            max_fails: None,
            memory_retry: None,
            input_mb: None,
            keep: false,
            may_run_twice: false,
            mode: CampaignMode::default(),
            first: None,
            gang: None,
            cluster_prologue: None,
            cluster_epilogue: None,
            times: CampaignTimes::default(),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CampaignSpec, String> {
        let document = toml::from_str(text).unwrap();
        CampaignSpec::read(document).map(|read| read.0).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn a_hook_is_of_slots_or_of_the_cluster() {
        let campaign = |scope: &str| {
            read(&format!(
                "command = [\"a\"]\nname = \"sweep\"\ntasks = \"1-9\"\nmemory = \"2GB\"\n[prologue]\ncommand = [\"b\"]\n{scope}"
            ))
        };
        let (slot, cluster) = (campaign("").unwrap(), campaign("scope = \"cluster\"").unwrap());
        assert!(slot.task.prologue.is_some() && !slot.has_cluster_hook());
        assert!(cluster.task.prologue.is_none() && cluster.has_cluster_hook());
        let hook = cluster.hook_campaign(HookKind::Prologue).unwrap();
        assert_eq!(
            (hook.task.name.as_str(), hook.tasks.count, hook.memory_mb),
            ("sweep: prologue", 1, 2048)
        );
        assert_eq!(hook.task.command, Command::Argv(vec!["b".to_owned()]));
        assert!(!hook.has_cluster_hook() && cluster.hook_campaign(HookKind::Epilogue).is_none());
        let told = campaign("scope = \"node\"").unwrap_err();
        assert_eq!(told, "prologue.scope: `node` is unknown; write \"slot\" or \"cluster\"");
    }
}
