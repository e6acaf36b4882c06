//! Decides if a request fits into given space.

use std::collections::BTreeMap;

use super::crew::GangLine;
use super::matching::{StepLimit, most_places, spend};
use super::spaces::{FreeNode, FreeSize};
use crate::model::{Place, Tags, count};

/// Answer to the question if a request fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// No way to place it exists.
    No,
    /// No way was found; or the limit of steps was reached.
    Unknown,
    /// Fits if chunks share nodes in a clever way. A sound search may miss it.
    Packed,
    /// Fits, and every sound search finds a way.
    Yes,
}

/// Equal processes of a request.
#[derive(Clone, Copy, Debug)]
struct EqualProcesses<'g> {
    count: u64,
    /// In qshares.
    order: u64,
    tags: &'g Tags,
}

/// Processes that a gang starts with.
#[derive(Debug)]
pub(super) struct GangParts<'g> {
    parts: Vec<EqualProcesses<'g>>,
    place: Place,
}

impl<'g> GangParts<'g> {
    /// The request of `gang` for `size` processes; the size of several chunks is theirs. `None` if
    /// a process is too large to be counted.
    pub(super) fn of(gang: &'g GangLine, size: u64) -> Option<GangParts<'g>> {
        let chunks = &gang.shape.chunks;
        let mut parts: BTreeMap<(u64, &Tags), u64> = BTreeMap::new();
        for (chunk, order) in chunks.iter().zip(gang.orders.as_ref()?) {
            let asked = if chunks.len() == 1 { size } else { chunk.count };
            let known = parts.entry((*order, &chunk.tags)).or_default();
            *known = known.saturating_add(asked);
        }
        let parts =
            parts.into_iter().map(|((order, tags), count)| EqualProcesses { count, order, tags });
        Some(GangParts { parts: parts.collect(), place: gang.shape.place })
    }

    /// True if [`GangParts::most_processes`] has an answer.
    pub(super) fn is_countable(&self) -> bool {
        match self.place {
            Place::Scatter => true,
            Place::Free => self.parts.len() == 1,
            Place::Pack => false,
        }
    }

    /// Most of the processes that fit at the same time. Exact for scattered requests, and for free
    /// requests of equal processes.
    pub(super) fn most_processes(
        &self,
        spaces: &[FreeNode],
        steps: &mut u64,
    ) -> Result<u64, StepLimit> {
        let suits = self.suits(spaces, steps)?;
        match self.place {
            Place::Scatter => most_places(&self.counts(), &suits, spaces.len(), steps),
            Place::Free | Place::Pack => {
                let parts = self.parts.iter().zip(&suits);
                Ok(parts.map(|(part, suits)| part.count.min(part.alone(spaces, suits))).sum())
            }
        }
    }

    /// Decides if all processes fit into `spaces` at the same time.
    pub(super) fn fit(&self, spaces: &[FreeNode], steps: &mut u64) -> Fit {
        self.try_fit(spaces, steps).unwrap_or(Fit::Unknown)
    }

    fn try_fit(&self, spaces: &[FreeNode], steps: &mut u64) -> Result<Fit, StepLimit> {
        let suits = self.suits(spaces, steps)?;
        let exact = |fits: bool| Ok(if fits { Fit::Yes } else { Fit::No });
        match self.place {
            Place::Scatter => {
                let counts = self.counts();
                let wanted = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
                // Fewer nodes than processes need no search.
                let places = if wanted <= count(spaces) {
                    most_places(&counts, &suits, spaces.len(), steps)?
                } else {
                    0
                };
                exact(places == wanted)
            }
            Place::Pack => exact(self.fits_on_one(spaces)),
            Place::Free => self.fit_together(spaces, &suits, steps),
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.parts.iter().map(|part| part.count).collect()
    }

    /// For each part, the nodes that a process of it fits into.
    fn suits(&self, spaces: &[FreeNode], steps: &mut u64) -> Result<Vec<Vec<usize>>, StepLimit> {
        spend(steps, count(spaces).saturating_mul(count(&self.parts)))?;
        let suits = self.parts.iter().map(|part| {
            let spaces = spaces.iter().enumerate();
            let suiting =
                spaces.filter(|(_, space)| space.has(part.order) && space.tags.satisfy(part.tags));
            suiting.map(|(ix, _)| ix).collect()
        });
        Ok(suits.collect())
    }

    fn fits_on_one(&self, spaces: &[FreeNode]) -> bool {
        let amounts = self.parts.iter().map(|part| part.order.saturating_mul(part.count));
        let amount = amounts.fold(0, u64::saturating_add);
        spaces.iter().any(|space| {
            space.has(amount) && self.parts.iter().all(|part| space.tags.satisfy(part.tags))
        })
    }

    /// Decides if parts fit that may share nodes. Exact if no node suits two parts.
    fn fit_together(
        &self,
        spaces: &[FreeNode],
        suits: &[Vec<usize>],
        steps: &mut u64,
    ) -> Result<Fit, StepLimit> {
        let mut parts = self.parts.iter().zip(suits);
        if parts.any(|(part, suits)| part.alone(spaces, suits) < part.count) {
            return Ok(Fit::No);
        }
        let mut users = vec![0_u64; spaces.len()];
        suits.iter().flatten().for_each(|&ix| users[ix] += 1);
        if users.iter().all(|users| *users <= 1) {
            return Ok(Fit::Yes);
        }
        let known = |ix: usize| match spaces[ix].amount {
            FreeSize::Known(amount) => Some(amount),
            FreeSize::Unheard => None,
        };
        let used = (0..spaces.len()).filter(|&ix| 0 < users[ix]);
        let total =
            used.map(known).try_fold(0_u64, |sum, amount| Some(sum.saturating_add(amount?)));
        let needed = self.parts.iter().map(|part| part.order.saturating_mul(part.count));
        let needed = needed.fold(0, u64::saturating_add);
        if total.is_some_and(|total| total < needed) {
            return Ok(Fit::No);
        }
        if self.fits_apart(spaces, suits, steps)? {
            return Ok(Fit::Yes);
        }
        let is_packed = self.fits_largest_first(spaces, suits, steps)?;
        Ok(if is_packed { Fit::Packed } else { Fit::Unknown })
    }

    /// True if the parts fit on nodes that they do not share, and each of them finds equally many
    /// places on all nodes that suit it.
    fn fits_apart(
        &self,
        spaces: &[FreeNode],
        suits: &[Vec<usize>],
        steps: &mut u64,
    ) -> Result<bool, StepLimit> {
        let mut needs = Vec::new();
        for (part, suits) in self.parts.iter().zip(suits) {
            let mut places = suits.iter().map(|&ix| spaces[ix].processes(part.order));
            let Some(first) = places.next() else { return Ok(false) };
            if places.any(|other| other != first) {
                return Ok(false);
            }
            needs.push(part.count.div_ceil(first.max(1)));
        }
        let wanted = needs.iter().fold(0, |sum: u64, need| sum.saturating_add(*need));
        Ok(wanted <= count(spaces) && most_places(&needs, suits, spaces.len(), steps)? == wanted)
    }

    /// True if the parts fit when the largest processes are placed first, each part on its nodes in
    /// order.
    fn fits_largest_first(
        &self,
        spaces: &[FreeNode],
        suits: &[Vec<usize>],
        steps: &mut u64,
    ) -> Result<bool, StepLimit> {
        let mut left: Vec<FreeNode> = spaces.to_vec();
        // Parts are sorted by the size of their processes.
        for (part, suits) in self.parts.iter().zip(suits).rev() {
            let mut missing = part.count;
            spend(steps, count(suits))?;
            for &ix in suits {
                let here = left[ix].processes(part.order).min(missing);
                missing -= here;
                left[ix].amount = match left[ix].amount {
                    FreeSize::Known(amount) => FreeSize::Known(amount - here * part.order),
                    FreeSize::Unheard if here == 0 => FreeSize::Unheard,
                    FreeSize::Unheard => FreeSize::Known(0),
                };
            }
            if 0 < missing {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl EqualProcesses<'_> {
    /// Number of processes that the nodes at `suits` could hold if they held nothing else.
    fn alone(&self, spaces: &[FreeNode], suits: &[usize]) -> u64 {
        let places = suits.iter().map(|&ix| spaces[ix].processes(self.order));
        places.fold(0, u64::saturating_add)
    }
}
