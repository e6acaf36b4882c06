//! Figures as the pages write them. What things are called is with the types of the API.

use crate::api::wire::NodeState;
use crate::model::plural;

pub(crate) use crate::model::{memory_text as memory, percent, thousands as number};

/// "1 share", "2 shares".
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{} {}", number(count), plural(count, thing))
}

/// The time of day, or with the date.
pub(crate) fn time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
        .unwrap_or_default()
}

/// Every state of a node, with what it means.
pub(crate) const NODE_STATES: [(NodeState, &str); 7] = [
    (NodeState::Up, "gets work"),
    (NodeState::VariedOff, "taken out by an administrator"),
    (NodeState::Maintenance, "in maintenance, or soon"),
    (NodeState::Dead, "silent"),
    (NodeState::Blacklisted, "holds what configuration forbids"),
    (NodeState::Quiesced, "wants no new work"),
    (NodeState::Awaited, "no heartbeat since the start"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_people_read_them() {
        let numbers = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (amount, text) in numbers {
            assert_eq!(number(amount), text);
        }
        let sizes = [
            (0, "0 GB"),
            (700, "700 MB"),
            (1024, "1 GB"),
            (1536, "1.5 GB"),
            (15 << 10, "15 GB"),
            (2070 << 10, "2,070 GB"),
            ((2070 << 10) + 512, "2,070 GB"),
        ];
        for (mebibytes, text) in sizes {
            assert_eq!(memory(mebibytes), text);
        }
        assert_eq!(
            [counted(1, "share"), counted(2_000, "process")],
            ["1 share", "2,000 processes"]
        );
        assert_eq!(time(1_700_000_000_000), "2023-11-14 22:13:20 UTC");
    }
}
