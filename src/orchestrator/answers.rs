//! Answers to agents: adds parameters of tasks, specifications and requests for output to the
//! orders of the book.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::book::{Book, NodeAnswer};
use super::store::{CampaignStore, DbError};
use super::wire::{ExchangeAnswer, OutputRequest, TaskSpec, VERSION};
use crate::model::Name;

/// Chunks of parameters that are kept unpacked.
const CHUNKS: usize = 64;

/// A chunk of parameters: its campaign, its first position, its texts.
type ParamChunk = (u64, u64, Vec<String>);

/// Sources of answers besides the book.
#[derive(Debug)]
pub(super) struct Answers {
    identity: String,
    epoch: u64,
    lease_ms: u64,
    /// The chunks used last, the latest at the end.
    chunks: VecDeque<ParamChunk>,
    /// Campaigns whose tasks have their numbers only.
    bare: BTreeSet<u64>,
    outputs: BTreeMap<Name, Vec<OutputRequest>>,
}

impl Answers {
    pub fn new(identity: String, epoch: u64, lease_ms: u64) -> Answers {
        let (chunks, bare, outputs) = (VecDeque::new(), BTreeSet::new(), BTreeMap::new());
        Answers { identity, epoch, lease_ms, chunks, bare, outputs }
    }

    /// Forgets the cached parameters of a campaign that gets more tasks.
    pub fn forget(&mut self, campaign: u64) {
        self.chunks.retain(|chunk| chunk.0 != campaign);
        self.bare.remove(&campaign);
    }

    /// Asks a node for output, with every answer until its first chunk arrives.
    pub fn want(&mut self, node: Name, request: OutputRequest) {
        self.outputs.entry(node).or_default().push(request);
    }

    /// Enters that a node has sent the first chunk of a request.
    pub fn heard(&mut self, node: &Name, request: u64) {
        if let Some(outputs) = self.outputs.get_mut(node) {
            outputs.retain(|known| known.request != request);
        }
    }

    /// True if the node has to send output.
    pub fn has_outputs(&self, node: &Name) -> bool {
        self.outputs.get(node).is_some_and(|outputs| !outputs.is_empty())
    }

    /// An answer that starts nothing: levels only.
    pub fn without_tasks(&self, answer: NodeAnswer) -> ExchangeAnswer {
        let mut slots = answer.slots;
        // A slot that is not started yet is omitted: the next complete answer contains its start.
        // From an order without a start, an agent concludes that it has lost the slot.
        slots.retain(|slot| slot.start.is_none());
        for slot in &mut slots {
            slot.tasks.clear();
        }
        self.framed(slots)
    }

    fn framed(&self, slots: Vec<super::wire::SlotOrder>) -> ExchangeAnswer {
        ExchangeAnswer {
            v: VERSION,
            orchestrator: self.identity.clone(),
            epoch: self.epoch,
            lease_ms: self.lease_ms,
            slots,
            specs: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }

    /// The whole answer for a node.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub async fn complete(
        &mut self,
        node: &Name,
        answer: NodeAnswer,
        book: &Book,
        store: &mut CampaignStore,
    ) -> Result<ExchangeAnswer, DbError> {
        let mut whole = self.framed(answer.slots);
        let mut specs: BTreeMap<u64, TaskSpec> = BTreeMap::new();
        for slot in &mut whole.slots {
            let started = slot.start.as_ref().map(|start| (start.spec, start.campaign));
            let tasks = slot.tasks.first().map(|task| (task.spec, task.task.campaign));
            if let Some((number, campaign)) = started.or(tasks)
                && let Some(campaign) = book.campaigns().get(&campaign)
            {
                specs.entry(number).or_insert_with(|| campaign.spec.task.clone());
            }
            for task in &mut slot.tasks {
                let id = task.task;
                let Some(campaign) = book.campaigns().get(&id.campaign) else { continue };
                if let Some(gang) = &mut task.gang {
                    gang.key = store.gang_key(id.campaign).await?;
                    continue;
                }
                if let Some(position) = campaign.spec.tasks.position(id.task) {
                    task.param = self.param(store, id.campaign, position).await?;
                }
            }
        }
        whole.specs = specs;
        whole.outputs = self.outputs.get(node).cloned().unwrap_or_default();
        Ok(whole)
    }

    /// The parameter of a task.
    async fn param(
        &mut self,
        store: &mut CampaignStore,
        campaign: u64,
        position: u64,
    ) -> Result<Option<String>, DbError> {
        let at = |chunk: &ParamChunk| {
            let offset = position.checked_sub(chunk.1)?;
            chunk.2.get(usize::try_from(offset).ok()?).cloned()
        };
        let of = |chunk: &&ParamChunk| chunk.0 == campaign && chunk.1 <= position;
        let known = self.chunks.iter().filter(of).find_map(at);
        if known.is_some() || self.bare.contains(&campaign) {
            return Ok(known);
        }
        let Some((first, texts)) = store.params(campaign, position).await? else {
            self.bare.insert(campaign);
            return Ok(None);
        };
        if CHUNKS <= self.chunks.len() {
            self.chunks.pop_front();
        }
        let chunk = (campaign, first, texts);
        let found = at(&chunk);
        self.chunks.push_back(chunk);
        Ok(found)
    }
}
