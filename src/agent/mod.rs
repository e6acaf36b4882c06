//! The agent: reports to the daemon every few seconds that this node lives, and how much memory it
//! has.
//!
//! The agent decides nothing. Every heartbeat reads the facts and the token anew, so that changed
//! memory, and a replaced token, need no restart. If the daemon does not answer, the agent tries
//! again soon, then ever less often. The pause never exceeds the pause without a failure. So a
//! daemon that comes back has heartbeats of all nodes within an interval, and not of all nodes at
//! once.

mod facts;
mod pace;
pub mod run;

use std::path::PathBuf;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reqwest::{Method, StatusCode, Url};
use sha2::{Digest, Sha256};

pub use self::facts::{FactsError, HostFacts, boot};
pub use self::pace::RetryPace;
use crate::api::wire::{Heartbeat, HeartbeatAnswer, Problem};
use crate::client::{NoAnswer, NoToken, Transport, TransportError, token_for};
use crate::model::Mebibytes;

/// Longest wait for an answer of the daemon.
const PATIENCE: Duration = Duration::from_secs(10);

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the daemon.
    pub url: Url,
    /// Name of the node; `None`: the host name up to the first dot.
    pub name: Option<String>,
    /// Memory to offer; `None`: all memory of the node.
    pub memory: Option<Mebibytes>,
    /// Memory kept for the system, out of the offered memory.
    pub reserved: Mebibytes,
    /// Path of a file: while it exists, the node takes no new processes.
    pub quiesce_file: Option<PathBuf>,
    /// Tags of the node: pairs of key and value.
    pub tags: Vec<(String, String)>,
    /// File with the token of the node.
    pub token_file: Option<PathBuf>,
    /// The certificate of the authority that vouches for the daemon, for `https`.
    pub authority: Option<PathBuf>,
}

/// Reason why a heartbeat failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AgentError {
    #[error(transparent)]
    Facts(#[from] FactsError),
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("cannot reach a daemon at {url} ({why}); is it running, and is that where it listens?")]
    Unreachable { url: Url, why: String },
    #[error("{0}")]
    Unauthorised(String),
    #[error("{0}")]
    Refused(String),
}

/// Reporter of a node.
#[derive(Debug)]
pub struct HeartbeatSender {
    options: Options,
    transport: Transport,
    /// Name of this incarnation of the agent.
    boot_id: String,
    /// Heartbeats of this incarnation.
    sequence: u64,
}

impl HeartbeatSender {
    /// An agent that has sent no heartbeat yet.
    ///
    /// # Errors
    ///
    /// If the facts of the node cannot be read, or there is no transport to such a daemon.
    pub fn new(options: Options) -> Result<HeartbeatSender, AgentError> {
        let Options { url, authority, .. } = &options;
        let transport = Transport::new(url, authority.as_deref(), PATIENCE)?;
        let boot_id = facts::life()?;
        let agent = HeartbeatSender { options, transport, boot_id, sequence: 0 };
        // Facts that cannot be read now cannot be read later either. The token may come later.
        agent.node()?;
        Ok(agent)
    }

    /// Returns a random generator for [`RetryPace`], seeded differently for every agent.
    pub fn lots(&self) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(Sha256::digest(&self.boot_id).into())
    }

    /// Reads the facts of the node.
    ///
    /// # Errors
    ///
    /// If the facts cannot be read.
    pub fn node(&self) -> Result<HostFacts, AgentError> {
        let Options { name, memory, reserved, .. } = &self.options;
        Ok(facts::node(name.as_deref(), *memory, *reserved)?)
    }

    /// Sends a heartbeat, and returns it.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached, or refuses the heartbeat.
    pub async fn beat(&mut self) -> Result<Heartbeat, AgentError> {
        let node = self.node()?;
        self.sequence += 1;
        let beat = Heartbeat {
            node: node.name,
            memory_mb: node.memory.0,
            available_mb: Some(node.available.0),
            tags: self.options.tags.iter().cloned().collect(),
            quiesced: self.options.quiesce_file.as_ref().is_some_and(|file| file.exists()),
            boot_id: Some(self.boot_id.clone()),
            sequence: Some(self.sequence),
            sent_ms: Some(jiff::Timestamp::now().as_millisecond()),
        };
        let Options { url, token_file, .. } = &self.options;
        let token = token_file.as_deref().map(|file| token_for(url, file)).transpose()?;
        let request = self.transport.request(Method::POST, &["v1", "heartbeats"], &[]).json(&beat);
        let unreachable = |why: NoAnswer| AgentError::Unreachable {
            url: url.clone(),
            why: match why {
                NoAnswer::Late => "it does not answer".to_owned(),
                NoAnswer::Broken(why) => why,
            },
        };
        let response = self.transport.exchange(request, token.as_ref()).await;
        let response = response.map_err(unreachable)?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| unreachable(error.into()))?;
        if status.is_success() && serde_json::from_slice::<HeartbeatAnswer>(&body).is_ok() {
            return Ok(beat);
        }
        Err(refusal(status, &body, self.options.token_file.is_some(), &beat.node))
    }
}

/// Returns the error for an answer that does not accept the heartbeat.
fn refusal(status: StatusCode, body: &[u8], has_token: bool, node: &str) -> AgentError {
    let says = serde_json::from_slice::<Problem>(body).map_or_else(
        |_| format!("the server there answers {status}, but not as an apportion does"),
        |problem| format!("{} ({})", problem.detail, problem.code),
    );
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if has_token => {
            let hint = format!("the token may be old, or the token of another node than `{node}`");
            AgentError::Unauthorised(format!("{says}; {hint}"))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            AgentError::Unauthorised(format!("{says}; name the node's token with --token-file"))
        }
        _ => AgentError::Refused(says),
    }
}
