//! Details of a job: its request, its demand and holdings, and every share.

use jiff::Timestamp;

use super::answer::{Several, ShownAnswer, answer};
use super::args::{JobAction, JobShow};
use super::failure::Failure;
use super::node_words::share_state;
use super::table::Column::{Left, Right};
use super::table::{headed, memory, plain};
use super::text::TextStyle;
use super::{queue, why};
use crate::api::wire::{JobInfo, RemovalReason, ShareInfo};
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
        let shape = self.shape();
        let asks = if shape.is_gang() {
            plain(&shape.words())
        } else {
            let more = Some(shape.words()).filter(|words| !words.is_empty());
            let more = more.map(|words| format!("; {}", plain(&words))).unwrap_or_default();
            let size = memory(self.memory_mb);
            format!("{size} a process, which works on {} at a time{more}", items(self.threads))
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
            format!("asks:     {asks}"),
        ];
        lines.extend(times(self));
        if !shape.is_gang() {
            lines.push(format!("items:    {} to do", self.remaining));
        }
        lines.push(format!("wants:    {}", counted(sums.wanted, "process")));
        if let (Some(cap), Some(bound)) = (sums.cap, &sums.cap_bound) {
            lines.push(format!("cap:      {cap}: {}", plain(&bound.sentence)));
        }
        lines.push(format!(
            "has:      {}; its target is {}, and space is promised for {}",
            counted(sums.held, "process"),
            sums.given,
            sums.promised
        ));
        if self.ready.is_some() {
            lines.push(format!("starts:   {}", queue::ready(self)));
        }
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

/// Lines on the times and the reservation that a job asked for.
fn times(job: &JobInfo) -> Vec<String> {
    let time = |ms: Option<u64>| {
        let time = i64::try_from(ms?).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.map(|time| format!("{time:.0}"))
    };
    let start = time(job.not_before_ms).map(|time| format!("start:    not before {time}"));
    let end = time(job.deadline_ms).map(|time| format!("deadline: {time}"));
    let reservation = job.reservation.as_ref();
    let reservation = reservation.map(|name| format!("in:       reservation {}", plain(name)));
    [start, end, reservation].into_iter().flatten().collect()
}

fn items(threads: u64) -> String {
    if threads == 1 { "1 item".to_owned() } else { format!("{threads} items") }
}

fn shares(job: &JobInfo, look: TextStyle) -> String {
    if job.chunks.is_empty() {
        return shares_of(job, look);
    }
    let columns = [
        Right("RANK"),
        Right("SHARE"),
        Left("NODE"),
        Right("MEMORY"),
        Left("STATE"),
        Right("INIT"),
        Right("WORK"),
    ];
    let mut ranked: Vec<&ShareInfo> = job.shares.iter().collect();
    ranked.sort_by_key(|share| (share.rank, share.share));
    let rows = ranked.into_iter().map(|share| {
        let rank = share.rank.map(|rank| rank.to_string()).unwrap_or_default();
        let [number, node, memory, what, init, work] = share_row(share);
        [rank, number, node, memory, what, init, work]
    });
    headed(columns, rows, look)
}

fn shares_of(job: &JobInfo, look: TextStyle) -> String {
    let columns = [
        Right("SHARE"),
        Left("NODE"),
        Right("MEMORY"),
        Left("STATE"),
        Right("INIT"),
        Right("WORK"),
    ];
    headed(columns, job.shares.iter().map(share_row), look)
}

fn share_row(share: &ShareInfo) -> [String; 6] {
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
}

/// Returns the reason for a share's end, in words.
pub(super) fn removal(why: RemovalReason) -> &'static str {
    match why {
        RemovalReason::Preempted => "preempted",
        RemovalReason::VariedOff => "varied off",
        RemovalReason::Blacklisted => "blacklisted",
        RemovalReason::NodeDied => "node died",
        RemovalReason::Withdrawn => "withdrawn: the node is full",
        RemovalReason::Window => "maintenance of its node",
        RemovalReason::ClassClosed => "its class closes",
        RemovalReason::Overrun => "ran longer than declared",
        RemovalReason::GangBroken => "gang broken",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(more: &serde_json::Value) -> JobInfo {
        let mut job = json!({
            "id": 7, "user": "ann", "class": "wide", "kind": "job", "memory_mb": 8192, "threads": 1,
            "submitted_ms": 1, "remaining": 2, "running": true, "completing": false,
            "disposition": "stable",
            "sums": {
                "wanted": 2, "deserved": 0, "given": 2, "held": 2, "promised": 0, "behind_cycles": 0
            },
            "shares": []
        });
        let fields = job.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn a_gang_shows_its_chunks_and_its_processes_by_rank() {
        let share = |share: u64, rank: u64, node: &str| {
            json!({
                "share": share, "rank": rank, "node": node, "order": 1, "memory_mb": 8192,
                "state": "held", "seen": true, "initialized": true, "initialization_ms": 0,
                "investment_ms": 0
            })
        };
        let gang = job(&json!({
            "chunks": [{"count": 2, "memory_mb": 8192, "tags": {"color": "blue"}}],
            "place": "scatter", "exclusive": true,
            "shares": [share(4, 1, "n1"), share(5, 0, "n2")]
        }));
        let shown = gang.render(TextStyle::default());
        let asks = "asks:     2 × 8 GB on color=blue; one a node; exclusive\nwants:";
        assert!(shown.contains(asks), "{shown}");
        let rows: Vec<Vec<&str>> =
            shown.lines().rev().take(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[2][..2], ["RANK", "SHARE"]);
        assert_eq!((&rows[1][..3], &rows[0][..3]), (&["0", "5", "n2"][..], &["1", "4", "n1"][..]));
    }

    #[test]
    fn other_work_shows_no_rank_and_its_sizes() {
        let plain = job(&json!({})).render(TextStyle::default());
        assert!(plain.contains("8 GB a process, which works on 1 item at a time\n"), "{plain}");
        let sized = json!({"elasticity": "malleable", "min_processes": 2, "legal_sizes": "even"});
        let sized = job(&sized).render(TextStyle::default());
        let asks = "at a time; malleable; at least 2 processes; even numbers\nitems:";
        assert!(sized.contains(asks) && !sized.contains("RANK"), "{sized}");
    }
}
