//! Promises to urgent jobs, as they are written.

use serde::{Deserialize, Serialize};

use crate::model::{JobId, Millis, Name, ShareId};
use crate::scheduler::{UrgentGrant, UrgentVictim};

/// Promise to an urgent job when it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrgentText {
    cycle: u64,
    /// Node and rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    promised: Vec<(Name, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    preempted: Vec<VictimText>,
}

/// A share that went for an urgent job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VictimText {
    job: u64,
    share: u64,
    node: Name,
    loss: Millis,
}

impl From<&UrgentGrant> for UrgentText {
    fn from(grant: &UrgentGrant) -> UrgentText {
        let UrgentGrant { cycle, promised, preempted } = grant;
        let victim = |victim: &UrgentVictim| VictimText {
            job: victim.job.0,
            share: victim.share.0,
            node: victim.node.clone(),
            loss: victim.loss,
        };
        UrgentText {
            cycle: *cycle,
            promised: promised.clone(),
            preempted: preempted.iter().map(victim).collect(),
        }
    }
}

impl From<UrgentText> for UrgentGrant {
    fn from(text: UrgentText) -> UrgentGrant {
        let victim = |victim: VictimText| UrgentVictim {
            job: JobId(victim.job),
            share: ShareId(victim.share),
            node: victim.node,
            loss: victim.loss,
        };
        UrgentGrant {
            cycle: text.cycle,
            promised: text.promised,
            preempted: text.preempted.into_iter().map(victim).collect(),
        }
    }
}
