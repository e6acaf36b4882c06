//! Intake of publications: checks their order, and computes the changes that each makes.
//!
//! A bad item affects no other item and loses nothing known: it stays as it was in the publication
//! before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use axum::body::Bytes;

use crate::api::http::error::{ApiError, Code, RequestFault};
use crate::api::http::json;
use crate::api::ingest::absence::{Absences, AbsentSums, Filled, Patience, keep_absent};
use crate::api::ingest::discrepancies::ViewShares;
use crate::api::ingest::publishers::{Publisher, Publishers};
use crate::api::ingest::refusals::refused;
use crate::api::ingest::salvage::live_processes;
use crate::api::ingest::urgent_grace::{UrgentGrace, UrgentJobs};
use crate::api::ingest::validate::{NUMBER_MAX, check_work, code_of_field};
use crate::api::limits::Limits;
use crate::api::published::Published;
use crate::api::wire::{PublicationAnswer, PublicationEnvelope, WorkNumber};
use crate::converter::{
    CheckedPublication, JobState, LimboProcess, PublishedJob, PublishedProcess, events_between,
};
use crate::model::{JobId, ShareFacts, ShareId};
use crate::scheduler::{SchedulerEvent, View, admit};

/// Number of earlier jobs above which an empty publication counts as a fault until it is confirmed.
const SUDDEN: usize = 10;

/// Limit of warnings in an answer. Before the nodes have reported, every share may cause a warning.
const WARNINGS_MAX: usize = 1000;

/// Limit of refused items in an answer: it must not become much larger than the publication.
pub(in crate::api) const REFUSED_MAX: usize = 1000;

/// Largest step from a publication's number to the next: a slip must not use up all numbers. Enough
/// for times in microseconds over twelve days.
const JUMP_MAX: u64 = 1 << 40;

/// The first number is at most this: times in microseconds, and half of all numbers to spare.
const FIRST_MAX: u64 = 1 << 52;

/// State that is kept from a publication to the next.
#[derive(Debug)]
pub struct PublicationReader {
    /// The last publication, in full. `None` until the first since the start.
    pub(super) current: Option<CheckedPublication>,
    /// Number of the last publication, also from before the start.
    sequence: Option<u64>,
    /// Terminating shares that still run, each with the cycle in which that was noticed.
    overdue: BTreeMap<ShareId, u64>,
    /// Shares that the last publication left out and that keep their space.
    absences: Absences,
    /// The accepted orchestrator, and the refused ones.
    publishers: Publishers,
    /// Urgent jobs that the next publication may leave out.
    pub(super) grace: UrgentGrace,
    pub(super) limits: Limits,
}

/// A publication that was understood, and what it means.
#[derive(Debug)]
pub struct Taken {
    /// Answer for the orchestrator.
    pub answer: PublicationAnswer,
    /// Changes that the publication makes.
    pub events: Vec<SchedulerEvent>,
    /// The publication; `None` if it was taken in before.
    pub publication: Option<CheckedPublication>,
    /// The shares that should have ended, each with the cycle in which that was noticed.
    pub overdue: BTreeMap<ShareId, u64>,
    /// Shares that the publication leaves out and that keep their space.
    pub absences: Absences,
    /// Orchestrator that is named for the first time, or a new incarnation of it.
    pub publisher: Option<Publisher>,
}

impl Taken {
    /// Returns the numbers of left-out jobs and processes.
    pub fn absent(&self) -> AbsentSums {
        self.absences.counts()
    }
}

impl PublicationReader {
    /// Builds an intake without a publication. Publications up to `sequence` came before the start.
    pub fn new(sequence: Option<u64>, limits: Limits) -> PublicationReader {
        PublicationReader {
            current: None,
            sequence,
            overdue: BTreeMap::new(),
            absences: Absences::default(),
            publishers: Publishers::default(),
            grace: UrgentGrace::default(),
            limits,
        }
    }

    /// Reads `body` and computes its changes. Takes nothing in yet.
    ///
    /// # Errors
    ///
    /// If it is no publication, or comes out of turn; then nothing of it counts.
    pub fn read(&mut self, body: Bytes, published: &Published) -> Result<Taken, ApiError> {
        let envelope: PublicationEnvelope<'_> = json::read_body(&body, code_of_field)?;
        let turn = self.publishers.check(&envelope, self.limits.string)?;
        if turn.is_new_epoch {
            self.reset();
        }
        self.check_turn(envelope.sequence)?;
        if let (None, Some(before)) = (&self.current, published.taken_over.as_deref()) {
            self.grace.resume(before, &published.view);
        }
        let before = self.current.as_ref().or(published.taken_over.as_deref());
        self.check_amount(&envelope, before)?;
        let mut reading = PublicationReading::new(before, &published.view, &self.limits);
        reading.overdue.clone_from(&self.overdue);
        reading.warn_of_gap(self.sequence, envelope.sequence);
        for (index, item) in envelope.work.iter().enumerate() {
            reading.read(index, item.get());
        }
        let is_again = self.current.as_ref().is_some_and(|it| it.sequence == envelope.sequence);
        self.grace.fill(&mut reading.work, is_again);
        let mut overdue = std::mem::take(&mut reading.overdue);
        overdue.retain(|share, _| reading.shares.contains_key(share));
        let absences = self.keep_absent(&mut reading, &envelope, before, published);
        let (publication, answer) = reading.finish(envelope.sequence);
        // Freed early: the body may be as large as the parsed publication.
        drop(body);
        if self.current.as_ref().is_some_and(|current| current.sequence == publication.sequence) {
            return self.repeated(&publication, answer);
        }
        let events = events_between(before, &publication);
        let publisher = turn.publisher;
        Ok(Taken { answer, events, publication: Some(publication), overdue, absences, publisher })
    }

    /// Keeps the space of absent shares that the view has. A repeated publication gives up nothing
    /// further.
    fn keep_absent(
        &self,
        reading: &mut PublicationReading<'_>,
        envelope: &PublicationEnvelope<'_>,
        before: Option<&CheckedPublication>,
        published: &Published,
    ) -> Absences {
        let Some(before) = before.filter(|_| !envelope.full && !reading.has_nameless) else {
            return Absences::default();
        };
        let is_again = self.current.as_ref().is_some_and(|it| it.sequence == envelope.sequence);
        let patience = Patience {
            publications: if is_again { u32::MAX } else { self.limits.absent_publications },
            time: self.limits.absent_time,
        };
        let Filled { absences, warnings } = keep_absent(
            &mut reading.work,
            before,
            &published.view,
            &self.absences,
            patience,
            Instant::now(),
        );
        for warning in warnings {
            reading.warn(warning);
        }
        absences
    }

    /// Returns the accepted orchestrator, and the refused ones.
    pub fn publishers(&mut self) -> &mut Publishers {
        &mut self.publishers
    }

    /// Lets the next publication have any number, like a first publication.
    pub fn reset(&mut self) {
        self.sequence = None;
        if let Some(current) = &mut self.current {
            // No publication has this number, so that none is taken for the same again.
            current.sequence = u64::MAX;
        }
    }

    /// Takes a publication in.
    pub fn keep(
        &mut self,
        publication: CheckedPublication,
        overdue: BTreeMap<ShareId, u64>,
        absences: Absences,
    ) {
        self.overdue = overdue;
        self.absences = absences;
        self.sequence = Some(publication.sequence);
        self.grace.count();
        self.current = Some(publication);
    }

    fn check_turn(&self, sequence: u64) -> Result<(), ApiError> {
        if sequence > NUMBER_MAX {
            let detail = format!(
                "sequence {sequence} leaves no space for those after it; the most is {NUMBER_MAX}"
            );
            return Err(RequestFault::new(Code::BadSequence, "/sequence", detail).into());
        }
        match self.sequence {
            Some(last) if JUMP_MAX < sequence.saturating_sub(last) => {
                let detail = format!(
                    "sequence {sequence} is {} after {last}, the last taken in; at most {JUMP_MAX} is taken for a gap. If it is meant so, an operator lets numbers begin anew with `apportion publication reset`",
                    sequence - last
                );
                Err(RequestFault::new(Code::BadSequence, "/sequence", detail).into())
            }
            None if FIRST_MAX < sequence => {
                let detail = format!(
                    "sequence {sequence} is too high for a first one; the most is {FIRST_MAX}"
                );
                Err(RequestFault::new(Code::BadSequence, "/sequence", detail).into())
            }
            Some(last) if sequence < last => {
                let detail =
                    format!("sequence {sequence} is older than {last}, the last taken in; ignored");
                Err(RequestFault::new(Code::OldSequence, "/sequence", detail).into())
            }
            _ => Ok(()),
        }
    }

    fn check_amount(
        &self,
        envelope: &PublicationEnvelope<'_>,
        before: Option<&CheckedPublication>,
    ) -> Result<(), ApiError> {
        let (given, most) = (envelope.work.len(), self.limits.jobs);
        if given > most {
            let detail = format!(
                "{given} jobs; the limit is {most}, `daemon.limits.max_jobs` in the configuration; nothing was changed"
            );
            return Err(RequestFault::new(Code::TooLarge, "/work", detail).into());
        }
        let is_live = |work: &&PublishedJob| work.state != JobState::Completed;
        let before = before.map_or(0, |before| before.work.values().filter(is_live).count());
        if envelope.full || !envelope.work.is_empty() || before <= SUDDEN {
            return Ok(());
        }
        let detail = format!(
            "work went from {before} requests to none; nothing was changed. If it is meant so, send it with `full: true`"
        );
        Err(RequestFault::new(Code::SuddenlyEmpty, "/work", detail).into())
    }

    /// Accepts the same number again if the content is equal, in any spelling; refuses other
    /// content.
    fn repeated(
        &self,
        publication: &CheckedPublication,
        answer: PublicationAnswer,
    ) -> Result<Taken, ApiError> {
        if self.current.as_ref().is_some_and(|current| are_equivalent(current, publication)) {
            let (events, overdue) = (Vec::new(), BTreeMap::new());
            let absences = Absences::default();
            let publisher = None;
            return Ok(Taken { answer, events, publication: None, overdue, absences, publisher });
        }
        tracing::warn!(publication.sequence, "two publications with one number");
        let detail = format!(
            "sequence {} was taken in with other content, which stands; every new publication needs a higher number",
            publication.sequence
        );
        Err(RequestFault::new(Code::SequenceReused, "/sequence", detail).into())
    }
}

/// True if two publications have the same jobs. The view, not the publication, decides where the
/// shares of their processes are.
fn are_equivalent(one: &CheckedPublication, other: &CheckedPublication) -> bool {
    let is_placed =
        |share: &ShareId| one.work.values().any(|work| work.processes.contains_key(share));
    let unplaced = |publication: &CheckedPublication| -> BTreeSet<ShareId> {
        publication.limbo.keys().copied().filter(|share| !is_placed(share)).collect()
    };
    one.work == other.work && unplaced(one) == unplaced(other)
}

/// A publication while it is read.
struct PublicationReading<'a> {
    before: Option<&'a CheckedPublication>,
    view: &'a View,
    limits: &'a Limits,
    on_record: ViewShares<'a>,
    /// Jobs that came by the channel of urgent work.
    urgent: UrgentJobs,
    /// The shares that should have ended, each with the cycle in which that was noticed.
    overdue: BTreeMap<ShareId, u64>,
    work: BTreeMap<JobId, PublishedJob>,
    /// Index of the item that each job is from. The next field has the job of each share.
    items: HashMap<JobId, usize>,
    shares: HashMap<ShareId, JobId>,
    /// True if an item did not even name its job.
    has_nameless: bool,
    /// Live processes in items that were refused.
    limbo: BTreeMap<ShareId, LimboProcess>,
    /// Live processes on other nodes than their shares are.
    misplaced_processes: BTreeMap<ShareId, LimboProcess>,
    accepted: u64,
    refused: Vec<RequestFault>,
    /// Number of refused items beyond the listed ones.
    refused_unlisted: u64,
    warnings: Vec<RequestFault>,
    /// Number of warnings beyond the listed ones.
    unlisted: u64,
}

impl<'a> PublicationReading<'a> {
    fn new(
        before: Option<&'a CheckedPublication>,
        view: &'a View,
        limits: &'a Limits,
    ) -> PublicationReading<'a> {
        PublicationReading {
            before,
            view,
            limits,
            on_record: ViewShares::new(view),
            urgent: UrgentJobs::of(view),
            overdue: BTreeMap::new(),
            work: BTreeMap::new(),
            items: HashMap::new(),
            shares: HashMap::new(),
            has_nameless: false,
            limbo: BTreeMap::new(),
            misplaced_processes: BTreeMap::new(),
            accepted: 0,
            refused: Vec::new(),
            refused_unlisted: 0,
            warnings: Vec::new(),
            unlisted: 0,
        }
    }

    fn read(&mut self, index: usize, text: &str) {
        let prefix = format!("/work/{index}");
        let before = self.before;
        let urgent = &self.urgent;
        let known =
            |id| (before.and_then(|before| before.work.get(&id)).cloned(), urgent.channel(id));
        let checked = check_work(text, known, &self.view.topology, self.limits)
            .and_then(|(work, warnings)| self.check_unique(&work).map(|()| (work, warnings)));
        match checked {
            Ok((work, warnings)) => {
                for fault in warnings {
                    self.warn(fault.within(&prefix));
                }
                self.take(index, &prefix, work);
            }
            Err(mut fault) => {
                fault.detail.push_str(&self.keep_previous(index, text));
                self.refuse(fault.within(&prefix));
            }
        }
    }

    /// Warns of missing numbers. A publication is whole, so nothing is lost, but an operator should
    /// know.
    fn warn_of_gap(&mut self, last: Option<u64>, sequence: u64) {
        let missing = last.map_or(0, |last| sequence.saturating_sub(last).saturating_sub(1));
        if let (Some(last), 1..) = (last, missing) {
            let detail = format!(
                "sequence {sequence} follows {last}: {missing} between them did not arrive, or were not on record when the daemon ended. This one is whole, so nothing has to be sent again"
            );
            self.warn(RequestFault::new(Code::SequenceGap, "/sequence", detail));
        }
    }

    /// Refuses a job or a share that an earlier item contains, and a share that was issued to
    /// another job.
    fn check_unique(&self, work: &PublishedJob) -> Result<(), RequestFault> {
        let id = work.spec.id;
        if let Some(first) = self.items.get(&id) {
            let detail = format!(
                "job {id} is in this publication twice; the first, at /work/{first}, stands"
            );
            return Err(RequestFault::new(Code::DuplicateWork, "/id", detail));
        }
        let owner = |share| self.shares.get(share).or_else(|| self.on_record.owner(*share));
        let taken = work.processes.keys().find_map(|share| {
            owner(share).filter(|owner| **owner != id).map(|owner| (share, owner))
        });
        match taken {
            None => Ok(()),
            Some((share, owner)) => {
                let detail =
                    format!("job {id} has a process in share {share}, which job {owner} has too");
                Err(RequestFault::new(Code::DuplicateShare, "/processes", detail))
            }
        }
    }

    /// Takes in a parsed job. The answer says if the job may be scheduled, but the scheduler acts
    /// on it. The scheduler keeps a refused job, shows the reason, and schedules it once the
    /// configuration allows it.
    fn take(&mut self, index: usize, prefix: &str, work: PublishedJob) {
        match admit(&self.view.topology, &work.spec, self.urgent.channel(work.spec.id)) {
            Ok(_) => self.accepted += 1,
            Err(refusal) => self.refuse(refused(&work, &refusal).within(prefix)),
        }
        for alarm in self.on_record.alarms(prefix, &work, self.before, &mut self.overdue) {
            self.warn(alarm);
        }
        self.misplaced_processes.extend(self.on_record.misplaced_processes(&work));
        let id = work.spec.id;
        self.items.insert(id, index);
        self.shares.extend(work.processes.keys().map(|&share| (share, id)));
        self.work.insert(id, work);
    }

    /// Keeps the known state despite a bad item. The job stays as it was in the publication before,
    /// and its running processes occupy their space. Returns a note about that.
    fn keep_previous(&mut self, index: usize, text: &str) -> String {
        let live = live_processes(text, self.limits);
        let running = match live.len() {
            0 => "",
            _ => ", and what runs of it takes its space",
        };
        self.limbo.extend(live.iter().cloned());
        let Ok(WorkNumber { id }) = serde_json::from_str(text) else {
            self.has_nameless = true;
            return format!(
                "; it was not taken in{running}. It may be about any work, so that none counts as over because it is absent"
            );
        };
        let id = JobId(id);
        if self.work.contains_key(&id) {
            return String::new();
        }
        if let Some(work) = self.before.and_then(|before| before.work.get(&id)) {
            let mut work = work.clone();
            // These processes are credible: the view has their shares on these nodes.
            let is_on_record = |share: ShareId, node: &str| {
                self.on_record.owner(share) == Some(&id) && self.on_record.has_at(share, node)
            };
            let shown = live.into_iter().filter(|(share, shown)| is_on_record(*share, &shown.node));
            for (share, LimboProcess { node, .. }) in shown {
                let process =
                    PublishedProcess { node, is_gone: false, facts: ShareFacts::default() };
                work.processes.entry(share).or_insert(process);
            }
            self.items.insert(id, index);
            self.work.insert(id, work);
            return format!("; job {id} stays as it was published before{running}");
        }
        format!("; it was not taken in{running}")
    }

    fn refuse(&mut self, fault: RequestFault) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push(fault);
        } else {
            self.refused_unlisted += 1;
        }
    }

    fn warn(&mut self, warning: RequestFault) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(warning);
        } else {
            self.unlisted += 1;
        }
    }

    fn finish(mut self, sequence: u64) -> (CheckedPublication, PublicationAnswer) {
        if let (true, Some(before)) = (self.has_nameless, self.before) {
            // Any absent work may be what the nameless item was about, so none counts as over.
            for (id, work) in &before.work {
                self.work.entry(*id).or_insert_with(|| work.clone());
            }
        }
        let placed: BTreeSet<&ShareId> =
            self.work.values().flat_map(|work| work.processes.keys()).collect();
        let is_placed = |share: &ShareId, process: &LimboProcess| {
            placed.contains(share) || self.on_record.has_at(*share, &process.node)
        };
        self.limbo.retain(|share, process| !is_placed(share, process));
        self.limbo.append(&mut self.misplaced_processes);
        let answer = PublicationAnswer {
            sequence,
            accepted: self.accepted,
            refused: self.refused.into_iter().map(Into::into).collect(),
            refused_unlisted: self.refused_unlisted,
            stored: None,
            warnings: self.warnings.into_iter().map(Into::into).collect(),
            warnings_unlisted: self.unlisted,
        };
        // Once more and at once: the tree is as it grew little more than half full, and it stays.
        let work = self.work.into_iter().collect();
        (CheckedPublication { sequence, work, limbo: self.limbo }, answer)
    }
}
