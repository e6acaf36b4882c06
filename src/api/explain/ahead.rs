//! Jobs ahead of a job that waits for space.

use crate::engine::WaitReason;
use crate::model::{NShares, counted, plural};
use crate::scheduler::{JobView, View, Waiting};

/// Whether `job` waits for space that other jobs have. A job with another cause has no job ahead.
fn waits_for_room(job: &JobView) -> bool {
    let Some(Waiting::Engine(reason)) = &job.reason else { return false };
    match reason {
        WaitReason::NoNodeUp { .. }
        | WaitReason::FairShareUsed { .. }
        | WaitReason::NothingLeft { .. }
        | WaitReason::WaitingForExits { .. }
        | WaitReason::BehindOlderGang { .. }
        | WaitReason::HeldBack(_)
        | WaitReason::Fragmented { .. } => true,
        WaitReason::Impossible { .. }
        | WaitReason::NoSuchSize { .. }
        | WaitReason::OverAllotment { .. }
        | WaitReason::GangLacks(_)
        | WaitReason::Earning { .. }
        | WaitReason::NoLegalSize { .. }
        | WaitReason::WindowAhead { .. }
        | WaitReason::ReservationAhead { .. }
        | WaitReason::TooEarly { .. }
        | WaitReason::DeadlineUnreachable { .. }
        | WaitReason::WaitsForOverrun { .. }
        | WaitReason::ClassClosed { .. }
        | WaitReason::Adapting
        | WaitReason::Capped { .. } => false,
    }
}

/// What is ahead of `job`, in a sentence. `None`: it does not wait for space.
pub fn ahead(view: &View, job: &JobView) -> Option<String> {
    if !waits_for_room(job) {
        return None;
    }
    let topology = &view.topology;
    let class_of = |job: &JobView| topology.class_named(&job.class).map(|ix| &topology.classes[ix]);
    let class = class_of(job)?;
    let in_line = || view.jobs.iter().filter(|other| waits_for_room(other));
    // A lower number is a higher priority.
    let is_higher =
        |other: &JobView| class_of(other).is_some_and(|of| of.priority < class.priority);
    let higher = crate::model::count(in_line().filter(|other| is_higher(other)));
    let others = || in_line().filter(|other| other.class == job.class && other.id != job.id);
    let of_class = match crate::model::count(others()) {
        0 => format!("no other job of class {} waits for space", job.class),
        count if class.policy.is_preemptable() => {
            let without = crate::model::count(others().filter(|other| other.held() == NShares(0)));
            let wait = if count == 1 { "waits" } else { "wait" };
            format!(
                "{} of class {} {wait} for space, {without} without a process; the user with the least comes first",
                counted(count, "other job"),
                job.class
            )
        }
        count => {
            let is_older = |other: &&JobView| (other.submitted, other.id) < (job.submitted, job.id);
            let place = crate::model::count(others().filter(is_older)) + 1;
            format!(
                "number {place} of {} of class {} that wait for space, by age",
                counted(count + 1, "job"),
                job.class
            )
        }
    };
    let higher = match higher {
        0 => String::new(),
        count => {
            let wait = if count == 1 { "waits" } else { "wait" };
            format!("; {count} {} of higher priority {wait} too", plural(count, "job"))
        }
    };
    Some(format!("{of_class}{higher}"))
}
