//! Resource classes: their rules, and what they want and hold; one of them with its users.

use serde::Serialize;

use super::answer::{Answer, Look, answer};
use super::args::ClassAction;
use super::client::Client;
use super::failure::{Exit, Failure};
use super::questions;
use super::table::Column::{Left, Right};
use super::table::{headed, memory, plain};
use crate::api::wire::{Account, ClassInfo, ClassList, ClassLoad, Load};
use crate::model::nearest;

/// Does what was asked.
///
/// # Errors
///
/// If the daemon cannot be reached, or has no such class.
pub async fn run(action: &ClassAction) -> Result<(), Failure> {
    match action {
        ClassAction::List(args) => list(args).await,
        ClassAction::Show(args) => {
            answer(&args.asking, async |client| one(client, &args.class).await).await
        }
    }
}

/// Lists the classes.
///
/// # Errors
///
/// If the daemon cannot be reached.
pub async fn list(args: &questions::ClassList) -> Result<(), Failure> {
    answer(&args.asking, async |client| client.get::<ClassList>(&["v1", "classes"], &[]).await)
        .await
}

/// A class with its users.
#[derive(Debug, Serialize)]
struct ClassCard {
    cycle: u64,
    class: ClassInfo,
    load: ClassLoad,
}

async fn one(client: &Client, name: &str) -> Result<ClassCard, Failure> {
    let list: ClassList = client.get(&["v1", "classes"], &[]).await?;
    let load: Load = client.get(&["v1", "load"], &[]).await?;
    let class = list.classes.iter().find(|class| class.name == name).cloned();
    let load = load.classes.into_iter().find(|class| class.class == name);
    let Some((class, load)) = class.zip(load) else {
        let names = list.classes.iter().map(|class| class.name.as_str());
        let hint = nearest(name, names).map(|near| format!(", did you mean `{near}`?"));
        let hint = hint.unwrap_or_default();
        let message = format!(
            "no class `{}` is configured{hint}; `apportion classes` lists those there are",
            plain(name)
        );
        return Err(Failure::new(Exit::NotFound, message));
    };
    Ok(ClassCard { cycle: list.cycle, class, load })
}

impl Answer for ClassCard {
    type Entry = ClassCard;

    fn entries(&self) -> &[ClassCard] {
        std::slice::from_ref(self)
    }

    fn render(&self, look: Look) -> String {
        let class = &self.class;
        let weight = class.weight.map(|weight| format!(", weight {weight}")).unwrap_or_default();
        let default = if class.is_default { "; work that names no class goes here" } else { "" };
        let may = match &class.users {
            None => "everybody".to_owned(),
            Some(users) => users.join(", "),
        };
        let in_memory = |amount: u64| memory(amount.saturating_mul(class.quantum_mb));
        let Account { wanted, deserved, given, held } = &class.account;
        let mut lines = vec![
            format!(
                "class {}: {}, priority {}{weight}, pool {}{default}",
                class.name,
                class.policy.word(),
                class.priority,
                class.pool
            ),
            format!("for:      {may}"),
            format!("work:     {}", class.jobs),
            format!("wanted:   {wanted} qshares ({})", in_memory(*wanted)),
            format!("deserved: {deserved} qshares ({})", in_memory(*deserved)),
            format!("given:    {given} qshares ({})", in_memory(*given)),
            format!("held:     {held} qshares ({})", in_memory(*held)),
        ];
        if !self.load.users.is_empty() {
            let columns = [
                Left("USER"),
                Right("WANTED"),
                Right("DESERVED"),
                Right("GIVEN"),
                Right("HELD"),
                Right("MEMORY"),
            ];
            let rows = self.load.users.iter().map(|user| {
                let Account { wanted, deserved, given, held } = &user.account;
                let [wanted, deserved, given, in_qshares] =
                    [wanted, deserved, given, held].map(u64::to_string);
                [user.user.clone(), wanted, deserved, given, in_qshares, in_memory(*held)]
            });
            lines.push(String::new());
            lines.push(headed(columns, rows, !look.no_header));
        }
        lines.iter().map(|line| super::table::plain_lines(line)).collect::<Vec<_>>().join("\n")
    }
}

impl Answer for ClassList {
    type Entry = ClassInfo;

    fn entries(&self) -> &[ClassInfo] {
        &self.classes
    }

    fn render(&self, look: Look) -> String {
        if self.classes.is_empty() {
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
        headed(columns, self.classes.iter().map(row), !look.no_header)
    }
}

fn row(class: &ClassInfo) -> [String; 11] {
    let account = &class.account;
    let mark = if class.is_default { " (default)" } else { "" };
    [
        format!("{}{mark}", class.name),
        class.policy.word().to_owned(),
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

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::Policy;

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
        let list = ClassList { cycle: 3, classes: vec![normal, whole] };
        assert_snapshot!(list.render(Look::default()));
    }
}
