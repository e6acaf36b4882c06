//! Gangs: what a rank needs to know of the other ranks.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AttemptId;

/// Secret of a gang's campaign: 64 hexadecimal digits. Rank 0 proves with it that it may start
/// programs at the other ranks. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct GangKey(pub String);

impl fmt::Debug for GangKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GangKey")
    }
}

/// Part of an attempt that starts a rank of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankStart {
    /// Rank of the attempt, from 0.
    pub rank: u64,
    /// True if every rank runs the program of the campaign. False: rank 0 runs it, and every other
    /// rank serves rank 0, which starts programs there.
    pub every_node: bool,
    /// All ranks, in their order.
    pub ranks: Vec<RankPlace>,
    /// Secret of the campaign.
    pub key: GangKey,
    /// Signal that tells rank 0 of other ranks than these. Absent: the ranks are fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize_signal: Option<u8>,
}

/// Ranks that a malleable gang has now, for the program of its rank 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GangResize {
    /// Attempt of rank 0.
    pub task: AttemptId,
    /// Ranks that rank 0 may use, in their order.
    pub ranks: Vec<RankPlace>,
}

/// Place of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankPlace {
    /// Name of the node.
    pub node: String,
    /// Address of the node, as the other nodes of the gang reach it.
    pub address: String,
    /// Port on which the slot of the rank listens.
    pub port: u16,
}

/// The gang of a campaign, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GangInfo {
    /// Number of nodes, each with a rank; of a malleable gang, the most.
    pub nodes: u64,
    /// Fewest nodes of a malleable gang. Absent: the number of nodes is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<u64>,
    /// True if no other work may be on the nodes.
    #[serde(default)]
    pub exclusive: bool,
    /// True if every rank runs the program. False: rank 0 runs it.
    #[serde(default)]
    pub every_node: bool,
    /// The ranks that have a slot, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankInfo>,
}

/// A rank that has a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankInfo {
    /// The rank, from 0.
    pub rank: u64,
    /// Name of the node.
    pub node: String,
    /// True if the slot is ready, or runs the rank.
    pub ready: bool,
    /// True if the gang was stopped as a whole, and this rank has not ended yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
}

impl GangInfo {
    /// The gang in words: `4 nodes, 3 of 4 ready; waits for rank 2 on n3`.
    pub fn words(&self) -> String {
        let (all, ready) = (self.nodes, self.ranks.iter().filter(|rank| rank.ready));
        let nodes = crate::model::counted(all, "node");
        let nodes = self.min_nodes.map_or(nodes.clone(), |least| format!("{least} to {nodes}"));
        let mut ending = self.ranks.iter().filter(|rank| rank.ending);
        if let Some(RankInfo { rank, node, .. }) = ending.next() {
            let others = crate::model::count(ending);
            let ranks = match others {
                0 => format!("rank {rank} on {node} has"),
                1 => format!("rank {rank} on {node} and another have"),
                _ => format!("rank {rank} on {node} and {others} others have"),
            };
            return format!("{nodes}; it was stopped as a whole, and {ranks} not ended yet");
        }
        let first = |is: bool| self.ranks.iter().find(|rank| rank.ready == is);
        let waits = first(false).filter(|_| first(true).is_some());
        let waits = waits.map(|rank| format!("; waits for rank {} on {}", rank.rank, rank.node));
        match crate::model::count(ready) {
            0 if self.ranks.is_empty() => nodes,
            ready if self.min_nodes.is_some() => format!("{nodes}, {ready} ready"),
            ready => format!("{nodes}, {ready} of {all} ready{}", waits.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gang_says_which_rank_it_waits_for() {
        let gang = |ready: &[bool]| {
            let rank = |(rank, ready): (u64, &bool)| RankInfo {
                rank,
                node: format!("n{}", rank + 1),
                ready: *ready,
                ending: false,
            };
            let ranks = (0..).zip(ready).map(rank).collect();
            let (nodes, exclusive, every_node) = (4, true, false);
            GangInfo { nodes, min_nodes: None, exclusive, every_node, ranks }
        };
        let malleable = GangInfo { min_nodes: Some(2), ..gang(&[true, true, false]) };
        assert_eq!(malleable.words(), "2 to 4 nodes, 2 ready");
        let mut stopped = gang(&[true; 4]);
        stopped.ranks[2].ending = true;
        let words = "4 nodes; it was stopped as a whole, and rank 2 on n3 has not ended yet";
        assert_eq!(stopped.words(), words);
        stopped.ranks[3].ending = true;
        assert!(stopped.words().ends_with("rank 2 on n3 and another have not ended yet"));
        let gang = |ready: &[bool]| gang(ready).words();
        assert_eq!(gang(&[]), "4 nodes");
        assert_eq!(gang(&[false; 4]), "4 nodes, 0 of 4 ready");
        assert_eq!(gang(&[true; 4]), "4 nodes, 4 of 4 ready");
        let one = gang(&[true, true, false, true]);
        assert_eq!(one, "4 nodes, 3 of 4 ready; waits for rank 2 on n3");
    }
}
