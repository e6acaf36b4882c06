//! Windows: spans of time in which nodes are kept for some work, or for none.
//!
//! Design: requests and time, sections 1.4 and 3.6.

use super::{Millis, Name};

/// Purpose of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WindowKind {
    /// An advance reservation: of work that stays, only work that names it starts on its nodes.
    /// Work that can be preempted goes on there meanwhile.
    Reservation,
    /// Maintenance: no work is on the nodes.
    Maintenance,
}

/// A span of time in which nodes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Name of the window; unique.
    pub name: Name,
    /// Purpose of the window.
    pub kind: WindowKind,
    /// Names of the nodes, ascending, each once.
    pub nodes: Vec<Name>,
    /// Start of the window, in milliseconds since the epoch.
    pub from: Millis,
    /// First moment after the window.
    pub to: Millis,
    /// Users whose work may use a reservation. Empty means all.
    pub users: Vec<Name>,
    /// Classes whose work may use a reservation. Empty means all.
    pub classes: Vec<Name>,
    /// Reason, shown with the window.
    pub reason: String,
}

impl Window {
    /// True if some moment from `from` until before `to` is in the window.
    pub fn overlaps(&self, from: Millis, to: Millis) -> bool {
        from < self.to && self.from < to
    }

    /// True if work of that user and class may use the nodes of the window while it is open.
    pub fn admits(&self, user: &Name, class: &Name) -> bool {
        let is_named = |names: &[Name], name| names.is_empty() || names.contains(name);
        self.kind == WindowKind::Reservation
            && is_named(&self.users, user)
            && is_named(&self.classes, class)
    }

    /// True if both windows keep a node at the same time.
    pub fn collides_with(&self, other: &Window) -> bool {
        let is_shared = |node: &Name| other.nodes.binary_search(node).is_ok();
        self.overlaps(other.from, other.to) && self.nodes.iter().any(is_shared)
    }
}
