//! Conversions of windows of nodes to and from the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::wire;
use crate::model::{Name, Window, WindowKind};

/// The window of each node that is open, or opens next.
#[derive(Debug, Default)]
pub struct NextWindows(BTreeMap<Name, Arc<Window>>);

impl NextWindows {
    /// Finds the first window of each node.
    pub fn of(windows: &[Arc<Window>]) -> NextWindows {
        let mut first: BTreeMap<Name, Arc<Window>> = BTreeMap::new();
        for window in windows {
            for node in &window.nodes {
                let known = first.entry(node.clone()).or_insert_with(|| Arc::clone(window));
                if window.from < known.from {
                    *known = Arc::clone(window);
                }
            }
        }
        NextWindows(first)
    }

    /// The first window of `node`; `None` if it has none.
    pub fn get(&self, node: &str) -> Option<wire::NextWindow> {
        let window = self.0.get(node)?;
        Some(wire::NextWindow {
            name: window.name.to_string(),
            kind: window.kind.into(),
            start_ms: window.from,
            end_ms: window.to,
        })
    }
}

impl From<WindowKind> for wire::ReservationKind {
    fn from(kind: WindowKind) -> wire::ReservationKind {
        match kind {
            WindowKind::Reservation => wire::ReservationKind::Reservation,
            WindowKind::Maintenance => wire::ReservationKind::Maintenance,
        }
    }
}

impl From<wire::ReservationKind> for WindowKind {
    fn from(kind: wire::ReservationKind) -> WindowKind {
        match kind {
            wire::ReservationKind::Reservation => WindowKind::Reservation,
            wire::ReservationKind::Maintenance => WindowKind::Maintenance,
        }
    }
}

impl From<&Window> for wire::ReservationInfo {
    fn from(window: &Window) -> wire::ReservationInfo {
        let text = |names: &[Name]| names.iter().map(ToString::to_string).collect();
        wire::ReservationInfo {
            name: window.name.to_string(),
            kind: window.kind.into(),
            nodes: text(&window.nodes),
            start_ms: window.from,
            end_ms: window.to,
            users: text(&window.users),
            classes: text(&window.classes),
            reason: window.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_window_of_a_node_is_the_next() {
        let window = |name: &str, nodes: &[&str], from| {
            Arc::new(Window {
                name: name.into(),
                kind: WindowKind::Maintenance,
                nodes: nodes.iter().map(|&node| node.into()).collect(),
                from,
                to: from + 10,
                users: Vec::new(),
                classes: Vec::new(),
                reason: String::new(),
            })
        };
        let windows = [
            window("a", &["n1", "n2"], 50),
            window("b", &["n1"], 20),
            window("c", &["n2", "n3"], 70),
        ];
        let next = NextWindows::of(&windows);
        let name = |node| next.get(node).map(|window| window.name);
        let names = ["n1", "n2", "n3", "n4"].map(name);
        assert_eq!(
            names,
            ["b", "a", "c"]
                .map(|name| Some(name.to_owned()))
                .into_iter()
                .chain([None])
                .collect::<Vec<_>>()[..]
        );
    }
}
