//! Cycle of a page: the latest cycle, or a past cycle that its address names.
//!
//! `?cycle=N` is removed from the address before a page reads it, so pages handle past and present
//! alike. Links on a page of the past lead to the same cycle.

use std::fmt::Write;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, Request, State};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Dashboard;
use super::frame::PageError;
use super::words;
use crate::api::{CyclesOnRecord, PastView};

/// The parameter that names a cycle.
const PARAMETER: &str = "cycle";

/// Pages that show any cycle, by the first part of their address.
const PAGES: [&str; 10] =
    ["", "topology", "jobs", "classes", "users", "nodes", "node", "fairness", "search", "calendar"];

/// Cycle of a page, and the range of the other cycles.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The cluster then; `None`: now.
    pub past: Option<Arc<PastView>>,
    /// The ends of the record.
    on_record: Option<CyclesOnRecord>,
    /// The page without its cycle.
    here: String,
    /// The other parameters of the address.
    others: Pairs,
}

/// Finds the requested cycle before the request takes its turn, as that may take long.
pub(super) async fn at_cycle(
    State(dashboard): State<Dashboard>,
    mut request: Request,
    next: Next,
) -> Response {
    if !is_of_any_cycle(request.uri().path()) {
        return next.run(request).await;
    }
    let (cycle, others) = match asked(request.uri()) {
        Ok(asked) => asked,
        Err(error) => return error.into_response(),
    };
    let past = match cycle {
        None => None,
        Some(cycle) => match dashboard.api.past_cycles.after(cycle).await {
            Ok(past) => Some(past),
            Err(error) => return PageError::Api(error.as_error(cycle)).into_response(),
        },
    };
    let here = request.uri().path().to_owned();
    if cycle.is_some() {
        let pairs: Vec<(&str, &str)> =
            others.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if let Ok(uri) = super::frame::address_of(&here, &pairs).parse() {
            *request.uri_mut() = uri;
        }
    }
    let on_record = dashboard.api.past_cycles.on_record().await;
    request.extensions_mut().insert(Moment { past, on_record, here, others });
    next.run(request).await
}

/// Parameters of an address.
type Pairs = Vec<(String, String)>;

/// Returns the cycle in the address, and the other parameters.
fn asked(uri: &Uri) -> Result<(Option<u64>, Pairs), PageError> {
    let pairs = Query::<Pairs>::try_from_uri(uri);
    let pairs = pairs.map(|Query(pairs)| pairs).unwrap_or_default();
    let (cycles, others): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(key, _)| key == PARAMETER);
    let cycle = match cycles.last().map(|(_, cycle)| cycle.as_str()) {
        None | Some("") => None,
        Some(text) => Some(text.replace(',', "").trim().parse().map_err(|_| {
            let sentence = "The cycle in the address is not a number. Cycles are counted from 1.";
            let status = axum::http::StatusCode::BAD_REQUEST;
            PageError::Refused { status, sentence: sentence.to_owned() }
        })?),
    };
    Ok((cycle, others))
}

fn is_of_any_cycle(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    PAGES.contains(&first) && path != super::VARY && path != super::CHANGES
}

/// The band above a page: names the cycle and links to other cycles.
#[derive(Template)]
#[template(path = "moment.html")]
struct Band<'a> {
    here: &'a str,
    others: &'a [(String, String)],
    oldest: u64,
    newest: u64,
    shown: u64,
    /// Time of the cycle, in milliseconds since the epoch and in words; `None` for the present.
    then: Option<(i64, String)>,
    earlier: Option<String>,
    later: Option<String>,
    now: String,
}

impl Moment {
    /// Renders the band above a page; empty while the journal has no cycle.
    pub fn band(&self) -> askama::Result<String> {
        let Some(CyclesOnRecord { oldest, newest }) = self.on_record else {
            return Ok(String::new());
        };
        let shown = self.past.as_ref().map_or(newest, |past| past.view.cycle);
        let is_past = self.past.is_some();
        let is_there = |cycle: &u64| is_past && (oldest..=newest).contains(cycle);
        let step = |cycle: u64| self.address(Some(cycle));
        Band {
            here: &self.here,
            others: &self.others,
            oldest,
            newest,
            shown,
            then: self.past.as_ref().map(|past| (past.at_ms, words::time(past.at_ms))),
            earlier: shown.checked_sub(1).filter(is_there).map(step),
            later: shown.checked_add(1).filter(is_there).map(step),
            now: self.address(None),
        }
        .render()
    }

    fn address(&self, cycle: Option<u64>) -> String {
        let cycle = cycle.map(|cycle| cycle.to_string()).unwrap_or_default();
        let others = self.others.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let pairs: Vec<(&str, &str)> = others.chain([(PARAMETER, cycle.as_str())]).collect();
        super::frame::address_of(&self.here, &pairs)
    }

    /// Returns `html`. If the page shows a past cycle, its links and forms stay in that cycle.
    pub fn kept_in(&self, html: String) -> String {
        match &self.past {
            None => html,
            Some(past) => in_cycle(&html, past.view.cycle),
        }
    }
}

/// `html` whose links and forms are of `cycle`, where they lead to pages that show any.
///
/// Names of people and nodes cannot be taken for a link: a quote in them is written otherwise.
fn in_cycle(html: &str, cycle: u64) -> String {
    // Writing to a string cannot fail.
    let mut kept = String::with_capacity(html.len() + html.len().isqrt());
    let mut rest = html;
    while let Some(at) = rest.find("=\"/") {
        let (before, link) = rest.split_at(at + 2);
        kept.push_str(before);
        let Some((address, after)) = link.split_once('"') else {
            rest = link;
            break;
        };
        kept.push_str(address);
        rest = after;
        let path = address.split(['?', '&', '#']).next().unwrap_or_default();
        // The band leads to other cycles.
        let is_bound = before.rsplit('<').next().is_some_and(|tag| tag.contains("data-now"))
            || after.starts_with(" data-now");
        if is_bound || !is_of_any_cycle(path) {
            kept.push('"');
        } else if before.ends_with("href=\"") {
            let mark = if address.contains('?') { "&amp;" } else { "?" };
            let _ = write!(kept, "{mark}{PARAMETER}={cycle}\"");
        } else if before.ends_with("action=\"") {
            // The parameters of a form are its fields.
            let Some((tag, inside)) = after.split_once('>') else { break };
            let _ = write!(
                kept,
                "\"{tag}><input type=\"hidden\" name=\"{PARAMETER}\" value=\"{cycle}\">"
            );
            rest = inside;
        } else {
            kept.push('"');
        }
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_forms_of_the_past_stay_in_their_cycle() {
        let cases = [
            (r#"<a href="/jobs/7">"#, r#"<a href="/jobs/7?cycle=9">"#),
            (
                r#"<a href="/jobs?user=a&#38;b=c">x"#,
                r#"<a href="/jobs?user=a&#38;b=c&amp;cycle=9">x"#,
            ),
            (r#"<a class="b" href="/">"#, r#"<a class="b" href="/?cycle=9">"#),
            (r#"<a href="/events">"#, r#"<a href="/events">"#),
            (r#"<a href="/v1/jobs/7">"#, r#"<a href="/v1/jobs/7">"#),
            (r#"<a href="/nodes/vary?way=off">"#, r#"<a href="/nodes/vary?way=off">"#),
            (r#"<a href="https://elsewhere/jobs">"#, r#"<a href="https://elsewhere/jobs">"#),
            (r#"<a data-now href="/jobs">"#, r#"<a data-now href="/jobs">"#),
            (r#"<form action="/" data-now>"#, r#"<form action="/" data-now>"#),
            (r#"<i data-src="/jobs">"#, r#"<i data-src="/jobs">"#),
            (
                r#"<form action="/jobs" data-live><b>"#,
                r#"<form action="/jobs" data-live><input type="hidden" name="cycle" value="9"><b>"#,
            ),
            ("plain", "plain"),
        ];
        for (html, expected) in cases {
            assert_eq!(in_cycle(html, 9), expected);
        }
    }

    #[test]
    fn the_cycle_is_taken_out_of_the_address() {
        let cases = [
            ("/jobs", Some((None, ""))),
            ("/jobs?cycle=", Some((None, ""))),
            ("/jobs?user=a%20b&cycle=1,234&page=2", Some((Some(1_234), "user=a b page=2"))),
            ("/jobs?cycle=x", None),
            ("/jobs?cycle=-1", None),
        ];
        for (address, expected) in cases {
            let found = asked(&Uri::from_static(address)).ok().map(|(cycle, others)| {
                let others = others.iter().map(|(key, value)| format!("{key}={value}"));
                (cycle, others.collect::<Vec<_>>().join(" "))
            });
            assert_eq!(found, expected.map(|(cycle, others)| (cycle, others.to_owned())));
        }
    }
}
