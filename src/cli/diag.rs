//! State of the daemon: cycles, queue, store, findings of the audit, requests and clients.

use serde::Serialize;

use super::answer::{ShownAnswer, answer};
use super::args::Diag as Args;
use super::failure::Failure;
use super::figures::millis;
use super::requests::{Requests, render_clients, render_requests};
use super::table::{memory, plain};
use super::text::TextStyle;
use crate::api::wire::{ClientList, ShareCounts, Status};
use crate::model::percent;
use crate::model::{counted, fold_hostlist};

/// Tells it.
///
/// # Errors
///
/// If the daemon cannot be reached.
pub async fn run(args: &Args) -> Result<(), Failure> {
    answer(&args.asking, async |client| {
        let status = client.get::<Status>(&["v1", "status"], &[]).await?;
        let requests = Requests::of(&client.text(&["metrics"]).await?);
        let clients = client.get::<ClientList>(&["v1", "clients"], &[]).await?;
        Ok(Diagnosis { status, requests, clients })
    })
    .await
}

/// Status of the daemon, its counters of requests, and its busiest clients.
#[derive(Debug, Serialize)]
struct Diagnosis {
    #[serde(flatten)]
    status: Status,
    /// Since it started.
    requests: Vec<Requests>,
    #[serde(flatten)]
    clients: ClientList,
}

impl ShownAnswer for Diagnosis {
    type Entry = Diagnosis;

    fn entries(&self) -> &[Diagnosis] {
        std::slice::from_ref(self)
    }

    fn name(_: &Diagnosis) -> String {
        "daemon".to_owned()
    }

    fn render(&self, look: TextStyle) -> String {
        let status = &self.status;
        let mut lines = [daemon(status), cluster(status), judgement(status)].concat();
        lines.extend(status.audit_findings.iter().map(|finding| format!("  {}", plain(finding))));
        if !status.silent_together.is_empty() {
            let names = fold_hostlist(status.silent_together.iter().map(String::as_str));
            lines.push(format!(
                "held back:    {} fell silent together; their work keeps its space. If they are dead: `apportion node lost`",
                plain(&names)
            ));
        }
        if let Some(absent) = status.absent {
            lines.push(format!(
                "absent:       {} processes of {} jobs are not in the last publication; they keep their space",
                absent.processes, absent.jobs
            ));
        }
        lines.push(render_requests(&self.requests, look));
        lines.push(render_clients(&self.clients, look));
        lines.join("\n")
    }
}

fn daemon(status: &Status) -> Vec<String> {
    let times = &status.cycle_times;
    let ready = if status.ready { "ready" } else { "not ready: nothing was planned yet" };
    let publication = status
        .publication
        .map_or_else(|| "none yet".to_owned(), |number| format!("the last was {number}"));
    let figures = |last, mean, max| {
        format!("last {}, mean {}, max {}", millis(last), millis(mean), millis(max))
    };
    vec![
        format!("daemon:       {} {ready}, cycle {}", plain(&status.version), status.cycle),
        format!("cycles:       {} planned since the start", times.cycles),
        format!(
            "  planning:   {}",
            figures(status.planned_in_us, times.planned_mean_us, times.planned_max_us)
        ),
        format!(
            "  storing:    {}",
            figures(status.stored_in_us, times.stored_mean_us, times.stored_max_us)
        ),
        format!("publications: {publication}"),
        format!("record:       up to event {}", status.last_event),
    ]
}

fn cluster(status: &Status) -> Vec<String> {
    let Status { nodes, jobs, shares, .. } = status;
    let out = [
        (nodes.awaited, "awaited"),
        (nodes.dead, "dead"),
        (nodes.varied_off, "varied off"),
        (nodes.quiesced, "quiesced"),
        (nodes.blacklisted, "blacklisted"),
    ];
    let out = out.iter().filter(|(count, _)| 0 < *count);
    let out: Vec<String> = out.map(|(count, what)| format!(", {count} {what}")).collect();
    let out = out.concat();
    vec![
        format!("nodes:        {} of {} up{out}", nodes.up, nodes.total),
        format!(
            "memory:       {} of {} taken ({} %){}",
            memory(shares.used_mb),
            memory(shares.schedulable_mb),
            percent(shares.used_mb, shares.schedulable_mb),
            outside(shares)
        ),
        format!(
            "queue:        {}, of which {} wait and {} are refused",
            counted(jobs.total, "job"),
            jobs.waiting,
            jobs.refused
        ),
        format!("shares:       {} held, {} leaving", shares.held, shares.leaving),
    ]
}

/// Returns lines on quiet cycles, safety net and audit.
fn judgement(status: &Status) -> Vec<String> {
    let net = match status.net_strikes {
        0 => "did not strike".to_owned(),
        strikes => format!("held back {} in the last cycle", counted(strikes, "job")),
    };
    let audit = match status.audit_findings_total {
        0 => "no rule was broken since the start".to_owned(),
        total => format!("rules were broken {} since the start", counted(total, "time")),
    };
    vec![
        format!(
            "quiet:        {} without a change of demand or supply, {} without any news",
            counted(status.calm.quiet_cycles, "cycle"),
            counted(status.calm.rest_cycles, "cycle")
        ),
        format!("safety net:   {net}"),
        format!("audit:        {audit}"),
    ]
}

/// Returns a text on memory in use on nodes that get no work. The text is empty without such
/// memory.
fn outside(shares: &ShareCounts) -> String {
    match shares.outside_mb {
        0 => String::new(),
        outside => format!(", and {} on nodes that get no work", memory(outside)),
    }
}
