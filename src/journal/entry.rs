//! An entry of the journal: a single input of the scheduler.

use std::fmt;

use crate::model::{Name, counted};
use crate::scheduler::checkpoint::HeartbeatExceptions;
use crate::scheduler::{AdminCommand, CommandError, Scheduler, SchedulerEvent};

/// An input as the journal records it and a replay applies it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// An event of the scheduler.
    Event(SchedulerEvent),
    /// A heartbeat interval ended.
    IntervalPassed(HeartbeatExceptions),
    /// An administrator had this done. Commands that were refused changed nothing, and are not
    /// entered.
    Command(AdminCommand),
    /// The daemon was restarted and continued with its last state; missed heartbeats count from
    /// zero.
    Restarted,
}

impl JournalEntry {
    /// Returns the entry for `event`, which is news to `scheduler` and not applied yet.
    pub fn of(scheduler: &Scheduler, event: &SchedulerEvent) -> JournalEntry {
        if *event == SchedulerEvent::HeartbeatIntervalPassed {
            JournalEntry::IntervalPassed(scheduler.heartbeat_exceptions())
        } else {
            JournalEntry::Event(event.clone())
        }
    }

    /// Does it again.
    ///
    /// # Errors
    ///
    /// If the command is refused now. The journal has accepted commands only, so the state differs
    /// from the recorded state.
    pub fn redo(self, scheduler: &mut Scheduler) -> Result<(), CommandError> {
        match self {
            JournalEntry::Event(event) => {
                scheduler.record(event);
            }
            JournalEntry::IntervalPassed(exceptions) => {
                scheduler.restore_heartbeats(&exceptions);
                scheduler.record(SchedulerEvent::HeartbeatIntervalPassed);
            }
            JournalEntry::Command(command) => {
                scheduler.command(command)?;
            }
            JournalEntry::Restarted => scheduler.restart_hearing(),
        }
        Ok(())
    }
}

impl fmt::Display for JournalEntry {
    /// Writes a short text that finds an entry among many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalEntry::Event(event) => event_words(event, f),
            JournalEntry::IntervalPassed(HeartbeatExceptions { silent, back }) => write!(
                f,
                "a heartbeat interval passed; {} fell silent, {} reported again",
                NodeNames(silent),
                NodeNames(back)
            ),
            JournalEntry::Command(AdminCommand::VaryOff { nodes, .. }) => {
                write!(f, "{} varied off", nodes.join(", "))
            }
            JournalEntry::Command(AdminCommand::VaryOn { nodes }) => {
                write!(f, "{} varied on", nodes.join(", "))
            }
            JournalEntry::Command(AdminCommand::NodesLost { nodes, .. }) => {
                write!(f, "{} declared lost", nodes.join(", "))
            }
            JournalEntry::Command(AdminCommand::ForgetNodes { nodes, .. }) => {
                write!(f, "{} forgotten", nodes.join(", "))
            }
            JournalEntry::Command(AdminCommand::Reserve { window, .. }) => {
                write!(f, "nodes kept for {}", window.name)
            }
            JournalEntry::Command(AdminCommand::Unreserve { name }) => {
                write!(f, "nodes of {name} given back")
            }
            JournalEntry::Command(AdminCommand::Urgent(spec)) => {
                write!(f, "job {} of {} came as urgent", spec.id, spec.user)
            }
            JournalEntry::Command(AdminCommand::Reconfigure(_)) => {
                f.write_str("another configuration")
            }
            JournalEntry::Restarted => f.write_str("the daemon was started again"),
        }
    }
}

fn event_words(event: &SchedulerEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        SchedulerEvent::NodeReported(report) => {
            write!(f, "node {} reported {}", report.name, report.memory)
        }
        SchedulerEvent::HeartbeatIntervalPassed => f.write_str("a heartbeat interval passed"),
        SchedulerEvent::NodeMissedHeartbeats { node, missed } => {
            write!(f, "node {node} missed {missed} heartbeats")
        }
        SchedulerEvent::NodeDied { node } => write!(f, "node {node} died"),
        SchedulerEvent::ClassHours { hours } => {
            write!(f, "hours of {}", counted(crate::model::count(hours), "class"))
        }
        SchedulerEvent::TimeIs { now } => write!(f, "it was {now} ms since the epoch"),
        SchedulerEvent::JobArrived(spec) => write!(f, "job {} of {} arrived", spec.id, spec.user),
        SchedulerEvent::JobChanged { job, .. } => write!(f, "job {job} changed"),
        SchedulerEvent::JobRetimed { job, .. } => write!(f, "job {job} has other times"),
        SchedulerEvent::JobExcepted { job, nodes } if nodes.is_empty() => {
            write!(f, "job {job} excepts no node")
        }
        SchedulerEvent::JobExcepted { job, nodes } => {
            write!(f, "job {job} excepts {}", nodes.join(", "))
        }
        SchedulerEvent::JobCompleted { job } => write!(f, "job {job} ended"),
        SchedulerEvent::ShareSeen { job, share, node, .. } => {
            write!(f, "share {share} of job {job} was published on {node}")
        }
        SchedulerEvent::LimboShareSeen { share, node, .. } => {
            write!(f, "share {share} of an unreadable job was published on {node}")
        }
        SchedulerEvent::LimboShareGone { share } => {
            write!(f, "share {share} of an unreadable job was gone")
        }
        SchedulerEvent::ShareExited { job, share } => {
            write!(f, "share {share} of job {job} exited")
        }
    }
}

/// Maximum number of nodes listed by name; of more, only the count is printed.
const NAMED: usize = 4;

/// Names, or how many there are.
struct NodeNames<'a>(&'a [Name]);

impl fmt::Display for NodeNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("none"),
            names if names.len() <= NAMED => f.write_str(&names.join(", ")),
            names => write!(f, "{} nodes", names.len()),
        }
    }
}
