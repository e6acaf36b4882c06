//! A journal entry, as written.

use serde::{Deserialize, Serialize};

use super::calendar::WindowText;
use super::shape::is_default;
use super::topology::TopologyText;
use super::work::{Facts, ProcessText, ReportText, Spec};
use crate::journal::JournalEntry;
use crate::model::{JobId, JobTimes, Mebibytes, Millis, Name, ShareId};
use crate::scheduler::checkpoint::HeartbeatExceptions;
use crate::scheduler::{AdminCommand, SchedulerEvent};

/// A line of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Node(ReportText),
    Interval {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        silent: Vec<Name>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        back: Vec<Name>,
    },
    Missed {
        node: Name,
        missed: u32,
    },
    Died {
        node: Name,
    },
    Arrived(Box<Spec>),
    Changed {
        job: u64,
        facts: Facts,
    },
    Retimed {
        job: u64,
        #[serde(default, skip_serializing_if = "is_default")]
        duration: Option<Millis>,
        #[serde(default, skip_serializing_if = "is_default")]
        not_before: Option<Millis>,
        #[serde(default, skip_serializing_if = "is_default")]
        deadline: Option<Millis>,
    },
    Excepted {
        job: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<Name>,
    },
    Completed {
        job: u64,
    },
    Seen {
        job: u64,
        share: u64,
        node: Name,
        facts: ProcessText,
    },
    LimboSeen {
        share: u64,
        node: Name,
        memory_mb: Option<u64>,
    },
    LimboGone {
        share: u64,
    },
    Exited {
        job: u64,
        share: u64,
    },
    VaryOff {
        nodes: Vec<String>,
        reason: String,
    },
    VaryOn {
        nodes: Vec<String>,
    },
    NodesLost {
        nodes: Vec<String>,
        reason: String,
    },
    NodesForgotten {
        nodes: Vec<String>,
        reason: String,
    },
    Reserved {
        window: Box<WindowText>,
        #[serde(default, skip_serializing_if = "is_default")]
        forced: bool,
    },
    Unreserved {
        name: Name,
    },
    Urgent(Box<Spec>),
    Time {
        now: Millis,
    },
    Hours {
        classes: Vec<(Name, Vec<(Millis, Millis)>)>,
    },
    Configured(Box<TopologyText>),
    Restarted,
}

impl From<&JournalEntry> for Line {
    fn from(entry: &JournalEntry) -> Line {
        match entry {
            JournalEntry::Event(event) => event.into(),
            JournalEntry::IntervalPassed(HeartbeatExceptions { silent, back }) => {
                Line::Interval { silent: silent.clone(), back: back.clone() }
            }
            JournalEntry::Command(AdminCommand::VaryOff { nodes, reason }) => {
                Line::VaryOff { nodes: nodes.clone(), reason: reason.clone() }
            }
            JournalEntry::Command(AdminCommand::VaryOn { nodes }) => {
                Line::VaryOn { nodes: nodes.clone() }
            }
            JournalEntry::Command(AdminCommand::NodesLost { nodes, reason }) => {
                Line::NodesLost { nodes: nodes.clone(), reason: reason.clone() }
            }
            JournalEntry::Command(AdminCommand::ForgetNodes { nodes, reason }) => {
                Line::NodesForgotten { nodes: nodes.clone(), reason: reason.clone() }
            }
            JournalEntry::Command(AdminCommand::Reserve { window, is_forced }) => {
                Line::Reserved { window: Box::new((&**window).into()), forced: *is_forced }
            }
            JournalEntry::Command(AdminCommand::Unreserve { name }) => {
                Line::Unreserved { name: name.clone() }
            }
            JournalEntry::Command(AdminCommand::Urgent(spec)) => {
                Line::Urgent(Box::new((&**spec).into()))
            }
            JournalEntry::Command(AdminCommand::Reconfigure(topology)) => {
                Line::Configured(Box::new((&**topology).into()))
            }
            JournalEntry::Restarted => Line::Restarted,
        }
    }
}

impl From<&SchedulerEvent> for Line {
    fn from(event: &SchedulerEvent) -> Line {
        match event {
            SchedulerEvent::NodeReported(report) => Line::Node(report.into()),
            // `JournalEntry::IntervalPassed` has the details; this event alone means that all nodes were
            // heard.
            SchedulerEvent::HeartbeatIntervalPassed => {
                Line::Interval { silent: Vec::new(), back: Vec::new() }
            }
            SchedulerEvent::NodeMissedHeartbeats { node, missed } => {
                Line::Missed { node: node.clone(), missed: *missed }
            }
            SchedulerEvent::NodeDied { node } => Line::Died { node: node.clone() },
            SchedulerEvent::TimeIs { now } => Line::Time { now: *now },
            SchedulerEvent::ClassHours { hours } => Line::Hours { classes: hours.clone() },
            SchedulerEvent::JobArrived(spec) => Line::Arrived(Box::new(spec.into())),
            SchedulerEvent::JobChanged { job, facts } => {
                Line::Changed { job: job.0, facts: facts.into() }
            }
            SchedulerEvent::JobRetimed { job, times } => {
                let JobTimes { duration, not_before, deadline } = *times;
                Line::Retimed { job: job.0, duration, not_before, deadline }
            }
            SchedulerEvent::JobExcepted { job, nodes } => {
                Line::Excepted { job: job.0, nodes: nodes.clone() }
            }
            SchedulerEvent::JobCompleted { job } => Line::Completed { job: job.0 },
            SchedulerEvent::ShareSeen { job, share, node, facts } => {
                Line::Seen { job: job.0, share: share.0, node: node.clone(), facts: facts.into() }
            }
            SchedulerEvent::LimboShareSeen { share, node, memory } => Line::LimboSeen {
                share: share.0,
                node: node.clone(),
                memory_mb: memory.map(|memory| memory.0),
            },
            SchedulerEvent::LimboShareGone { share } => Line::LimboGone { share: share.0 },
            SchedulerEvent::ShareExited { job, share } => {
                Line::Exited { job: job.0, share: share.0 }
            }
        }
    }
}

impl From<Line> for JournalEntry {
    fn from(line: Line) -> JournalEntry {
        let event = match line {
            Line::Interval { silent, back } => {
                return JournalEntry::IntervalPassed(HeartbeatExceptions { silent, back });
            }
            Line::VaryOff { nodes, reason } => {
                return JournalEntry::Command(AdminCommand::VaryOff { nodes, reason });
            }
            Line::VaryOn { nodes } => return JournalEntry::Command(AdminCommand::VaryOn { nodes }),
            Line::NodesLost { nodes, reason } => {
                return JournalEntry::Command(AdminCommand::NodesLost { nodes, reason });
            }
            Line::NodesForgotten { nodes, reason } => {
                return JournalEntry::Command(AdminCommand::ForgetNodes { nodes, reason });
            }
            Line::Reserved { window, forced } => {
                let window = Box::new((*window).into());
                return JournalEntry::Command(AdminCommand::Reserve { window, is_forced: forced });
            }
            Line::Unreserved { name } => {
                return JournalEntry::Command(AdminCommand::Unreserve { name });
            }
            Line::Urgent(spec) => {
                let spec = Box::new((*spec).into());
                return JournalEntry::Command(AdminCommand::Urgent(spec));
            }
            Line::Configured(topology) => {
                return JournalEntry::Command(AdminCommand::Reconfigure(Box::new(
                    (*topology).into(),
                )));
            }
            Line::Restarted => return JournalEntry::Restarted,
            Line::Node(report) => SchedulerEvent::NodeReported(report.into()),
            Line::Missed { node, missed } => SchedulerEvent::NodeMissedHeartbeats { node, missed },
            Line::Time { now } => SchedulerEvent::TimeIs { now },
            Line::Hours { classes } => SchedulerEvent::ClassHours { hours: classes },
            Line::Died { node } => SchedulerEvent::NodeDied { node },
            Line::Arrived(spec) => SchedulerEvent::JobArrived((*spec).into()),
            Line::Changed { job, facts } => {
                SchedulerEvent::JobChanged { job: JobId(job), facts: facts.into() }
            }
            Line::Retimed { job, duration, not_before, deadline } => SchedulerEvent::JobRetimed {
                job: JobId(job),
                times: JobTimes { duration, not_before, deadline },
            },
            Line::Excepted { job, nodes } => SchedulerEvent::JobExcepted { job: JobId(job), nodes },
            Line::Completed { job } => SchedulerEvent::JobCompleted { job: JobId(job) },
            Line::Seen { job, share, node, facts } => SchedulerEvent::ShareSeen {
                job: JobId(job),
                share: ShareId(share),
                node,
                facts: facts.into(),
            },
            Line::LimboSeen { share, node, memory_mb } => SchedulerEvent::LimboShareSeen {
                share: ShareId(share),
                node,
                memory: memory_mb.map(Mebibytes),
            },
            Line::LimboGone { share } => SchedulerEvent::LimboShareGone { share: ShareId(share) },
            Line::Exited { job, share } => {
                SchedulerEvent::ShareExited { job: JobId(job), share: ShareId(share) }
            }
        };
        JournalEntry::Event(event)
    }
}
