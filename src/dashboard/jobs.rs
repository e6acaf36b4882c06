//! Page of all jobs, filtered by its address, so that a list can be sent to a colleague.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Page, PageError, PageQuery};
use super::rows::{JobRow, JobTable, Paging};
use super::sort::{Key, Sort};
use super::words::{self, counted};
use crate::api::wire::{JobInfo, WorkKind};
use crate::converter::code_of;
use crate::scheduler::{JobView, View};

/// Selection of jobs in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct JobPageParams {
    user: String,
    class: String,
    kind: String,
    state: String,
    reason: String,
    sort: String,
    page: Option<usize>,
}

/// Word for jobs with less than they want, in any state.
const SHORT: &str = "short";

#[derive(Template)]
#[template(path = "jobs_head.html")]
struct JobsHead<'a> {
    params: &'a JobPageParams,
    users: Vec<String>,
    classes: Vec<String>,
    kinds: Vec<&'static str>,
    states: Vec<&'static str>,
    reasons: Vec<&'static str>,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct LiveJobs {
    words: String,
    table: JobTable,
    paging: Paging,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<JobPageParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let mut jobs: Vec<&JobView> =
        view.jobs.iter().filter(|job| params.is_wanted(job, view.cycle)).collect();
    let sort = Sort::of(&params.sort, "/jobs", &params.pairs());
    sort.sort(&mut jobs, |column, job| key(column, job, view.cycle));
    let word = sort.word();
    let pairs: Vec<(&str, &str)> =
        params.pairs().into_iter().chain([("sort", word.as_str())]).collect();
    let (paging, range) = Paging::of(params.page, jobs.len(), "/jobs", &pairs);
    let palette = dashboard.palette(view, &ask);
    let rows = jobs[range].iter().map(|job| JobRow::of(job, view.cycle, &palette)).collect();
    let empty = if view.jobs.is_empty() {
        "No jobs. The orchestrator publishes them with PUT /v1/publication."
    } else {
        "No job matches. Remove a filter, or all of them."
    };
    let found = crate::model::count(&jobs);
    let all = crate::model::count(view.jobs.iter());
    let live = LiveJobs {
        words: format!("{} of {}", words::number(found), counted(all, "request")),
        table: JobTable {
            rows,
            sort,
            caption: "Work, oldest first unless sorted".to_owned(),
            empty,
        },
        paging,
    };
    Page { title: "Jobs", section: "/jobs", head: head(&params, view), live }.answer(&ask)
}

/// Returns the sort key of a job in a column.
fn key(column: &str, job: &JobView, cycle: u64) -> Option<Key> {
    Some(match column {
        "id" => job.id.0.into(),
        "user" => job.user.as_str().into(),
        "class" => job.class.as_str().into(),
        "kind" => WorkKind::from(job.kind).word().into(),
        "memory" => job.memory.0.into(),
        "held" => job.held().0.into(),
        "wanted" => job.demand.0.into(),
        "state" => JobInfo::of(job, cycle).state().into(),
        "submitted" => job.submitted.into(),
        "reason" => code(job).unwrap_or_default().into(),
        _ => return None,
    })
}

/// Users in the list of choices; the name of any other user can be typed.
const CHOICES: usize = 500;

fn head<'a>(params: &'a JobPageParams, view: &View) -> JobsHead<'a> {
    let names: BTreeSet<&str> = view.jobs.iter().map(|job| job.user.as_str()).collect();
    let reasons: BTreeSet<&'static str> = view.jobs.iter().filter_map(code).collect();
    JobsHead {
        params,
        users: names.into_iter().take(CHOICES).map(str::to_owned).collect(),
        classes: view.classes.iter().map(|class| class.name.to_string()).collect(),
        kinds: WorkKind::ALL.map(WorkKind::word).to_vec(),
        states: JobInfo::STATES.to_vec(),
        reasons: reasons.into_iter().collect(),
    }
}

fn code(job: &JobView) -> Option<&'static str> {
    job.reason.as_ref().map(code_of)
}

impl JobPageParams {
    fn is_wanted(&self, job: &JobView, cycle: u64) -> bool {
        let is = |wanted: &str, actual: &str| wanted.is_empty() || wanted == actual;
        is(&self.user, &job.user)
            && is(&self.class, &job.class)
            && is(&self.kind, WorkKind::from(job.kind).word())
            && (self.reason.is_empty() || code(job) == Some(self.reason.as_str()))
            && match self.state.as_str() {
                "" => true,
                SHORT => job.reason.is_some(),
                state => JobInfo::of(job, cycle).state() == state,
            }
    }

    fn pairs(&self) -> [(&'static str, &str); 5] {
        [
            ("user", &self.user),
            ("class", &self.class),
            ("kind", &self.kind),
            ("state", &self.state),
            ("reason", &self.reason),
        ]
    }
}
