//! Demand against supply: classes and their users, nodepools by size, and what is missing.

use super::accounts::{HEADINGS, MemoryAccount};
use super::answer::{ShownAnswer, answer};
use super::args::LoadArgs as Args;
use super::failure::Failure;
use super::table::Column::{Left, Right};
use super::table::{fitted, headed, memory};
use super::text::TextStyle;
use crate::api::wire::{Account, ClassLoad, Load, PoolLoad, SizeLoad, Unmet};

/// Shows it.
///
/// # Errors
///
/// If the daemon cannot be reached.
pub async fn run(args: &Args) -> Result<(), Failure> {
    answer(&args.asking, async |client| client.get::<Load>(&["v1", "load"], &[]).await).await
}

impl ShownAnswer for Load {
    type Entry = ClassLoad;

    fn entries(&self) -> &[ClassLoad] {
        &self.classes
    }

    fn name(class: &ClassLoad) -> String {
        class.class.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        let parts = [classes(self, look), pools(&self.pools, look), unmet(&self.unmet, look)];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

fn classes(load: &Load, look: TextStyle) -> String {
    let [demand, fair_share, target, held] = HEADINGS;
    let columns = [Left("CLASS"), Left("USER"), Right("JOBS"), demand, fair_share, target, held];
    let rows = load.classes.iter().flat_map(|class| {
        let line = move |name: &str, user: &str, jobs: String, account: &Account| {
            let amounts = MemoryAccount::of(account, class.quantum_mb, class.policy);
            let [demand, fair_share, target, held] = amounts.cells();
            [name.to_owned(), user.to_owned(), jobs, demand, fair_share, target, held]
        };
        let whole = line(&class.class, "", class.jobs.to_string(), &class.account);
        let users = class.users.iter();
        let users = users.map(move |user| line("", &user.user, String::new(), &user.account));
        [whole].into_iter().chain(users)
    });
    headed(columns, rows, look)
}

fn pools(pools: &[PoolLoad], look: TextStyle) -> String {
    let columns = [
        Left("POOL"),
        Right("SIZE"),
        Right("NODES"),
        Right("UP"),
        Right("DEAD"),
        Right("OFF"),
        Right("MEMORY"),
        Right("USED"),
        Right("FREE"),
        Right("WHOLE"),
        Right("PARTIAL"),
        Right("QUANTUM"),
    ];
    let rows = pools.iter().flat_map(|pool| {
        let in_memory = |qshares: u64| memory(qshares.saturating_mul(pool.quantum_mb));
        let numbers = [
            pool.nodes.total,
            pool.nodes.up,
            pool.nodes.dead,
            pool.nodes.varied_off,
            pool.sizes.iter().map(|size| size.whole).sum(),
            pool.sizes.iter().map(|size| size.partial).sum(),
        ];
        let [nodes, up, dead, off, whole, partial] = numbers.map(|number| number.to_string());
        let [all, used, free] = [pool.qshares, pool.used, pool.free].map(in_memory);
        let quantum = memory(pool.quantum_mb);
        let name = pool.pool.clone();
        let sum =
            [name, String::new(), nodes, up, dead, off, all, used, free, whole, partial, quantum];
        let sizes = pool.sizes.iter().map(move |size| {
            let SizeLoad { order, nodes, up, whole, partial } = *size;
            let [nodes, up, whole, partial] =
                [nodes, up, whole, partial].map(|number| number.to_string());
            let mut row = <[String; 12]>::default();
            row[1] = in_memory(order);
            (row[2], row[3]) = (nodes, up);
            (row[9], row[10]) = (whole, partial);
            row
        });
        [sum].into_iter().chain(sizes).collect::<Vec<_>>()
    });
    fitted(columns, rows, look, &["QUANTUM", "PARTIAL", "DEAD", "OFF"])
}

fn unmet(unmet: &[Unmet], look: TextStyle) -> String {
    if unmet.is_empty() {
        return "Nothing is missing: jobs have all that they could use now.".to_owned();
    }
    let columns =
        [Left("MISSING IN"), Right("SIZE"), Right("PROCESSES"), Right("JOBS"), Left("POSSIBLE")];
    let rows = unmet.iter().map(|unmet| {
        [
            unmet.pool.clone(),
            memory(unmet.memory_mb),
            unmet.processes.to_string(),
            unmet.jobs.to_string(),
            if unmet.feasible { "yes" } else { "no: no node is so large" }.to_owned(),
        ]
    });
    headed(columns, rows, look)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::{NodeCounts, Policy, UserLoad};

    #[test]
    fn demand_and_supply_are_side_by_side() {
        let account = |held| Account { wanted: 40, deserved: 20, given: 20, held };
        let class = ClassLoad {
            class: "normal".to_owned(),
            policy: Policy::FairShare,
            jobs: 3,
            quantum_mb: 15_360,
            account: account(18),
            users: vec![UserLoad { user: "ann".to_owned(), account: account(18) }],
        };
        let size = |order, whole, partial| SizeLoad { order, nodes: 4, up: 3, whole, partial };
        let pool = PoolLoad {
            pool: "main".to_owned(),
            parent: None,
            quantum_mb: 15_360,
            nodes: NodeCounts { total: 8, up: 6, dead: 2, ..NodeCounts::default() },
            qshares: 36,
            used: 18,
            free: 18,
            sizes: vec![size(4, 1, 2), size(8, 0, 0)],
        };
        let unmet = |order, feasible| Unmet {
            pool: "main".to_owned(),
            order,
            memory_mb: order * 15_360,
            processes: 5,
            jobs: 2,
            feasible,
        };
        let load = Load {
            cycle: 7,
            classes: vec![class],
            pools: vec![pool],
            unmet: vec![unmet(2, true), unmet(9, false)],
        };
        assert_snapshot!(load.render(TextStyle::default()));
        let narrow = TextStyle { width: Some(80), ..TextStyle::default() };
        assert_snapshot!(load.render(narrow));
    }
}
