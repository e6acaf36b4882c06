//! Why a job has what it has: the sentence, then the arithmetic that led there.

use super::args::Why as Args;
use super::client::Client;
use super::failure::Failure;
use super::output::show;
use super::table::Column::{Left, Right};
use super::table::{plain, table};
use crate::api::wire::{Account, NodeTally, PreemptionInfo, Why, WhySums};
use crate::model::span;

/// So many preemptions are shown; the rest are counted.
const PREEMPTIONS_SHOWN: usize = 10;

/// Explains a job.
///
/// # Errors
///
/// If there is no such job, or the daemon cannot be reached.
pub async fn run(args: &Args) -> Result<(), Failure> {
    let job = args.job.to_string();
    let why: Why = Client::new(&args.remote)?.get(&["v1", "jobs", &job, "why"], &[]).await?;
    Ok(show(&why, args.remote.json, render)?)
}

/// The explanation, for people.
pub(super) fn render(why: &Why) -> String {
    let code = why.reason.as_ref().map(|reason| format!(" ({})", plain(&reason.code)));
    let mut parts = vec![format!("{}{}", plain(&why.sentence), code.unwrap_or_default())];
    let job = &why.sums.job;
    if let (Some(cap), Some(bound)) = (job.cap, &job.cap_bound) {
        parts.push(format!("cap:    {cap}: {} ({})", plain(&bound.sentence), plain(&bound.code)));
    }
    // Where it is the reason, it is in the sentence.
    if let Some(held_back) = &why.held_back {
        let is_reason =
            why.reason.as_ref().is_some_and(|reason| reason.sentence == held_back.sentence);
        if !is_reason {
            parts.push(format!("more:   {}", plain(&held_back.sentence)));
        }
    }
    parts.push(format!("nodes:  {}", tally(&why.nodes)));
    parts.push(String::new());
    parts.push(accounts(why.job, &why.sums));
    for (title, taken) in [
        ("taken for it in the last cycle:", &why.taken_for_it),
        ("taken from it in the last cycle:", &why.taken_from_it),
    ] {
        if !taken.is_empty() {
            parts.push(format!("\n{title}\n{}", preemptions(taken)));
        }
    }
    parts.join("\n")
}

/// Class, user and job, each in the measure it is counted in.
fn accounts(job: u64, sums: &WhySums) -> String {
    let columns = [
        Left("IN"),
        Right("WANTED"),
        Right("CAP"),
        Right("DESERVED"),
        Right("GIVEN"),
        Right("HELD"),
        Left("COUNTED IN"),
    ];
    let line = |name: String, account: &Account| {
        [
            name,
            account.wanted.to_string(),
            String::new(),
            account.deserved.to_string(),
            account.given.to_string(),
            account.held.to_string(),
            "qshares".to_owned(),
        ]
    };
    let class = sums.class_account.as_ref().map(|sum| line(format!("class {}", sums.class), sum));
    let user = sums.user_account.as_ref().map(|sum| line(format!("user {}", sums.user), sum));
    let own = &sums.job;
    let own = [
        format!("job {job}"),
        own.wanted.to_string(),
        own.cap.map(|cap| cap.to_string()).unwrap_or_default(),
        own.deserved.to_string(),
        own.given.to_string(),
        own.held.to_string(),
        "processes (deserved: qshares)".to_owned(),
    ];
    table(columns, class.into_iter().chain(user).chain([own]))
}

/// Which nodes would do, and what is wrong with the others.
fn tally(nodes: &NodeTally) -> String {
    let counts = [
        (nodes.has_room, "with room"),
        (nodes.full, "full"),
        (nodes.too_small, "too small"),
        (nodes.other_pool, "in other pools"),
        (nodes.awaited, "awaited"),
        (nodes.dead, "dead"),
        (nodes.varied_off, "varied off"),
        (nodes.quiesced, "quiesced"),
        (nodes.blacklisted, "blacklisted"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| 0 < *count);
    let words: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    match words.as_slice() {
        [] => "there are none".to_owned(),
        words => format!("{} in all: {}", nodes.total, words.join(", ")),
    }
}

fn preemptions(taken: &[PreemptionInfo]) -> String {
    let columns = [
        Right("SHARE"),
        Left("OF JOB"),
        Left("ON"),
        Left("FOR JOB"),
        Left("RULE"),
        Right("WORK LOST"),
    ];
    let rows = taken.iter().take(PREEMPTIONS_SHOWN).map(|one| {
        [
            one.share.to_string(),
            one.job.to_string(),
            one.node.clone(),
            one.beneficiary.map_or_else(|| "-".to_owned(), |job| job.to_string()),
            one.rule.code().to_owned(),
            span(one.loss_ms),
        ]
    });
    let shown = table(columns, rows);
    let more = match taken.len().saturating_sub(PREEMPTIONS_SHOWN) {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    format!("{shown}{more}\n{}", receipts(taken))
}

/// Why these shares, and what was rejected; once for all that went on one node for one job.
fn receipts(taken: &[PreemptionInfo]) -> String {
    let shown: Vec<&PreemptionInfo> = taken.iter().take(PREEMPTIONS_SHOWN).collect();
    let is_together = |one: &&PreemptionInfo, other: &&PreemptionInfo| {
        (one.beneficiary, &one.node, &one.sentence)
            == (other.beneficiary, &other.node, &other.sentence)
    };
    let lines = shown.chunk_by(is_together).filter_map(|together| {
        let sentence = plain(&together.first()?.sentence);
        let shares: Vec<String> = together.iter().map(|one| one.share.to_string()).collect();
        let shares = match shares.as_slice() {
            [share] => format!("share {share}"),
            shares => format!("shares {}", shares.join(", ")),
        };
        Some(format!("{shares}: {sentence}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::{HeldBack, HeldBackCode, JobSums, PreemptionRule, Reason};

    fn reason(code: &str, sentence: &str) -> Reason {
        Reason { code: code.to_owned(), sentence: sentence.to_owned() }
    }

    fn taken(share: u64) -> PreemptionInfo {
        let sentence = "the other is far below what it deserves; of 40 nodes, no other was found where room could be made";
        PreemptionInfo {
            share,
            job: 1003,
            node: "node12".to_owned(),
            beneficiary: Some(1007),
            rule: PreemptionRule::Defragmentation,
            loss_ms: 65_000,
            considered: None,
            sentence: sentence.to_owned(),
        }
    }

    fn waiting() -> Why {
        let account = |wanted, held| Some(Account { wanted, deserved: 160, given: 160, held });
        let job = JobSums {
            wanted: 8,
            cap: Some(4),
            cap_bound: Some(reason("doubling", "it may double the 2 processes it has")),
            deserved: 8,
            given: 4,
            held: 0,
            promised: 2,
            behind_cycles: 3,
        };
        Why {
            job: 1007,
            cycle: 31,
            sentence: "work 1007 waits: 22 qshares are free, but no node has 2 together".to_owned(),
            reason: Some(reason("fragmented", "22 qshares are free, but no node has 2 together")),
            held_back: Some(HeldBack {
                code: HeldBackCode::TooLate,
                sentence: "too late: its work is nearly done".to_owned(),
                loss_ms: None,
                limit_ms: None,
                quiet_cycles: None,
            }),
            sums: WhySums {
                class: "normal".to_owned(),
                class_account: account(320, 160),
                user: "carol".to_owned(),
                user_account: account(16, 0),
                job,
            },
            nodes: NodeTally {
                total: 48,
                other_pool: 12,
                too_small: 9,
                dead: 1,
                varied_off: 4,
                full: 22,
                ..NodeTally::default()
            },
            taken_for_it: vec![taken(40), PreemptionInfo { beneficiary: None, ..taken(41) }],
            taken_from_it: (50..62).map(taken).collect(),
        }
    }

    #[test]
    fn a_job_that_waits_is_explained_down_to_the_share() {
        assert_snapshot!(render(&waiting()));
    }

    #[test]
    fn a_job_that_has_all_it_wants_takes_few_words() {
        let mut why = waiting();
        why.sentence = "work 1007 has all it wants".to_owned();
        (why.reason, why.held_back) = (None, None);
        why.sums.job.cap_bound = None;
        why.sums.user_account = None;
        why.nodes = NodeTally::default();
        (why.taken_for_it, why.taken_from_it) = (Vec::new(), Vec::new());
        assert_snapshot!(render(&why));
    }
}
