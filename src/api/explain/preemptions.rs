//! Receipts of preemptions: victim, beneficiary, rule and rejected alternatives. Also reasons why a
//! share was not preempted.

use crate::api::wire;
use crate::converter::explain_held_back;
use crate::model::{NodeIx, counted, span};
use crate::scheduler::{Alternatives, Declined, JobView, Preemption, VictimRule, View};

/// Describes a preemption whose share is still in the view of `victim`.
pub fn preemption(view: &View, victim: &JobView, preemption: &Preemption) -> wire::PreemptionInfo {
    let share =
        victim.shares.iter().chain(&victim.purged).find(|share| share.id == preemption.share);
    let considered = preemption.beneficiary.map(|_| considered(view, &preemption.considered));
    let rule = preemption.rule.into();
    wire::PreemptionInfo {
        share: preemption.share.0,
        job: preemption.job.0,
        node: share.map(|share| share.node.clone()).unwrap_or_default().to_string(),
        beneficiary: preemption.beneficiary.map(|job| job.0),
        rule,
        loss_ms: preemption.loss,
        sentence: sentence(rule, considered.as_ref()),
        considered,
    }
}

fn considered(view: &View, considered: &Alternatives) -> wire::Considered {
    let runner_up = considered.runner_up.map(|other| wire::RunnerUp {
        node: name_of(view, other.node),
        victims: other.victims,
        loss_ms: other.loss,
    });
    wire::Considered { nodes: considered.nodes, plans: considered.plans, runner_up }
}

/// Returns a node's name in the cycle that the receipts are from.
fn name_of(view: &View, node: NodeIx) -> String {
    let planned = view.planned.as_ref();
    planned.map(|planned| planned.snapshot.node(node).name.clone()).unwrap_or_default().to_string()
}

fn sentence(rule: wire::PreemptionRule, considered: Option<&wire::Considered>) -> String {
    let right = right(rule, considered);
    let Some(wire::Considered { nodes, plans, runner_up }) = considered else {
        return right.to_owned();
    };
    match runner_up {
        None => format!("{right}; of {nodes} nodes, no other was found where space could be freed"),
        Some(wire::RunnerUp { node, victims, loss_ms }) => {
            let (processes, lost) = (counted(*victims, "process"), span(*loss_ms));
            format!(
                "{right}; of {nodes} nodes, {plans} were compared where space could be freed, and the next best, \
                 {node}, would have cost {processes} and {lost} of work"
            )
        }
    }
}

/// Describes the rule that gave the right to a share, seen from the job that lost it.
/// `considered` is for rules that have a beneficiary.
fn right(rule: wire::PreemptionRule, considered: Option<&wire::Considered>) -> &'static str {
    match rule {
        wire::PreemptionRule::NoLongerAllowed => "its job may not hold it any more",
        wire::PreemptionRule::Window => match considered {
            Some(_) => "a job needs the memory in its advance reservation",
            None => "its node goes into maintenance",
        },
        wire::PreemptionRule::ClassClosed => "its class closes",
        wire::PreemptionRule::Urgent => "an urgent job was accepted, and needs the memory",
        wire::PreemptionRule::Overrun => {
            "its job ran longer than it declared, and its class ends such jobs"
        }
        wire::PreemptionRule::Priority => "a job of higher priority needs the memory",
        wire::PreemptionRule::FairShare => {
            "its job, user or class holds more than its target, and the other is worse off"
        }
        wire::PreemptionRule::Defragmentation => {
            "the other is far below its fair share, and its own side is better off even without it"
        }
        wire::PreemptionRule::FirstShare => {
            "the other has nothing, and its own side keeps its whole target"
        }
        wire::PreemptionRule::Envy => {
            "the cluster is idle, and its own side is better off even without it, at any target"
        }
        wire::PreemptionRule::Turn => {
            "its job holds more than its target, and the gang of a peer saved up its turn"
        }
        wire::PreemptionRule::Relocation => {
            "the cluster is idle, the other has nothing, and its own job gets as much elsewhere"
        }
    }
}

impl From<VictimRule> for wire::PreemptionRule {
    fn from(rule: VictimRule) -> wire::PreemptionRule {
        match rule {
            VictimRule::NoLongerAllowed => wire::PreemptionRule::NoLongerAllowed,
            VictimRule::Window => wire::PreemptionRule::Window,
            VictimRule::ClassClosed => wire::PreemptionRule::ClassClosed,
            VictimRule::Urgent => wire::PreemptionRule::Urgent,
            VictimRule::Overrun => wire::PreemptionRule::Overrun,
            VictimRule::Priority => wire::PreemptionRule::Priority,
            VictimRule::FairShare => wire::PreemptionRule::FairShare,
            VictimRule::Defragmentation => wire::PreemptionRule::Defragmentation,
            VictimRule::FirstShare => wire::PreemptionRule::FirstShare,
            VictimRule::Envy => wire::PreemptionRule::Envy,
            VictimRule::Turn => wire::PreemptionRule::Turn,
            VictimRule::Relocation => wire::PreemptionRule::Relocation,
        }
    }
}

impl From<Declined> for wire::HeldBack {
    fn from(held_back: Declined) -> wire::HeldBack {
        let (code, loss_ms, limit_ms, quiet_cycles) = match held_back {
            Declined::TooDear { loss, limit } => {
                (wire::HeldBackCode::TooDear, Some(loss), Some(limit), None)
            }
            Declined::TooLate => (wire::HeldBackCode::TooLate, None, None, None),
            Declined::Quiet { cycles } => (wire::HeldBackCode::QuietStop, None, None, Some(cycles)),
            Declined::NextCycle => (wire::HeldBackCode::NextCycle, None, None, None),
        };
        let sentence = explain_held_back(held_back).sentence;
        wire::HeldBack { code, sentence, loss_ms, limit_ms, quiet_cycles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_wire_are_the_engines() {
        let rules = [
            VictimRule::NoLongerAllowed,
            VictimRule::Window,
            VictimRule::ClassClosed,
            VictimRule::Overrun,
            VictimRule::Priority,
            VictimRule::FairShare,
            VictimRule::Defragmentation,
            VictimRule::FirstShare,
            VictimRule::Envy,
            VictimRule::Turn,
            VictimRule::Relocation,
        ];
        for rule in rules {
            let sent = wire::PreemptionRule::from(rule);
            assert_eq!(serde_json::to_value(sent).unwrap(), rule.code());
            assert_eq!(sent.code(), rule.code());
        }
        let held_back = [
            Declined::TooDear { loss: 2, limit: 1 },
            Declined::TooLate,
            Declined::Quiet { cycles: 12 },
            Declined::NextCycle,
        ];
        for held_back in held_back {
            let sent = wire::HeldBack::from(held_back);
            assert_eq!(serde_json::to_value(sent.code).unwrap(), held_back.code());
        }
    }

    #[test]
    fn what_was_rejected_is_told_in_a_sentence() {
        let considered = |plans, runner_up| wire::Considered { nodes: 40, plans, runner_up };
        let runner_up = wire::RunnerUp { node: "n17".to_owned(), victims: 2, loss_ms: 340_000 };
        let told = |rule, considered: Option<wire::Considered>| sentence(rule, considered.as_ref());
        assert_eq!(
            told(wire::PreemptionRule::Priority, Some(considered(3, Some(runner_up)))),
            "a job of higher priority needs the memory; of 40 nodes, 3 were compared where space could be freed, and the next \
             best, n17, would have cost 2 processes and 5m 40s of work"
        );
        assert_eq!(
            told(wire::PreemptionRule::Priority, Some(considered(1, None))),
            "a job of higher priority needs the memory; of 40 nodes, no other was found where space could be freed"
        );
        assert_eq!(
            told(wire::PreemptionRule::NoLongerAllowed, None),
            "its job may not hold it any more"
        );
        assert_eq!(told(wire::PreemptionRule::Window, None), "its node goes into maintenance");
        let of_reservation = told(wire::PreemptionRule::Window, Some(considered(1, None)));
        assert!(of_reservation.starts_with("a job needs the memory in its advance reservation;"));
    }
}
