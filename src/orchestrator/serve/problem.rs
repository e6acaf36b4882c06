//! Failures of requests, as RFC 9457 problems with codes of their own.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use crate::api::Code;
use crate::api::wire::{ItemProblem, OrchestratorCode, Problem};
use crate::orchestrator::book::{CannotExtend, ExchangeRefusal};
use crate::orchestrator::spec;
use crate::orchestrator::store::DbError;

/// A request that fails.
#[derive(Debug)]
pub struct Failed {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<ItemProblem>,
}

impl Failed {
    fn new(code: OrchestratorCode, detail: impl Into<String>) -> Failed {
        let status = StatusCode::from_u16(code.status());
        Failed {
            status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: code.name(),
            title: code.title(),
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// The caller is not known.
    pub fn not_known() -> Failed {
        let detail = "say who you are: with a token, or at the unix socket".to_owned();
        let (status, title) = Code::NotKnown.meaning();
        Failed { status, code: Code::NotKnown.name(), title, detail, errors: Vec::new() }
    }

    /// The caller is known, and may not.
    pub fn not_allowed(detail: impl Into<String>) -> Failed {
        Failed::new(OrchestratorCode::NotAllowed, detail)
    }

    /// A reading of the clock, or a lease counted from it, is too old.
    pub fn stale(detail: impl Into<String>) -> Failed {
        Failed::new(OrchestratorCode::Stale, detail)
    }

    /// The campaign, task or output does not exist.
    pub fn absent(detail: impl Into<String>) -> Failed {
        Failed::new(OrchestratorCode::Absent, detail)
    }

    /// The body or a parameter cannot be used.
    pub fn bad(detail: impl Into<String>) -> Failed {
        Failed::new(OrchestratorCode::Bad, detail)
    }

    /// The caller comes too often.
    pub fn too_often() -> Failed {
        Failed::new(OrchestratorCode::TooOften, "more requests than this role is allowed")
    }

    /// The orchestrator has stopped. The resource manager goes on.
    pub fn stopped() -> Failed {
        let detail = "the orchestrator has stopped; its log says why. Slots go on for their lease";
        Failed::new(OrchestratorCode::Stopped, detail)
    }

    /// The database is an older copy.
    pub fn set_back() -> Failed {
        let detail = "the orchestrator's database is an older copy, so no task begins; `apportion orchestrator \
                      adopt` adopts the attempts on nodes. Slots go on";
        Failed::new(OrchestratorCode::SetBack, detail)
    }

    /// A user has too many campaigns that are not final.
    pub fn too_many(user: &str, most: u64) -> Failed {
        let detail = format!(
            "{user} has {most} campaigns that are not final, the most allowed; put many tasks into a campaign \
             with `apportion submit --each-line`"
        );
        Failed::new(OrchestratorCode::TooManyCampaigns, detail)
    }

    /// Only counts are left of a campaign.
    pub fn folded(campaign: u64, at_ms: u64) -> Failed {
        let time = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let date = time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d").to_string());
        let detail = format!(
            "the tasks of campaign {campaign} were folded on {date}; only counts are left, see `apportion campaign \
             show {campaign}`"
        );
        Failed::new(OrchestratorCode::Folded, detail)
    }

    /// The status and the sentence, for pages.
    pub(super) fn told(self) -> (StatusCode, String) {
        (self.status, self.detail)
    }

    /// Another cluster, which has the output of a task, does not answer.
    pub fn silent_cluster(detail: impl Into<String>) -> Failed {
        Failed::new(OrchestratorCode::Late, detail)
    }

    /// The node did not send output in time.
    pub fn late() -> Failed {
        let detail = "the node did not send the output in time; see whether its agent runs";
        Failed::new(OrchestratorCode::Late, detail)
    }
}

impl From<ExchangeRefusal> for Failed {
    fn from(refusal: ExchangeRefusal) -> Failed {
        let code = match refusal {
            ExchangeRefusal::Old { .. } => OrchestratorCode::OldExchange,
            ExchangeRefusal::InDoubt => OrchestratorCode::Stale,
        };
        Failed::new(code, refusal.to_string())
    }
}

impl From<CannotExtend> for Failed {
    fn from(refused: CannotExtend) -> Failed {
        Failed::new(OrchestratorCode::Closed, refused.to_string())
    }
}

impl From<DbError> for Failed {
    fn from(error: DbError) -> Failed {
        tracing::error!(%error, "a request cannot be served");
        Failed::new(OrchestratorCode::Database, "the database cannot be read; the log says why")
    }
}

impl From<Vec<spec::SpecProblem>> for Failed {
    fn from(problems: Vec<spec::SpecProblem>) -> Failed {
        let code = OrchestratorCode::BadCampaign;
        let item = |problem: &spec::SpecProblem| ItemProblem {
            pointer: format!("/{}", problem.field.replace('.', "/")),
            code: code.name().to_owned(),
            detail: problem.to_string(),
        };
        let errors = problems.iter().map(item).collect();
        let detail = match problems.as_slice() {
            [only] => only.to_string(),
            all => format!("{} problems", all.len()),
        };
        Failed { errors, ..Failed::new(code, detail) }
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: format!("/errors/{}", self.code),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.to_owned(),
            errors: self.errors,
        };
        let mut response = (self.status, Json(problem)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
