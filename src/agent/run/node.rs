//! State that all keepers of a node share.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::address::OwnAddress;
use super::ladder::Ladder;
use super::records::{SlotRecord, SlotRecords};
use super::spool::NodeSpool;
use super::users::LocalUsers;
use crate::orchestrator::wire::{Channel, SlotReport};
use crate::slot::wire::{FromSlot, MAX_FROM_SLOT, OutputChunk, ReadRequest, receive};

/// Longest time for a process that reads a dead slot's files.
const PATIENCE: Duration = Duration::from_mins(1);

/// The node, for keepers.
#[derive(Debug)]
pub struct LocalNode {
    /// Name of the node.
    pub name: String,
    /// Boot id of the node.
    pub boot: String,
    /// Address of the node for other nodes.
    pub address: OwnAddress,
    /// The program of this process.
    pub program: PathBuf,
    /// True if programs with the setuid bit keep their effect in tasks.
    pub allow_setuid: bool,
    /// The most processes and threads of a slot.
    pub max_processes: u32,
    pub users: LocalUsers,
    pub ladder: Ladder,
    pub records: SlotRecords,
    pub spool: NodeSpool,
}

impl LocalNode {
    /// The last report of a dead slot, out of its journal, read by a process of its user.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub async fn report_dead(&self, record: &SlotRecord) -> Result<SlotReport, String> {
        let flags = ["--report".to_owned()];
        match self.ask(&record.slot, record.identity.as_deref(), &flags).await? {
            (FromSlot::Report(report), _) => Ok(report.report),
            (FromSlot::Chunk(_), _) => Err("it answered with output".to_owned()),
        }
    }

    /// Output that a dead slot kept, read by a process of its user.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub async fn read_dead(
        &self,
        slot: &str,
        request: &ReadRequest,
    ) -> Result<(OutputChunk, Vec<u8>), String> {
        let ReadRequest { task, channel, from, .. } = request;
        let channel = match channel {
            Channel::Out => "out",
            Channel::Err => "err",
        };
        let stream = format!("{}.{}.{}.{channel}", task.campaign, task.task, task.attempt);
        let flags = ["--read".to_owned(), stream, "--from".to_owned(), from.to_string()];
        let identity = self.owner_of(slot)?;
        match self.ask(slot, identity.as_deref(), &flags).await? {
            (FromSlot::Chunk(chunk), bytes) => Ok((chunk, bytes)),
            (FromSlot::Report(_), _) => Err("it answered with a report".to_owned()),
        }
    }

    /// Removes all files of a slot that is forgotten.
    ///
    /// # Errors
    ///
    /// If they resist.
    pub async fn clear(&self, slot: &str) -> Result<(), String> {
        let identity = self.owner_of(slot)?;
        let mut command = self.command(slot, identity.as_deref());
        command.arg("--clear").stdout(Stdio::null());
        let status = tokio::time::timeout(PATIENCE, command.status()).await;
        match status {
            Ok(Ok(status)) if status.success() => {
                self.spool.remove(slot);
                Ok(())
            }
            Ok(Ok(status)) => Err(format!("it ended with {status}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it took too long".to_owned()),
        }
    }

    /// Returns the owner of a slot's folder, in the form of `--become`. `None`: the agent's own
    /// user.
    fn owner_of(&self, slot: &str) -> Result<Option<String>, String> {
        let metadata = std::fs::symlink_metadata(self.spool.of(slot));
        let metadata = metadata.map_err(|error| error.to_string())?;
        let (uid, gid) = (metadata.uid(), metadata.gid());
        Ok((uid != self.users.own_uid()).then(|| format!("{uid}:{gid}:{gid}")))
    }

    fn command(&self, slot: &str, identity: Option<&str>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("slot").arg(self.spool.of(slot));
        let own = format!("{}:", self.users.own_uid());
        if let Some(identity) = identity.filter(|identity| !identity.starts_with(&own)) {
            command.arg("--become").arg(identity);
        }
        command.env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn ask(
        &self,
        slot: &str,
        identity: Option<&str>,
        flags: &[String],
    ) -> Result<(FromSlot, Vec<u8>), String> {
        let mut command = self.command(slot, identity);
        command.args(flags).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("it has no output")?;
        let most = u64::try_from(MAX_FROM_SLOT).unwrap_or(u64::MAX);
        let mut said = Vec::new();
        let read = async {
            stdout.take(most.saturating_add(64)).read_to_end(&mut said).await?;
            child.wait().await
        };
        match tokio::time::timeout(PATIENCE, read).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => return Err(format!("the process that reads it ended with {status}")),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("the process that reads it took too long".to_owned()),
        }
        let frame = receive::<FromSlot>(&mut said.as_slice(), MAX_FROM_SLOT);
        frame
            .map_err(|error| error.to_string())?
            .ok_or_else(|| "the process that reads it wrote nothing".to_owned())
    }
}
