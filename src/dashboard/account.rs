//! Fair shares and holdings of classes and users, in memory: qshares of different pools cannot be
//! added.

use std::collections::BTreeMap;

use super::samples::ShareFigures;
use crate::api::wire;
use crate::api::wire::from_view;
use crate::model::Name;
use crate::scheduler::View;

/// A class with its figures in MiB.
#[derive(Clone, Debug)]
pub(super) struct ClassAccount {
    /// Name of the class.
    pub name: Name,
    /// Load of the class as the API reports it.
    pub load: wire::ClassLoad,
    /// Amounts of the class in MiB.
    pub figures: ShareFigures,
}

/// `account` in MiB, of quanta of `quantum_mb`.
pub(super) fn figures(account: &wire::Account, quantum_mb: u64) -> ShareFigures {
    ShareFigures {
        fair_share: account.fair_share().saturating_mul(quantum_mb),
        held: account.held.saturating_mul(quantum_mb),
        demand: account.wanted.saturating_mul(quantum_mb),
    }
}

/// All classes, in order of configuration.
pub(super) fn classes(view: &View) -> Vec<ClassAccount> {
    let class = |class| {
        let load = from_view::class_load(view, class)?;
        let figures = figures(&load.account, load.quantum_mb);
        Some(ClassAccount { name: class.name.clone(), load, figures })
    };
    view.classes.iter().filter_map(class).collect()
}

/// Users with fair-share work, by name, over all their classes.
pub(super) fn users(view: &View) -> Vec<(Name, ShareFigures)> {
    let mut users: BTreeMap<Name, ShareFigures> = BTreeMap::new();
    let is_fair = |class: &ClassAccount| class.load.policy == wire::Policy::FairShare;
    for class in classes(view).into_iter().filter(is_fair) {
        for user in &class.load.users {
            let of_class = figures(&user.account, class.load.quantum_mb);
            let sum = users.entry(Name::from(user.user.as_str())).or_default();
            sum.fair_share += of_class.fair_share;
            sum.held += of_class.held;
            sum.demand += of_class.demand;
        }
    }
    users.into_iter().collect()
}
