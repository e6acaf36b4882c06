//! Lists of nodes as sets, and memory of their nodes that are full, so that a long list is not
//! searched from its start for each share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::capacity::NodeSet;
use crate::engine::draft::Draft;
use crate::model::{NodeIx, Order};

/// Lists of nodes, by their place in memory. Jobs with equal tags share a list, and the snapshot
/// keeps all lists for the cycle.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ListCursors {
    /// For each list and size of a share, the place of the first node that may have space. It holds
    /// as long as no node gains space.
    places: RefCell<BTreeMap<(usize, Order), ListPlace>>,
    /// The nodes of each list that was searched.
    sets: RefCell<BTreeMap<usize, Arc<NodeSet>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ListPlace {
    /// Number of gains of space when the place was found.
    gains: u64,
    place: usize,
}

impl ListCursors {
    /// True if a node of `list` has space for a share of `order` now.
    pub(super) fn has_space(draft: &Draft<'_>, list: &Arc<[NodeIx]>, order: Order) -> bool {
        let has_space = |node: NodeIx| {
            draft.spaces.is_schedulable(node) && order.qshares() <= draft.spaces.usable(node)
        };
        let mut cursors = draft.list_cursors.places.borrow_mut();
        let cursor = cursors.entry((place_of(list), order)).or_default();
        let gains = draft.spaces.gains();
        if cursor.gains != gains {
            *cursor = ListPlace { gains, place: 0 };
        }
        let full = list[cursor.place..].iter().take_while(|node| !has_space(**node));
        cursor.place += full.count();
        cursor.place < list.len()
    }

    /// The nodes of `list` as a set.
    pub(super) fn set_of(draft: &Draft<'_>, list: &Arc<[NodeIx]>) -> Arc<NodeSet> {
        let mut sets = draft.list_cursors.sets.borrow_mut();
        let set = sets.entry(place_of(list));
        Arc::clone(set.or_insert_with(|| Arc::new(list.iter().copied().collect())))
    }
}

/// Place of the nodes of `list` in memory.
fn place_of(list: &Arc<[NodeIx]>) -> usize {
    Arc::as_ptr(list).cast::<NodeIx>().addr()
}
