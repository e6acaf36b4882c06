//! Incarnations of a node's agent: decides which heartbeat counts, and detects two agents under the
//! same name.
//!
//! A restarted agent is a new incarnation, with a boot id of its own. A heartbeat of the earlier
//! incarnation that comes later was late. If the earlier incarnation goes on counting, it is not
//! over, and there are two agents.

use std::collections::VecDeque;

/// Number of earlier incarnations that are remembered. An older incarnation counts as new.
const MAX_INCARNATIONS: usize = 8;

/// Heartbeats of earlier incarnations, while the present incarnation is silent, until an earlier
/// incarnation takes over.
const SWITCH_AFTER: u32 = 3;

/// Heartbeats of an agent, without any of its rival, until the agent counts as alone.
const CONFLICT_CLEARS_AFTER: u32 = 10;

/// An incarnation of an agent, as its heartbeats describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Incarnation {
    boot_id: Option<String>,
    sequence: Option<u64>,
    /// Number of its heartbeats since another incarnation began.
    beats_since: u32,
}

/// All agents that report as a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    present: Incarnation,
    /// The latest first.
    earlier: VecDeque<Incarnation>,
    /// Heartbeats of earlier incarnations since the last of the present incarnation.
    others: u32,
    /// Heartbeats until the present incarnation counts as alone. 0: it does.
    contested: u32,
}

/// Meaning of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// A heartbeat that counts.
    Alive,
    /// Received before, or older than a received heartbeat.
    Replayed,
    /// Of an incarnation that is over: the heartbeat was delayed on its way.
    Late,
    /// Of another agent than the present agent.
    Other,
}

impl Agent {
    /// Builds the agent from the first heartbeat of a node.
    pub fn new(boot_id: Option<&str>, sequence: Option<u64>) -> Agent {
        Agent { present: Incarnation::new(boot_id, sequence), ..Agent::default() }
    }

    /// True if two agents report under this name.
    pub fn has_conflict(&self) -> bool {
        0 < self.contested
    }

    /// The boot ids of both agents, if there are two.
    pub fn conflicting_boot_ids(&self) -> Option<(&str, &str)> {
        let rival = self.earlier.iter().find(|life| 0 < life.beats_since);
        let rival = rival.filter(|_| self.has_conflict())?.boot_id.as_deref()?;
        Some((self.present.boot_id.as_deref().unwrap_or("none"), rival))
    }

    /// Takes in a heartbeat. A heartbeat without a sequence cannot be recognized as replayed.
    pub fn receive(&mut self, boot_id: Option<&str>, sequence: Option<u64>) -> HeartbeatOutcome {
        if self.present.boot_id.as_deref() == boot_id {
            if self.present.has_received(sequence) {
                return HeartbeatOutcome::Replayed;
            }
            self.present.note(sequence);
            self.others = 0;
            self.contested = self.contested.saturating_sub(1);
            return HeartbeatOutcome::Alive;
        }
        let is_it = |life: &Incarnation| life.boot_id.as_deref() == boot_id;
        if let Some(place) = self.earlier.iter().position(is_it) {
            return self.receive_earlier(place, sequence);
        }
        self.replace(Incarnation::new(boot_id, sequence));
        HeartbeatOutcome::Alive
    }

    fn receive_earlier(&mut self, place: usize, sequence: Option<u64>) -> HeartbeatOutcome {
        let life = &mut self.earlier[place];
        if life.has_received(sequence) {
            return HeartbeatOutcome::Replayed;
        }
        life.note(sequence);
        life.beats_since = life.beats_since.saturating_add(1);
        self.others = self.others.saturating_add(1);
        if life.beats_since == 1 {
            return HeartbeatOutcome::Late;
        }
        self.contested = CONFLICT_CLEARS_AFTER;
        if self.others < SWITCH_AFTER {
            return HeartbeatOutcome::Other;
        }
        if let Some(life) = self.earlier.remove(place) {
            self.replace(life);
            // The incarnation just replaced counts as a rival at once, without a further heartbeat.
            if let Some(silent) = self.earlier.front_mut() {
                silent.beats_since = 1;
            }
        }
        HeartbeatOutcome::Alive
    }

    fn replace(&mut self, life: Incarnation) {
        let before = std::mem::replace(&mut self.present, Incarnation { beats_since: 0, ..life });
        self.others = 0;
        // An agent without a boot id has no incarnation that could be over.
        if before.boot_id.is_some() {
            self.earlier.push_front(before);
            self.earlier.truncate(MAX_INCARNATIONS);
        }
    }
}

impl Incarnation {
    fn new(boot_id: Option<&str>, sequence: Option<u64>) -> Incarnation {
        Incarnation { boot_id: boot_id.map(str::to_owned), sequence, beats_since: 0 }
    }

    fn has_received(&self, sequence: Option<u64>) -> bool {
        sequence.is_some() && sequence <= self.sequence
    }

    fn note(&mut self, sequence: Option<u64>) {
        self.sequence = sequence.or(self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `a7` as the 7th heartbeat of incarnation a, and `a` as a heartbeat without a sequence.
    /// Reads `-` as a heartbeat without a boot id. Writes `+` for a heartbeat that counts, `r` for
    /// a replay, `l` for a late heartbeat, `2` for another agent; `!` where there are two.
    #[track_caller]
    fn check(beats: &str, outcomes: &str) {
        let mut agent: Option<Agent> = None;
        let mut actual = String::new();
        for beat in beats.split_whitespace() {
            let boot_id = Some(&beat[..1]).filter(|boot_id| *boot_id != "-");
            let sequence = beat[1..].parse().ok();
            let verdict = agent.as_mut().map(|agent| agent.receive(boot_id, sequence));
            let agent = agent.get_or_insert_with(|| Agent::new(boot_id, sequence));
            actual.push(match verdict.unwrap_or(HeartbeatOutcome::Alive) {
                HeartbeatOutcome::Alive => '+',
                HeartbeatOutcome::Replayed => 'r',
                HeartbeatOutcome::Late => 'l',
                HeartbeatOutcome::Other => '2',
            });
            if agent.has_conflict() {
                actual.push('!');
            }
        }
        assert_eq!(actual, outcomes, "{beats}");
    }

    #[test]
    fn only_what_is_new_is_a_sign_of_life() {
        check("- -", "++"); // who does not count cannot replay
        check("a1 a2", "++");
        check("a2 a2", "+r");
        check("a2 a1", "+r"); // out of order
        check("a1 a3 a2 a4", "++r+");
        check("a2 a a2", "++r");
        check("a9 b1", "++"); // it booted
        check("a9 b1 b1 a9 a8", "++rrr");
        check("a9 b1 c1 a9 b1", "+++rr"); // an hour old, from two lives ago
        check("a1 - a1 a2", "++rl");
        check("- a1 - -", "++++"); // no life, no rival
    }

    #[test]
    fn what_was_on_its_way_for_long_is_late_once() {
        check("a9 b1 a10 b2", "++l+");
        check("a9 b1 a11 a10 b2", "++lr+");
    }

    #[test]
    fn two_agents_that_take_turns_are_two() {
        check("a1 b1 a2 b2 a3 b3 a4", "++l+2!+!2!");
        check("a b a b a b", "++l+2!+!"); // they need not even count
        check("a1 b1 a2 b2 a3 b3 b4 b5 b6 b7 b8 b9 b10 b11 b12", "++l+2!+!+!+!+!+!+!+!+!+!+");
    }

    #[test]
    fn the_one_that_goes_on_alone_is_the_agent() {
        check("a1 b1 a2 a3 a4 a5", "++l2!+!+!");
        check("a1 b1 a2 a3 a4 b2", "++l2!+!2!"); // and the other is still there
    }

    #[test]
    fn both_are_named() {
        let mut agent = Agent::new(Some("a"), Some(1));
        for (boot_id, sequence) in [("b", 1), ("a", 2)] {
            agent.receive(Some(boot_id), Some(sequence));
            assert_eq!(agent.conflicting_boot_ids(), None);
        }
        agent.receive(Some("a"), Some(3));
        assert_eq!(agent.conflicting_boot_ids(), Some(("b", "a")));
    }

    #[test]
    fn no_more_lives_are_remembered_than_there_is_room_for() {
        let mut agent = Agent::new(Some("0"), Some(1));
        for life in 1..100 {
            assert_eq!(agent.receive(Some(&life.to_string()), Some(1)), HeartbeatOutcome::Alive);
        }
        assert_eq!(agent.earlier.len(), MAX_INCARNATIONS);
    }
}
