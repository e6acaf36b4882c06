//! Two publications in, the difference as scheduling events out.
//!
//! Recovery after a restart is the difference to nothing: all work arrives, and every process is
//! seen for the first time.

use std::collections::BTreeMap;

use super::{CheckedPublication, JobState, LimboProcess, PublishedJob, PublishedProcess};
use crate::model::{JobFacts, JobId, ShareId};
use crate::scheduler::SchedulerEvent;

/// The events that lead from `previous` to `current`: first what makes space, then what needs it,
/// each in job order.
///
/// A job is taken in while it is schedulable or ending. It also stays in while a process of it
/// runs, in any state: processes occupy space.
///
/// Design: "Incoming Work".
pub fn events_between(
    previous: Option<&CheckedPublication>,
    current: &CheckedPublication,
) -> Vec<SchedulerEvent> {
    let nothing = BTreeMap::new();
    let before = previous.map_or(&nothing, |publication| &publication.work);
    let mut events = Vec::new();
    for (&job, old) in before.iter().filter(|(_, old)| is_ours(old)) {
        match current.work.get(&job).filter(|new| is_continued(old, new)) {
            None => events.push(SchedulerEvent::JobCompleted { job }),
            Some(new) => events.extend(exits(job, old, new)),
        }
    }
    for (&job, new) in current.work.iter().filter(|(_, new)| is_ours(new)) {
        let old = before.get(&job).filter(|old| is_ours(old) && is_continued(old, new));
        events.extend(news_of(old, new));
        events.extend(old.and_then(|old| change_of_times(old, new)));
        events.extend(old.and_then(|old| change_of_exceptions(old, new)));
        events.extend(sightings(job, old, new));
    }
    let limbo_before = previous.map(|publication| &publication.limbo);
    events.extend(limbo_between(limbo_before, &current.limbo));
    events
}

/// Events of processes whose job cannot be parsed. A process whose job could be parsed again has
/// left limbo before.
fn limbo_between(
    before: Option<&BTreeMap<ShareId, LimboProcess>>,
    current: &BTreeMap<ShareId, LimboProcess>,
) -> Vec<SchedulerEvent> {
    let nothing = BTreeMap::new();
    let before = before.unwrap_or(&nothing);
    let gone = before.keys().filter(|share| !current.contains_key(share));
    let seen = current.iter().filter(|(share, process)| before.get(share) != Some(process));
    let gone = gone.map(|&share| SchedulerEvent::LimboShareGone { share });
    let seen = seen.map(|(&share, process)| SchedulerEvent::LimboShareSeen {
        share,
        node: process.node.clone(),
        memory: process.memory,
    });
    gone.chain(seen).collect()
}

/// True if `new` is the same job as `old`. If a permanent property differs, `new` is another job
/// under the same number: the old job ends and the new job arrives.
fn is_continued(old: &PublishedJob, new: &PublishedJob) -> bool {
    is_ours(new) && new.changed_field(old).is_none()
}

/// True if the job concerns the scheduler.
fn is_ours(work: &PublishedJob) -> bool {
    match work.state {
        JobState::Schedulable | JobState::Completing => true,
        JobState::NotReady | JobState::Completed => live(work).next().is_some(),
    }
}

/// Processes that occupy their shares.
fn live(work: &PublishedJob) -> impl Iterator<Item = (ShareId, &PublishedProcess)> {
    work.processes
        .iter()
        .filter(|(_, process)| !process.is_gone)
        .map(|(&share, process)| (share, process))
}

/// Shares whose process ended since `old`: shown there and absent now, or shown as gone for the
/// first time. A share that was never shown has not ended; its assignment is on its way.
fn exits(job: JobId, old: &PublishedJob, new: &PublishedJob) -> Vec<SchedulerEvent> {
    let vanished =
        live(old).map(|(share, _)| share).filter(|share| !new.processes.contains_key(share));
    let is_news = |share: &ShareId| old.processes.get(share).is_none_or(|process| !process.is_gone);
    let ended = new.processes.iter().filter(|(share, process)| process.is_gone && is_news(share));
    let mut shares: Vec<ShareId> = vanished.chain(ended.map(|(&share, _)| share)).collect();
    shares.sort_unstable();
    shares.into_iter().map(|share| SchedulerEvent::ShareExited { job, share }).collect()
}

/// Event for a new job, or for changed facts of a known job.
fn news_of(old: Option<&PublishedJob>, new: &PublishedJob) -> Option<SchedulerEvent> {
    let facts = facts_after(old, new);
    match old {
        None => {
            let mut spec = new.spec.clone();
            spec.facts = facts;
            Some(SchedulerEvent::JobArrived(spec))
        }
        Some(old) if facts_after(None, old) != facts => {
            Some(SchedulerEvent::JobChanged { job: new.spec.id, facts })
        }
        Some(_) => None,
    }
}

/// Event for a known job whose owner changed its times.
fn change_of_times(old: &PublishedJob, new: &PublishedJob) -> Option<SchedulerEvent> {
    let times = new.spec.times();
    let is_changed = old.spec.times() != times;
    is_changed.then_some(SchedulerEvent::JobRetimed { job: new.spec.id, times })
}

/// Event for a known job whose owner excepts other nodes than before.
fn change_of_exceptions(old: &PublishedJob, new: &PublishedJob) -> Option<SchedulerEvent> {
    let nodes = &new.spec.except_nodes;
    let is_changed = old.spec.except_nodes != *nodes;
    is_changed.then(|| SchedulerEvent::JobExcepted { job: new.spec.id, nodes: nodes.clone() })
}

/// Facts of `new` as the scheduler should take them. Only a schedulable job may grow. A job that
/// has run stays a job that has run.
fn facts_after(old: Option<&PublishedJob>, new: &PublishedJob) -> JobFacts {
    JobFacts {
        is_running: new.spec.facts.is_running || old.is_some_and(|old| old.spec.facts.is_running),
        is_completing: new.spec.facts.is_completing || new.state != JobState::Schedulable,
        ..new.spec.facts
    }
}

/// Live processes that are new or changed.
fn sightings(job: JobId, old: Option<&PublishedJob>, new: &PublishedJob) -> Vec<SchedulerEvent> {
    let is_known = |share: ShareId, process: &PublishedProcess| {
        old.and_then(|old| old.processes.get(&share)) == Some(process)
    };
    live(new)
        .filter(|(share, process)| !is_known(*share, process))
        .map(|(share, process)| SchedulerEvent::ShareSeen {
            job,
            share,
            node: process.node.clone(),
            facts: process.facts,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::NodeTagging;
    use crate::model::Tags;
    use crate::model::{
        IxVec, JobKind, JobSpec, JobTimes, Mebibytes, Nodepool, ProcessLimit, Quantum, Settings,
        Shape, ShareFacts, Topology,
    };
    use crate::scheduler::Scheduler;

    /// Reads `7?` as job 7 in state not ready, `7` as schedulable, `7~` as completing, `7!` as
    /// completed. `7r` has run; `7c` is of another class. `7:12,13x` has a process in share 12 and
    /// an ended process in share 13. `12i` has initialized. `7d5b6e9` runs for 5 ms, not before 6 and
    /// until 9.
    fn publication(text: &str) -> CheckedPublication {
        let work = text.split_whitespace().map(work).map(|work| (work.spec.id, work)).collect();
        CheckedPublication { sequence: 1, work, limbo: BTreeMap::new() }
    }

    fn work(text: &str) -> PublishedJob {
        let (head, processes) = text.split_once(':').unwrap_or((text, ""));
        let numbers: String = head.chars().take_while(char::is_ascii_digit).collect();
        let id = JobId(numbers.parse().unwrap());
        let time = |mark: char| {
            let (_, rest) = head.split_once(mark)?;
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
        };
        let times = JobTimes { duration: time('d'), not_before: time('b'), deadline: time('e') };
        let state = match head.chars().last() {
            Some('?') => JobState::NotReady,
            Some('~') => JobState::Completing,
            Some('!') => JobState::Completed,
            _ => JobState::Schedulable,
        };
        let facts = JobFacts {
            remaining: 1,
            limit: ProcessLimit::Unlimited,
            is_running: head.contains('r'),
            time_per_item: None,
            is_completing: false,
        };
        let spec = JobSpec {
            shape: Shape::default().with_times(times).map(Arc::new),
            tags: Tags::default(),
            id,
            user: "ann".into(),
            class: if head.contains('c') { "other" } else { "normal" }.into(),
            kind: JobKind::Job,
            memory: Mebibytes(1),
            threads: 1,
            submitted: 0,
            nodes: Vec::new(),
            except_nodes: Vec::new(),
            service: 0,
            facts,
        };
        let processes = processes.split(',').filter(|text| !text.is_empty()).map(process).collect();
        PublishedJob { spec, state, processes }
    }

    fn process(text: &str) -> (ShareId, PublishedProcess) {
        let share = ShareId(text.trim_end_matches(['x', 'i']).parse().unwrap());
        let facts = ShareFacts { is_initialized: text.ends_with('i'), ..ShareFacts::default() };
        (share, PublishedProcess { node: "n1".into(), is_gone: text.ends_with('x'), facts })
    }

    fn render(event: &SchedulerEvent) -> String {
        let flags = |facts: &JobFacts| {
            let marks = [(facts.is_running, "r"), (facts.is_completing, "~")];
            marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect::<String>()
        };
        match event {
            SchedulerEvent::JobArrived(spec) => format!("+{}{}", spec.id, flags(&spec.facts)),
            SchedulerEvent::JobChanged { job, facts } => format!("={job}{}", flags(facts)),
            SchedulerEvent::JobRetimed { job, times } => {
                let text = |mark: &str, time: Option<u64>| {
                    time.map(|time| format!("{mark}{time}")).unwrap_or_default()
                };
                let JobTimes { duration, not_before, deadline } = *times;
                let length = text("d", duration);
                format!("@{job}{length}{}{}", text("b", not_before), text("e", deadline))
            }
            SchedulerEvent::JobExcepted { job, nodes } => format!("!{job}{}", nodes.join("")),
            SchedulerEvent::JobCompleted { job } => format!("-{job}"),
            SchedulerEvent::ShareSeen { share, .. } => format!("see{share}"),
            SchedulerEvent::ShareExited { share, .. } => format!("exit{share}"),
            SchedulerEvent::LimboShareSeen { share, .. } => format!("limbo{share}"),
            SchedulerEvent::LimboShareGone { share } => format!("unlimbo{share}"),
            SchedulerEvent::NodeReported(_)
            | SchedulerEvent::HeartbeatIntervalPassed
            | SchedulerEvent::NodeMissedHeartbeats { .. }
            | SchedulerEvent::TimeIs { .. }
            | SchedulerEvent::ClassHours { .. }
            | SchedulerEvent::NodeDied { .. } => panic!("no publication says {event:?}"),
        }
    }

    #[test]
    fn processes_of_unreadable_work_come_and_go() {
        let limbo = |shares: &[u64]| CheckedPublication {
            limbo: shares
                .iter()
                .map(|&share| (ShareId(share), LimboProcess { node: "n1".into(), memory: None }))
                .collect(),
            ..CheckedPublication::default()
        };
        let events = |before: &[u64], now: &[u64]| {
            let events = events_between(Some(&limbo(before)), &limbo(now));
            events.iter().map(render).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(events(&[], &[7, 8]), "limbo7 limbo8");
        assert_eq!(events(&[7, 8], &[8]), "unlimbo7");
        assert_eq!(events(&[7], &[7]), "");
    }

    #[track_caller]
    fn check(previous: &str, current: &str, events: &str) {
        let actual = events_between(Some(&publication(previous)), &publication(current));
        let actual = actual.iter().map(render).collect::<Vec<_>>().join(" ");
        assert_eq!(actual, events, "{previous:?} -> {current:?}");
    }

    #[test]
    fn work_comes_changes_and_goes() {
        check("", "", "");
        check("", "1", "+1");
        check("1", "1", "");
        check("1", "1~", "=1~");
        check("1", "1!", "-1");
        check("1", "", "-1"); // forgotten is as good as completed
        check("1!", "", ""); // told once is told
        check("", "1!", ""); // over before we saw it
        check("1", "2", "-1 +2"); // space first, then need
        check("2", "1 3", "-2 +1 +3"); // each in job order
    }

    #[test]
    fn work_that_is_not_ready_is_not_taken_in() {
        check("", "1?", "");
        check("1?", "1", "+1");
        check("1?", "", "");
        check("1", "1?", "-1"); // it changed its mind
        check("1:10", "1?:10", "=1~"); // but while a process runs, its space is taken
        check("1?:10", "1:10", "=1");
    }

    #[test]
    fn what_has_run_has_run() {
        check("1", "1r", "=1r");
        check("1r", "1", ""); // it never falls back
        check("1r", "1~", "=1r~");
    }

    #[test]
    fn times_of_known_work_change() {
        check("", "1d5", "+1"); // an arrival says its times itself
        check("1d5", "1d5", "");
        check("1d5", "1d9", "@1d9");
        check("1d9:10", "1d5:10", "@1d5"); // also while it runs
        check("1", "1d5b6e9", "@1d5b6e9");
        check("1d5b6e9", "1d5e9", "@1d5e9");
        check("1d5", "1", "@1"); // no length is declared any more
        check("1d5", "1rd6", "=1r @1d6");
        check("1d5:10", "1d6:10i", "@1d6 see10");
        check("1d5", "1cd6", "-1 +1"); // other work brings its own
        check("1d5 2", "1d6 2 3", "@1d6 +3"); // in job order
        check("1d5", "1d6!", "-1");
    }

    #[test]
    fn processes_come_change_and_go() {
        check("", "1:10", "+1 see10");
        check("1", "1:10", "see10");
        check("1:10", "1:10", "");
        check("1:10", "1:10i", "see10");
        check("1:10", "1:10x", "exit10");
        check("1:10", "1", "exit10");
        check("1:10x", "1", ""); // told once is told
        check("1:10x", "1:10x", "");
        check("1", "1:10x", "exit10"); // started and ended between two publications
        check("", "1:10x", "+1"); // ended before we were told of the work: no share of ours
        check("1:10x", "1:10", "see10"); // it reappeared alive: it counts again
        check("1:10,11", "1:11,12", "exit10 see12");
        check("1:10 2", "1 2 3", "exit10 +3"); // space first, then need
    }

    #[test]
    fn completed_work_stays_while_its_processes_do() {
        check("1:10", "1!:10", "=1~");
        check("1!:10", "1!:10", "");
        check("1!:10,11", "1!:11", "exit10");
        check("1!:10", "1!:10x", "-1");
        check("1!:10", "1!", "-1");
        check("", "1!:10", "+1~ see10"); // recovered: the space is occupied
    }

    #[test]
    fn a_share_never_shown_has_not_ended() {
        check("1", "1", "");
        check("1~", "1~", "");
    }

    #[test]
    fn other_work_under_the_same_number_is_new_work() {
        check("1", "1c", "-1 +1");
        check("1:10 2", "1c:10 2", "-1 +1 see10");
    }

    #[test]
    fn recovery_is_the_difference_to_nothing() {
        let current = publication("1:10,11i 2 3! 4?");
        let events = events_between(None, &current);
        assert_eq!(events.iter().map(render).collect::<Vec<_>>(), ["+1", "see10", "see11", "+2"]);
    }

    /// Publication restored from the state of a scheduler that got `text`.
    fn as_booked(text: &str) -> CheckedPublication {
        let topology = Topology {
            tagging: NodeTagging::default(),
            settings: Settings::default(),
            pools: vec![Nodepool {
                name: "main".into(),
                parent: None,
                search_order: 100,
                quantum: Quantum::new(Mebibytes(1)).unwrap(),
                nodes: Vec::new(),
            }]
            .into(),
            classes: IxVec::default(),
            allotments: BTreeMap::new(),
        };
        let mut scheduler = Scheduler::new(topology, ShareId(1));
        for event in events_between(None, &publication(text)) {
            scheduler.record(event);
        }
        CheckedPublication::of_state(&scheduler.state())
    }

    /// After a restart the first publication is compared with the state.
    #[test]
    fn what_is_on_record_differs_in_nothing_that_matters() {
        for (text, events) in [
            ("1:10,11i 2 5r 6c", ""),
            ("5~:20 7!:70 8?:80", ""),
            ("3! 4?", ""),
            ("1:10,11x", "exit11"), // told once more, and known to be gone
        ] {
            let actual = events_between(Some(&as_booked(text)), &publication(text));
            assert_eq!(actual.iter().map(render).collect::<Vec<_>>().join(" "), events, "{text}");
        }
        let actual = events_between(Some(&as_booked("1d5:10 2b3")), &publication("1d6:10 2b3"));
        assert_eq!(actual.iter().map(render).collect::<Vec<_>>(), ["@1d6"], "changed meanwhile");
        let actual = events_between(Some(&as_booked("1:10,11 2 3")), &publication("1:11i 3r 4"));
        let actual: Vec<String> = actual.iter().map(render).collect();
        assert_eq!(actual, ["exit10", "-2", "see11", "=3r", "+4"]);
    }

    #[test]
    fn equal_publications_differ_in_nothing() {
        for text in ["1:10,11x 2~:20 3! 4? 5r", "7!:70 8?:80"] {
            check(text, text, "");
        }
    }
}
