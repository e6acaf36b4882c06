//! `apportion demo`: a whole cluster in a single process, to watch.
//!
//! The daemon is the real daemon, on loopback, with a real database in a temporary folder. Around
//! it agents report nodes and an orchestrator publishes work. Both use HTTP, and share only the
//! wire types with the daemon. The work's progress is simulated, in compressed time.
//!
//! ```text
//!  cluster ──── heartbeats ────►┌────────┐
//!  orchestrator ─ publication ─►│ daemon │     play: the clock, the incidents, the tally
//!           ◄──── schedule ─────└────────┘     story: lines for people · report: JSON
//! ```

mod client;
mod cluster;
mod fairness;
mod grid;
mod orchestrator;
mod play;
mod report;
mod story;
mod tally;
mod workload;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::pin::pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::client::DemoClient;
use self::play::{Play, PlayPace};
use self::story::Story;
use crate::config::{self, DaemonSettings, Problems};
use crate::daemon::{self, DaemonError};

pub use self::grid::{GridDemoCampaign, GridDemoOptions, GridDemoReport, run_grid};
pub use self::report::{DemoReport, TimeSpread};

const CONFIG: &str = include_str!("apportion.toml");

/// Parameters of a demo.
pub struct DemoOptions {
    /// Address of the daemon; if the port is taken, the demo uses another port.
    pub listen: SocketAddr,
    /// Speed of the work's time, as a multiple of the wall clock's.
    pub speed: NonZeroU64,
    /// The same seed gives the same work.
    pub seed: u64,
    /// True if the demo ends after a round of the workload.
    pub once: bool,
    /// Longest duration of the demo.
    pub duration: Option<Duration>,
    /// Output for the story.
    pub out: Box<dyn Write + Send>,
    /// True if `out` shows colours.
    pub has_colour: bool,
    /// Columns of a line of the story.
    pub width: usize,
}

/// An error that ends the demo early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum DemoError {
    #[error("the demo's own configuration is wrong\n{0}")]
    Config(Problems),
    #[error("the demo's own workload is wrong")]
    Workload(#[from] toml::de::Error),
    #[error("failed to make a temporary folder for the database")]
    Scratch(#[source] io::Error),
    #[error("failed to listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("failed to set up HTTP")]
    Http(#[from] reqwest::Error),
    #[error("the daemon failed")]
    Daemon(#[from] DaemonError),
    #[error("the daemon ended before the demo did")]
    DaemonLeft,
}

/// Plays the demo until it is over or interrupted, and reports.
///
/// # Errors
///
/// If the daemon cannot be started, or fails on the way.
pub async fn run(options: DemoOptions) -> Result<DemoReport, DemoError> {
    let scratch = tempfile::TempDir::with_prefix("apportion-demo-").map_err(DemoError::Scratch)?;
    let (listener, address) = listen(options.listen).await?;
    let mut config =
        config::parse("the demo's apportion.toml", CONFIG).map_err(DemoError::Config)?;
    config.daemon.state = scratch.path().join("apportion.db");
    config.daemon.listen = address;
    let (cycle_period, heartbeat_interval) =
        (config.daemon.cycle_period, config.daemon.heartbeat_interval);

    let client = DemoClient::new(format!("http://{address}"))?;
    let (outages, heard) = watch::channel(cluster::Outages::default());
    // Two heartbeats an interval, so that a late heartbeat on a busy machine is not a missed
    // heartbeat.
    let agents = cluster::beat(client.clone(), heard, heartbeat_interval.div_f64(2.0));
    let mut story = Story::new(options.out, options.has_colour, options.width);
    introduce(&mut story, options.speed, options.seed, address);
    let pace = PlayPace {
        speed: options.speed,
        seed: options.seed,
        once: options.once,
        duration: options.duration,
        cycle_period,
    };
    let play = Play::new(client, story, outages, pace)?;

    let stop = CancellationToken::new();
    let mut daemon = pin!(daemon::serve(config, listener, stop.clone()));
    let report = tokio::select! {
        ended = &mut daemon => return Err(ended.err().map_or(DemoError::DaemonLeft, DemoError::Daemon)),
        never = agents => match never {},
        report = play.run() => report?,
    };
    stop.cancel();
    daemon.await?;
    Ok(report)
}

/// Listens on `wished`, or if that port is taken, on any other.
async fn listen(wished: SocketAddr) -> Result<(TcpListener, SocketAddr), DemoError> {
    let failed = |source| DemoError::Listen { address: wished, source };
    let listener = match TcpListener::bind(wished).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::new(wished.ip(), 0)).await
        }
        bound => bound,
    };
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Introduces the demo, and names commands to try while it plays.
fn introduce(story: &mut Story, speed: NonZeroU64, seed: u64, address: SocketAddr) {
    let url = if address == DaemonSettings::default().listen {
        String::new()
    } else {
        format!(" --url http://{address}")
    };
    let nodes = cluster::size();
    let lines = [
        format!("apportion demo · {nodes} simulated nodes · seed {seed} · {speed}x time"),
        "  a real daemon on loopback, without log-in; its folder goes when it ends".to_owned(),
        String::new(),
        format!("  dashboard  http://{address}/"),
        format!("  API        http://{address}/openapi.json"),
        format!("  try        apportion why{url}          the job that waits longest, and why"),
        format!("             apportion why 7{url}        a job that no node can hold"),
        format!("             apportion top{url}"),
        String::new(),
    ];
    for line in lines {
        story.plain(&line);
    }
}

impl fmt::Debug for DemoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("speed", &self.speed)
            .field("seed", &self.seed)
            .field("once", &self.once)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
