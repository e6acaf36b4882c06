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
use crate::api::wire::{OrchestratorCode, Problem};

/// Size limit of a problem's text in bytes. Most have a sentence or two; a list of every fault of a
/// body may be longer.
const PROBLEM_MAX: usize = 1 << 20;

/// First letter of a code, its meaning, and the document to read on.
const FAMILIES: [(char, &str, &str); 7] = [
    (
        'P',
        "publications",
        "The orchestrator sent something that is not accepted. What is right in a publication is taken all the same, and `errors` in the answer names each place by a JSON pointer.",
    ),
    (
        'H',
        "heartbeats",
        "An agent reported something that is not accepted. Other nodes in the same message count.",
    ),
    (
        'A',
        "administration",
        "An act on nodes was refused. Nothing was done; the answer names what to change.",
    ),
    (
        'O',
        "campaigns",
        "The orchestrator refused a request about a campaign, a task or a slot. Nothing was changed.",
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
    remedy: &'static str,
}

#[derive(Template)]
#[template(path = "errors.html")]
struct LiveProblems {
    /// The requested code; the rest of its family is listed with it.
    chosen: Option<CodeLine>,
    groups: Vec<(&'static str, &'static str, Vec<CodeLine>)>,
}

fn lines() -> impl Iterator<Item = CodeLine> {
    let daemon = Code::ALL.into_iter().map(|code| {
        let (status, title) = code.meaning();
        CodeLine { code: code.name(), status: status.as_u16(), title, remedy: code.remedy() }
    });
    let orchestrator = OrchestratorCode::ALL.into_iter().map(|code| CodeLine {
        code: code.name(),
        status: code.status(),
        title: code.title(),
        remedy: code.remedy(),
    });
    daemon.chain(orchestrator)
}

/// Family of a code: its first letter as a capital.
fn family(code: &str) -> Option<char> {
    code.chars().next().map(|letter| letter.to_ascii_uppercase())
}

fn groups(is_wanted: impl Fn(char) -> bool) -> Vec<(&'static str, &'static str, Vec<CodeLine>)> {
    let families = FAMILIES.into_iter().filter(|(letter, ..)| is_wanted(*letter));
    let group = |(letter, title, words): (char, _, _)| {
        let mut lines: Vec<CodeLine> =
            lines().filter(|line| family(line.code) == Some(letter)).collect();
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
    let letter = family(chosen.code);
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_in_one_family() {
        let listed: usize = groups(|_| true).iter().map(|(.., lines)| lines.len()).sum();
        assert_eq!(listed, Code::ALL.len() + OrchestratorCode::ALL.len());
    }

    #[test]
    fn every_line_has_a_remedy_of_its_own() {
        let remedies: BTreeSet<&str> = lines().map(|line| line.remedy).collect();
        assert_eq!(remedies.len(), lines().count(), "two codes share a remedy");
        assert!(remedies.iter().all(|remedy| remedy.ends_with('.')), "{remedies:?}");
    }

    /// Text of `docs/errors.md`.
    fn document() -> String {
        let mut text = String::from(
            "# Error codes\n\nEvery refusal is an [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem with a stable `code`. \
             Its `type` leads to a page of the\ndaemon, `/errors/CODE`, with the remedy that stands here. `detail` names the values, \
             and `errors` the places in the body.\nA code with two rows has two statuses.\n",
        );
        for (title, words, lines) in groups(|_| true) {
            text.extend(["\n## Codes about ", title, "\n\n", words, "\n\n"]);
            text += "| code | status | meaning | remedy |\n|---|---|---|---|\n";
            for line in lines {
                let CodeLine { code, status, title, remedy } = line;
                let status = status.to_string();
                text.extend(["| `", code, "` | ", &status, " | ", title, " | ", remedy, " |\n"]);
            }
        }
        text
    }

    #[test]
    fn the_document_of_errors_lists_every_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(path, document()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap();
        assert_eq!(found, document(), "INSTA_UPDATE=always writes it anew");
    }
}
