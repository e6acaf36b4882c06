//! The list of all nodes, as text. It is long, and many clients ask for it again and again. Nearly
//! all of it stays from a cycle to the next. So it is built once for all clients, from its changed
//! parts.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::api::board::ViewPublisher;
use crate::api::http::compression::SharedJson;
use crate::api::ingest::heartbeat_inbox::HeartbeatInbox;
use crate::api::wire;
use crate::api::wire::from_window::NextWindows;
use crate::model::{Name, Window};
use crate::scheduler::{NodeView, SharedList, View};

/// Makes the list, and keeps the last.
#[derive(Debug, Default)]
pub struct NodeLists(Arc<Mutex<Option<NodeListText>>>);

/// Remarks on nodes from their heartbeats, by node.
type Notes = BTreeMap<String, Vec<String>>;

/// A [`wire::NodeList`] of all nodes.
#[derive(Debug)]
struct NodeListText {
    cycle: u64,
    nodes: Arc<SharedList<NodeView>>,
    held_back: Vec<Name>,
    windows: Arc<Vec<Arc<Window>>>,
    next_windows: NextWindows,
    notes: Notes,
    text: Arc<SharedJson>,
    /// Range of each node's part in the text.
    parts: Vec<Range<usize>>,
}

impl NodeLists {
    /// Returns the latest list; `None` if building it failed, by a fault of the daemon.
    pub async fn latest(
        &self,
        board: Arc<ViewPublisher>,
        heartbeats: Arc<HeartbeatInbox>,
    ) -> Option<Arc<SharedJson>> {
        // Locked: a request that comes meanwhile waits for the same list.
        let mut kept = Arc::clone(&self.0).lock_owned().await;
        let published = board.latest();
        let notes = heartbeats.log().notes();
        if let Some(list) = kept.as_ref().filter(|list| list.is_of(&published.view, &notes)) {
            return Some(Arc::clone(&list.text));
        }
        // With ten thousand nodes the work takes long enough to hold up other requests.
        let made = tokio::task::spawn_blocking(move || {
            let list = NodeListText::following(kept.as_ref(), &published.view, notes);
            let text = Arc::clone(&list.text);
            *kept = Some(list);
            text
        });
        made.await.ok()
    }
}

impl NodeListText {
    fn is_of(&self, view: &View, notes: &Notes) -> bool {
        self.cycle == view.cycle
            && Arc::ptr_eq(&self.nodes, &view.nodes)
            && self.held_back == view.lost_held_back
            && Arc::ptr_eq(&self.windows, &view.windows)
            && self.notes == *notes
    }

    /// The list of what is in `view`; `before` has the parts of what has stayed as it was.
    fn following(before: Option<&NodeListText>, view: &View, notes: Notes) -> NodeListText {
        let mut list = NodeListText {
            cycle: view.cycle,
            nodes: Arc::clone(&view.nodes),
            held_back: view.lost_held_back.clone(),
            windows: Arc::clone(&view.windows),
            next_windows: NextWindows::of(&view.windows),
            notes,
            text: Arc::default(),
            parts: Vec::with_capacity(view.nodes.len()),
        };
        let mut text = Vec::with_capacity(before.map_or(0, |before| before.text.plain().len()));
        text.extend_from_slice(format!("{{\"cycle\":{},\"nodes\":[", view.cycle).as_bytes());
        let known = before.into_iter().flat_map(|before| before.nodes.iter().zip(&before.parts));
        let mut known = known.peekable();
        for node in view.nodes.iter() {
            if !list.parts.is_empty() {
                text.push(b',');
            }
            let begin = text.len();
            while known.next_if(|(old, _)| old.name < node.name).is_some() {}
            let part = known.next_if(|(old, _)| std::ptr::eq(*old, node)).zip(before);
            let part = part.filter(|(_, before)| !before.is_noted(node) && !list.is_noted(node));
            match part {
                Some(((_, part), before)) => {
                    text.extend_from_slice(&before.text.plain()[part.clone()]);
                }
                None => list.write(node, &mut text),
            }
            list.parts.push(begin..text.len());
        }
        text.extend_from_slice(b"]}");
        list.text = Arc::new(text.into());
        list
    }

    /// True if `node` has remarks beyond its view.
    fn is_noted(&self, node: &NodeView) -> bool {
        self.notes.contains_key(node.name.as_str())
            || is_held_back(&node.name, &self.held_back)
            || self.next_windows.get(&node.name).is_some()
    }

    fn write(&self, node: &NodeView, text: &mut Vec<u8>) {
        let mut info = wire::NodeInfo::from(node);
        let noted = self.notes.get(node.name.as_str()).into_iter().flatten();
        info.next_window = self.next_windows.get(&node.name);
        info.notes.extend(held_back_note(&node.name, &self.held_back));
        info.notes.extend(noted.cloned());
        serde_json::to_writer(text, &info).expect("plain structs become JSON");
    }
}

/// True if `node` is in `held_back`, which is sorted by name.
pub(in crate::api) fn is_held_back(node: &str, held_back: &[Name]) -> bool {
    held_back.binary_search_by(|name| name.as_str().cmp(node)).is_ok()
}

/// Returns the remark on a node in `held_back`.
pub(in crate::api) fn held_back_note(node: &str, held_back: &[Name]) -> Option<String> {
    let note = "silent with too many others: its work is not given up";
    is_held_back(node, held_back).then(|| note.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cluster;
    use crate::model::Tags;
    use crate::model::{Mebibytes, NodeCondition, QShares, Quantum, ShareId};
    use crate::scheduler::Scheduler;

    fn view(cycle: u64, nodes: &[Arc<NodeView>]) -> View {
        let topology = cluster::topology(Quantum::new(Mebibytes(1024)).unwrap());
        let scheduler = Scheduler::new(topology, ShareId(1));
        View { cycle, nodes: Arc::new(nodes.iter().cloned().collect()), ..scheduler.view() }
    }

    fn node(name: &str, missed: u32) -> Arc<NodeView> {
        Arc::new(NodeView {
            preference: 0,
            tags: Tags::default(),
            name: name.into(),
            pool: "main".into(),
            quantum: Quantum::new(Mebibytes(1024)).unwrap(),
            memory: Mebibytes(4096),
            order: QShares(4),
            used: QShares(0),
            state: NodeCondition::default(),
            missed,
            vary_off_reason: None,
            shares: Vec::new(),
        })
    }

    fn notes(of: &str) -> Notes {
        of.split_whitespace().map(|node| (node.to_owned(), vec!["odd".to_owned()])).collect()
    }

    /// The list equals a list built from nothing, after every earlier list, and equals the API's
    /// list.
    #[test]
    fn a_list_from_parts_is_the_list() {
        let all = [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("b", 1)];
        let [a, b, c, d, b2] = all.map(|(name, missed)| node(name, missed));
        let lists = [
            (vec![], "", ""),
            (vec![b.clone(), d.clone()], "", ""),
            (vec![a.clone(), b.clone(), c.clone(), d.clone()], "", "d"),
            (vec![a.clone(), b2.clone(), c.clone(), d.clone()], "b", ""),
            (vec![a.clone(), b2, c.clone()], "c", "a"),
            (vec![c, d], "", ""),
        ];
        for (before, now) in lists.iter().flat_map(|one| lists.iter().map(move |two| (one, two))) {
            let made = |number, (nodes, noted, held): &(Vec<_>, &str, &str), before| {
                let mut view = view(number, nodes);
                view.lost_held_back = held.split_whitespace().map(Into::into).collect();
                NodeListText::following(before, &view, notes(noted))
            };
            let first = made(1, before, None);
            let next = made(2, now, Some(&first));
            assert_eq!(next.text.plain(), made(2, now, None).text.plain());
            let read: wire::NodeList = serde_json::from_slice(next.text.plain()).unwrap();
            assert_eq!((read.cycle, read.nodes.len()), (2, now.0.len()));
            for (read, node) in read.nodes.iter().zip(&now.0) {
                let is_odd = notes(now.1).contains_key(&read.name);
                assert_eq!(read.notes.iter().any(|note| note == "odd"), is_odd);
                assert_eq!(
                    read.notes.iter().any(|note| note.contains("silent")),
                    now.2 == read.name
                );
                assert_eq!(
                    (&read.name, read.missed_heartbeats),
                    (&node.name.to_string(), node.missed)
                );
            }
        }
    }
}
