//! Colours of users and classes: a colour never stands for two of them.
//!
//! Users with the most memory have a colour each; grey stands for all other users. A user near the
//! top keeps its colour, so that the colours of a page rarely change.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::model::Name;
use crate::scheduler::View;

/// Colours for single users or classes; the style sheet defines them.
pub(super) const COLOURS: usize = 11;

/// Grey, for users and classes without a colour of their own.
pub(super) const OTHERS: usize = COLOURS;

/// Number of colours as a divisor; equals `COLOURS`.
const COUNT: u64 = 11;

/// A user with a colour keeps it up to this rank.
const KEPT_RANK: usize = 16;

/// Colours by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Palette(BTreeMap<Name, usize>);

impl Palette {
    /// Gives colours to the users with the largest `amounts`. A user with a colour in `before`
    /// keeps it.
    pub fn of(amounts: BTreeMap<Name, u64>, before: &Palette) -> Palette {
        let mut ranked: Vec<(Name, u64)> = amounts.into_iter().collect();
        ranked.sort_by_key(|(name, amount)| (std::cmp::Reverse(*amount), name.clone()));
        let names = || ranked.iter().map(|(name, _)| name);
        let kept = names().take(KEPT_RANK).filter_map(|name| Some((name, *before.0.get(name)?)));
        let mut colours: BTreeMap<Name, usize> =
            kept.map(|(name, colour)| (name.clone(), colour)).collect();
        let mut is_free = [true; COLOURS];
        for colour in colours.values() {
            is_free[*colour] = false;
        }
        for name in names() {
            if colours.contains_key(name) {
                continue;
            }
            let first = preferred(name);
            let circle = (first..COLOURS).chain(0..first);
            let Some(free) = circle.into_iter().find(|colour| is_free[*colour]) else { break };
            is_free[free] = false;
            colours.insert(name.clone(), free);
        }
        Palette(colours)
    }

    /// Colours for all who have work in `view`, by what they hold.
    pub fn of_users(view: &View, before: &Palette) -> Palette {
        let mut amounts: BTreeMap<Name, u64> = BTreeMap::new();
        for job in view.jobs.iter() {
            let held: u64 = job.shares.iter().map(|share| share.memory.0).sum();
            *amounts.entry(job.user.clone()).or_default() += held;
        }
        Palette::of(amounts, before)
    }

    /// Gives a colour to each of the first classes in the configuration.
    pub fn of_classes(view: &View) -> Palette {
        let names = view.classes.iter().map(|class| class.name.clone());
        Palette(names.take(COLOURS).zip(0..).collect())
    }

    /// Returns the colour of `name`; grey if it has none of its own.
    pub fn colour(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(OTHERS)
    }
}

/// The colour that a name gets if it is free: the same after a restart.
fn preferred(name: &Name) -> usize {
    let mut hasher = DefaultHasher::new();
    name.as_str().hash(&mut hasher);
    usize::try_from(hasher.finish() % COUNT).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn amounts(of: impl IntoIterator<Item = (u64, u64)>) -> BTreeMap<Name, u64> {
        of.into_iter().map(|(user, amount)| (Name::from(format!("u{user}")), amount)).collect()
    }

    #[test]
    fn one_colour_never_stands_for_two_users() {
        let palette = Palette::of(amounts((0..100).map(|user| (user, user))), &Palette::default());
        let colours = |users: std::ops::Range<u64>| -> Vec<usize> {
            users.map(|user| palette.colour(&format!("u{user}"))).collect()
        };
        let top: BTreeSet<usize> = colours(89..100).into_iter().collect();
        assert_eq!(top.len(), COLOURS);
        assert!(!top.contains(&OTHERS));
        assert!(colours(0..89).iter().all(|colour| *colour == OTHERS));
        assert_eq!(palette.colour("a stranger"), OTHERS);
    }

    #[test]
    fn a_colour_stays_while_its_user_is_near_the_top() {
        let first = Palette::of(amounts((0..11).map(|user| (user, 100))), &Palette::default());
        // Five new users come in above u10.
        let more = amounts(
            (0..10).map(|user| (user, 100)).chain([(10, 1)]).chain((20..25).map(|user| (user, 9))),
        );
        let second = Palette::of(more, &first);
        assert_eq!(second, first);
        // A sixth pushes u10 out of the top, and a new user takes its colour.
        let more = amounts(
            (0..10).map(|user| (user, 100)).chain([(10, 1)]).chain((20..26).map(|user| (user, 9))),
        );
        let third = Palette::of(more, &second);
        assert_eq!((third.colour("u10"), third.colour("u20")), (OTHERS, first.colour("u10")));
        for user in 0..10 {
            let name = format!("u{user}");
            assert_eq!(third.colour(&name), first.colour(&name));
        }
    }
}
