//! Lists of users with fair share, holdings and allotment, and a single user with accounts and
//! jobs.

use serde::Serialize;

use super::accounts::{HEADINGS, MemoryAccount};
use super::answer::{ShownAnswer, answer};
use super::args::UserAction;
use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::questions;
use super::table::Column::{Left, Right};
use super::table::{fitted, headed, memory, plain};
use super::text::TextStyle;
use crate::api::wire::{ClassInfo, ClassList, JobInfo, UserInfo, UserList};
use crate::model::{counted, nearest};

/// Runs the command.
///
/// # Errors
///
/// If the daemon cannot be reached, or the user has no work.
pub async fn run(action: &UserAction) -> Result<(), Failure> {
    match action {
        UserAction::List(args) => list(args).await,
        UserAction::Show(args) => {
            answer(&args.asking, async |client| one(client, &args.user).await).await
        }
    }
}

/// Lists users.
///
/// # Errors
///
/// If the daemon cannot be reached.
pub async fn list(args: &questions::UserListArgs) -> Result<(), Failure> {
    answer(&args.asking, async |client| {
        let list: UserList = client.get(&["v1", "users"], &[]).await?;
        Ok(UserTable { list, classes: classes(client).await? })
    })
    .await
}

async fn classes(client: &DaemonClient) -> Result<Vec<ClassInfo>, Failure> {
    let list: ClassList = client.get(&["v1", "classes"], &[]).await?;
    Ok(list.classes)
}

/// Users in lines.
#[derive(Debug, Serialize)]
struct UserTable {
    #[serde(flatten)]
    list: UserList,
    /// The classes there are, for their quanta.
    #[serde(skip)]
    classes: Vec<ClassInfo>,
}

/// A user, with work.
#[derive(Debug, Serialize)]
struct UserCard {
    cycle: u64,
    user: UserInfo,
    jobs: Vec<JobInfo>,
    #[serde(skip)]
    classes: Vec<ClassInfo>,
}

async fn one(client: &DaemonClient, name: &str) -> Result<UserCard, Failure> {
    let list: UserList = client.get(&["v1", "users"], &[]).await?;
    let names = || list.users.iter().map(|user| user.user.as_str());
    let Some(user) = list.users.iter().find(|user| user.user == name).cloned() else {
        let hint = nearest(name, names()).map(|near| format!(", did you mean `{near}`?"));
        let message = format!(
            "user `{}` has no jobs{}; `apportion users` lists those there are",
            plain(name),
            hint.unwrap_or_default()
        );
        return Err(Failure::new(FailureKind::NotFound, message));
    };
    let jobs = client.jobs(&[("user", name)]).await?.jobs;
    Ok(UserCard { cycle: list.cycle, user, jobs, classes: classes(client).await? })
}

fn allotment(user: &UserInfo) -> String {
    user.allotment_mb.map_or_else(|| "no limit".to_owned(), memory)
}

impl ShownAnswer for UserTable {
    type Entry = UserInfo;

    fn entries(&self) -> &[UserInfo] {
        &self.list.users
    }

    fn name(user: &UserInfo) -> String {
        user.user.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        if self.list.users.is_empty() {
            return "No user has jobs. The orchestrator publishes them with PUT /v1/publication."
                .to_owned();
        }
        let [demand, fair_share, target, held] = HEADINGS;
        let columns = [
            Left("USER"),
            Right("JOBS"),
            Right("WITHOUT"),
            demand,
            fair_share,
            target,
            held,
            Right("PROCESSES"),
            Right("FIXED"),
            Right("ALLOTMENT"),
        ];
        let rows = self.list.users.iter().map(|user| {
            let amounts = user.classes.iter().fold(MemoryAccount::default(), |sum, class| {
                sum.and(MemoryAccount::in_class(&class.account, &class.class, &self.classes))
            });
            let [demand, fair_share, target, held] = amounts.cells();
            [
                user.user.clone(),
                user.jobs.to_string(),
                user.jobs_without_shares.to_string(),
                demand,
                fair_share,
                target,
                held,
                user.shares.to_string(),
                memory(user.fixed_memory_mb),
                allotment(user),
            ]
        });
        fitted(columns, rows, look, &["FIXED", "ALLOTMENT", "TARGET"])
    }
}

impl ShownAnswer for UserCard {
    type Entry = UserCard;

    fn entries(&self) -> &[UserCard] {
        std::slice::from_ref(self)
    }

    fn name(card: &UserCard) -> String {
        card.user.user.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        let user = &self.user;
        let mut lines = vec![
            format!(
                "user {}: {}, {} without a process",
                plain(&user.user),
                counted(user.jobs, "job"),
                user.jobs_without_shares
            ),
            format!("holds:     {} in {}", memory(user.memory_mb), counted(user.shares, "process")),
            format!(
                "allotment: {}; {} in use by jobs that cannot be preempted",
                allotment(user),
                memory(user.fixed_memory_mb)
            ),
        ];
        lines.extend(user.classes.iter().filter_map(|class| {
            let savings = class.savings.as_ref()?;
            Some(format!(
                "saved:     {}; for gangs in class {}",
                savings.words(),
                plain(&class.class)
            ))
        }));
        if !user.classes.is_empty() {
            let [demand, fair_share, target, held] = HEADINGS;
            let columns = [Left("IN CLASS"), demand, fair_share, target, held];
            let rows = user.classes.iter().map(|class| {
                let amounts = MemoryAccount::in_class(&class.account, &class.class, &self.classes);
                let [demand, fair_share, target, held] = amounts.cells();
                [class.class.clone(), demand, fair_share, target, held]
            });
            lines.push(format!("\n{}", headed(columns, rows, look)));
        }
        let columns = [
            Right("JOB"),
            Left("CLASS"),
            Right("MEMORY"),
            Right("WANTS"),
            Right("HOLDS"),
            Left("STATE"),
            Left("REASON"),
        ];
        let rows = self.jobs.iter().map(|job| {
            [
                job.id.to_string(),
                job.class.clone(),
                memory(job.memory_mb),
                job.sums.wanted.to_string(),
                job.sums.held.to_string(),
                job.state().to_owned(),
                job.reason.as_ref().map(|reason| reason.code.clone()).unwrap_or_default(),
            ]
        });
        lines.push(format!("\n{}", headed(columns, rows, look)));
        lines.join("\n")
    }
}
