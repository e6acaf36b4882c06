//! Resource classes: their rules, and what they want and hold.

use super::args::Remote;
use super::client::Client;
use super::failure::Failure;
use super::output::show;
use super::table::Column::{Left, Right};
use super::table::{memory, table};
use crate::api::wire::{ClassInfo, ClassList, Policy};

/// Lists the classes.
///
/// # Errors
///
/// If the daemon cannot be reached.
pub async fn run(remote: &Remote) -> Result<(), Failure> {
    let classes: ClassList = Client::new(remote)?.get(&["v1", "classes"], &[]).await?;
    Ok(show(&classes, remote.json, render)?)
}

fn render(list: &ClassList) -> String {
    if list.classes.is_empty() {
        return "No class is configured. Add one to the configuration, under [class.NAME]."
            .to_owned();
    }
    let columns = [
        Left("CLASS"),
        Left("POLICY"),
        Right("PRIORITY"),
        Right("WEIGHT"),
        Left("POOL"),
        Right("JOBS"),
        Right("WANTED"),
        Right("DESERVED"),
        Right("GIVEN"),
        Right("HELD"),
        Right("QSHARE"),
    ];
    table(columns, list.classes.iter().map(row))
}

fn row(class: &ClassInfo) -> [String; 11] {
    let account = &class.account;
    let mark = if class.is_default { " (default)" } else { "" };
    [
        format!("{}{mark}", class.name),
        policy(class.policy).to_owned(),
        class.priority.to_string(),
        class.weight.map(|weight| weight.to_string()).unwrap_or_default(),
        class.pool.clone(),
        class.jobs.to_string(),
        account.wanted.to_string(),
        account.deserved.to_string(),
        account.given.to_string(),
        account.held.to_string(),
        memory(class.quantum_mb),
    ]
}

/// As the configuration spells it.
fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::FairShare => "fair-share",
        Policy::FixedShare => "fixed-share",
        Policy::Reserve => "reserve",
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::Account;

    #[test]
    fn classes_show_what_they_want_and_hold() {
        let normal = ClassInfo {
            name: "normal".to_owned(),
            policy: Policy::FairShare,
            weight: Some(100),
            priority: 10,
            pool: "--default--".to_owned(),
            quantum_mb: 15_360,
            is_default: true,
            users: None,
            jobs: 21,
            account: Account { wanted: 320, deserved: 160, given: 160, held: 158 },
        };
        let whole = ClassInfo {
            name: "whole".to_owned(),
            policy: Policy::Reserve,
            weight: None,
            priority: 1,
            is_default: false,
            jobs: 0,
            account: Account::default(),
            ..normal.clone()
        };
        assert_snapshot!(render(&ClassList { cycle: 3, classes: vec![normal, whole] }));
    }
}
