//! A resource manager that gives each work the same number of shares, and weighs publications.
//!
//! Stands in for the real resource manager, so that only the orchestrator's cost is measured. It
//! serves just the part of the public API that an orchestrator uses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::agent::node_name;
use crate::api::wire::{
    Assigned, ProcessState, Publication, PublicationAnswer, Schedule, ScheduledJob, WorkKind,
    WorkState,
};
use crate::model::count;

/// Time that a poll of the schedule waits.
const POLL: Duration = Duration::from_secs(30);
/// Memory of each share, in MiB.
const MEMORY_MB: u64 = 256;

/// The resource manager.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    address: String,
    shared: Arc<SharedManager>,
}

#[derive(Debug)]
struct SharedManager {
    books: Mutex<ManagerState>,
    /// The number of the schedule.
    cycle: watch::Sender<u64>,
}

/// Shares of each work.
#[derive(Debug, Default)]
struct ManagerState {
    /// Shares that a work gets once it is published.
    shares_each: u64,
    /// Nodes that shares are on, in turn.
    nodes: u64,
    last_share: u64,
    /// Shares of each work.
    given: BTreeMap<u64, BTreeSet<u64>>,
    /// Shares that were published with a process.
    taken: BTreeSet<u64>,
    weighed: Weighed,
    sequence: Option<u64>,
}

/// Sizes of the publications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weighed {
    /// Number of publications.
    pub publications: u64,
    /// Bytes of the largest publication.
    pub largest: u64,
    /// Processes in the last publication.
    pub processes: u64,
}

impl Manager {
    /// Starts a manager that gives each work `shares_each` shares on `nodes` nodes. It listens
    /// until this process ends.
    ///
    /// # Errors
    ///
    /// If it cannot listen.
    pub async fn start(shares_each: u64, nodes: u64) -> io::Result<Manager> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let books = Mutex::new(ManagerState { shares_each, nodes, ..ManagerState::default() });
        let shared = Arc::new(SharedManager { books, cycle: watch::channel(0).0 });
        let router = Router::new()
            .route("/v1/publication", put(take))
            .route("/v1/schedule", get(tell))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Manager { address, shared })
    }

    /// Address on which the manager listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the sizes of the publications since the last call.
    pub fn weigh(&self) -> Weighed {
        let mut books = self.shared.books();
        let weighed = books.weighed;
        books.weighed = Weighed { processes: weighed.processes, ..Weighed::default() };
        weighed
    }
}

impl SharedManager {
    fn books(&self) -> MutexGuard<'_, ManagerState> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn take(State(shared): State<Arc<SharedManager>>, body: Bytes) -> Response {
    let publication: Publication = match serde_json::from_slice(&body) {
        Ok(publication) => publication,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let (sequence, accepted) = (publication.sequence, count(&publication.work));
    let is_news = {
        let mut books = shared.books();
        books.weighed.publications += 1;
        books.weighed.largest = books.weighed.largest.max(count(&body));
        books.enter(publication)
    };
    if is_news {
        shared.cycle.send_modify(|cycle| *cycle += 1);
    }
    let answer = PublicationAnswer {
        sequence,
        accepted,
        refused: Vec::new(),
        refused_unlisted: 0,
        warnings: Vec::new(),
        warnings_unlisted: 0,
        stored: None,
    };
    (StatusCode::ACCEPTED, Json(answer)).into_response()
}

async fn tell(State(shared): State<Arc<SharedManager>>, headers: HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|name| name.to_str().ok());
    let name_of = |cycle: u64| format!("W/\"{cycle}\"");
    let mut cycles = shared.cycle.subscribe();
    let is_other = |cycle: &u64| known != Some(name_of(*cycle).as_str());
    let next = tokio::time::timeout(POLL, cycles.wait_for(is_other)).await;
    let Ok(Ok(cycle)) = next.map(|next| next.map(|cycle| *cycle)) else {
        return StatusCode::NOT_MODIFIED.into_response();
    };
    let schedule = shared.books().schedule(cycle);
    ([(header::ETAG, name_of(cycle))], Json(schedule)).into_response()
}

impl ManagerState {
    /// Enters all work. Returns true if the schedule has changed.
    fn enter(&mut self, publication: Publication) -> bool {
        self.sequence = Some(publication.sequence);
        let (mut is_news, mut given, mut processes) = (false, BTreeMap::new(), 0);
        for work in publication.work {
            let mut shares = self.given.remove(&work.id).unwrap_or_else(|| {
                let first = self.last_share + 1;
                if work.state != WorkState::Completing {
                    self.last_share += self.shares_each;
                }
                is_news = true;
                (first..=self.last_share).collect()
            });
            processes += count(&work.processes);
            for process in work.processes {
                if process.state == ProcessState::Gone {
                    is_news |= shares.remove(&process.share);
                    self.taken.remove(&process.share);
                } else {
                    is_news |= self.taken.insert(process.share);
                }
            }
            given.insert(work.id, shares);
        }
        is_news |= !self.given.is_empty();
        (self.given, self.weighed.processes) = (given, processes);
        is_news
    }

    fn schedule(&self, cycle: u64) -> Schedule {
        let assigned = |share: &u64| Assigned {
            share: *share,
            node: node_name(share.checked_rem(self.nodes).unwrap_or(0)),
            memory_mb: MEMORY_MB,
            rank: None,
            chunk: None,
        };
        let job = |(id, shares): (&u64, &BTreeSet<u64>)| {
            let (taken, added) =
                shares.iter().partition::<Vec<u64>, _>(|one| self.taken.contains(one));
            ScheduledJob {
                id: *id,
                kind: WorkKind::Job,
                refused: false,
                memory_mb: MEMORY_MB,
                shares: taken.iter().map(assigned).collect(),
                added: added.iter().map(assigned).collect(),
                removed: Vec::new(),
                resize: None,
                start_estimate_ms: None,
                estimate_basis: None,
                reason: None,
            }
        };
        let jobs = self.given.iter().map(job).collect();
        Schedule { cycle, publication: self.sequence, jobs }
    }
}
