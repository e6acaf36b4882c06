//! Drawings of pages in whole numbers: progress, curves, histograms.

use askama::Template;

use crate::dashboard::words;
use crate::orchestrator::store::Progress;
use crate::orchestrator::wire::{CampaignSummary, places};

/// The width of a drawing.
const WIDTH: u64 = 600;
/// The height of a drawing.
const HEIGHT: u64 = 120;
/// The columns of a histogram.
pub(super) const COLUMNS: usize = 24;

/// Progress of a campaign, in parts of its tasks.
#[derive(Clone, Debug, Template)]
#[template(path = "campaign_bar.html")]
pub(super) struct ProgressBar {
    done: u64,
    failed: u64,
    running: u64,
    over: u64,
    words: String,
}

impl ProgressBar {
    /// Of a campaign. The parts are in thousandths.
    pub fn of(one: &CampaignSummary) -> ProgressBar {
        let part = |count: u64| count.saturating_mul(1000).checked_div(one.tasks).unwrap_or(0);
        let over = one.cancelled + one.dropped;
        ProgressBar {
            done: part(one.done),
            failed: part(one.failed),
            running: part(one.running),
            over: part(over),
            words: format!(
                "{} done, {} failed, {} cancelled or dropped, {}, {} queued",
                words::number(one.done),
                words::number(one.failed),
                words::number(over),
                places(one.running, &one.away),
                words::number(one.queued)
            ),
        }
    }
}

/// Tasks done over time.
#[derive(Clone, Debug, Template)]
#[template(path = "campaign_curve.html")]
pub(super) struct Curve {
    /// The line of attempts that were done, as the path of an SVG.
    done: String,
    /// The same down to the ground.
    area: String,
    /// The line of attempts that ended otherwise. Empty: there are none.
    other: String,
    from_ms: u64,
    from: String,
    to_ms: u64,
    to: String,
    words: String,
}

impl Curve {
    /// Of the ends of a campaign between two times, in milliseconds since the epoch. `None`: too few.
    pub fn of(parts: &[Progress], width_ms: u64, from_ms: u64, to_ms: u64) -> Option<Curve> {
        let span = to_ms.checked_sub(from_ms).filter(|span| 0 < *span)?;
        let total = |value: fn(&Progress) -> u64| parts.iter().map(value).sum::<u64>();
        let (done, other) = (total(|part| part.done), total(|part| part.other));
        let most = done.max(other);
        if most == 0 {
            return None;
        }
        let across = |at_ms: u64| {
            let at = at_ms.saturating_sub(from_ms).min(span).saturating_mul(WIDTH);
            at.checked_div(span).unwrap_or(0)
        };
        let down = |count: u64| {
            HEIGHT - count.saturating_mul(HEIGHT).checked_div(most).unwrap_or(0).min(HEIGHT)
        };
        let line = |value: fn(&Progress) -> u64| {
            let mut sum = 0;
            let mut points: Vec<String> = parts
                .iter()
                .map(|part| {
                    sum += value(part);
                    let end_ms = part.at_ms.saturating_add(width_ms);
                    format!("L{} {}", across(end_ms), down(sum))
                })
                .collect();
            points.push(format!("L{WIDTH} {}", down(sum)));
            format!("M0 {HEIGHT}{}", points.concat())
        };
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let done_line = line(|part| part.done);
        Some(Curve {
            area: format!("{done_line}V{HEIGHT}H0Z"),
            done: done_line,
            other: if other == 0 { String::new() } else { line(|part| part.other) },
            from: words::time(signed(from_ms)),
            from_ms,
            to: words::time(signed(to_ms)),
            to_ms,
            words: format!(
                "{} attempts done, {} ended otherwise",
                words::number(done),
                words::number(other)
            ),
        })
    }
}

/// Histogram of the memory that attempts used.
#[derive(Clone, Debug, Template)]
#[template(path = "campaign_memory.html")]
pub(super) struct Histogram {
    /// Position and height of each column.
    columns: Vec<(u64, u64)>,
    /// Position of the memory of a slot.
    limit: u64,
    limit_words: String,
    right: String,
    words: String,
}

impl Histogram {
    /// Of memory in MiB, against the memory of a slot. `None`: nothing is known.
    pub fn of(values: &[u64], limit_mb: u64) -> Option<Histogram> {
        let largest = values.iter().copied().max()?.max(limit_mb).max(1);
        let right = largest.saturating_add(largest.div_ceil(20));
        let all = u64::try_from(COLUMNS).unwrap_or(1);
        let width = right.div_ceil(all);
        let mut counts = [0_u64; COLUMNS];
        for value in values {
            let at = usize::try_from(value.checked_div(width).unwrap_or(0)).unwrap_or(COLUMNS);
            counts[at.min(COLUMNS - 1)] += 1;
        }
        let most = counts.iter().copied().max().unwrap_or(1).max(1);
        let scaled = |count: u64| {
            let height = count.saturating_mul(HEIGHT).checked_div(most).unwrap_or(0);
            if 0 < count { height.max(2) } else { 0 }
        };
        let step = WIDTH.checked_div(all).unwrap_or(1);
        let columns = (0..).zip(counts).map(|(at, count): (u64, u64)| (at * step, scaled(count)));
        let right = width.saturating_mul(all);
        let memory = words::memory;
        Some(Histogram {
            columns: columns.filter(|(_, height)| 0 < *height).collect(),
            limit: limit_mb.saturating_mul(WIDTH).checked_div(right).unwrap_or(0).min(WIDTH),
            limit_words: memory(limit_mb),
            right: memory(right),
            words: format!(
                "memory of {} attempts, {} at most, of {} asked for",
                words::number(crate::model::count(values)),
                memory(values.iter().copied().max().unwrap_or(0)),
                memory(limit_mb)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_at_the_top_right() {
        let part = |at_ms, done, other| Progress { at_ms, done, other };
        let curve = Curve::of(&[part(0, 10, 0), part(50, 10, 5)], 50, 0, 100).unwrap();
        assert_eq!(curve.done, "M0 120L300 60L600 0L600 0");
        assert_eq!(curve.other, "M0 120L300 120L600 90L600 90");
        assert!(
            Curve::of(&[], 50, 0, 100).is_none() && Curve::of(&[part(5, 1, 0)], 1, 5, 5).is_none()
        );
    }

    #[test]
    fn a_histogram_has_room_for_the_limit() {
        let histogram = Histogram::of(&[10, 10, 90], 100).unwrap();
        assert_eq!(histogram.columns.iter().map(|column| column.1).collect::<Vec<_>>(), [120, 60]);
        assert!(histogram.limit == 500, "{histogram:?}");
        assert!(Histogram::of(&[], 100).is_none());
    }
}
