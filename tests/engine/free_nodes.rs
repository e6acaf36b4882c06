//! Gangs beside free nodes, recounted by a client that only looks at the nodes of each job: where free nodes
//! suffice, a gang starts at once, and no job loses a process for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::gangs::{NODES, chunk, config, shape_of, world};
use crate::support::cluster::{Cluster, job};
use apportion::model::{JobSpec, Place, ProcessLimit, Shape};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_gang_starts_where_free_nodes_suffice(
        sizes in prop::collection::vec((1..5_u64, 1..5_u64), 1..5),
        (count, gib) in (1..4_u64, 1..5_u64),
        color in prop_oneof![Just(""), Just("red"), Just("blue")],
        is_exclusive in any::<bool>(),
    ) {
        let mut cluster = Cluster::new(world(false));
        for (name, gib, ..) in NODES {
            cluster.nodes(&format!("{name}={gib}"));
        }
        let others: Vec<(u64, u64)> = (1..).zip(sizes.iter().map(|(order, _)| *order)).collect();
        for (&(id, order), (_, most)) in others.iter().zip(&sizes) {
            let mut fair = job(id, "bob", "low", order);
            fair.facts.limit = ProcessLimit::AtMost(*most);
            cluster.arrive(fair);
        }
        cluster.cycle();
        let held = |cluster: &Cluster| -> Vec<Vec<String>> {
            let names = |id| cluster.nodes_of(id).into_iter().map(str::to_owned).collect();
            others.iter().map(|(id, _)| names(*id)).collect()
        };
        let before = held(&cluster);
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        for ((_, order), nodes) in others.iter().zip(&before) {
            for node in nodes {
                *used.entry(node).or_default() += order;
            }
        }
        let suits = |(name, order, _, of_node): &(&str, u64, &str, &str)| {
            let used = used.get(name).copied().unwrap_or(0);
            let has_space = if is_exclusive { used == 0 && gib <= *order } else { used + gib <= *order };
            has_space && (color.is_empty() || color == *of_node)
        };
        let free = NODES.iter().filter(|node| suits(node)).count();
        let shape = shape_of(Place::Scatter, vec![chunk(count, gib, color)], false);
        let shape = Some(Arc::new(Shape { is_exclusive, ..shape }));
        cluster.arrive(JobSpec { shape, ..job(9, "ann", "tight", gib) }).cycle();
        let needed = usize::try_from(count).unwrap_or(usize::MAX);
        if needed <= free {
            prop_assert_eq!(cluster.nodes_of(9).len(), needed, "{}", cluster.picture());
            prop_assert_eq!(held(&cluster), before, "{}", cluster.picture());
        }
    }
}
