//! The agent, as the shell or systemd starts and stops it.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::agent_args::AgentArgs;
use super::agent_run;
use super::failure::{Failure, FailureKind};
use super::logging::log_format;
use super::output::{print, show};
use super::user_unit;
use crate::agent::run::Runner;
use crate::agent::{AgentError, HeartbeatSender, Options, RetryPace};
use crate::api::wire::Heartbeat;
use crate::telemetry;

/// End of the help of `agent`.
pub const EXAMPLES: &str = "\
Examples:
  apportion agent --url https://head:7070 --ca /etc/apportion/ca.pem --token-file /etc/apportion/agent.token
  apportion agent --node node01 --reserve 4GB      to a daemon on this machine
  apportion agent --once --json                    one heartbeat, and what was said in it
  apportion agent --check                          how would work run on this node?
  apportion agent --run --spool /var/lib/apportion-agent   report, and run work
  apportion agent --join apportion.join            the same, for the cluster of an `apportion up --listen`
  apportion agent --join apportion.join --install-user-unit

Exit status with --once: 0 accepted   1 refused   3 no daemon reached   4 not authorised
Not beside an agent that runs: the daemon would see two.";

/// Reports until a signal stops it, or once.
///
/// # Errors
///
/// If this system does not say what is to be reported; with `--once`, also if that does not count.
pub async fn run(args: &AgentArgs) -> Result<(), Failure> {
    if args.install_user_unit {
        return user_unit::install(args);
    }
    let joined = args.join.as_deref().map(|file| agent_run::joined(args, file)).transpose()?;
    let args = joined.as_ref().unwrap_or(args);
    telemetry::init(&args.logging.log, log_format(args.logging.log_format))?;
    let options = Options {
        url: args.url.clone(),
        name: args.node.clone(),
        memory: args.memory,
        reserved: args.reserve,
        quiesce_file: args.quiesce_file.clone(),
        tags: args.tags.clone(),
        token_file: args.trust.token_file.clone(),
        authority: args.trust.ca.clone(),
    };
    let mut agent = HeartbeatSender::new(options)?;
    if args.run.check {
        let text = agent_run::check(&args.run, &agent.node()?);
        return Ok(print(&text.map_err(|problem| Failure::new(FailureKind::Refused, problem))?)?);
    }
    if args.once {
        let said = agent.beat().await.map_err(failure)?;
        return Ok(show(&said, args.json, told)?);
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let runner = if args.run.run {
        end_with_a_panic();
        Some(Runner::new(agent_run::options(args, agent.node()?.name))?)
    } else {
        None
    };
    tell(&[NotifyState::Ready]);
    tokio::select! {
        () = report(&mut agent, args.interval) => {}
        // Slots continue without their agent, and the next agent adopts them.
        () = run_work(runner) => {}
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tell(&[NotifyState::Stopping]);
    Ok(())
}

/// Ends the process with the first panic: without the part that panicked, a slot would have no keeper or the
/// orchestrator no answer. Slots go on, and the next agent adopts them.
fn end_with_a_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(101);
    }));
}

/// Runs work for ever, or waits for ever if the agent reports only.
async fn run_work(runner: Option<Runner>) {
    match runner {
        Some(runner) => runner.run().await,
        None => std::future::pending().await,
    }
}

/// Heartbeats for ever. What goes wrong is said when it begins and when it is over.
async fn report(agent: &mut HeartbeatSender, interval: Duration) {
    let mut lots = agent.lots();
    let mut pace = RetryPace::new(interval);
    let mut is_heard = false;
    let mut problem = None;
    loop {
        let wait = match agent.beat().await {
            Ok(beat) => {
                if !std::mem::replace(&mut is_heard, true) {
                    let Heartbeat { node, memory_mb, .. } = &beat;
                    tracing::info!(node, memory_mb, "the daemon has the heartbeat of this node");
                }
                problem = None;
                tell(&[NotifyState::Watchdog, NotifyState::Status(&told(&beat))]);
                pace.after_success(&mut lots)
            }
            Err(error) => {
                is_heard = false;
                let says = format!("{:#}", anyhow::Error::new(error));
                let status = format!("heartbeat failed: {says}");
                tell(&[NotifyState::Watchdog, NotifyState::Status(&status)]);
                if problem.as_ref() != Some(&says) {
                    tracing::warn!(problem = says, "heartbeat failed; the agent retries");
                    problem = Some(says);
                }
                pace.after_failure(&mut lots)
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Returns the sent heartbeat as a line for people.
fn told(beat: &Heartbeat) -> String {
    let Heartbeat { node, memory_mb, .. } = beat;
    let available =
        beat.available_mb.map_or(String::new(), |mb| format!(", {mb} MB available now"));
    let wish = if beat.quiesced { "; wants no new work" } else { "" };
    format!("{node}: offers {memory_mb} MB{available}{wish}\n")
}

fn tell(states: &[NotifyState<'_>]) {
    // Without systemd no process listens, so the error carries no news.
    let _ = sd_notify::notify(states);
}

fn failure(error: AgentError) -> Failure {
    let exit = match &error {
        AgentError::Unreachable { .. } => FailureKind::Unreachable,
        AgentError::Unauthorised(_) => FailureKind::Unauthorised,
        AgentError::Facts(_)
        | AgentError::Token(_)
        | AgentError::Transport(_)
        | AgentError::Refused(_) => FailureKind::Refused,
    };
    Failure::new(exit, format!("{:#}", anyhow::Error::new(error)))
}
