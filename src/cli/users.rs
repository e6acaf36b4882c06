//! Users: what they deserve and hold, and what they may hold; one of them with accounts and work.

use serde::Serialize;

use super::answer::{Answer, Look, answer};
use super::args::UserAction;
use super::client::Client;
use super::failure::{Exit, Failure};
use super::questions;
use super::table::Column::{Left, Right};
use super::table::{headed, memory, plain};
use crate::api::wire::{Account, JobInfo, UserInfo, UserList};
use crate::model::nearest;

/// Does what was asked.
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
pub async fn list(args: &questions::UserList) -> Result<(), Failure> {
    answer(&args.asking, async |client| client.get::<UserList>(&["v1", "users"], &[]).await).await
}

/// A user, with work.
#[derive(Debug, Serialize)]
struct UserCard {
    cycle: u64,
    user: UserInfo,
    jobs: Vec<JobInfo>,
}

async fn one(client: &Client, name: &str) -> Result<UserCard, Failure> {
    let list: UserList = client.get(&["v1", "users"], &[]).await?;
    let names = || list.users.iter().map(|user| user.user.as_str());
    let Some(user) = list.users.iter().find(|user| user.user == name).cloned() else {
        let hint = nearest(name, names()).map(|near| format!(", did you mean `{near}`?"));
        let message = format!(
            "`{}` has no work{}; `apportion users` lists those who have",
            plain(name),
            hint.unwrap_or_default()
        );
        return Err(Failure::new(Exit::NotFound, message));
    };
    let jobs = client.jobs(&[("user", name)]).await?.jobs;
    Ok(UserCard { cycle: list.cycle, user, jobs })
}

/// A user's accounts in all classes together. Classes may measure in different quanta; that is
/// rare, and `user show` has each by itself.
pub(super) fn sum(user: &UserInfo) -> Account {
    user.classes.iter().fold(Account::default(), |sum, class| Account {
        wanted: sum.wanted + class.account.wanted,
        deserved: sum.deserved + class.account.deserved,
        given: sum.given + class.account.given,
        held: sum.held + class.account.held,
    })
}

fn allotment(user: &UserInfo) -> String {
    user.allotment_mb.map_or_else(|| "no limit".to_owned(), memory)
}

impl Answer for UserList {
    type Entry = UserInfo;

    fn entries(&self) -> &[UserInfo] {
        &self.users
    }

    fn render(&self, look: Look) -> String {
        if self.users.is_empty() {
            return "Nobody has work. The orchestrator brings it with PUT /v1/publication."
                .to_owned();
        }
        let columns = [
            Left("USER"),
            Right("JOBS"),
            Right("WITHOUT"),
            Right("WANTED"),
            Right("DESERVED"),
            Right("GIVEN"),
            Right("HELD"),
            Right("SHARES"),
            Right("WEALTH"),
            Right("FIXED"),
            Right("ALLOTMENT"),
        ];
        let rows = self.users.iter().map(|user| {
            let Account { wanted, deserved, given, held } = sum(user);
            let [wanted, deserved, given, held] =
                [wanted, deserved, given, held].map(|amount| amount.to_string());
            [
                user.user.clone(),
                user.jobs.to_string(),
                user.jobs_without_shares.to_string(),
                wanted,
                deserved,
                given,
                held,
                user.shares.to_string(),
                memory(user.memory_mb),
                memory(user.fixed_memory_mb),
                allotment(user),
            ]
        });
        headed(columns, rows, !look.no_header)
    }
}

impl Answer for UserCard {
    type Entry = UserCard;

    fn entries(&self) -> &[UserCard] {
        std::slice::from_ref(self)
    }

    fn render(&self, look: Look) -> String {
        let user = &self.user;
        let mut lines = vec![
            format!(
                "user {}: {} requests for work, {} of them with nothing",
                plain(&user.user),
                user.jobs,
                user.jobs_without_shares
            ),
            format!("wealth:    {} in {} shares", memory(user.memory_mb), user.shares),
            format!(
                "allotment: {}, of which {} are in use, for what cannot be preempted",
                allotment(user),
                memory(user.fixed_memory_mb)
            ),
        ];
        if !user.classes.is_empty() {
            let columns = [
                Left("IN CLASS"),
                Right("WANTED"),
                Right("DESERVED"),
                Right("GIVEN"),
                Right("HELD"),
            ];
            let rows = user.classes.iter().map(|class| {
                let Account { wanted, deserved, given, held } = &class.account;
                let [wanted, deserved, given, held] =
                    [wanted, deserved, given, held].map(u64::to_string);
                [class.class.clone(), wanted, deserved, given, held]
            });
            lines.push(format!("\n{}", headed(columns, rows, !look.no_header)));
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
                job.reason.as_ref().map(|reason| reason.sentence.clone()).unwrap_or_default(),
            ]
        });
        lines.push(format!("\n{}", headed(columns, rows, !look.no_header)));
        lines.join("\n")
    }
}
