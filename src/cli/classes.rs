//! Lists of resource classes with rules, demand and holdings, and a single class with its users.

use jiff::Timestamp;
use serde::Serialize;

use super::accounts::{HEADINGS, MemoryAccount};
use super::answer::{ShownAnswer, answer};
use super::args::ClassAction;
use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::questions;
use super::table::Column::{Left, Right};
use super::table::{fitted, headed, memory, plain};
use super::text::TextStyle;
use crate::api::wire::{ClassInfo, ClassList, ClassLoad, Load};
use crate::model::{Millis, nearest, state_of_hours};

/// Runs the command.
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
pub async fn list(args: &questions::ClassListArgs) -> Result<(), Failure> {
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

async fn one(client: &DaemonClient, name: &str) -> Result<ClassCard, Failure> {
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
        return Err(Failure::new(FailureKind::NotFound, message));
    };
    Ok(ClassCard { cycle: list.cycle, class, load })
}

impl ShownAnswer for ClassCard {
    type Entry = ClassCard;

    fn entries(&self) -> &[ClassCard] {
        std::slice::from_ref(self)
    }

    fn name(card: &ClassCard) -> String {
        card.class.name.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        let class = &self.class;
        let weight = class.weight.map(|weight| format!(", weight {weight}")).unwrap_or_default();
        let default = if class.is_default { "; a job without a class is in this one" } else { "" };
        let may = match &class.users {
            None => "all users".to_owned(),
            Some(users) => users.join(", "),
        };
        let [demand, fair_share, target, held] =
            MemoryAccount::of(&class.account, class.quantum_mb, class.policy).cells();
        let mut lines = vec![
            format!(
                "class {}: {}, priority {}{weight}, pool {}{default}",
                class.name,
                class.policy.word(),
                class.priority,
                class.pool
            ),
            format!("for:        {may}"),
            format!("jobs:       {}", class.jobs),
            format!("demand:     {demand}"),
            format!("fair share: {fair_share}"),
            format!("target:     {target}"),
            format!("held:       {held}"),
        ];
        if let Some(hours) = hours(class, now_ms()) {
            lines.insert(2, format!("open:       {hours}"));
        }
        if !self.load.users.is_empty() {
            let [demand, fair_share, target, held] = HEADINGS;
            let columns = [Left("USER"), demand, fair_share, target, held];
            let rows = self.load.users.iter().map(|user| {
                let amounts = MemoryAccount::of(&user.account, class.quantum_mb, class.policy);
                let [demand, fair_share, target, held] = amounts.cells();
                [user.user.clone(), demand, fair_share, target, held]
            });
            lines.push(String::new());
            lines.push(headed(columns, rows, look));
        }
        lines.iter().map(|line| super::table::plain_lines(line)).collect::<Vec<_>>().join("\n")
    }
}

impl ShownAnswer for ClassList {
    type Entry = ClassInfo;

    fn entries(&self) -> &[ClassInfo] {
        &self.classes
    }

    fn name(class: &ClassInfo) -> String {
        class.name.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        if self.classes.is_empty() {
            return "No class is configured. Add one to the configuration, under [class.NAME]."
                .to_owned();
        }
        let [demand, fair_share, target, held] = HEADINGS;
        let columns = [
            Left("CLASS"),
            Left("POLICY"),
            Right("PRIORITY"),
            Right("WEIGHT"),
            Left("POOL"),
            Right("JOBS"),
            demand,
            fair_share,
            target,
            held,
            Right("QUANTUM"),
        ];
        let folded = ["QUANTUM", "POOL", "TARGET", "WEIGHT"];
        let mut text = fitted(columns, self.classes.iter().map(row), look, &folded);
        let now = now_ms();
        for class in &self.classes {
            if let Some(hours) = hours(class, now) {
                text += &super::table::plain_lines(&format!("\n{}: open {hours}", class.name));
            }
        }
        text
    }
}

/// The present, in milliseconds since the epoch.
fn now_ms() -> Millis {
    Millis::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

/// Hours of a class: "mon-fri 20:00-06:00 (Europe/Vienna); closed, opens in 3h". `None` if it is
/// always open.
fn hours(class: &ClassInfo, now: Millis) -> Option<String> {
    let active = class.active.as_ref()?;
    Some(format!("{active}; {}", state_of_hours(class.is_open, class.next_change_ms, now)))
}

fn row(class: &ClassInfo) -> [String; 11] {
    let amounts = MemoryAccount::of(&class.account, class.quantum_mb, class.policy);
    let [demand, fair_share, target, held] = amounts.cells();
    let mark = if class.is_default { " (default)" } else { "" };
    [
        format!("{}{mark}", class.name),
        class.policy.word().to_owned(),
        class.priority.to_string(),
        class.weight.map(|weight| weight.to_string()).unwrap_or_default(),
        class.pool.clone(),
        class.jobs.to_string(),
        demand,
        fair_share,
        target,
        held,
        memory(class.quantum_mb),
    ]
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::{Account, Policy};

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
            active: None,
            is_open: true,
            next_change_ms: None,
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
            active: Some("mon-fri 20:00-06:00, sat-sun (Europe/Vienna)".to_owned()),
            is_open: false,
            ..normal.clone()
        };
        assert_eq!(hours(&normal, 0), None);
        let opens = ClassInfo { next_change_ms: Some(10_800_000), ..whole.clone() };
        let text = "mon-fri 20:00-06:00, sat-sun (Europe/Vienna); closed, opens in 3h";
        assert_eq!(hours(&opens, 0).as_deref(), Some(text));
        let list = ClassList { cycle: 3, classes: vec![normal, whole] };
        assert_snapshot!(list.render(TextStyle::default()));
    }
}
