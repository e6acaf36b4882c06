//! The queue: all jobs with demand, holdings and reasons to wait, or the reasons counted.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::answer::{ShownAnswer, answer};
use super::args::{JobFilter, QueueArgs};
use super::client::DaemonClient;
use super::failure::Failure;
use super::reasons::Summary;
use super::table::Column::{Left, Right};
use super::table::{fitted, headed, memory};
use super::text::TextStyle;
use crate::api::wire::{JobInfo, JobPage};
use crate::model::span;

/// Lists work.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn run(args: &QueueArgs) -> Result<(), Failure> {
    let selects = args.filter.selects();
    if args.summary {
        let filter = JobFilter { waiting: true, ..args.filter.clone() };
        let summary =
            async |client: &DaemonClient| Ok(Summary::of(&filter.jobs(client).await?, now_ms()));
        return answer(&args.asking, summary).await;
    }
    let listing = async |client: &DaemonClient| {
        Ok(QueueTable { page: args.filter.jobs(client).await?, now_ms: now_ms(), selects })
    };
    answer(&args.asking, listing).await
}

/// The time on the wall, in milliseconds since the epoch.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Work in lines.
#[derive(Debug, Serialize)]
struct QueueTable {
    #[serde(flatten)]
    page: JobPage,
    #[serde(skip)]
    now_ms: u64,
    #[serde(skip)]
    selects: bool,
}

impl ShownAnswer for QueueTable {
    type Entry = JobInfo;

    fn entries(&self) -> &[JobInfo] {
        &self.page.jobs
    }

    fn name(job: &JobInfo) -> String {
        job.id.to_string()
    }

    fn render(&self, look: TextStyle) -> String {
        if look.is_wide && !self.page.jobs.is_empty() {
            return render_wide(&self.page, self.now_ms, look);
        }
        render(&self.page, self.now_ms, self.selects, look)
    }
}

fn render(page: &JobPage, now_ms: u64, selects: bool, look: TextStyle) -> String {
    if page.jobs.is_empty() {
        return if selects {
            "No such jobs. `apportion queue` lists all there are.".to_owned()
        } else {
            "No jobs. The orchestrator publishes them with PUT /v1/publication.".to_owned()
        };
    }
    if look.is_narrow() {
        return render_narrow(page, now_ms, look);
    }
    let columns = [
        Right("JOB"),
        Left("USER"),
        Left("CLASS"),
        Left("KIND"),
        Right("MEMORY"),
        Right("WANTS"),
        Right("HOLDS"),
        Left("STATE"),
        Right("AGE"),
        Left("REASON"),
    ];
    if !has_starts(page) {
        return headed(columns, page.jobs.iter().map(|job| row(job, now_ms)), look);
    }
    let [id, user, class, kind, memory, wants, holds, state, age, reason] = columns;
    let columns = [id, user, class, kind, memory, wants, holds, state, age, Left("START"), reason];
    let rows = page.jobs.iter().map(|job| {
        let [id, user, class, kind, memory, wants, holds, state, age, reason] = row(job, now_ms);
        [id, user, class, kind, memory, wants, holds, state, age, start(job, now_ms), reason]
    });
    headed(columns, rows, look)
}

/// True if a start of some job can be told.
fn has_starts(page: &JobPage) -> bool {
    page.jobs.iter().any(|job| job.start_estimate_ms.is_some())
}

/// The expected start, relative to the present.
fn start(job: &JobInfo, now_ms: u64) -> String {
    let start = job.start_estimate_ms.map(|at| match at.saturating_sub(now_ms) {
        0 => "now".to_owned(),
        rest => format!("in {}", span(rest)),
    });
    start.unwrap_or_default()
}

/// The reason in a word.
fn render_narrow(page: &JobPage, now_ms: u64, look: TextStyle) -> String {
    let columns = [
        Right("JOB"),
        Left("USER"),
        Left("CLASS"),
        Right("MEMORY"),
        Right("WANTS"),
        Right("HOLDS"),
        Left("STATE"),
        Right("AGE"),
        Left("REASON"),
    ];
    let rows = page.jobs.iter().map(|job| {
        let [id, user, class, _, memory, wants, holds, state, age, _] = row(job, now_ms);
        let code = job.reason.as_ref().map_or_else(|| ready(job), |reason| reason.code.clone());
        [id, user, class, memory, wants, holds, state, age, code]
    });
    if !has_starts(page) {
        return fitted(columns, rows, look, &["CLASS", "MEMORY", "AGE", "WANTS"]);
    }
    let [id, user, class, memory, wants, holds, state, age, reason] = columns;
    let columns = [id, user, class, memory, wants, holds, state, age, Left("START"), reason];
    let rows = rows.zip(&page.jobs).map(|(row, job)| {
        let [id, user, class, memory, wants, holds, state, age, code] = row;
        [id, user, class, memory, wants, holds, state, age, start(job, now_ms), code]
    });
    fitted(columns, rows, look, &["CLASS", "MEMORY", "AGE", "WANTS"])
}

/// The arithmetic too.
fn render_wide(page: &JobPage, now_ms: u64, look: TextStyle) -> String {
    let columns = [
        Right("JOB"),
        Left("USER"),
        Left("CLASS"),
        Left("KIND"),
        Right("MEMORY"),
        Right("SIZE"),
        Right("ITEMS"),
        Right("WANTS"),
        Right("CAP"),
        Right("FAIR SHARE"),
        Right("TARGET"),
        Right("HOLDS"),
        Right("PROMISED"),
        Right("BEHIND"),
        Left("STATE"),
        Right("AGE"),
        Left("START"),
        Left("CODE"),
        Left("REASON"),
    ];
    let rows = page.jobs.iter().map(|job| {
        let [id, user, class, kind, memory, wants, holds, state, age, reason] = row(job, now_ms);
        let size = job.share_mb.map(super::table::memory).unwrap_or_default();
        let cap = job.sums.cap.map(|cap| cap.to_string()).unwrap_or_default();
        let code = job.reason.as_ref().map(|reason| reason.code.clone()).unwrap_or_default();
        let [items, deserves, given, promised, behind] = [
            job.remaining,
            job.sums.deserved,
            job.sums.given,
            job.sums.promised,
            job.sums.behind_cycles,
        ]
        .map(|number| number.to_string());
        [
            id,
            user,
            class,
            kind,
            memory,
            size,
            items,
            wants,
            cap,
            deserves,
            given,
            holds,
            promised,
            behind,
            state,
            age,
            start(job, now_ms),
            code,
            reason,
        ]
    });
    headed(columns, rows, look)
}

/// Memory of a process, or the chunks of a gang.
fn asked_memory(job: &JobInfo) -> String {
    if job.chunks.is_empty() { memory(job.memory_mb) } else { job.shape().chunk_words() }
}

fn row(job: &JobInfo, now_ms: u64) -> [String; 10] {
    [
        job.id.to_string(),
        job.user.clone(),
        job.class.clone(),
        job.kind.word().to_owned(),
        asked_memory(job),
        job.sums.wanted.to_string(),
        job.sums.held.to_string(),
        job.state().to_owned(),
        span(now_ms.saturating_sub(job.submitted_ms)),
        job.reason.as_ref().map_or_else(|| ready(job), |reason| reason.sentence.clone()),
    ]
}

/// The processes of a gang that have begun, while the rest has not: "3 of 4 ready".
pub(super) fn ready(job: &JobInfo) -> String {
    let held = job.sums.held;
    job.ready.map(|ready| format!("{ready} of {held} ready")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::{ChunkRequest, Disposition, JobSums, Reason, WorkKind};

    fn job(id: u64, user: &str, wanted: u64, held: u64) -> JobInfo {
        let disposition = if held == 0 { Disposition::Dormant } else { Disposition::Stable };
        let sums = JobSums {
            wanted,
            cap: Some(wanted),
            cap_bound: None,
            deserved: 4,
            given: held,
            held,
            promised: 0,
            behind_cycles: 0,
        };
        JobInfo {
            ready: None,
            chunks: Vec::new(),
            place: None,
            exclusive: false,
            group_by: None,
            span: None,
            elasticity: None,
            min_processes: 0,
            legal_sizes: None,
            duration_ms: None,
            not_before_ms: None,
            deadline_ms: None,
            reservation: None,
            start_estimate_ms: None,
            estimate_basis: None,
            tags: std::collections::BTreeMap::new(),
            id,
            user: user.to_owned(),
            class: "normal".to_owned(),
            kind: WorkKind::Job,
            memory_mb: 30_720,
            order: Some(2),
            share_mb: Some(30_720),
            threads: 1,
            submitted_ms: 1_000,
            remaining: wanted,
            running: 0 < held,
            completing: false,
            disposition,
            sums,
            reason: None,
            held_back: None,
            shares: Vec::new(),
        }
    }

    #[test]
    fn work_is_listed_with_its_reason() {
        let reason = Reason {
            code: "fragmented".to_owned(),
            sentence: "330 GB are free, but no node has 30 GB together".to_owned(),
        };
        let jobs = vec![
            job(1001, "alice", 8, 8),
            JobInfo { reason: Some(reason), ..job(1007, "carol", 4, 0) },
            JobInfo { completing: true, kind: WorkKind::Service, ..job(1011, "bob", 1, 1) },
            JobInfo {
                chunks: [4, 2]
                    .map(|count| ChunkRequest {
                        count,
                        memory_mb: 8192,
                        tags: std::collections::BTreeMap::new(),
                    })
                    .to_vec(),
                ..job(1012, "dan", 6, 0)
            },
        ];
        let page = JobPage { cycle: 3, jobs, next: None };
        assert_snapshot!(render(&page, 7_501_000, false, TextStyle::default()));
        assert_snapshot!(render_wide(&page, 7_501_000, TextStyle::default()));
        let narrow = TextStyle { width: Some(100), ..TextStyle::default() };
        assert_snapshot!(render(&page, 7_501_000, false, narrow));
    }

    #[test]
    fn an_empty_queue_says_where_work_comes_from() {
        let page = JobPage { cycle: 3, jobs: Vec::new(), next: None };
        assert!(render(&page, 0, false, TextStyle::default()).contains("PUT /v1/publication"));
        assert!(
            render(&page, 0, true, TextStyle::default()).contains("`apportion queue` lists all")
        );
    }
}
