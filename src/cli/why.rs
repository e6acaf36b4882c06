//! Explanation of a job: the sentence, what would help, the arithmetic that led there, and every
//! node.

use std::collections::BTreeMap;

use jiff::Zoned;

use super::accounts::{HEADINGS, MemoryAccount};
use super::answer::{ShownAnswer, answer};
use super::args::WhyArgs as Args;
use super::client::DaemonClient;
use super::failure::Failure;
use super::table::Column::{Left, Right};
use super::table::{headed, memory, plain};
use super::text::TextStyle;
use super::time_spec::local;
use super::why_choice::each;
use crate::api::wire::{
    Account, BoundBy, Holder, NodeTally, NodeVerdict, Policy, PreemptionInfo, StartBasis, Unblock,
    Verdict, Why, WhyBrief, WhySums,
};
use crate::model::{counted, fold_hostlist, span};

/// Widest list of nodes beside its reason.
const NODE_WIDTH: usize = 24;

/// Preemptions in the text; the text counts the rest.
const PREEMPTIONS_SHOWN: usize = 10;

/// Explains jobs.
///
/// # Errors
///
/// If there is no such job, or the daemon cannot be reached.
pub async fn run(args: &Args) -> Result<(), Failure> {
    if args.sentence {
        let query = [("depth", "sentence")];
        let ask = async |client: &DaemonClient| each::<WhyBrief>(client, args, &query).await;
        return answer(&args.asking, ask).await;
    }
    let depth = args.nodes.then_some(("depth", "nodes"));
    let ask = async |client: &DaemonClient| each::<Why>(client, args, depth.as_slice()).await;
    answer(&args.asking, ask).await
}

impl ShownAnswer for WhyBrief {
    type Entry = WhyBrief;

    fn entries(&self) -> &[WhyBrief] {
        std::slice::from_ref(self)
    }

    fn name(why: &WhyBrief) -> String {
        why.job.to_string()
    }

    fn render(&self, _: TextStyle) -> String {
        let mut parts = vec![headline(&self.sentence, self.reason.as_ref().map(|r| &*r.code))];
        parts.extend(self.unblock.as_ref().map(helps).unwrap_or_default());
        parts.join("\n")
    }
}

impl ShownAnswer for Why {
    type Entry = Why;

    fn entries(&self) -> &[Why] {
        std::slice::from_ref(self)
    }

    fn name(why: &Why) -> String {
        why.job.to_string()
    }

    fn render(&self, look: TextStyle) -> String {
        let mut text = render(self, look);
        if let Some(verdicts) = &self.verdicts {
            text.push_str("\n\n");
            text.push_str(&nodes(verdicts, look));
        }
        text
    }
}

fn headline(sentence: &str, code: Option<&str>) -> String {
    let code = code.map(|code| format!(" ({})", plain(code))).unwrap_or_default();
    format!("{}{code}", plain(sentence))
}

/// Returns the remedy, and the time it takes effect.
fn helps(unblock: &Unblock) -> Vec<String> {
    let label = if unblock.needs_a_change { "needs: " } else { "until: " };
    let mut lines = vec![format!("{label}  {}", plain(&unblock.sentence))];
    if let Some(estimate) = &unblock.estimate {
        let basis = plain(&estimate.basis);
        lines.push(match estimate.in_ms {
            0 => format!("when:    {basis}"),
            in_ms => format!("when:    in about {} ({basis})", span(in_ms)),
        });
    }
    lines
}

/// The expected start.
fn starts(why: &Why, now: &Zoned) -> Option<String> {
    let at = why.start_estimate_ms?;
    let basis = why.estimate_basis.map_or("", StartBasis::words);
    let now_ms = u64::try_from(now.timestamp().as_millisecond()).unwrap_or(0);
    let rest = span(at.saturating_sub(now_ms));
    Some(format!("starts:  in {rest} or earlier, at {} ({basis})", local(at, now)))
}

/// The explanation, for people.
pub(super) fn render(why: &Why, look: TextStyle) -> String {
    let mut parts = vec![headline(&why.sentence, why.reason.as_ref().map(|r| &*r.code))];
    parts.extend(why.asks.as_deref().map(|asks| format!("asks:    {}", plain(asks))));
    parts.extend(why.unblock.as_ref().map(helps).unwrap_or_default());
    parts.extend(starts(why, &Zoned::now()));
    let (job, bound) = (&why.sums.job, &why.sums.bound);
    let has_bound = !matches!(bound.by, BoundBy::Nothing | BoundBy::Refused);
    if has_bound {
        parts.push(format!("bound:   {}: {}", bound_word(bound.by), plain(&bound.sentence)));
    }
    if let (Some(cap), Some(cap_bound), true) = (job.cap, &job.cap_bound, bound.by != BoundBy::Cap)
    {
        let (sentence, code) = (plain(&cap_bound.sentence), plain(&cap_bound.code));
        parts.push(format!("cap:     {cap}: {sentence} ({code})"));
    }
    // If it is the reason, the sentence has it already.
    if let Some(held_back) = &why.held_back {
        let is_reason =
            why.reason.as_ref().is_some_and(|reason| reason.sentence == held_back.sentence);
        if !is_reason {
            parts.push(format!("more:    {}", plain(&held_back.sentence)));
        }
    }
    parts.extend(why.ahead.as_deref().map(|ahead| format!("ahead:   {}", plain(ahead))));
    parts.push(format!("nodes:   {}", tally(&why.nodes)));
    // A job bound by its own cap would get no more if other jobs had less.
    let is_others = matches!(
        bound.by,
        BoundBy::Priority
            | BoundBy::ClassShare
            | BoundBy::UserShare
            | BoundBy::JobShare
            | BoundBy::Price
            | BoundBy::Room
            | BoundBy::Time
    );
    if is_others && !why.holders.is_empty() {
        parts.push(format!("theirs:  {}", holders(&why.holders, why.sums.quantum_mb.unwrap_or(0))));
    }
    parts.push(String::new());
    parts.push(accounts(why.job, &why.sums, look));
    for (title, taken) in [
        ("taken for it in the last cycle:", &why.taken_for_it),
        ("taken from it in the last cycle:", &why.taken_from_it),
    ] {
        if !taken.is_empty() {
            parts.push(format!("\n{title}\n{}", preemptions(taken, look)));
        }
    }
    parts.join("\n")
}

fn bound_word(by: BoundBy) -> &'static str {
    match by {
        BoundBy::Nothing => "nothing",
        BoundBy::Refused => "refused",
        BoundBy::Nodes => "the nodes there are",
        BoundBy::Allotment => "allotment",
        BoundBy::Cap => "its cap",
        BoundBy::Priority => "priority",
        BoundBy::ClassShare => "its class's fair share",
        BoundBy::UserShare => "its user's fair share",
        BoundBy::JobShare => "its fair share beside the user's other jobs",
        BoundBy::Price => "price",
        BoundBy::Room => "space",
        BoundBy::Time => "time",
    }
}

/// Renders the jobs that hold the space which the job could use.
fn holders(holders: &[Holder], quantum: u64) -> String {
    let told = holders.iter().map(|holder| {
        let (user, class) = (plain(&holder.user), plain(&holder.class));
        let done = holder.done_in_ms.map(|ms| format!(", done in {}", span(ms)));
        let (qshares, done) = (holder.qshares, done.unwrap_or_default());
        let held = memory(qshares.saturating_mul(quantum));
        format!("job {} of {user} ({class}) {held}{done}", holder.job)
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Class, user and job, from the whole down, in memory; then the job's in processes.
fn accounts(job: u64, sums: &WhySums, look: TextStyle) -> String {
    let [demand, fair_share, target, held] = HEADINGS;
    let columns = [Left("OF"), Right("WEIGHT"), demand, fair_share, target, held];
    let quantum = sums.quantum_mb.unwrap_or(0);
    let policy = sums.policy.unwrap_or(Policy::FixedShare);
    let line = |name: String, weight: &str, account: &Account| {
        let [demand, fair_share, target, held] =
            MemoryAccount::of(account, quantum, policy).cells();
        [name, weight.to_owned(), demand, fair_share, target, held]
    };
    let weight = sums.weight.map(|weight| weight.to_string()).unwrap_or_default();
    let equal = if sums.weight.is_some() { "equal" } else { "" };
    let class = sums.class_account.as_ref();
    let class = class.map(|account| line(format!("class {}", sums.class), &weight, account));
    let user = sums.user_account.as_ref();
    let of_user = user.map(|account| line(format!("user {}", sums.user), equal, account));
    let own = &sums.job;
    let users_share = user.map_or(u64::MAX, Account::fair_share);
    let of_job = sums.job_account.as_ref().map(|account| {
        // Its fair share is a part of its user's.
        let deserved = account.deserved.min(users_share);
        line(format!("job {job}"), equal, &Account { deserved, ..account.clone() })
    });
    let rows = class.into_iter().chain(of_user).chain(of_job);
    let may = own.cap.filter(|cap| *cap != own.wanted);
    let may = may.map(|cap| format!(", may have {cap} now")).unwrap_or_default();
    let size = match (sums.order, sums.quantum_mb) {
        (Some(order), Some(quantum)) => format!("one process gets {}: ", memory(order * quantum)),
        _ => String::new(),
    };
    format!(
        "{}\n{size}it could use {}{may}, its target is {}, it holds {}",
        headed(columns, rows, look),
        counted(own.wanted, "process"),
        own.given,
        own.held
    )
}

/// Counts the nodes that would do, and the nodes that would not by cause.
fn tally(nodes: &NodeTally) -> String {
    let counts = [
        (nodes.has_room, Verdict::HasRoom),
        (nodes.being_cleared, Verdict::BeingCleared),
        (nodes.promised, Verdict::Promised),
        (nodes.kept_for_gang, Verdict::KeptForGang),
        (nodes.full, Verdict::Full),
        (nodes.too_small, Verdict::TooSmall),
        (nodes.other_set, Verdict::OtherSet),
        (nodes.lacks_tags, Verdict::LacksTags),
        (nodes.other_pool, Verdict::OtherPool),
        (nodes.excepted, Verdict::Excepted),
        (nodes.not_asked_for, Verdict::NotAskedFor),
        (nodes.awaited, Verdict::Awaited),
        (nodes.dead, Verdict::Dead),
        (nodes.varied_off, Verdict::VariedOff),
        (nodes.quiesced, Verdict::Quiesced),
        (nodes.blacklisted, Verdict::Blacklisted),
        (nodes.maintenance, Verdict::Maintenance),
        (nodes.window, Verdict::Window),
    ];
    let counts = counts.into_iter().filter(|(count, _)| 0 < *count);
    let words: Vec<String> =
        counts.map(|(count, verdict)| format!("{count} {}", verdict_word(verdict))).collect();
    match words.as_slice() {
        [] => "there are none".to_owned(),
        words => format!("{} in all: {}", nodes.total, words.join(", ")),
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::OtherPool => "in other pools",
        Verdict::Excepted => "excepted by its owner",
        Verdict::NotAskedFor => "not asked for",
        Verdict::Awaited => "awaited",
        Verdict::LacksTags => "without its tags",
        Verdict::TooSmall => "too small",
        Verdict::OtherSet => "in a small set",
        Verdict::Dead => "dead",
        Verdict::VariedOff => "varied off",
        Verdict::Quiesced => "quiesced",
        Verdict::Blacklisted => "blacklisted",
        Verdict::Maintenance => "in maintenance",
        Verdict::Window => "with a window",
        Verdict::BeingCleared => "being cleared for it",
        Verdict::Full => "full",
        Verdict::KeptForGang => "kept for a gang",
        Verdict::Promised => "kept for others",
        Verdict::HasRoom => "with space",
    }
}

/// Renders every node with its reason. Like nodes share a line, unless the wide form is asked for.
fn nodes(verdicts: &[NodeVerdict], look: TextStyle) -> String {
    let mut groups: BTreeMap<(Verdict, &str, usize), Vec<&str>> = BTreeMap::new();
    for (place, verdict) in verdicts.iter().enumerate() {
        let apart = if look.is_wide { place } else { 0 };
        let key = (verdict.verdict, verdict.sentence.as_str(), apart);
        groups.entry(key).or_default().push(&verdict.node);
    }
    let columns = [Left("NODE"), Left("VERDICT"), Left("BECAUSE")];
    // Nodes that would do come first.
    let rows = groups.into_iter().rev().map(|((verdict, sentence, _), names)| {
        [short_hostlist(&names), verdict_word(verdict).to_owned(), sentence.to_owned()]
    });
    headed(columns, rows, look)
}

/// The names of nodes, folded; of a long list, the first name and the number of the rest.
fn short_hostlist(names: &[&str]) -> String {
    let folded = fold_hostlist(names.iter().copied());
    match names {
        [first, others @ ..] if NODE_WIDTH < folded.len() && !others.is_empty() => {
            format!("{first} and {} more", others.len())
        }
        _ => folded,
    }
}

fn preemptions(taken: &[PreemptionInfo], look: TextStyle) -> String {
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
    let shown = headed(columns, rows, look);
    let more = match taken.len().saturating_sub(PREEMPTIONS_SHOWN) {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    format!("{shown}{more}\n{}", receipts(taken))
}

/// Renders the reason for the choice of these shares, and the rejected ways. Shares of the same
/// node and beneficiary have a common text.
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
    use crate::api::wire::{
        Bound, Estimate, HeldBack, HeldBackCode, JobSums, Policy, PreemptionRule, Reason,
    };

    fn reason(code: &str, sentence: &str) -> Reason {
        Reason { code: code.to_owned(), sentence: sentence.to_owned() }
    }

    fn taken(share: u64) -> PreemptionInfo {
        let sentence = "the other is far below its fair share; of 40 nodes, no other was found where space could be freed";
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
            asks: None,
            start_estimate_ms: None,
            estimate_basis: None,
            unblock: Some(Unblock {
                sentence: "processes end on one node; node07 is nearest".to_owned(),
                needs_a_change: false,
                estimate: Some(Estimate {
                    in_ms: 250_000,
                    basis: "job 1003 of bob is done then, at its present rate".to_owned(),
                }),
            }),
            ahead: Some("number 2 of 3 jobs of class fixed that wait for space, by age".to_owned()),
            held_back: Some(HeldBack {
                code: HeldBackCode::TooLate,
                sentence: "too late: its work is nearly done".to_owned(),
                loss_ms: None,
                limit_ms: None,
                quiet_cycles: None,
            }),
            sums: WhySums {
                class: "normal".to_owned(),
                policy: Some(Policy::FairShare),
                priority: Some(10),
                weight: Some(100),
                quantum_mb: Some(15_360),
                order: Some(2),
                class_account: account(320, 160),
                user: "carol".to_owned(),
                user_account: account(16, 0),
                job_account: Some(Account { wanted: 8, deserved: 8, given: 8, held: 0 }),
                savings: None,
                job,
                bound: Bound {
                    by: BoundBy::Room,
                    sentence: "22 qshares are free, 1 in one piece".to_owned(),
                },
            },
            verdicts: None,
            holders: vec![Holder {
                job: 1003,
                user: "bob".to_owned(),
                class: "normal".to_owned(),
                processes: 20,
                qshares: 40,
                done_in_ms: Some(250_000),
            }],
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
        assert_snapshot!(render(&waiting(), TextStyle::default()));
    }

    #[test]
    fn a_job_that_has_all_it_wants_takes_few_words() {
        let mut why = waiting();
        why.sentence = "work 1007 has all it wants".to_owned();
        (why.reason, why.held_back, why.unblock, why.ahead) = (None, None, None, None);
        why.holders = Vec::new();
        why.sums.bound = Bound { by: BoundBy::Nothing, sentence: "it has it".to_owned() };
        why.sums.job.cap_bound = None;
        why.sums.user_account = None;
        why.nodes = NodeTally::default();
        (why.taken_for_it, why.taken_from_it) = (Vec::new(), Vec::new());
        assert_snapshot!(render(&why, TextStyle::default()));
    }

    #[test]
    fn every_node_has_its_line_and_alike_ones_share_it() {
        let verdict = |node: &str, verdict, sentence: &str| NodeVerdict {
            node: node.to_owned(),
            verdict,
            sentence: sentence.to_owned(),
            free: 1,
            order: 8,
        };
        let full = "1 of 8 qshares free, one process needs 2";
        let why = Why {
            verdicts: Some(vec![
                verdict("node01", Verdict::Full, full),
                verdict("node02", Verdict::Dead, "silent for 6 heartbeats"),
                verdict("node03", Verdict::Full, full),
                verdict("node04", Verdict::BeingCleared, "2 qshares are kept for it"),
            ]),
            ..waiting()
        };
        let shown = |look| {
            let text = ShownAnswer::render(&why, look);
            let (_, nodes) = text.rsplit_once("\n\n").unwrap();
            nodes.to_owned()
        };
        assert_snapshot!(shown(TextStyle::default()));
        assert_eq!(
            shown(TextStyle { is_wide: true, no_header: true, ..TextStyle::default() })
                .lines()
                .count(),
            4
        );
    }
}
