//! Problems as pages for people: what a code means, and a page where an address leads nowhere.

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::frame::{Ask, Nothing, Page, PageError, Site};
use crate::api::Code;
use crate::api::http::extract::PathPart;
use crate::api::wire::Problem;

/// Size limit of a problem's text in bytes. Most have a sentence or two; a list of every fault of a
/// body may be longer.
const PROBLEM_MAX: usize = 1 << 20;

/// First letter of a code, its meaning, and the document to read on.
const FAMILIES: [(char, &str, &str); 6] = [
    (
        'P',
        "publications",
        "The orchestrator sent something that is not accepted. What is right in a publication is taken all the same, and `errors` in the answer names each place by a JSON pointer.",
    ),
    (
        'H',
        "heartbeats",
        "An agent reported something that is not accepted. Other nodes in the same message are heard.",
    ),
    (
        'A',
        "administration",
        "An act on nodes was refused. Nothing was done; the answer names what to change.",
    ),
    (
        'G',
        "the configuration",
        "A configuration was refused, or is not on record. The one in effect stays in effect.",
    ),
    ('Q', "questions", "What was asked for does not exist, or not any more."),
    (
        'T',
        "requests of any kind",
        "The request did not come through, or its sender may not make it. Nothing was changed, unless the answer says so.",
    ),
];

struct CodeLine {
    code: &'static str,
    status: u16,
    title: &'static str,
}

#[derive(Template)]
#[template(path = "errors.html")]
struct LiveProblems {
    /// The requested code; the rest of its family is listed with it.
    chosen: Option<CodeLine>,
    groups: Vec<(&'static str, &'static str, Vec<CodeLine>)>,
}

fn lines() -> impl Iterator<Item = CodeLine> {
    Code::ALL.into_iter().map(|code| {
        let (status, title) = code.meaning();
        CodeLine { code: code.name(), status: status.as_u16(), title }
    })
}

fn groups(is_wanted: impl Fn(char) -> bool) -> Vec<(&'static str, &'static str, Vec<CodeLine>)> {
    let families = FAMILIES.into_iter().filter(|(letter, ..)| is_wanted(*letter));
    let group = |(letter, title, words): (char, _, _)| {
        let mut lines: Vec<CodeLine> =
            lines().filter(|line| line.code.starts_with(letter)).collect();
        lines.sort_by_key(|line| (line.code, line.status));
        (title, words, lines)
    };
    families.map(group).collect()
}

/// Every code.
pub(super) async fn all(ask: Ask) -> Result<Response, PageError> {
    let live = LiveProblems { chosen: None, groups: groups(|_| true) };
    Page { title: "Error codes", section: "", head: Nothing, live }.answer(&ask)
}

/// Answers with the page of a single code.
pub(super) async fn one(PathPart(code): PathPart<String>, ask: Ask) -> Result<Response, PageError> {
    let Some(chosen) = lines().find(|line| line.code.eq_ignore_ascii_case(&code)) else {
        let sentence = "No answer has this code. All codes are listed at /errors.".to_owned();
        return Err(PageError::Missing { title: "No such code".to_owned(), sentence });
    };
    let letter = chosen.code.chars().next();
    let title = format!("Error {}", chosen.code);
    let live = LiveProblems { groups: groups(|known| Some(known) == letter), chosen: Some(chosen) };
    Page { title: &title, section: "", head: Nothing, live }.answer(&ask)
}

/// Answers a person who looks for a page with a page, where the answer is a problem for programs.
pub(crate) async fn for_people(State(site): State<Site>, request: Request, next: Next) -> Response {
    if *request.method() != Method::GET || !is_for_people(&request) {
        return next.run(request).await;
    }
    let ask = Ask::outside(request.headers(), site);
    let response = next.run(request).await;
    if !is_problem(response.headers()) {
        return response;
    }
    let (head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, PROBLEM_MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
        return Response::from_parts(head, Body::from(body));
    };
    let title = match head.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not for this token",
        _ => "That did not work",
    };
    let mut page = ask.problem(head.status, title, &problem.detail, &problem.code);
    for name in [header::RETRY_AFTER, header::ALLOW, header::X_CONTENT_TYPE_OPTIONS] {
        if let Some(value) = head.headers.get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    super::make_harmless(page.headers_mut());
    page
}

fn is_for_people(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
        && !request.headers().contains_key("hx-request")
        && !request.uri().path().starts_with("/v1/")
}

fn is_problem(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/problem+json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_one_family() {
        let listed: usize = groups(|_| true).iter().map(|(.., lines)| lines.len()).sum();
        assert_eq!(listed, Code::ALL.len());
    }
}
