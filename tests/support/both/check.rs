//! Compares the orchestrator's publications with the oracle's expectation.

use std::collections::{BTreeMap, BTreeSet};

use apportion::model::{JobFacts, JobId, ProcessLimit, ShareFacts, ShareId};
use apportion::orchestrator::book::{PublishedSlot, PublishedWork, SlotState};
use apportion::orchestrator::wire::SlotStage;

use super::World;
use super::oracle::{Expected, Share};

impl World {
    /// Enters the shares that the orchestrator publishes as gone. T5: nothing of them runs.
    pub(super) fn see_gone(&mut self) {
        let alive = self.alive();
        for share in self.book.gone() {
            assert!(!alive.contains(&share), "T5: share {share} is told gone, and lives");
            self.oracle.gone(share);
        }
        self.oracle.settle();
    }

    /// Shares whose slots live.
    fn alive(&self) -> BTreeSet<u64> {
        let slots = self.nodes.iter().flat_map(|node| &node.slots);
        slots.filter(|(_, slot)| slot.lives()).map(|(share, _)| *share).collect()
    }

    /// Recounts everything that the orchestrator says.
    pub fn recount(&mut self) {
        let told = self.book.clone().publication(self.now);
        self.tell(&told);
        for (id, bag) in &self.oracle.bags {
            let row = &self.rows.campaigns[id];
            let counts = bag.counts();
            assert_eq!(
                [row.done, row.failed, row.cancelled, row.dropped],
                counts,
                "T3, T11: {row:?}"
            );
            let total: u64 = counts.iter().sum::<u64>() + bag.live();
            assert_eq!(total, row.total, "T4: {row:?}");
            assert_eq!(row.state.is_final(), self.oracle.is_over(*id), "{row:?}");
        }
    }

    /// T10: published work equals the count here.
    pub(super) fn tell(&mut self, told: &[PublishedWork]) {
        let mut expected = self.oracle.expected(self.now);
        let mut works = BTreeMap::new();
        for work in told {
            let key = (work.submitted_ms, work.memory_mb);
            let found = expected.remove(&key);
            let ((campaign, step), expected) =
                found.unwrap_or_else(|| panic!("nothing is left of it: {work:?}"));
            let place = (campaign, step);
            assert_eq!(*self.numbers.entry(work.work).or_insert(place), place, "a number again");
            works.insert(work.work, place);
            assert_eq!(said(work), expected, "T10: {work:?}");
            let bag = &self.oracle.bags[&campaign];
            let always = (work.user.as_str(), &work.class, work.threads, work.is_kept);
            let spec = &bag.spec;
            assert_eq!(always, (bag.owner, &spec.class, spec.lanes, spec.keep), "{work:?}");
            self.tell_slots(place, &work.slots);
        }
        assert!(expected.is_empty(), "T4, T10: not told: {expected:?}");
        let published = told.iter().flat_map(|work| &work.slots);
        let live: BTreeSet<u64> =
            published.filter(|slot| slot.state != SlotState::Gone).map(|slot| slot.share).collect();
        for share in self.alive() {
            assert!(live.contains(&share), "T5: share {share} lives, and is not told");
        }
        self.works = works;
    }

    fn tell_slots(&self, (campaign, step): (u64, u64), slots: &[PublishedSlot]) {
        let (gone, live): (Vec<_>, Vec<_>) =
            slots.iter().partition(|slot| slot.state == SlotState::Gone);
        let told: BTreeSet<u64> = live.iter().map(|slot| slot.share).collect();
        assert_eq!(told, self.oracle.live_shares(campaign, step), "shares of {campaign}, {step}");
        assert_eq!(told.len(), live.len(), "a share is told twice");
        for slot in gone {
            assert_eq!((slot.investment_ms, self.oracle.shares[&slot.share].is_gone), (0, true));
        }
        for slot in live {
            let share = &self.oracle.shares[&slot.share];
            self.tell_slot(slot, share);
        }
    }

    fn tell_slot(&self, slot: &PublishedSlot, share: &Share) {
        let real = share.investment(self.now);
        let is_right = match share.guessed_since {
            // Since its start the orchestrator has not heard how long it ran before.
            Some(_) => slot.investment_ms <= real,
            None => slot.investment_ms == real,
        };
        assert!(is_right, "T10: {slot:?} has {real} ms to lose: {share:?}");
        let so_far = self.now - share.ordered;
        assert_eq!(slot.initialization_ms, share.prepared_ms.unwrap_or(so_far), "T10: {slot:?}");
        assert_eq!(slot.node, share.node);
        let may_be = match slot.state {
            SlotState::Ordered => share.stage.is_none(),
            SlotState::Starting => share.stage == Some(SlotStage::Starting),
            SlotState::Preparing => share.stage == Some(SlotStage::Preparing),
            SlotState::Working => share.stage == Some(SlotStage::Working),
            SlotState::Idle | SlotState::Gone => false,
            SlotState::Stopping => true,
        };
        assert!(may_be, "T10: {slot:?} is {share:?}");
        assert!(!share.has_to_go || slot.state == SlotState::Stopping, "{slot:?} has to go");
    }

    /// T10: the scheduler has the published facts, and nothing else.
    pub(super) fn compare(&self, told: &[PublishedWork]) {
        let state = self.manager.state();
        assert!(state.limbo.is_empty(), "{:?}", state.limbo);
        let jobs: BTreeMap<JobId, _> = state.jobs.iter().map(|job| (job.spec.id, job)).collect();
        let works: BTreeSet<JobId> = told.iter().map(|work| JobId(work.work)).collect();
        assert_eq!(jobs.keys().copied().collect::<BTreeSet<_>>(), works);
        let expected = self.oracle.expected(self.now);
        for work in told {
            let job = jobs[&JobId(work.work)];
            let (_, expected) = &expected[&(work.submitted_ms, work.memory_mb)];
            assert_eq!(job.spec.facts, facts(expected), "T10: {work:?}");
            let booked: BTreeMap<ShareId, ShareFacts> =
                job.shares.iter().chain(&job.purged).map(|share| (share.id, share.facts)).collect();
            for slot in &work.slots {
                let known = booked.get(&ShareId(slot.share));
                if slot.state == SlotState::Gone {
                    assert_eq!(known, None, "{slot:?} takes room");
                    continue;
                }
                let known = known.unwrap_or_else(|| panic!("{slot:?} takes no room"));
                let was_purged = self.manager.purged.contains(&ShareId(slot.share));
                assert!(was_purged || *known == facts_of(slot), "T10: {slot:?} is {known:?}");
            }
        }
    }
}

fn said(work: &PublishedWork) -> Expected {
    Expected {
        remaining: work.remaining,
        has_begun: work.has_begun,
        is_frozen: work.is_frozen,
        is_completing: work.is_completing,
        max: work.max,
        mean: work.time_per_item_ms,
    }
}

fn facts(expected: &Expected) -> JobFacts {
    JobFacts {
        remaining: expected.remaining,
        limit: match expected.max {
            _ if expected.is_frozen => ProcessLimit::Frozen,
            Some(most) => ProcessLimit::AtMost(most),
            None => ProcessLimit::Unlimited,
        },
        is_running: expected.has_begun,
        time_per_item: (0 < expected.mean).then_some(expected.mean),
        is_completing: expected.is_completing,
    }
}

fn facts_of(slot: &PublishedSlot) -> ShareFacts {
    let is_initialized = match slot.state {
        SlotState::Working | SlotState::Idle => true,
        SlotState::Stopping => 0 < slot.investment_ms,
        SlotState::Ordered | SlotState::Starting | SlotState::Preparing | SlotState::Gone => false,
    };
    let (initialization, investment) = (slot.initialization_ms, slot.investment_ms);
    ShareFacts { is_initialized, initialization, investment }
}
