//! Gangs: campaigns whose ranks begin together and end together.
//!
//! Rank r is task r + 1, and has a slot of its own on a node of its own. A rank whose attempt has
//! ended keeps the state of its task and loses its share, until no attempt of the gang is left. Then
//! all ranks get the same state, the *verdict*. The first end that decides gives the verdict:
//!
//! - If rank 0 alone runs the program, its end decides, and so does the end of any other rank.
//! - If every rank runs the program, the first failure decides, or else the last end.
//!
//! The verdict stops the attempts of all other ranks. A gang that lost a slot is *broken*: all its
//! slots stop, and its work gets another number at the resource manager.

use std::collections::BTreeSet;

use super::campaigns::Campaign;
use super::rows::{AttemptRow, Note, SlotRow, TaskRow, TaskState};
use super::slots::{Held, Slot};
use super::{Book, Now, attempt_of, notes, tries};
use crate::model::count;
use crate::orchestrator::spec::GangSpec;
use crate::orchestrator::wire::{GangKey, RankPlace, RankStart, Reason, StopReason, TaskResult};

/// Time without a task after which a slot of a gang ends by itself, in milliseconds: practically
/// never. The orchestrator stops it, or its lease runs out.
pub(super) const GANG_LINGER_MS: u64 = 1 << 50;

/// Longest time until the agent of a node asks for its slot of a gang, in milliseconds. All other
/// nodes of the gang idle meanwhile.
const AGENT_PATIENCE_MS: u64 = 60_000;

/// A gang, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangState {
    /// The gang, as it was submitted.
    pub spec: GangSpec,
    /// Every rank, in its order.
    pub ranks: Vec<RankState>,
}

/// A rank of a gang, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankState {
    /// Node of the rank. `None`: the rank has no slot.
    pub node: Option<String>,
    /// True if the slot of the rank waits for its attempt, or has one.
    pub is_ready: bool,
    /// True if the gang was stopped as a whole, and the attempt of the rank has not ended.
    pub is_ending: bool,
}

impl Campaign {
    /// Enters the slot of a rank, or removes it.
    pub(super) fn note_rank(&mut self, row: &SlotRow, is_in: bool) {
        let Some(rank) = row.rank else { return };
        if is_in {
            self.ranks.insert(rank, row.share);
        } else if self.ranks.get(&rank) == Some(&row.share) {
            self.ranks.remove(&rank);
        }
    }

    /// The tasks of a gang that have an attempt, or had one since the gang last began.
    pub(super) fn begun_ranks(&self) -> impl Iterator<Item = &TaskRow> {
        let is_begun =
            |row: &&TaskRow| matches!(row.state, TaskState::Assigned | TaskState::Running);
        self.tasks.values().filter(is_begun)
    }
}

impl Book {
    /// The state of the gang of a campaign. `None`: the campaign has none, or is final.
    pub fn gang(&self, id: u64) -> Option<GangState> {
        let campaign = self.campaigns.get(&id)?;
        let spec = campaign.spec.gang.clone()?;
        let state = |rank: u64| {
            let slot = campaign.ranks.get(&rank).and_then(|share| self.slots.get(share));
            let is_ready =
                slot.is_some_and(|slot| !slot.attempts.is_empty() || self.is_ready(slot));
            let has_attempt = slot.is_some_and(|slot| !slot.attempts.is_empty());
            let is_ending = has_attempt && campaign.facts.verdict.is_some();
            RankState { node: slot.map(|slot| slot.row.node.to_string()), is_ready, is_ending }
        };
        let ranks = (0..spec.nodes).map(state).collect();
        Some(GangState { spec, ranks })
    }

    /// True if a slot can begin its rank at once.
    pub(super) fn is_ready(&self, slot: &Slot) -> bool {
        slot.is_open()
            && slot.is_reported
            && 0 < slot.want
            && self.place_of(slot.row.share).is_some()
    }

    /// The places of all ranks. `None` while the book does not know all of them.
    fn places(&self, campaign: &Campaign) -> Option<Vec<RankPlace>> {
        let nodes = campaign.spec.gang.as_ref()?.nodes;
        let place = |rank: u64| self.place_of(*campaign.ranks.get(&rank)?);
        (0..nodes).map(place).collect()
    }

    /// The place of a rank's slot. `None` while the book does not know it.
    ///
    /// An agent that finds no way to the orchestrator by itself, for instance behind a proxy, tells
    /// no address. The slots of its node listen on all addresses, and the name of the node leads there.
    pub(super) fn place_of(&self, share: u64) -> Option<RankPlace> {
        let slot = self.slots.get(&share)?;
        let (node, port) = (slot.row.node.to_string(), slot.port?);
        let address = self.nodes.get(&slot.row.node)?.address.clone();
        Some(RankPlace { address: address.unwrap_or_else(|| node.clone()), node, port })
    }

    /// The part of an order that starts a rank, without its key. `None`: the campaign has no gang,
    /// or the book does not know the places of all its ranks.
    pub(super) fn rank_start(&self, campaign: &Campaign, task: u64) -> Option<RankStart> {
        let gang = campaign.spec.gang.as_ref()?;
        let (rank, every_node) = (GangSpec::rank_of(task), gang.every_node);
        let key = GangKey::default();
        let resize_signal = gang.sizes.as_ref().map(|sizes| sizes.resize_signal);
        let ranks = if gang.is_malleable() {
            self.malleable_places(campaign, rank)
        } else {
            self.places(campaign)
        };
        Some(RankStart { rank, every_node, ranks: ranks?, key, resize_signal })
    }

    /// Gives all ranks of a gang an attempt, if the slots of all of them are ready.
    pub(super) fn assign_gang(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        let Some(gang) = &campaign.spec.gang else { return };
        if gang.is_malleable() {
            return self.assign_malleable(id, now);
        }
        let is_whole = count(&campaign.ranks) == gang.nodes && campaign.slots == gang.nodes;
        let may_begin = campaign.may_begin() && campaign.facts.verdict.is_none();
        if !is_whole || !may_begin || campaign.begun_ranks().next().is_some() {
            return;
        }
        let is_ready = |share: &u64| {
            let slot = self.slots.get(share);
            slot.is_some_and(|slot| slot.attempts.is_empty() && self.is_ready(slot))
        };
        if !campaign.ranks.values().all(is_ready) {
            return;
        }
        let shares: Vec<u64> = campaign.ranks.values().copied().collect();
        if let Some(share) = self.unreachable(&shares) {
            return self.stop_unreachable(share, now);
        }
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let ranks: Vec<(u64, u64)> =
            campaign.ranks.iter().map(|(rank, share)| (*rank, *share)).collect();
        let mut rows: Vec<TaskRow> = Vec::new();
        while let Some(task) = campaign.cursor.take() {
            rows.push(campaign.fresh(task));
        }
        let queued: Vec<u64> = campaign.tasks.keys().copied().collect();
        rows.extend(queued.into_iter().filter_map(|task| campaign.displace(task)));
        rows.sort_by_key(|row| row.task);
        for (row, (_, share)) in rows.iter_mut().zip(ranks) {
            (row.state, row.share, row.cancel) = (TaskState::Assigned, Some(share), false);
            row.attempt += 1;
            campaign.place(row.clone());
        }
        for row in rows {
            self.begin_rank(row, now);
        }
        self.dirty.campaigns.insert(id);
    }

    /// Enters the attempt of a rank.
    pub(super) fn begin_rank(&mut self, row: TaskRow, now: Now) {
        let id = attempt_of(&row);
        let Some(share) = row.share else { return };
        let Some(slot) = self.slots.get_mut(&share) else { return };
        slot.attempts.insert(id, Held::default());
        slot.want = 0;
        slot.row.order += 1;
        let node = slot.row.node.clone();
        self.hungry.remove(&(id.campaign, share));
        self.dirty.slots.insert(share);
        self.dirty.wake.insert(node.clone());
        let assigned_ms = now.wall_ms;
        let attempt = AttemptRow { id, share, node, assigned_ms, result: None, ended_ms: None };
        self.open.insert(id, attempt.clone());
        self.dirty.attempts.insert(id, attempt);
        self.dirty.tasks.insert((id.campaign, id.task), row);
    }

    /// The first of the shares that the others cannot reach: its address is of its own node alone, and
    /// another has an address of another kind.
    pub(super) fn unreachable(&self, shares: &[u64]) -> Option<u64> {
        let places: Option<Vec<RankPlace>> =
            shares.iter().map(|share| self.place_of(*share)).collect();
        let places = places?;
        let is_local = |place: &RankPlace| {
            let address: Option<core::net::IpAddr> = place.address.parse().ok();
            address.is_some_and(|address| address.is_loopback())
        };
        let (share, _) = shares.iter().zip(&places).find(|(_, place)| is_local(place))?;
        let is_mixed = !places.iter().all(is_local);
        Some(*share).filter(|_| is_mixed)
    }

    /// Stops the slot of a rank that other ranks cannot reach.
    pub(super) fn stop_unreachable(&mut self, share: u64, now: Now) {
        let text = "the agent of the node tells an address of this node alone, and the gang has \
                    other nodes; start it with --address";
        self.prepare_failed(share, "no-address", text);
        self.stop_slot(share, StopReason::VariedOff, false, now);
    }

    /// Ends the attempt of a rank. The gang ends with it, or goes on without it.
    pub(super) fn end_rank(&mut self, share: u64, result: TaskResult, now: Now) {
        let id = result.task;
        let Some(campaign) = self.campaigns.get_mut(&id.campaign) else { return };
        if !campaign.is_current(share, id) {
            return self.close_attempt(TaskResult { why: Reason::Superseded, ..result }, now);
        }
        let is_server = campaign.is_malleable() && 0 < GangSpec::rank_of(id.task);
        if is_server && campaign.facts.verdict.is_none() {
            return self.leave_gang(share, result, now);
        }
        let facts = &mut campaign.facts;
        let is_counted = GangSpec::rank_of(id.task) == 0;
        if is_counted && matches!(result.why, Reason::Done | Reason::Exit) {
            facts.ended += 1;
            facts.ended_ms = facts.ended_ms.saturating_add(result.ms);
        }
        facts.rss_mb = facts.rss_mb.max(result.rss_mb);
        let has_verdict = facts.verdict.is_some();
        if let Some(row) = campaign.tasks.get_mut(&id.task) {
            (row.share, row.cancel) = (None, false);
            if !has_verdict {
                row.reason = Some(result.why);
            }
            self.dirty.tasks.insert((id.campaign, id.task), row.clone());
        }
        let decides = !has_verdict || campaign.counts_as_loss(&result);
        if decides && let Some(next) = campaign.decide(&result) {
            self.give_verdict(&next, &result, share);
        }
        if !has_verdict && result.why == Reason::Returned {
            // A node that cannot start its rank keeps the whole gang waiting, so all slots go.
            self.stop_slot(share, StopReason::VariedOff, false, now);
        }
        self.close_attempt(result, now);
        self.conclude(id.campaign);
    }

    /// Enters what becomes of a gang, and stops the attempts of its other ranks.
    fn give_verdict(&mut self, next: &TaskRow, result: &TaskResult, share: u64) {
        let id = next.campaign;
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        campaign.facts.verdict = Some(next.state);
        if next.state == TaskState::Failed {
            self.dirty.notes.push(notes::failed(next, result, &self.slots, share));
        } else if next.state == TaskState::Queued {
            let node = self.slots.get(&share).map(|slot| slot.row.node.clone());
            let place = node.as_ref().map_or("?", |node| node.as_str());
            let (rank, ending) = (GangSpec::rank_of(next.task), result.ending());
            let text =
                format!("rank {rank} on {place}: {ending}; the gang begins again as a whole");
            let (task, code) = (Some(next.task), "gang-again");
            self.dirty.notes.push(Note { campaign: id, task, node, code, text });
        }
        let begun: Vec<u64> = campaign.begun_ranks().map(|row| row.task).collect();
        for task in begun {
            let Some(row) = campaign.tasks.get_mut(&task) else { continue };
            (row.tries, row.losses, row.resubmits) = (next.tries, next.losses, next.resubmits);
            (row.priority, row.reason) = (next.priority, next.reason);
            row.cancel = row.share.is_some();
            if let Some(slot) = row.share.and_then(|share| self.slots.get_mut(&share)) {
                slot.row.order += 1;
                self.dirty.slots.insert(slot.row.share);
                self.dirty.wake.insert(slot.row.node.clone());
            }
            self.dirty.tasks.insert((id, task), row.clone());
        }
        self.dirty.settle.insert(id);
    }

    /// Gives all ranks the state of the verdict, once no attempt of the gang is left.
    fn conclude(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let Some(verdict) = campaign.facts.verdict else { return };
        if campaign.begun_ranks().any(|row| row.share.is_some()) {
            return;
        }
        campaign.facts.verdict = None;
        // The campaign may have been cancelled since the verdict.
        let is_over = campaign.facts.ending.is_some() && verdict == TaskState::Queued;
        let verdict = if is_over { TaskState::Cancelled } else { verdict };
        while let Some(task) = campaign.cursor.take() {
            let row = campaign.fresh(task);
            campaign.place(row);
        }
        let tasks: Vec<u64> = campaign.tasks.keys().copied().collect();
        for task in tasks {
            let Some(row) = campaign.displace(task) else { continue };
            let row = TaskRow { state: verdict, share: None, cancel: false, ..row };
            self.dirty.tasks.insert((id, task), row.clone());
            campaign.place(row);
        }
        self.dirty.settle.insert(id);
    }

    /// Stops all slots of a gang if a slot of it is gone or has to stop.
    pub(super) fn keep_whole(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        let Some(gang) = &campaign.spec.gang else { return };
        if gang.is_malleable() {
            return self.keep_minimum(id, now);
        }
        let is_final = campaign.tasks.is_empty() && !campaign.has_queued();
        if campaign.slots == 0 || is_final {
            return;
        }
        let shares: BTreeSet<u64> = campaign.ranks.values().copied().collect();
        let slots = || shares.iter().filter_map(|share| self.slots.get(share));
        let stop = slots().find_map(|slot| Some((slot.row.stop?, slot.row.drains)));
        let is_short = count(&shares) < gang.nodes;
        let Some((why, drains)) = stop.or(is_short.then_some((StopReason::VariedOff, false)))
        else {
            return;
        };
        let open: Vec<u64> =
            slots().filter(|slot| slot.is_open()).map(|slot| slot.row.share).collect();
        for share in open {
            self.stop_slot(share, why, drains, now);
        }
    }

    /// True if a slot that is to stop serves rank 0 of its gang, which is to stop too and may save
    /// its work meanwhile. Its end ends the slot's attempt.
    pub(super) fn waits_for_leader(&self, share: u64, now: Now) -> bool {
        let served = || {
            let slot = self.slots.get(&share)?;
            let campaign = self.campaigns.get(&slot.row.campaign)?;
            let gang = campaign.spec.gang.as_ref()?;
            let serves = !gang.every_node && 0 < slot.row.rank? && !slot.attempts.is_empty();
            let leader = self.slots.get(campaign.ranks.get(&0)?)?;
            let runs = leader.attempts.values().any(|held| held.begun.is_some());
            let is_silent = self.silence() < now.ms.saturating_sub(leader.renewed);
            // A malleable gang goes on without the slot, unless its leader is to stop, too.
            let ends = !gang.is_malleable() || leader.row.stop.is_some();
            Some(serves && runs && ends && !is_silent)
        };
        served().unwrap_or(false)
    }

    /// Gives up slots of gangs that no agent asks for.
    pub(super) fn give_up_unasked(&mut self, now: Now) {
        let is_unasked = |slot: &&Slot| {
            let is_late = AGENT_PATIENCE_MS < now.ms.saturating_sub(slot.ordered);
            slot.row.rank.is_some() && !slot.is_told && !slot.is_gone() && is_late
        };
        let shares: Vec<u64> =
            self.slots.values().filter(is_unasked).map(|slot| slot.row.share).collect();
        for share in shares {
            let text =
                "no agent there runs work, so the gang cannot begin; start the agent with --run";
            self.prepare_failed(share, "no-agent", text);
            self.end_slot(share, &BTreeSet::new(), now);
        }
    }
}

impl Campaign {
    /// True if a gang that was only stopped turns out to have lost a rank. The resource manager stops
    /// the other ranks of a dead node's gang long before the rank on that node counts as lost.
    fn counts_as_loss(&self, result: &TaskResult) -> bool {
        let row = self.tasks.get(&result.task.task);
        let was_stopped = row
            .is_some_and(|row| matches!(row.reason, Some(Reason::VariedOff | Reason::Preempted)));
        result.why == Reason::Lost && self.facts.verdict == Some(TaskState::Queued) && was_stopped
    }

    /// The task that decides about all ranks after an attempt ended. `None`: the gang goes on.
    fn decide(&self, result: &TaskResult) -> Option<TaskRow> {
        let gang = self.spec.gang.as_ref()?;
        let row = self.tasks.get(&result.task.task)?;
        let is_alone = gang.every_node || GangSpec::rank_of(row.task) == 0;
        let is_done = result.why == Reason::Done;
        if gang.every_node && is_done && self.begun_ranks().any(|row| row.share.is_some()) {
            return None;
        }
        // A rank that serves rank 0 has no end of its own.
        let why = if is_done && !is_alone { Reason::Exit } else { result.why };
        let result = TaskResult { why, ..result.clone() };
        let mut next = row.clone();
        tries::enter(&mut next, &result, &self.spec, self.facts.ending);
        Some(next)
    }
}
