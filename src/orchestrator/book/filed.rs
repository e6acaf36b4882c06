//! Events of nodes and clusters: filed by operators, or caused by the faults of several campaigns.
//!
//! While an event of a node is open, no task of any campaign begins there; an event of the cluster `local`
//! holds all campaigns here. Tasks that run end by themselves. An event closes with its parent, and the faults of
//! campaigns on a node close with the event of that node.

use std::collections::BTreeSet;

use super::away::place_of;
use super::faults::subject_of;
use super::rows::Note;
use super::{Book, Now};
use crate::model::Name;
use crate::orchestrator::wire::{EventClass, GridEvent, StopReason};

/// Name of the cluster of this orchestrator.
pub const LOCAL: &str = "local";
/// Campaigns with a fault on the same node that make an event of the node.
const BAD_CAMPAIGNS: usize = 3;
/// Owners of these campaigns.
const BAD_OWNERS: usize = 2;

impl Book {
    /// Open events of nodes and clusters, by number.
    pub fn filed(&self) -> impl Iterator<Item = &GridEvent> {
        self.filed.values()
    }

    /// The next number of an event.
    pub fn next_filed(&self) -> u64 {
        self.next_filed
    }

    /// The open event of a node or cluster.
    pub fn filed_of(&self, class: EventClass, name: &str) -> Option<&GridEvent> {
        self.filed.values().find(|event| event.class == class && event.name == name)
    }

    /// True if no task may begin on a node.
    pub(super) fn is_barred(&self, node: &Name) -> bool {
        self.is_held() || self.filed_of(EventClass::Node, node.as_str()).is_some()
    }

    /// True if no task may begin in the cluster of this orchestrator.
    pub(super) fn is_held(&self) -> bool {
        self.filed_of(EventClass::Cluster, LOCAL).is_some()
    }

    /// Nodes on which no task may begin.
    pub(super) fn barred_nodes(&self) -> impl Iterator<Item = &str> {
        let of_nodes = self.filed.values().filter(|event| event.class == EventClass::Node);
        of_nodes.map(|event| event.name.as_str())
    }

    /// Enters an event with a new number.
    pub(super) fn file(&mut self, event: GridEvent, now: Now) {
        self.next_filed = self.next_filed.max(event.id + 1);
        self.dirty.filed.push(event.clone());
        if event.class == EventClass::Log {
            // A remark has no end.
            return;
        }
        let (id, class, name) = (event.id, event.class, Name::from(event.name.as_str()));
        let place = if class == EventClass::Cluster { place_of(&name) } else { name.clone() };
        self.filed.insert(id, event);
        self.dirty.settle.extend(self.campaigns.keys());
        for campaign in self.campaigns.values_mut() {
            if let Some(row) = campaign.fault_of(&place) {
                row.parent = Some(id);
                self.dirty.faults.push(row.clone());
            }
        }
        if class != EventClass::Node {
            return;
        }
        let shares = self.by_node.get(&name).cloned().unwrap_or_default();
        for share in shares {
            self.stop_slot(share, StopReason::Drained, true, now);
        }
    }

    /// Closes an event, the events that it caused, and the faults of campaigns that belong to it.
    pub(super) fn close_filed(&mut self, id: u64, now: Now) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let Some(event) = self.filed.remove(&id) else { continue };
            self.dirty.filed.push(GridEvent { closed_ms: Some(now.wall_ms), ..event });
            let caused = self.filed.values().filter(|event| event.parent == Some(id));
            open.extend(caused.map(|event| event.id));
            let numbers: Vec<u64> = self.campaigns.keys().copied().collect();
            for number in numbers {
                self.mend_with(number, id, now);
            }
        }
        self.dirty.settle.extend(self.campaigns.keys());
    }

    /// Files an event of a node on which campaigns of several users have faults.
    pub(super) fn file_bad_node(&mut self, node: &Name, now: Now) {
        let (class, name) = subject_of(node);
        if self.filed_of(class, name.as_str()).is_some() {
            return;
        }
        let avoids = self.campaigns.values().filter(|campaign| !campaign.may_use(node));
        let owners: Vec<&str> = avoids.map(|campaign| campaign.facts.owner.as_str()).collect();
        let different: BTreeSet<&str> = owners.iter().copied().collect();
        if owners.len() < BAD_CAMPAIGNS || different.len() < BAD_OWNERS {
            return;
        }
        let text = format!(
            "{} campaigns of {} users avoid {node}: no task begins there until an operator closes event {}",
            owners.len(),
            different.len(),
            self.next_filed
        );
        let code = if class == EventClass::Node { "bad-node" } else { "bad-cluster" };
        self.file_own((class, &name), code, text, now);
    }

    /// Files an event that the orchestrator found by itself.
    pub(super) fn file_own(
        &mut self,
        (class, name): (EventClass, &Name),
        code: &str,
        text: String,
        now: Now,
    ) {
        let event = GridEvent {
            id: self.next_filed,
            class,
            name: name.to_string(),
            code: code.to_owned(),
            who: "apportion".to_owned(),
            opened_ms: now.wall_ms,
            closed_ms: None,
            parent: None,
            text,
        };
        self.file(event, now);
    }

    /// Notes the end of a fault.
    pub(super) fn note_mended(&mut self, id: u64, node: &Name, text: String) {
        let (node, code) = (Some(node.clone()), "node-mended");
        self.dirty.notes.push(Note { campaign: id, task: None, node, code, text });
        self.dirty.settle.insert(id);
    }
}
