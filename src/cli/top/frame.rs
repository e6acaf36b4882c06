//! Screen of `top` as lines of painted text. The text follows from the data and the view alone.

use super::data::ClusterData;
use super::stand::{PANES, Pane, UiState};
use crate::api::wire::{Account, ClassLoad, NodeState, UserInfo};
use crate::cli::accounts::MemoryAccount;
use crate::cli::events;
use crate::cli::figures::millis;
use crate::cli::node_words::{notes, states};
use crate::cli::table::{memory, plain};
use crate::cli::text::shortened;
use crate::model::percent;
use crate::model::{counted, floor_div, span};

/// A line: pieces of text, each with its paint.
pub(super) type PaintedLine = Vec<(Ink, String)>;

/// Paint of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Strong,
    Faint,
    Inverse,
    Good,
    Bad,
    Notable,
}

/// The screenful for a terminal of `width` by `height`.
pub(super) fn frame(
    data: &ClusterData,
    stand: &mut UiState,
    (width, height): (usize, usize),
) -> Vec<PaintedLine> {
    let mut lines = head(data, width);
    // A third of what is left is for events, and the last line for keys.
    let left = height.saturating_sub(lines.len() + 2);
    let tail = if left < 9 { 0 } else { floor_div(u64::try_from(left).unwrap_or(0), THIRD) };
    let tail = usize::try_from(tail).unwrap_or(0);
    let room = left.saturating_sub(tail);
    let (heading, rows) = pane(data, stand, width);
    let page = room.saturating_sub(1);
    stand.page = page.max(1);
    stand.scroll = stand.scroll.min(rows.len().saturating_sub(page));
    let mut tabs = tabs(data, stand);
    if page < rows.len() {
        let (first, last) = (stand.scroll + 1, stand.scroll + page);
        tabs.push((Ink::Faint, format!(" lines {first}-{last} of {}", rows.len())));
    }
    lines.extend([tabs, heading]);
    let mut shown: Vec<PaintedLine> = rows.into_iter().skip(stand.scroll).take(page).collect();
    shown.resize(page, PaintedLine::new());
    lines.extend(shown);
    lines.extend(happened(data, tail));
    lines.push(vec![(
        Ink::Faint,
        " q quit  1-4 or Tab what to see  arrows, PgUp, PgDn scroll  w only what waits".to_owned(),
    )]);
    lines.into_iter().take(height).map(|line| fitted(line, width)).collect()
}

const THIRD: std::num::NonZeroU64 = std::num::NonZeroU64::new(3).expect("not zero");

fn head(data: &ClusterData, width: usize) -> Vec<PaintedLine> {
    let status = &data.status;
    let (nodes, jobs, shares) = (&status.nodes, &status.jobs, &status.shares);
    let readiness = match (&data.trouble, status.ready) {
        (Some(trouble), _) => (Ink::Bad, format!("not now: {}", plain(trouble))),
        (None, true) => (Ink::Good, "ready".to_owned()),
        (None, false) => (Ink::Notable, "not ready".to_owned()),
    };
    let time = jiff::Timestamp::from_millisecond(i64::try_from(data.now_ms).unwrap_or(0));
    let time = time.map(|time| format!("{time:.0}")).unwrap_or_default();
    let mut out = Vec::new();
    for (count, what) in [
        (nodes.awaited, "awaited"),
        (nodes.dead, "dead"),
        (nodes.varied_off, "off"),
        (nodes.quiesced, "quiesced"),
        (nodes.blacklisted, "blacklisted"),
    ] {
        if 0 < count {
            out.push((Ink::Notable, format!("  {count} {what}")));
        }
    }
    let plain_text = |text: String| (Ink::Plain, text);
    let first = vec![
        (Ink::Strong, "apportion".to_owned()),
        plain_text(format!("  cycle {}  ", status.cycle)),
        readiness,
        plain_text(format!("  {time}")),
    ];
    // Memory on nodes out of scheduling has a figure of its own.
    let outside = match shares.outside_mb {
        0 => String::new(),
        outside => format!(" + {} outside", memory(outside)),
    };
    let figures = format!(
        "  {} of {} ({} %){outside}",
        memory(shares.used_mb),
        memory(shares.schedulable_mb),
        percent(shares.used_mb, shares.schedulable_mb)
    );
    let room = width.saturating_sub(10 + figures.chars().count()).min(60);
    let mut second = vec![plain_text("memory  ".to_owned())];
    second.extend(bar(shares.used_mb, None, shares.schedulable_mb, room));
    second.push(plain_text(figures));
    let mut third = vec![plain_text(format!("nodes   {} of {} up", nodes.up, nodes.total))];
    third.extend(out);
    let refused = match jobs.refused {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    third.push(plain_text(format!(
        "   jobs {}, {} wait{refused}   shares {}, {} leaving",
        jobs.total, jobs.waiting, shares.held, shares.leaving
    )));
    let calm = match status.calm.quiet_cycles {
        0 => "not quiet".to_owned(),
        cycles => format!("quiet for {}", counted(cycles, "cycle")),
    };
    let fourth = vec![plain_text(format!(
        "cycle   plan {} + store {}   {calm}",
        millis(status.planned_in_us),
        millis(status.stored_in_us)
    ))];
    let mut audit = Vec::new();
    if 0 < status.audit_findings_total {
        audit.push((Ink::Bad, format!("   audit: {} broken rules", status.audit_findings_total)));
    }
    vec![first, second, third, fourth.into_iter().chain(audit).collect()]
}

fn tabs(data: &ClusterData, stand: &UiState) -> PaintedLine {
    let mut line = PaintedLine::new();
    for (digit, pane, name) in PANES {
        let paint = if pane == stand.pane { Ink::Inverse } else { Ink::Plain };
        let count = match pane {
            Pane::Overview => {
                line.push((paint, format!(" {digit} {name} ")));
                line.push((Ink::Plain, " ".to_owned()));
                continue;
            }
            Pane::Users => data.users.users.len(),
            Pane::Queue => data.jobs.jobs.len(),
            Pane::Nodes => data.nodes.nodes.len(),
        };
        let only = if pane == Pane::Queue && stand.waiting_only { " waiting" } else { "" };
        let more = if pane == Pane::Queue && data.jobs.next.is_some() { "+" } else { "" };
        line.push((paint, format!(" {digit} {name}{only} {count}{more} ")));
        line.push((Ink::Plain, " ".to_owned()));
    }
    line
}

/// Returns the heading and the lines of the chosen pane.
fn pane(data: &ClusterData, stand: &UiState, width: usize) -> (PaintedLine, Vec<PaintedLine>) {
    match stand.pane {
        Pane::Overview => overview(data, width),
        Pane::Users => {
            let rows = data.users.users.iter().map(|user| AccountBar {
                name: plain(&user.user),
                jobs: Some(user.jobs),
                account: sum(user, &data.load.classes),
            });
            accounts("USER", &rows.collect::<Vec<_>>(), width)
        }
        Pane::Queue => queue(data, width),
        Pane::Nodes => nodes(data, width),
    }
}

/// Classes with their users, and the queue below.
fn overview(data: &ClusterData, width: usize) -> (PaintedLine, Vec<PaintedLine>) {
    // A class without jobs and without a fair share gets no line.
    let classes = data.load.classes.iter().filter(|class| 0 < class.jobs);
    let rows = classes.flat_map(|class| {
        let row = |name: String, jobs, account: &Account| AccountBar {
            name,
            jobs,
            account: MemoryAccount::of(account, class.quantum_mb, class.policy),
        };
        let own = row(plain(&class.class), Some(class.jobs), &class.account);
        let users = class.users.iter();
        let users = users.map(|user| row(format!("  {}", plain(&user.user)), None, &user.account));
        [own].into_iter().chain(users).collect::<Vec<_>>()
    });
    let (heading, mut lines) = accounts("CLASS, USER", &rows.collect::<Vec<_>>(), width);
    let (below, jobs) = queue(data, width);
    lines.push(below);
    lines.extend(jobs);
    (heading, lines)
}

/// A class or user with an account.
struct AccountBar {
    name: String,
    /// Number of jobs; `None` if unknown.
    jobs: Option<u64>,
    account: MemoryAccount,
}

/// Renders fair share and holdings of each row, as bars on a single scale.
fn accounts(what: &str, rows: &[AccountBar], width: usize) -> (PaintedLine, Vec<PaintedLine>) {
    let most = |row: &AccountBar| row.account.fair_share.unwrap_or(0).max(row.account.held);
    let scale = rows.iter().map(most).max().unwrap_or(0).max(1);
    let is_wide = WIDE <= width;
    let columns = |name: &str, jobs: &str, demand: &str, fair_share: &str, held: &str| {
        let demand = if is_wide { format!("{demand:>9} ") } else { String::new() };
        format!("{name:<14} {jobs:>5} {demand}{fair_share:>10} {held:>8}  ")
    };
    let heading = columns(what, "JOBS", "DEMAND", "FAIR SHARE", "HELD");
    let room = width.saturating_sub(heading.chars().count() + 1).clamp(10, 80);
    let lines = rows.iter().map(|row| {
        let MemoryAccount { demand, fair_share, held, .. } = row.account;
        let jobs = row.jobs.map(|jobs| jobs.to_string()).unwrap_or_default();
        let name = shortened(&row.name, 14);
        let due = fair_share.map_or_else(|| "–".to_owned(), memory);
        let mut line =
            vec![(Ink::Plain, columns(&name, &jobs, &memory(demand), &due, &memory(held)))];
        line.extend(bar(held, fair_share, scale, room));
        line
    });
    let heading = format!("{heading}█ HELD   | FAIR SHARE");
    (vec![(Ink::Strong, heading)], lines.collect())
}

/// A user's accounts in all classes together.
fn sum(user: &UserInfo, classes: &[ClassLoad]) -> MemoryAccount {
    user.classes.iter().fold(MemoryAccount::default(), |sum, part| {
        let class = classes.iter().find(|class| class.class == part.class);
        let account = class.map_or_else(MemoryAccount::default, |class| {
            MemoryAccount::of(&part.account, class.quantum_mb, class.policy)
        });
        sum.and(account)
    })
}

/// From this width on there is space for everything.
const WIDE: usize = 110;

/// `part` of `whole` as a bar of `width`, with a mark where `mark` of it is.
fn bar(part: u64, mark: Option<u64>, whole: u64, width: usize) -> PaintedLine {
    let cells = |amount: u64| {
        let width = u64::try_from(width).unwrap_or(0);
        let whole = std::num::NonZeroU64::new(whole).unwrap_or(std::num::NonZeroU64::MIN);
        // Any amount above 0 has at least one cell.
        let cells = floor_div(amount.saturating_mul(width), whole).min(width);
        usize::try_from(cells.max(u64::from(0 < amount && 0 < width))).unwrap_or(0)
    };
    let filled = cells(part);
    let mark = mark.filter(|mark| 0 < *mark).map(|mark| cells(mark).saturating_sub(1));
    let is_behind = mark.is_some_and(|mark| filled < mark);
    let paint = if is_behind { Ink::Notable } else { Ink::Good };
    let mut line = PaintedLine::new();
    for at in 0..width {
        let (paint, cell) = match (mark == Some(at), at < filled) {
            (true, _) => (Ink::Strong, '|'),
            (false, true) => (paint, '█'),
            (false, false) => (Ink::Faint, '·'),
        };
        match line.last_mut() {
            Some((last, text)) if *last == paint => text.push(cell),
            _ => line.push((paint, cell.to_string())),
        }
    }
    line
}

/// Work in lines; the reason in a word where there is no space for a sentence.
fn queue(data: &ClusterData, width: usize) -> (PaintedLine, Vec<PaintedLine>) {
    let is_wide = WIDE <= width;
    let columns =
        |job: &str, user: &str, class: &str, memory: &str, has: &str, state: &str, age: &str| {
            let memory = if is_wide { format!("{memory:>8} ") } else { String::new() };
            format!("{job:>7} {user:<10} {class:<10} {memory}{has:>8} {state:<9} {age:>7}  ")
        };
    let heading = columns("JOB", "USER", "CLASS", "MEMORY", "HAS", "STATE", "AGE");
    let lines = data.jobs.jobs.iter().map(|job| {
        let [user, class] = [&job.user, &job.class].map(|name| shortened(&plain(name), 10));
        let text = columns(
            &job.id.to_string(),
            &user,
            &class,
            &memory(job.memory_mb),
            &format!("{}/{}", job.sums.held, job.sums.wanted),
            job.state(),
            &span(data.now_ms.saturating_sub(job.submitted_ms)),
        );
        let reason = job
            .reason
            .as_ref()
            .map(|reason| plain(if is_wide { &reason.sentence } else { &reason.code }));
        let paint = if job.sums.held == 0 { Ink::Notable } else { Ink::Plain };
        vec![(paint, text), (Ink::Faint, reason.unwrap_or_default())]
    });
    (vec![(Ink::Strong, format!("{heading}REASON"))], lines.collect())
}

fn nodes(data: &ClusterData, width: usize) -> (PaintedLine, Vec<PaintedLine>) {
    let room = width.saturating_sub(66).clamp(10, 40);
    let heading = format!(
        "{:<14} {:<12} {:>8} {:>8} {:>8}  {:<room$}  STATE",
        "NODE", "POOL", "MEMORY", "USED", "FREE", "TAKEN"
    );
    let lines = data.nodes.nodes.iter().map(|node| {
        let [name, pool] = [(&node.name, 14), (&node.pool, 12)]
            .map(|(name, width)| shortened(&plain(name), width));
        let in_memory = |quanta: u64| memory(quanta.saturating_mul(node.quantum_mb));
        let text = format!(
            "{name:<14} {pool:<12} {:>8} {:>8} {:>8}  ",
            memory(node.memory_mb),
            in_memory(node.used),
            in_memory(node.free)
        );
        let is_up = node.states == [NodeState::Up];
        let paint = if is_up { Ink::Plain } else { Ink::Bad };
        let mut line = vec![(Ink::Plain, text)];
        line.extend(bar(node.used, None, node.order, room));
        let note = plain(&notes(node));
        line.push((paint, format!("  {} {note}", states(node))));
        line
    });
    (vec![(Ink::Strong, heading)], lines.collect())
}

/// The last of what came about, in so many lines, the newest last.
fn happened(data: &ClusterData, tail: usize) -> Vec<PaintedLine> {
    if tail == 0 {
        return Vec::new();
    }
    let told: Vec<String> =
        data.events.iter().flat_map(|event| events::lines(event, false)).collect();
    let skipped = told.len().saturating_sub(tail - 1);
    let heading = vec![(Ink::Strong, "EVENTS".to_owned())];
    let told = told.into_iter().skip(skipped).map(|text| vec![(Ink::Plain, text)]);
    let mut lines: Vec<PaintedLine> = [heading].into_iter().chain(told).collect();
    lines.resize(tail, PaintedLine::new());
    lines
}

/// `line`, cut to `width` characters.
fn fitted(line: PaintedLine, width: usize) -> PaintedLine {
    let mut left = width;
    let pieces = line.into_iter().filter_map(|(paint, text)| {
        if left == 0 {
            return None;
        }
        let shown = shortened(&text, left);
        // A cut text may be shorter than the space that was left; no text follows it.
        left = left.saturating_sub(text.chars().count());
        Some((paint, shown))
    });
    pieces.collect()
}
