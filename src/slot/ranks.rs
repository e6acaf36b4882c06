//! The rank of a slot in a gang: its files, its environment, and the server of other ranks' programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::begin::temporary_of;
use super::life::RunningSlot;
use super::run::RunRole;
use super::spawn::Program;
use crate::orchestrator::wire::{GangResize, NewTask, RankStart, Stdin, TaskSpec};
use crate::rank::{self, RankFiles, RankListener};

/// Number of the signal that ends a server of a rank: SIGTERM.
const END_SERVER: u8 = 15;

/// The listener of a slot that is for a rank of a gang.
#[derive(Debug, Default)]
pub(super) struct RankPort {
    listener: Option<RankListener>,
    /// Port that the slot reports. It stays known while the program of the gang may use it.
    port: Option<u16>,
    /// This binary, for servers and wrappers.
    program: PathBuf,
}

impl RankPort {
    /// Opens the listener of a slot that `listens`.
    ///
    /// # Errors
    ///
    /// If the system has no port, or the binary of this process is unknown.
    pub fn open(listens: bool, address: Option<std::net::IpAddr>) -> io::Result<RankPort> {
        if !listens {
            return Ok(RankPort::default());
        }
        let listener = RankListener::open(address)?;
        let (port, program) = (Some(listener.port()), std::env::current_exe()?);
        Ok(RankPort { listener: Some(listener), port, program })
    }

    /// The port on which the slot listens.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

/// Returns the rank of a program, and its attempt, if it belongs to a gang.
pub(super) fn rank_of(role: &RunRole) -> Option<&RankStart> {
    match role {
        RunRole::Task(NewTask { gang, .. }) => gang.as_ref(),
        RunRole::Prologue | RunRole::Epilogue => None,
    }
}

/// True if a program serves rank 0 of a malleable gang, which needs time to go on without it.
pub(super) fn serves_to_the_end(role: &RunRole) -> bool {
    rank_of(role).is_some_and(|gang| is_server(gang) && gang.resize_signal.is_some())
}

/// True if the attempt serves rank 0, and does not run the program of the campaign.
fn is_server(gang: &RankStart) -> bool {
    !gang.every_node && 0 < gang.rank
}

/// The specification of a program. A server of a rank has the end of rank 0 for its end, and neither
/// a limit, nor checkpoints, nor files of the campaign.
pub(super) fn spec_of(role: &RunRole, spec: Arc<TaskSpec>) -> Arc<TaskSpec> {
    if !rank_of(role).is_some_and(is_server) {
        return spec;
    }
    Arc::new(TaskSpec {
        stdin: Stdin::Nothing,
        output: None,
        error: None,
        time_limit_ms: None,
        stop_signal: END_SERVER,
        checkpoint: None,
        allows_leftovers: false,
        ..TaskSpec::clone(&spec)
    })
}

impl RunningSlot {
    /// Makes a program a rank of its gang: with its files, environment and listener.
    pub(super) fn rank(
        &mut self,
        gang: &RankStart,
        temporary: &Path,
        program: Program,
    ) -> io::Result<Program> {
        let files = rank::prepare(temporary, gang, &self.rank_port.program)?;
        let mut program = program;
        program.environment.extend(environment(gang, &files));
        if gang.every_node {
            // The program may listen on the port itself.
            self.rank_port.listener = None;
        } else if is_server(gang) {
            let listener = self.rank_port.listener.as_ref().map(RankListener::for_server);
            let [input, ..] = &mut program.streams;
            *input = listener.transpose()?.map_or_else(|| File::open("/dev/null"), Ok)?;
            let text = |path: &Path| path.to_string_lossy().into_owned();
            let own = text(&self.rank_port.program);
            program.words = vec![own, "rank-server".to_owned(), text(&files.ranks)];
        }
        Ok(program)
    }

    /// Writes the new ranks of a malleable gang down for its rank 0, and tells the program. An order
    /// that says the same again changes nothing.
    pub(super) fn resize(&mut self, resize: GangResize) {
        let GangResize { task, ranks } = resize;
        let queued = self.queue.iter_mut().find(|queued| queued.task == task);
        if let Some(gang) = queued.and_then(|queued| queued.gang.as_mut()) {
            gang.ranks = ranks;
            return;
        }
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            let Some(run) = lane.run.as_mut().filter(|run| run.exit.is_none()) else { continue };
            let RunRole::Task(NewTask { task: known, gang: Some(gang), .. }) = &mut run.role else {
                continue;
            };
            if *known != task || gang.ranks == ranks {
                continue;
            }
            let new = RankStart { ranks: ranks.clone(), ..gang.clone() };
            // The next order tries again: the orchestrator repeats the ranks.
            if rank::replace(&temporary_of(&self.folder, place), &new).is_ok() {
                *gang = new;
                run.resize = gang.resize_signal;
                run.tell_size();
            }
        }
    }

    /// Listens again after the program of a rank has ended.
    pub(super) fn listen_again(&mut self) {
        let RankPort { listener: None, port: Some(_), .. } = &self.rank_port else { return };
        // Without a port the gang does not begin again here.
        let again = RankPort::open(true, self.settings.address);
        self.rank_port = again.unwrap_or_default();
        self.has_news = true;
    }
}

/// Variables of a rank.
fn environment(gang: &RankStart, files: &RankFiles) -> BTreeMap<String, String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (rank, ranks) = (gang.rank.to_string(), gang.ranks.len().to_string());
    let mut all = vec![
        ("APPORTION_RANK", rank.clone()),
        ("APPORTION_RANKS", ranks.clone()),
        ("APPORTION_NODE_FILE", path(&files.nodes)),
        ("APPORTION_NODEFILE", path(&files.nodes)),
    ];
    if gang.every_node {
        let first = gang.ranks.first();
        all.extend([("RANK", rank), ("WORLD_SIZE", ranks)]);
        all.extend(first.map(|first| ("MASTER_ADDR", first.address.clone())));
        all.extend(first.map(|first| ("MASTER_PORT", first.port.to_string())));
    } else {
        all.push(("APPORTION_RANK_SHELL", path(&files.shell)));
    }
    if !gang.every_node && gang.rank == 0 {
        let (shell, hosts) = (path(&files.shell), path(&files.hosts));
        all.extend([
            ("OMPI_MCA_plm_rsh_agent", shell.clone()),
            // A rank other than 0 has another wrapper, which this path does not name.
            ("OMPI_MCA_plm_rsh_no_tree_spawn", "1".to_owned()),
            ("OMPI_MCA_orte_default_hostfile", hosts.clone()),
            ("PRTE_MCA_plm_ssh_agent", shell.clone()),
            ("PRTE_MCA_plm_ssh_no_tree_spawn", "1".to_owned()),
            ("PRTE_MCA_prte_default_hostfile", hosts),
            ("HYDRA_LAUNCHER", "ssh".to_owned()),
            ("HYDRA_LAUNCHER_EXEC", shell),
            ("HYDRA_HOST_FILE", path(&files.nodes)),
        ]);
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
