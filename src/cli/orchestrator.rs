//! Commands about orchestrators: run, list, hand over, adopt.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use reqwest::Url;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::adopt::{self, ADOPT_EXAMPLES, AdoptArgs};
use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::logging::{Logging, log_format};
use super::output::{complain, show};
use super::remote::{Remote, Trust};
use super::settings;
use super::table::plain;
use super::values::{parse_address, parse_span, parse_url};
use crate::api::wire::{HandOver, Orchestrators};
use crate::config::{Access, CampaignRetention, GridSettings};
use crate::orchestrator::house::HouseRules;
use crate::orchestrator::rm::RmOptions;
use crate::orchestrator::run::{OrchestratorOptions, Reach, serve_alone};
use crate::telemetry;

/// An action on orchestrators.
#[derive(Debug, Subcommand)]
pub enum OrchestratorAction {
    /// Run the orchestrator of campaigns beside a daemon, until a signal
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Show whose publications count, and whose are refused
    #[command(after_help = LIST_EXAMPLES)]
    List(Remote),
    /// Let another orchestrator publish
    #[command(name = "hand-over", after_help = HAND_OVER_EXAMPLES)]
    HandOver(HandOverArgs),
    /// Take over what nodes have after the database was put back from a copy
    #[command(after_help = ADOPT_EXAMPLES)]
    Adopt(Box<AdoptArgs>),
}

/// Runs the orchestrator.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The resource manager
    #[arg(
        long,
        value_name = "URL",
        env = "APPORTION_URL",
        default_value = "http://127.0.0.1:7070",
        value_parser = parse_url
    )]
    pub rm: Url,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7071", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// The database
    #[arg(long, value_name = "FILE", default_value = "orchestrator.db")]
    pub state: PathBuf,
    /// A daemon's configuration file: its `[[admission]]` rules hold here, and its `[grid]` and
    /// `[[cluster]]` make this orchestrator a router over several clusters
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The file of tokens
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// The chain of certificates for https, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The key that goes with it, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// The unix socket
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// Time that slots continue without a word from the orchestrator
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_span)]
    pub lease: Duration,
    /// The least time between two publications
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_span)]
    pub publish_every: Duration,
    /// Time that a slot without a task stays
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_span)]
    pub linger: Duration,
    /// The folder of admission rules
    #[arg(long, value_name = "FOLDER")]
    pub admission: Option<PathBuf>,
    /// The program that gets each event of campaigns as JSON on its standard input
    #[arg(long, value_name = "FILE")]
    pub notify: Option<PathBuf>,
    /// The time zone of the hours of campaigns
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = parse_zone)]
    pub timezone: TimeZone,
    /// The class of test campaigns; without it, they have the class that they name
    #[arg(long, value_name = "CLASS")]
    pub test_class: Option<String>,
    /// Days after the end of a campaign that its tasks are kept; only counts are left then
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub retention_days: u64,
    /// Rows of tasks and attempts of finished campaigns that are kept
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub retention_rows: u64,
    /// Days after its end that a campaign itself is kept, and who did what
    #[arg(long, value_name = "DAYS", default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub campaign_retention_days: u64,
    /// The token of the role orchestrator, and the authority that vouches for the resource manager.
    #[command(flatten)]
    pub trust: Trust,
    /// The log.
    #[command(flatten)]
    pub logging: Logging,
}

/// Reads the name of a time zone. Machines without time zone data know UTC, too.
fn parse_zone(text: &str) -> Result<TimeZone, jiff::Error> {
    if text.eq_ignore_ascii_case("UTC") { Ok(TimeZone::UTC) } else { TimeZone::get(text) }
}

const RUN_EXAMPLES: &str = "\
Examples:
  apportion orchestrator run --rm http://127.0.0.1:7070
  apportion orchestrator run --rm https://head:7070 --ca ca.pem --token-file orchestrator.token \\
      --listen 0.0.0.0:7071 --tokens tokens --certificate head.pem --key head.key

The resource manager runs on without it; slots run on for their lease.";

fn retention(args: &RunArgs) -> Result<CampaignRetention, Failure> {
    let retention = CampaignRetention {
        days: args.retention_days,
        rows: args.retention_rows,
        campaign_days: args.campaign_retention_days,
    };
    let refused = |fault| {
        let message =
            format!("--campaign-retention-days: {fault}; raise it, or lower --retention-days");
        Err(Failure::new(FailureKind::Refused, message))
    };
    retention.fault().map_or(Ok(retention), refused)
}

/// Runs the orchestrator until a signal.
async fn serve(args: &RunArgs) -> Result<(), Failure> {
    telemetry::init(&args.logging.log, log_format(args.logging.log_format))?;
    let (grid, rules) = match &args.config {
        Some(path) => {
            let config = settings::load(path, &[], FailureKind::Refused)?.1;
            (config.grid, config.orchestrator.rules)
        }
        None => (GridSettings::default(), Vec::new()),
    };
    let options = OrchestratorOptions {
        state: args.state.clone(),
        publish_every: args.publish_every,
        lease: args.lease,
        linger: args.linger,
        retention: retention(args)?,
        grid,
        house: HouseRules {
            test_class: args.test_class.clone(),
            rules,
            admission: args.admission.clone(),
            notify: args.notify.clone(),
            zone: args.timezone.clone(),
        },
    };
    let rm = RmOptions {
        url: args.rm.clone(),
        authority: args.trust.ca.clone(),
        token_file: args.trust.token_file.clone(),
    };
    let access = Access {
        tokens: args.tokens.clone(),
        certificate: args.certificate.clone(),
        key: args.key.clone(),
        socket: args.socket.clone(),
        ..Access::default()
    };
    let reach = Reach { listen: args.listen, access };
    let stop = CancellationToken::new();
    let (ready, address) = oneshot::channel();
    let mut terminate = signal(SignalKind::terminate())?;
    let running = serve_alone(&options, rm, &reach, ready, stop.clone());
    tokio::pin!(running);
    let told = async {
        if let Ok(address) = address.await {
            complain(&format!("the orchestrator is ready at {address}"));
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = &mut running => return Ok(outcome?),
        () = told => {}
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    stop.cancel();
    Ok(running.await?)
}

/// Lets another orchestrator publish.
#[derive(Debug, Args)]
pub struct HandOverArgs {
    /// The next orchestrator's name. Without it: the first that gives its name
    #[arg(long, value_name = "NAME")]
    pub to: Option<String>,
    /// The reason, for the audit log
    #[arg(long, short)]
    pub reason: String,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

const LIST_EXAMPLES: &str = "\
Examples:
  apportion orchestrator list";

const HAND_OVER_EXAMPLES: &str = "\
Examples:
  apportion orchestrator list
  apportion orchestrator hand-over --to ducc2 --reason \"ducc1 is retired\"

Jobs and shares stay as they are. A share that the next orchestrator does not publish keeps its space at first.";

/// Runs the command.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn run(action: &OrchestratorAction) -> Result<(), Failure> {
    let (answer, json): (Orchestrators, bool) = match action {
        OrchestratorAction::Run(args) => return serve(args).await,
        OrchestratorAction::Adopt(args) => return adopt::run(args).await,
        OrchestratorAction::List(remote) => {
            (DaemonClient::new(remote)?.get(&["v1", "orchestrators"], &[]).await?, remote.json)
        }
        OrchestratorAction::HandOver(args) => {
            let request = HandOver { to: args.to.clone(), reason: args.reason.clone() };
            let path = &["v1", "orchestrators", "hand-over"];
            (DaemonClient::new(&args.remote)?.post(path, &request).await?, args.remote.json)
        }
    };
    Ok(show(&answer, json, render)?)
}

fn render(answer: &Orchestrators) -> String {
    let whose = match (&answer.publisher, answer.epoch) {
        (Some(name), epoch) => {
            format!("publications of {}, epoch {}, count", plain(name), epoch.unwrap_or(0))
        }
        (None, _) => "publications of any orchestrator count: none said its name".to_owned(),
    };
    let last = answer.publication.map_or("none yet".to_owned(), |number| number.to_string());
    let mut lines = vec![whose, format!("the last on record: {last}")];
    lines.extend(answer.refused.iter().map(|other| {
        let name = if other.publisher.is_empty() { "without a name" } else { &other.publisher };
        format!("refused: {} of {}", other.publications, plain(name))
    }));
    lines.join("\n")
}
