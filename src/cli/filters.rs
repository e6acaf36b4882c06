//! Filter and order of lists of jobs and nodes. A word that names no class, user, node or state is
//! refused, with the nearest known word.

use std::cmp::Ordering;

use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::filter_args::{JobFilter, JobOrder, NodeOrder};
use super::node_names;
use super::table::plain;
use super::user_name::own_name;
use crate::api::wire::{ClassList, JobInfo, JobPage, NodeInfo, NodeList, UserList};
use crate::model::nearest;

impl JobFilter {
    /// True if the filter selects a part of all jobs.
    pub(super) fn selects(&self) -> bool {
        let is_named = self.user.is_some() || self.class.is_some() || self.me || self.waiting;
        let has_words = [&self.state, &self.reason, &self.kind, &self.node];
        is_named || !self.job.is_empty() || has_words.iter().any(|words| !words.is_empty())
    }

    /// The jobs that it selects, in its order.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached, or a word of the filter names nothing.
    pub(super) async fn jobs(&self, client: &DaemonClient) -> Result<JobPage, Failure> {
        let own = if self.me { own_name() } else { None };
        let user = self.user.as_deref().or(own.as_deref());
        let mut query: Vec<(&str, &str)> = Vec::new();
        query.extend(user.map(|user| ("user", user)));
        query.extend(self.class.as_deref().map(|class| ("class", class)));
        query.extend((self.waiting || !self.reason.is_empty()).then_some(("waiting", "true")));
        let mut page = client.jobs(&query).await?;
        if page.jobs.is_empty() {
            check_class(client, self.class.as_deref()).await?;
            check_user(client, self.user.as_deref()).await?;
        }
        let nodes = self.nodes(client).await?;
        page.jobs.retain(|job| self.is_wanted(job, nodes.as_deref()));
        if let Some(order) = self.sort {
            page.jobs.sort_by(|one, other| by(order, one, other));
        }
        if self.reverse {
            page.jobs.reverse();
        }
        page.jobs.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(page)
    }

    /// The nodes of the filter, if it has any.
    async fn nodes(&self, client: &DaemonClient) -> Result<Option<Vec<String>>, Failure> {
        if self.node.is_empty() {
            return Ok(None);
        }
        let all: NodeList = client.get(&["v1", "nodes"], &[]).await?;
        let named = node_names::selected(all, &self.node)?.nodes;
        Ok(Some(named.into_iter().map(|node| node.name).collect()))
    }

    fn is_wanted(&self, job: &JobInfo, nodes: Option<&[String]>) -> bool {
        let is_one_of = |words: &[String], word: &str| {
            words.is_empty() || words.iter().any(|one| one.eq_ignore_ascii_case(word))
        };
        let code = job.reason.as_ref().map_or("", |reason| reason.code.as_str());
        is_one_of(&self.state, job.state())
            && is_one_of(&self.reason, code)
            && is_one_of(&self.kind, job.kind.word())
            && (self.job.is_empty() || self.job.contains(&job.id))
            && nodes.is_none_or(|nodes| job.shares.iter().any(|share| nodes.contains(&share.node)))
    }
}

fn by(order: JobOrder, one: &JobInfo, other: &JobInfo) -> Ordering {
    let code = |job: &JobInfo| job.reason.as_ref().map(|reason| reason.code.clone());
    let first = match order {
        JobOrder::Age => one.submitted_ms.cmp(&other.submitted_ms),
        JobOrder::Job => Ordering::Equal,
        JobOrder::User => one.user.cmp(&other.user),
        JobOrder::Class => one.class.cmp(&other.class),
        JobOrder::Memory => other.memory_mb.cmp(&one.memory_mb),
        JobOrder::Wants => other.sums.wanted.cmp(&one.sums.wanted),
        JobOrder::Holds => other.sums.held.cmp(&one.sums.held),
        JobOrder::State => one.state().cmp(other.state()),
        // Jobs without a reason come last.
        JobOrder::Reason => {
            (code(one).is_none(), code(one)).cmp(&(code(other).is_none(), code(other)))
        }
    };
    first.then(one.id.cmp(&other.id))
}

/// # Errors
///
/// If no such class is configured.
pub(super) async fn check_class(client: &DaemonClient, class: Option<&str>) -> Result<(), Failure> {
    let Some(class) = class else { return Ok(()) };
    let list: ClassList = client.get(&["v1", "classes"], &[]).await?;
    let names: Vec<&str> = list.classes.iter().map(|class| class.name.as_str()).collect();
    if names.contains(&class) {
        return Ok(());
    }
    Err(unknown("no class", class, " is configured", &names, "apportion classes"))
}

/// # Errors
///
/// If the user has no jobs, and is not the caller.
async fn check_user(client: &DaemonClient, user: Option<&str>) -> Result<(), Failure> {
    let Some(user) = user else { return Ok(()) };
    let list: UserList = client.get(&["v1", "users"], &[]).await?;
    let names: Vec<&str> = list.users.iter().map(|user| user.user.as_str()).collect();
    if names.contains(&user) || own_name().is_some_and(|own| own == user) {
        return Ok(());
    }
    Err(unknown("user", user, " has no jobs", &names, "apportion users"))
}

fn unknown(what: &str, name: &str, why: &str, known: &[&str], command: &str) -> Failure {
    let hint = nearest(name, known.iter().copied());
    let hint = hint.map(|near| format!(", did you mean `{}`?", plain(near))).unwrap_or_default();
    let message = format!("{what} `{}`{why}{hint}; `{command}` lists those there are", plain(name));
    Failure::new(FailureKind::NotFound, message)
}

/// Sorts `nodes`: names ascend, the largest figures come first.
pub(super) fn sort_nodes(nodes: &mut [NodeInfo], order: NodeOrder) {
    let in_memory = |amount: u64, node: &NodeInfo| amount.saturating_mul(node.quantum_mb);
    nodes.sort_by(|one, other| {
        let first = match order {
            NodeOrder::Node => Ordering::Equal,
            NodeOrder::Pool => one.pool.cmp(&other.pool),
            NodeOrder::State => {
                let state = |node: &NodeInfo| node.states.first().map(|state| state.word());
                state(one).cmp(&state(other))
            }
            NodeOrder::Memory => other.memory_mb.cmp(&one.memory_mb),
            NodeOrder::Free => in_memory(other.free, other).cmp(&in_memory(one.free, one)),
            NodeOrder::Used => in_memory(other.used, other).cmp(&in_memory(one.used, one)),
        };
        first.then_with(|| one.name.cmp(&other.name))
    });
}

/// # Errors
///
/// If no such nodepool is configured.
pub(super) async fn check_pool(client: &DaemonClient, pool: Option<&str>) -> Result<(), Failure> {
    let Some(pool) = pool else { return Ok(()) };
    let load: crate::api::wire::Load = client.get(&["v1", "load"], &[]).await?;
    let names: Vec<&str> = load.pools.iter().map(|pool| pool.pool.as_str()).collect();
    if names.contains(&pool) {
        return Ok(());
    }
    Err(unknown("no nodepool", pool, " is configured", &names, "apportion load"))
}
