//! Shares of a job, sorted by number.

use super::nodes::NodeKey;
use super::view::Removal;
use crate::model::{Order, ShareFacts, ShareId, SharePhase};

/// A share in the scheduler's state.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareRecord {
    pub id: ShareId,
    pub node: NodeKey,
    pub order: Order,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
    pub state: SharePhase,
    pub removal: Option<Removal>,
    /// True once the orchestrator has published the share.
    pub is_seen: bool,
    pub facts: ShareFacts,
}

/// Shares, oldest first, each once. Most jobs have few, and new ones come last.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareList(Vec<ShareRecord>);

impl ShareList {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, ShareRecord> {
        self.0.iter()
    }

    /// All of them; their numbers stay as they are.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, ShareRecord> {
        self.0.iter_mut()
    }

    pub(super) fn get(&self, id: ShareId) -> Option<&ShareRecord> {
        self.place_of(id).ok().map(|place| &self.0[place])
    }

    pub(super) fn get_mut(&mut self, id: ShareId) -> Option<&mut ShareRecord> {
        self.place_of(id).ok().map(|place| &mut self.0[place])
    }

    /// Inserts a share; replaces a share with the same number.
    pub(super) fn insert(&mut self, share: ShareRecord) {
        match self.place_of(share.id) {
            Ok(place) => self.0[place] = share,
            Err(place) => {
                if self.0.len() == self.0.capacity() {
                    // Rather little: there are many such lists, and most do not grow any more.
                    self.make_space(1 + self.0.len().isqrt());
                }
                self.0.insert(place, share);
            }
        }
    }

    /// Reserves memory for this many more shares.
    pub(super) fn make_space(&mut self, shares: usize) {
        self.0.reserve_exact(shares);
    }

    pub(super) fn remove(&mut self, id: ShareId) -> Option<ShareRecord> {
        self.place_of(id).ok().map(|place| self.0.remove(place))
    }

    /// Removes and returns the shares for which `is_meant` is true.
    pub(super) fn take(&mut self, is_meant: impl Fn(&ShareRecord) -> bool) -> Vec<ShareRecord> {
        self.0.extract_if(.., |share| is_meant(share)).collect()
    }

    fn place_of(&self, id: ShareId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |share| share.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(ids: &[u64]) -> ShareList {
        let mut shares = ShareList::default();
        for &id in ids {
            shares.insert(ShareRecord {
                rank: None,
                id: ShareId(id),
                node: NodeKey(0),
                order: Order::new(1).unwrap(),
                state: SharePhase::Held,
                removal: None,
                is_seen: false,
                facts: ShareFacts::default(),
            });
        }
        shares
    }

    fn numbers(shares: &ShareList) -> Vec<u64> {
        shares.iter().map(|share| share.id.0).collect()
    }

    #[test]
    fn shares_are_in_the_order_of_their_numbers_however_they_came() {
        let mut shares = shares(&[5, 9, 2, 5]);
        assert_eq!(numbers(&shares), [2, 5, 9]);
        assert_eq!(shares.remove(ShareId(5)).map(|share| share.id), Some(ShareId(5)));
        assert!(shares.remove(ShareId(5)).is_none() && shares.get(ShareId(5)).is_none());
        assert_eq!(shares.get(ShareId(9)).map(|share| share.id), Some(ShareId(9)));
        assert_eq!(shares.take(|share| share.id.0 < 9).len(), 1);
        assert_eq!(numbers(&shares), [9]);
    }
}
