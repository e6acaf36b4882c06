//! Tags of nodes: what agents report, and over it what the configuration says.

use std::sync::Arc;

use super::nodes::{NodeKey, NodeTable};
use crate::model::{NodeIx, Tags, Topology};

impl NodeTable {
    /// Merges the tags of a node: reported keys that are allowed, and over them configured ones.
    pub(super) fn find_tags(&mut self, topology: &Topology, node: NodeKey) {
        let record = &mut self.records[node.0];
        let allowed = &topology.tagging.reported;
        let reported = record.report.tags.iter().filter(|(key, _)| allowed.contains(key));
        let mut tags = Tags::of(reported.map(|(key, value)| (key.clone(), value.clone())));
        if let Some(configured) = self.tags.get(&record.report.name) {
            tags.merge(configured);
        }
        record.preference = self.preferences.get(&record.report.name).copied().unwrap_or(0);
        if *record.tags != tags {
            self.records[node.0].tags = self.shared(tags);
            self.have_tags_changed = true;
        }
    }

    /// The tags that equal nodes share, so that they are told apart by their address.
    fn shared(&mut self, tags: Tags) -> Arc<Tags> {
        if let Some(shared) = self.shared_tags.get(&tags) {
            return Arc::clone(shared);
        }
        if 2 * self.records.len() < self.shared_tags.len() {
            self.shared_tags.retain(|tags| 1 < Arc::strong_count(tags));
        }
        let tags = Arc::new(tags);
        self.shared_tags.insert(Arc::clone(&tags));
        tags
    }

    /// Takes note that a snapshot is built. Returns true if tags changed since the one before.
    pub(super) fn take_changed_tags(&mut self) -> bool {
        std::mem::take(&mut self.have_tags_changed)
    }

    /// Rows of the nodes that have all of these tags, ascending.
    pub(super) fn rows_with(&self, asked: &Tags) -> Arc<[NodeIx]> {
        let all = self.by_name().enumerate();
        let suitable = all.filter(|(_, (_, record))| record.tags.satisfy(asked));
        suitable.map(|(row, _)| NodeIx(row)).collect()
    }
}
