//! Rescue of the running processes in a refused item.
//!
//! After a restart the first publication is all that the daemon knows of running processes. The
//! processes of an unreadable item occupy their nodes all the same. If they were forgotten, the
//! scheduler would put other processes into their space.

use serde_json::Value;

use crate::api::ingest::names::name_problem;
use crate::api::ingest::validate::NUMBER_MAX;
use crate::api::limits::Limits;
use crate::converter::LimboProcess;
use crate::model::{Mebibytes, ShareId};

/// Returns the live processes in `item` that name a share and a node.
pub fn live_processes(item: &str, limits: &Limits) -> Vec<(ShareId, LimboProcess)> {
    let Ok(item) = serde_json::from_str::<Value>(item) else { return Vec::new() };
    // Which chunk a process is of is not known, so that it counts as one of the largest.
    let chunks = item["chunks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sizes = chunks.iter().chain([&item]).filter_map(|holder| holder["memory_mb"].as_u64());
    let memory = sizes.filter(|memory| (1..=NUMBER_MAX).contains(memory)).max();
    let processes = item["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let live = processes.iter().take(limits.processes).filter_map(|process| {
        let share = process["share"].as_u64().filter(|share| *share <= NUMBER_MAX)?;
        let node = process["node"].as_str()?;
        let is_live = process["state"] != "gone" && name_problem(node, limits.string).is_none();
        let process = LimboProcess { node: node.into(), memory: memory.map(Mebibytes) };
        is_live.then_some((ShareId(share), process))
    });
    live.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_runs_is_found_and_the_rest_is_passed_over() {
        let limits = Limits {
            body: 1,
            time: Duration::ZERO,
            nodes: 1,
            jobs: 1,
            processes: 9,
            string: 20,
            absent_publications: 3,
            absent_time: Duration::ZERO,
        };
        let item = r#"{"id": "seven", "memory_mb": 2048, "colour": "red", "processes": [
            {"share": 1, "node": "n1", "state": "running"},
            {"share": 2, "node": "n2"},
            {"share": 3, "node": "n3", "state": "gone"},
            {"share": -4, "node": "n4"}, {"share": 5}, {"share": 6, "node": ""}, 7
        ]}"#;
        let found = live_processes(item, &limits);
        let places: Vec<_> =
            found.iter().map(|(share, process)| (share.0, process.node.as_str())).collect();
        assert_eq!(places, [(1, "n1"), (2, "n2")]);
        assert!(found.iter().all(|(_, process)| process.memory == Some(Mebibytes(2048))));
        for item in ["", "7", "{}", r#"{"processes": 7}"#] {
            assert!(live_processes(item, &limits).is_empty(), "{item}");
        }
    }
}
