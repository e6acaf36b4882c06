//! Old output goes: seven days after the end of its slot.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::sync::Arc;
use std::time::Duration;

use super::node::LocalNode;

/// Time that output is kept after the end of its slot.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// Removes the folders of slots that are forgotten and old. Processes of their users do it.
pub(super) fn remove_old(node: &Arc<LocalNode>) {
    // Without the records, old slots cannot be told from running slots.
    let Ok(records) = node.records.all() else { return };
    let kept: BTreeSet<&str> = records.iter().map(|record| record.slot.as_str()).collect();
    let is_old = |metadata: &Metadata| {
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age > RETENTION)
    };
    for (slot, metadata) in node.spool.all() {
        if kept.contains(slot.as_str()) || !is_old(&metadata) {
            continue;
        }
        let node = Arc::clone(node);
        tokio::spawn(async move {
            if let Err(why) = node.clear(&slot).await {
                tracing::warn!(slot, why, "cannot remove old output");
            }
        });
    }
}
