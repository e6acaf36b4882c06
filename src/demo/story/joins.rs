//! Users who join a contended class, and the change of all shares there: the fair split at work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::wire::{Account, Load, Policy};

/// Time between a user's join and the line about its effect.
const SETTLING: Duration = Duration::from_secs(3);

/// Most parties that are named, the largest changes first.
const NAMED: usize = 4;

/// Recent joins, each with the shares before it.
#[derive(Debug, Default)]
pub(super) struct Joins {
    seen: BTreeSet<(String, String)>,
    pending: Vec<ClassJoin>,
    latest: Accounts,
}

/// A user's first work in a class.
#[derive(Debug)]
struct ClassJoin {
    at: Duration,
    class: String,
    user: String,
    before: Accounts,
}

/// Holdings and targets of users and classes at some time.
#[derive(Clone, Debug, Default)]
struct Accounts {
    classes: BTreeMap<String, Account>,
    users: BTreeMap<(String, String), Account>,
}

impl Joins {
    /// A user submitted something.
    pub fn submit(&mut self, at: Duration, class: &str, user: &str) {
        if self.seen.insert((class.to_owned(), user.to_owned())) {
            let (class, user) = (class.to_owned(), user.to_owned());
            self.pending.push(ClassJoin { at, class, user, before: self.latest.clone() });
        }
    }

    /// Enters the present holdings; returns the lines of joins that are due.
    pub fn look(&mut self, at: Duration, load: &Load) -> Vec<String> {
        self.latest = Accounts::of(load);
        let (due, pending): (Vec<ClassJoin>, Vec<ClassJoin>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|join| join.at + SETTLING <= at);
        self.pending = pending;
        due.iter().filter_map(|join| join.outcome(&self.latest)).collect()
    }
}

impl ClassJoin {
    /// Changes for the users who were there before; `None` if there were none.
    fn outcome(&self, now: &Accounts) -> Option<String> {
        let in_class = |accounts: &Accounts| accounts.of_class(&self.class);
        let before = in_class(&self.before);
        let has_peers = before.values().any(|account| account.held > 0);
        let (before, now, newcomer) = if has_peers {
            (before, in_class(now), &self.user)
        } else {
            (self.before.classes.clone(), now.classes.clone(), &self.class)
        };
        let mut changes: Vec<(&String, u64, &Account)> = now
            .iter()
            .map(|(name, account)| {
                (name, before.get(name).map_or(0, |account| account.held), account)
            })
            .filter(|(name, held, account)| *held != account.held || *name == newcomer)
            .collect();
        changes.sort_by_key(|&(name, held, account)| {
            (name != newcomer, std::cmp::Reverse(held.abs_diff(account.held)))
        });
        changes.truncate(NAMED);
        if changes.len() < 2 {
            return None;
        }
        let parts: Vec<String> = changes
            .iter()
            .map(|(name, held, account)| {
                format!("{name} {held} -> {} ({})", account.held, account.given)
            })
            .collect();
        let (user, class) = (&self.user, &self.class);
        Some(format!(
            "{user} joined class {class}; shares held then and now (due): {}",
            parts.join(", ")
        ))
    }
}

impl Accounts {
    fn of(load: &Load) -> Accounts {
        let mut accounts = Accounts::default();
        for class in load.classes.iter().filter(|class| class.policy == Policy::FairShare) {
            accounts.classes.insert(class.class.clone(), class.account.clone());
            for user in &class.users {
                let key = (class.class.clone(), user.user.clone());
                accounts.users.insert(key, user.account.clone());
            }
        }
        accounts
    }

    fn of_class(&self, class: &str) -> BTreeMap<String, Account> {
        let users = self.users.iter().filter(|((of, _), _)| of == class);
        users.map(|((_, user), account)| (user.clone(), account.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::{ClassLoad, UserLoad};

    /// A class, with each user's holdings and target.
    fn load(users: &[(&str, u64, u64)]) -> Load {
        let account = |held, given| Account { given, held, ..Account::default() };
        let user = |&(user, held, given): &(&str, u64, u64)| UserLoad {
            user: user.to_owned(),
            account: account(held, given),
        };
        let class = ClassLoad {
            class: "normal".to_owned(),
            policy: Policy::FairShare,
            jobs: 1,
            quantum_mb: 1,
            account: account(users.iter().map(|(_, held, _)| held).sum(), 0),
            users: users.iter().map(user).collect(),
        };
        Load { cycle: 1, classes: vec![class], pools: Vec::new(), unmet: Vec::new() }
    }

    #[test]
    fn a_join_is_told_once_its_outcome_shows() {
        let mut joins = Joins::default();
        let at = Duration::from_secs;
        joins.submit(at(0), "normal", "ann");
        assert_eq!(
            joins.look(at(4), &load(&[("ann", 120, 120)])),
            Vec::<String>::new(),
            "she is alone"
        );
        joins.submit(at(5), "normal", "bob");
        assert_eq!(
            joins.look(at(6), &load(&[("ann", 110, 60), ("bob", 10, 60)])),
            Vec::<String>::new()
        );
        assert_eq!(
            joins.look(at(8), &load(&[("ann", 60, 60), ("bob", 58, 60)])),
            [
                "bob joined class normal; shares held then and now (due): bob 0 -> 58 (60), ann 120 -> 60 (60)"
            ]
        );
    }
}
