//! Progress of a campaign, in a line on the terminal.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::table::plain;
use crate::model::thousands;
use crate::orchestrator::wire::CampaignSummary;

/// The time that the rate is made of.
const WINDOW: Duration = Duration::from_secs(30);
/// The width of a line where the terminal does not say its own.
const WIDTH: usize = 80;
/// The longest bar.
const BAR: usize = 20;

/// A line on standard error that is kept current; nothing where that is no terminal.
#[derive(Debug)]
pub(super) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// An empty line.
    pub fn new() -> ProgressLine {
        if !std::io::stderr().is_terminal() {
            return ProgressLine(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        ProgressLine(bar)
    }

    /// True if the line is on a terminal.
    pub fn is_seen(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Shows `text` instead of what it showed.
    pub fn show(&self, text: &str) {
        let shown = super::text::shortened(&plain(text), width());
        if self.0.message() != shown {
            self.0.set_message(shown);
            self.0.tick();
        }
    }

    /// Leaves the line as it is, and goes on below it.
    pub fn leave(&self) {
        self.0.abandon();
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn width() -> usize {
    // A serial line or a fresh pseudo terminal may report a width of 0.
    let size = crossterm::terminal::size().ok().filter(|(width, _)| 0 < *width);
    size.map_or(WIDTH, |(width, _)| usize::from(width).saturating_sub(1).max(20))
}

/// The course of a campaign, for its rate.
#[derive(Debug, Default)]
pub(super) struct ProgressHistory(VecDeque<(Instant, u64)>);

impl ProgressHistory {
    /// Enters what is known `now`, and makes the line of it.
    pub fn line(&mut self, one: &CampaignSummary, now: Instant) -> String {
        let ended = ended(one);
        self.0.push_back((now, ended));
        while 2 < self.0.len()
            && self.0.get(1).is_some_and(|(at, _)| WINDOW < now.duration_since(*at))
        {
            self.0.pop_front();
        }
        let (since, before) = self.0.front().copied().unwrap_or((now, ended));
        let ms = u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX);
        progress(one, ended.saturating_sub(before), ms, width())
    }
}

fn ended(one: &CampaignSummary) -> u64 {
    one.done + one.failed + one.cancelled + one.dropped
}

/// The line for a campaign of which `count` tasks ended in the last `ms` milliseconds.
fn progress(one: &CampaignSummary, count: u64, ms: u64, width: usize) -> String {
    let ended = ended(one);
    let name: String = plain(&one.name).chars().take(16).collect();
    let head = format!("{} {name}", one.id);
    let mut parts = vec![
        format!("{} of {}", thousands(ended), thousands(one.tasks)),
        format!("running {}", one.running),
    ];
    if 0 < one.failed {
        parts.push(format!("failed {}", one.failed));
    }
    if 0 < count && 1000 <= ms {
        parts.push(rate(count, ms));
        let left = one.tasks.saturating_sub(ended);
        let left = left.saturating_mul(ms).checked_div(count).filter(|_| 0 < left);
        parts.extend(left.map(|left| format!("{} left", rough(left))));
    }
    let tail = parts.join("  ");
    let room = width.saturating_sub(head.trim_end().chars().count() + tail.chars().count() + 4);
    let bar = if 6 <= room {
        format!("{}  ", bar(ended, one.tasks, room.min(BAR)))
    } else {
        String::new()
    };
    format!("{}  {bar}{tail}", head.trim_end())
}

/// `part` of `whole`, drawn in `cells` cells.
fn bar(part: u64, whole: u64, cells: usize) -> String {
    let all = u64::try_from(cells).unwrap_or(0);
    let full = part.min(whole).saturating_mul(all).checked_div(whole).unwrap_or(0);
    let full = usize::try_from(full).unwrap_or(cells);
    format!("{}{}", "━".repeat(full), "─".repeat(cells.saturating_sub(full)))
}

/// Returns `count` in `ms` milliseconds as a rate a second, a minute or an hour.
fn rate(count: u64, ms: u64) -> String {
    let per = |unit: u64| count.saturating_mul(unit).checked_div(ms).unwrap_or(0);
    [(1000, "s"), (60_000, "min"), (3_600_000, "h")]
        .into_iter()
        .map(|(unit, word)| (per(unit), word))
        .find(|(rate, word)| 2 <= *rate || *word == "h")
        .map_or_else(String::new, |(rate, word)| format!("{}/{word}", thousands(rate)))
}

/// A time as people say it: "about 19 min".
pub(super) fn rough(ms: u64) -> String {
    let of = |unit: u64| ms.div_ceil(unit);
    match ms {
        0..=119_999 => format!("about {} s", of(1000)),
        120_000..=7_199_999 => format!("about {} min", of(60_000)),
        7_200_000..=172_799_999 => format!("about {} h", of(3_600_000)),
        _ => format!("about {} days", of(86_400_000)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A campaign that is on its way.
    pub(in crate::cli) fn campaign() -> CampaignSummary {
        CampaignSummary {
            id: 9,
            name: "sweep".to_owned(),
            user: "ann".to_owned(),
            state: "running".to_owned(),
            frozen: false,
            submitted_ms: 1_764_060_000_000,
            tasks: 100_000,
            queued: 38_605,
            running: 188,
            away: std::collections::BTreeMap::new(),
            done: 61_204,
            failed: 3,
            cancelled: 0,
            dropped: 0,
            mean_ms: 5_400,
            hook_of: None,
            folded_ms: None,
            rss_mb: 2150,
        }
    }

    #[test]
    fn a_line_fits_into_80_columns() {
        let line = progress(&campaign(), 1020, 30_000, 79);
        assert_eq!(
            line,
            "9 sweep  ━━━━━━━──────  61,207 of 100,000  running 188  failed 3  34/s  about 20 min left"
                .replace("━━━━━━━──────  ", "")
        );
        let wide = progress(&campaign(), 1020, 30_000, 120);
        assert!(wide.contains("━━━━━━━━━━━━────────"), "{wide}");
        let short = CampaignSummary { tasks: 40, done: 20, failed: 0, ..campaign() };
        let line = progress(&short, 0, 0, 79);
        assert_eq!(line, "9 sweep  ━━━━━━━━━━──────────  20 of 40  running 188");
        assert!(progress(&campaign(), 1, 1, 30).chars().count() < 80);
    }

    #[test]
    fn rates_and_times_are_said_as_people_say_them() {
        assert_eq!(rate(1020, 30_000), "34/s");
        assert_eq!(rate(5, 30_000), "10/min");
        assert_eq!(rate(1, 3_600_000), "1/h");
        assert_eq!(rough(19 * 60_000), "about 19 min");
        assert_eq!(rough(61_000), "about 61 s");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
