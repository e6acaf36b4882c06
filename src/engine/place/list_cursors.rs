//! Memory of the nodes of lists that are full, so that a long list is not searched from its start
//! for each share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::draft::Draft;
use crate::model::{NodeIx, Order};

/// For each list and size of a share, the place of the first node that may have space. It holds as
/// long as no node gains space.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ListCursors(RefCell<BTreeMap<(usize, Order), ListPlace>>);

#[derive(Clone, Copy, Debug, Default)]
struct ListPlace {
    /// Number of gains of space when the place was found.
    gains: u64,
    place: usize,
}

impl ListCursors {
    /// True if a node of `list` has space for a share of `order` now.
    pub(super) fn has_room(draft: &Draft<'_>, list: &Arc<[NodeIx]>, order: Order) -> bool {
        let has_room = |node: NodeIx| {
            draft.spaces.is_schedulable(node) && order.qshares() <= draft.spaces.usable(node)
        };
        // Jobs with equal tags share a list in memory. The snapshot keeps all lists for the cycle.
        let key = (Arc::as_ptr(list).cast::<NodeIx>().addr(), order);
        let mut cursors = draft.list_cursors.0.borrow_mut();
        let cursor = cursors.entry(key).or_default();
        let gains = draft.spaces.gains();
        if cursor.gains != gains {
            *cursor = ListPlace { gains, place: 0 };
        }
        let full = list[cursor.place..].iter().take_while(|node| !has_room(**node));
        cursor.place += full.count();
        cursor.place < list.len()
    }
}
