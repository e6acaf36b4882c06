//! Acts of administrators that declare nodes dead or gone.

use reqwest::{Method, Url};

use super::client::DaemonClient;
use super::consent;
use super::failure::{Failure, FailureKind};
use super::node_act_args::{NodesGoneArgs, NodesLost};
use super::node_names::spelled_out;
use super::node_words::{names, render_impact};
use super::output::{print, show};
use super::place::OrchestratorArgs;
use super::table::plain;
use crate::api::wire::{self, VaryAnswer};
use crate::orchestrator::wire::LostNode;

/// Says that nodes are dead.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses, or work would be given up and that is not agreed to.
pub async fn lost(args: &NodesLost) -> Result<(), Failure> {
    let NodesLost { gone: args, orchestrator } = args;
    let client = DaemonClient::new(&args.remote)?;
    let nodes = spelled_out(&client, &args.nodes).await?;
    let request = |dry_run| request_of(args, &nodes, dry_run);
    let path = &["v1", "nodes", "lost"];
    if !args.dry_run && !args.yes {
        let preview: VaryAnswer = client.post(path, &request(true)).await?;
        if 0 < preview.impact.shares_evicted {
            consent::ask(&preview, args.remote.json, render_lost)?;
        }
    }
    let answer: VaryAnswer = client.post(path, &request(args.dry_run)).await?;
    show(&answer, args.remote.json, render_lost)?;
    if args.dry_run {
        return Ok(());
    }
    tell_orchestrator(args, orchestrator.as_ref(), &answer).await
}

/// Tells the orchestrator of campaigns. Where none was named and none runs, none has to know.
async fn tell_orchestrator(
    args: &NodesGoneArgs,
    named: Option<&Url>,
    answer: &VaryAnswer,
) -> Result<(), Failure> {
    let place = OrchestratorArgs {
        orchestrator: named.cloned(),
        url: args.remote.url.clone(),
        json: args.remote.json,
        trust: args.remote.trust.clone(),
    };
    let orchestrator = place.open()?;
    for node in answer.changed.iter().chain(&answer.unchanged) {
        let body = LostNode { node: node.clone(), reason: args.reason.clone() };
        match orchestrator.act(Method::POST, &["v1", "slots", "lost"], &body).await {
            Ok(()) if args.remote.json => {}
            Ok(()) => print(&format!("{}: its tasks are queued again", plain(node)))?,
            Err(failure) if named.is_none() && failure.exit == FailureKind::NotFound => {
                return Ok(());
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Forgets nodes.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn forget(args: &NodesGoneArgs) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let nodes = spelled_out(&client, &args.nodes).await?;
    let request = request_of(args, &nodes, args.dry_run);
    let answer: VaryAnswer = client.post(&["v1", "nodes", "forget"], &request).await?;
    Ok(show(&answer, args.remote.json, |answer| {
        let done = if answer.dry_run { "would be forgotten" } else { "forgotten" };
        format!("{} {done}", names(&answer.changed))
    })?)
}

fn request_of(args: &NodesGoneArgs, nodes: &[String], dry_run: bool) -> wire::NodesGone {
    wire::NodesGone { nodes: nodes.to_vec(), reason: args.reason.clone(), dry_run }
}

fn render_lost(answer: &VaryAnswer) -> String {
    let mut lines = Vec::new();
    if !answer.changed.is_empty() {
        let done = if answer.dry_run { "would be given up" } else { "given up" };
        lines.push(format!("{} {done} as dead", names(&answer.changed)));
    }
    if !answer.unchanged.is_empty() {
        lines.push(format!("{} dead already, and nothing held back", names(&answer.unchanged)));
    }
    lines.extend(render_impact(&answer.impact, answer.dry_run, !answer.changed.is_empty()));
    lines.extend(answer.notes.iter().map(|note| format!("note: {}", plain(note))));
    lines.join("\n")
}
