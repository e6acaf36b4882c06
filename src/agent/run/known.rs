//! Slots of this node, as the runner knows them.

use std::collections::BTreeSet;

use tokio::sync::mpsc;

use super::keeper::ToKeeper;
use crate::orchestrator::wire::SlotReport;

/// A slot of the orchestrator on this node.
#[derive(Debug)]
pub(super) struct KnownSlot {
    pub keeper: mpsc::Sender<ToKeeper>,
    pub report: SlotReport,
    /// Number of the last result that the orchestrator acknowledged.
    pub acked: u64,
    /// Answers in a row that did not name it.
    pub unnamed: u32,
    /// Specifications of its orders: it has a right to their input.
    pub specs: BTreeSet<u64>,
    /// Specifications whose input was requested.
    pub inputs: BTreeSet<u64>,
}
