//! Hours of campaigns: tells the book when they begin and end, by the clock on the wall.

use super::book::Event;
use super::drive::{Owner, wall_ms};
use crate::config::closed_until;

impl Owner {
    /// Tells the book of each campaign whose hours began or ended.
    pub(super) fn tell_hours(&mut self) {
        let now = wall_ms();
        let with_hours = self.book.campaigns().values().filter(|it| !it.spec.active.is_empty());
        let changed = with_hours.filter_map(|campaign| {
            let known = campaign.facts.opens_ms;
            if known.is_some_and(|opens_ms| now < opens_ms) {
                return None;
            }
            let opens_ms = closed_until(&campaign.spec.hours(), &self.zone, now);
            (opens_ms != known).then_some((campaign.facts.id, opens_ms))
        });
        let changed: Vec<(u64, Option<u64>)> = changed.collect();
        for (id, opens_ms) in changed {
            self.record(Event::Hours(id, opens_ms));
        }
    }
}
