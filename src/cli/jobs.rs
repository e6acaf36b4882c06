//! Details of a job: its request, its demand and holdings, and every share.

use super::answer::{Several, ShownAnswer, answer};
use super::args::{JobAction, JobShow};
use super::failure::Failure;
use super::node_words::share_state;
use super::table::Column::{Left, Right};
use super::table::{headed, memory, plain};
use super::text::TextStyle;
use super::{queue, why};
use crate::api::wire::{JobInfo, RemovalReason};
use crate::model::{counted, span};

/// Runs the command.
///
/// # Errors
///
/// If there is no such work, or the daemon cannot be reached.
pub async fn run(action: &JobAction) -> Result<(), Failure> {
    match action {
        JobAction::List(args) => queue::run(args).await,
        JobAction::Show(args) => show(args).await,
        JobAction::Why(args) => why::run(args).await,
    }
}

async fn show(args: &JobShow) -> Result<(), Failure> {
    answer(&args.asking, async |client| {
        let mut jobs: Vec<JobInfo> = Vec::new();
        for job in &args.jobs {
            jobs.push(client.get(&["v1", "jobs", &job.to_string()], &[]).await?);
        }
        Ok(Several(jobs))
    })
    .await
}

impl ShownAnswer for JobInfo {
    type Entry = JobInfo;

    fn entries(&self) -> &[JobInfo] {
        std::slice::from_ref(self)
    }

    fn name(job: &JobInfo) -> String {
        job.id.to_string()
    }

    fn render(&self, look: TextStyle) -> String {
        let sums = &self.sums;
        let size = format!("{} a process", memory(self.memory_mb));
        let threads = match self.threads {
            1 => "1 item".to_owned(),
            threads => format!("{threads} items"),
        };
        let mut lines = vec![
            format!(
                "{} {} of {} in class {}: {}",
                self.kind.word(),
                self.id,
                plain(&self.user),
                plain(&self.class),
                self.state()
            ),
            format!("asks:     {size}, which works on {threads} at a time"),
            format!("items:    {} to do", self.remaining),
            format!("wants:    {}", counted(sums.wanted, "process")),
        ];
        if let (Some(cap), Some(bound)) = (sums.cap, &sums.cap_bound) {
            lines.push(format!("cap:      {cap}: {}", plain(&bound.sentence)));
        }
        lines.push(format!(
            "has:      {}; its target is {}, and room is promised for {}",
            counted(sums.held, "process"),
            sums.given,
            sums.promised
        ));
        if let Some(reason) = &self.reason {
            let id = self.id;
            lines.push(format!("reason:   {}; see `apportion why {id}`", plain(&reason.sentence)));
        }
        if !self.shares.is_empty() {
            lines.push(String::new());
            lines.push(shares(self, look));
        }
        lines.join("\n")
    }
}

fn shares(job: &JobInfo, look: TextStyle) -> String {
    let columns = [
        Right("SHARE"),
        Left("NODE"),
        Right("MEMORY"),
        Left("STATE"),
        Right("INIT"),
        Right("WORK"),
    ];
    let rows = job.shares.iter().map(|share| {
        let what = match (share.removal, share.seen, share.initialized) {
            (Some(why), _, _) => format!("{} ({})", share_state(share.state), removal(why)),
            (None, false, _) => "assigned".to_owned(),
            (None, true, false) => "initializing".to_owned(),
            (None, true, true) => "running".to_owned(),
        };
        [
            share.share.to_string(),
            share.node.clone(),
            memory(share.memory_mb),
            what,
            span(share.initialization_ms),
            span(share.investment_ms),
        ]
    });
    headed(columns, rows, look)
}

/// Returns the reason for a share's end, in words.
pub(super) fn removal(why: RemovalReason) -> &'static str {
    match why {
        RemovalReason::Preempted => "preempted",
        RemovalReason::VariedOff => "varied off",
        RemovalReason::Blacklisted => "blacklisted",
        RemovalReason::NodeDied => "node died",
        RemovalReason::Withdrawn => "withdrawn: the node is full",
        RemovalReason::GangBroken => "gang broken",
    }
}
