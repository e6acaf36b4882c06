//! Common parts of all pages: the frame, the live part, and `ETag`s.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use serde::de::DeserializeOwned;

use super::moment::Moment;
use crate::api::http::extract::QueryParams;
use crate::api::{ApiError, PastView, session_of, theme_of};
use crate::auth::{Identity, rule};

/// Properties of a request that every page needs.
#[derive(Debug)]
pub(crate) struct Ask {
    /// True if the request is for the live part only.
    is_fragment: bool,
    /// True if the caller may take nodes out and put them back; otherwise no page offers it.
    pub may_act: bool,
    headers: HeaderMap,
    site: Site,
    /// The requested cycle; `None` on pages that always show the present.
    moment: Option<Moment>,
}

impl Ask {
    /// Builds the properties of a request that reached no handler of `site`.
    pub(super) fn outside(headers: &HeaderMap, site: Site) -> Ask {
        let headers = headers.clone();
        Ask { is_fragment: false, may_act: false, headers, site, moment: None }
    }

    /// A page about a problem.
    pub(super) fn problem(
        &self,
        status: StatusCode,
        title: &str,
        sentence: &str,
        code: &str,
    ) -> Response {
        let looks = FrameContent { is_live: false, ..self.looks() };
        let body = ProblemPage { sentence, code }.render();
        match body.and_then(|body| framed(title, "", "", &body, &looks)) {
            Ok(page) => (status, [(header::CACHE_CONTROL, "no-store")], Html(page)).into_response(),
            Err(error) => PageError::Render(error).into_response(),
        }
    }

    /// Returns the requested cycle of the past; `None`: now.
    pub(super) fn past(&self) -> Option<&Arc<PastView>> {
        self.moment.as_ref().and_then(|moment| moment.past.as_ref())
    }

    /// Returns the latest time on the page, in milliseconds since the epoch. Later events are left
    /// out.
    pub(super) fn until_ms(&self) -> i64 {
        self.past().map_or(i64::MAX, |past| past.at_ms)
    }

    /// Returns the content of the frame around the page.
    fn looks(&self) -> FrameContent {
        FrameContent {
            site: self.site,
            is_live: self.past().is_none(),
            has_session: session_of(&self.headers).is_some(),
            theme: theme_of(&self.headers),
            moment: self.moment.clone(),
        }
    }

    /// True if the site has pages of campaigns.
    pub(super) fn has_campaigns(&self) -> bool {
        self.site.sections.iter().any(|(_, address)| *address == CAMPAIGNS)
    }
}

impl<S: Sync> FromRequestParts<S> for Ask {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Ask, Self::Rejection> {
        let is_fragment = parts.headers.contains_key("hx-request")
            && !parts.headers.contains_key("hx-history-restore-request");
        let rule = rule("POST", Some(super::VARY));
        let moment = parts.extensions.get::<Moment>().cloned();
        let is_now = moment.as_ref().is_none_or(|moment| moment.past.is_none());
        let identity = parts.extensions.get::<Identity>();
        let may_act = is_now && identity.is_some_and(|identity| identity.may(rule));
        let site = parts.extensions.get::<Site>().copied().unwrap_or_default();
        Ok(Ask { is_fragment, may_act, headers: parts.headers.clone(), site, moment })
    }
}

/// Parameters of a page: the part of its address after the question mark.
#[derive(Debug)]
pub(crate) struct PageQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for PageQuery<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PageQuery<T>, PageError> {
        let QueryParams(params) = QueryParams::from_request_parts(parts, state).await?;
        Ok(PageQuery(params))
    }
}

/// The sections of the navigation, in its order: title and address.
pub(crate) type Sections = &'static [(&'static str, &'static str)];

/// The site that a page belongs to. A layer around the pages puts it into each request; a request
/// without it belongs to the site of the daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// The sections of its navigation.
    pub sections: Sections,
    /// Address of the `OpenAPI` document, whose answers are the same as JSON.
    pub document: &'static str,
}

impl Default for Site {
    fn default() -> Site {
        let sections = SECTIONS.split_last().map_or(&SECTIONS[..], |(_, others)| others);
        Site { sections, document: "/openapi.json" }
    }
}

impl Site {
    /// The site of a daemon with an orchestrator in its process.
    pub(crate) const WITH_CAMPAIGNS: Site = Site { sections: &SECTIONS, document: "/openapi.json" };

    /// The site of a daemon, with an orchestrator in its process or without.
    pub(crate) fn beside(has_campaigns: bool) -> Site {
        if has_campaigns { Site::WITH_CAMPAIGNS } else { Site::default() }
    }
}

/// Title and address of each section. The last section needs an orchestrator in the process.
const SECTIONS: [(&str, &str); 11] = [
    ("Overview", "/"),
    ("Topology", "/topology"),
    ("Fairness", "/fairness"),
    ("Jobs", "/jobs"),
    ("Classes", "/classes"),
    ("Users", "/users"),
    ("Nodes", "/nodes"),
    ("Calendar", "/calendar"),
    ("Events", "/events"),
    ("Configuration", "/config"),
    ("Campaigns", CAMPAIGNS),
];

/// Address of the pages of campaigns.
const CAMPAIGNS: &str = "/campaigns";

/// The frame around a page.
#[derive(Template)]
#[template(path = "frame.html")]
struct Frame<'a> {
    title: &'a str,
    section: &'a str,
    site: Site,
    version: &'static str,
    /// The band that names the cycle of the page, as HTML.
    band: &'a str,
    /// The theme that was chosen; empty: as the system has it.
    theme: &'static str,
    /// True if the site has a search.
    has_search: bool,
    /// Time of the past cycle on the page, in milliseconds since the epoch; `None` for the present.
    then_ms: Option<i64>,
    /// Already HTML: what a template below made of it.
    head: &'a str,
    /// The live part, already HTML as `head` is.
    live: &'a str,
    /// True if the page is updated. Pages of the past and pages of problems are not.
    is_live: bool,
    /// True if the reader of the page logged in.
    has_session: bool,
}

/// A page, or the live part of it.
#[derive(Debug)]
pub(crate) struct Page<'a, H, L> {
    /// Title of the page.
    pub title: &'a str,
    /// The section it belongs to.
    pub section: &'static str,
    /// The upper part: forms and charts. An update leaves it alone, as a reader may be using it.
    pub head: H,
    /// The live part, which the browser requests again after each change.
    pub live: L,
}

/// Empty head, for pages that consist of the live part.
#[derive(Debug, Template)]
#[template(source = "", ext = "html")]
pub(crate) struct Nothing;

/// Reason why a page cannot be served.
#[derive(Debug)]
pub(crate) enum PageError {
    /// The requested job, node, user or class does not exist.
    Missing {
        /// Title that names the requested thing.
        title: String,
        /// Reason for the absence, and a remedy.
        sentence: String,
    },
    /// The request was refused, or the page cannot be built.
    Refused {
        /// The status of the answer.
        status: StatusCode,
        /// Reason for the refusal.
        sentence: String,
    },
    /// The daemon has only just started, and still loads its state.
    NotYet,
    /// The API says so.
    Api(ApiError),
    /// The template failed to render.
    Render(askama::Error),
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> PageError {
        PageError::Api(error)
    }
}

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> PageError {
        PageError::Render(error)
    }
}

/// A problem without a frame, for a page that is already open in the browser.
#[derive(Clone, Debug)]
struct ProblemPart {
    title: String,
    body: String,
}

/// Completes answers about problems. A request for the live part gets the part alone, with status
/// 200, as the open page did not fail. Any other request gets a whole page.
pub(crate) async fn in_parts(ask: Ask, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<ProblemPart>() {
        Some(ProblemPart { body, .. }) if ask.is_fragment => Html(body).into_response(),
        Some(ProblemPart { title, body }) => {
            let looks = FrameContent { is_live: false, has_session: false, ..ask.looks() };
            if let Ok(page) = framed(&title, "", "", &body, &looks) {
                *response.body_mut() = page.into();
                response.headers_mut().remove(header::CONTENT_LENGTH);
            }
            response
        }
        None => response,
    }
}

/// A problem, for people.
#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    sentence: &'a str,
    /// The code that programs know it by; empty if it has none.
    code: &'a str,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let is_soon = matches!(self, PageError::NotYet);
        let code = match &self {
            PageError::Api(error) => error.code().name().to_owned(),
            PageError::Missing { .. }
            | PageError::Refused { .. }
            | PageError::NotYet
            | PageError::Render(_) => String::new(),
        };
        let (status, title, sentence) = match self {
            PageError::Missing { title, sentence } => (StatusCode::NOT_FOUND, title, sentence),
            PageError::NotYet => {
                let sentence = "The daemon has only just started and computes its state again from the record. \
                                This takes some seconds; then this page comes by itself.";
                let title = "In a moment".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, title, sentence.to_owned())
            }
            PageError::Refused { status, sentence } => {
                let title =
                    if status == StatusCode::NOT_FOUND { "Not found" } else { "That was refused" };
                (status, title.to_owned(), sentence)
            }
            PageError::Api(error) => {
                let is_missing = error.status() == StatusCode::NOT_FOUND;
                let title = if is_missing { "Not found" } else { "That was refused" };
                (error.status(), title.to_owned(), error.detail().to_owned())
            }
            PageError::Render(error) => {
                tracing::error!(%error, "a page cannot be rendered");
                return (StatusCode::INTERNAL_SERVER_ERROR, "internal error; it is in the log\n")
                    .into_response();
            }
        };
        let body = ProblemPage { sentence: &sentence, code: &code }.render();
        let both = body
            .and_then(|body| Ok((framed(&title, "", "", &body, &FrameContent::default())?, body)));
        match both {
            Err(error) => PageError::Render(error).into_response(),
            Ok((page, body)) => {
                let part = Extension(ProblemPart { title, body });
                let mut response =
                    (status, part, [(header::CACHE_CONTROL, "no-store")], Html(page))
                        .into_response();
                if is_soon {
                    response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("1"));
                }
                response
            }
        }
    }
}

/// Returns the error of a daemon that has only just started.
pub(crate) fn not_yet() -> PageError {
    PageError::NotYet
}

/// Content of the frame around the page.
#[derive(Clone, Debug, Default)]
struct FrameContent {
    site: Site,
    is_live: bool,
    has_session: bool,
    theme: &'static str,
    moment: Option<Moment>,
}

fn framed(
    title: &str,
    section: &str,
    head: &str,
    live: &str,
    looks: &FrameContent,
) -> askama::Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let &FrameContent { site, is_live, has_session, theme, .. } = looks;
    let band = looks.moment.as_ref().map(Moment::band).transpose()?.unwrap_or_default();
    let has_search = site.sections.iter().any(|(_, address)| *address == "/");
    let past = looks.moment.as_ref().and_then(|moment| moment.past.as_ref());
    let frame = Frame {
        title,
        section,
        site,
        version,
        band: &band,
        theme,
        has_search,
        then_ms: past.map(|past| past.at_ms),
        head,
        live,
        is_live,
        has_session,
    };
    let html = frame.render()?;
    Ok(match &looks.moment {
        Some(moment) => moment.kept_in(html),
        None => html,
    })
}

impl<H: Template, L: Template> Page<'_, H, L> {
    /// The answer to `ask`: all of it, its live part, or that nothing has changed.
    ///
    /// # Errors
    ///
    /// If a template fails.
    pub fn answer(&self, ask: &Ask) -> Result<Response, PageError> {
        let live = self.live.render()?;
        let html = if ask.is_fragment {
            live
        } else {
            framed(self.title, self.section, &self.head.render()?, &live, &ask.looks())?
        };
        let tag = tag_of(&html);
        let mut response = if is_known(&ask.headers, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Html(html).into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // The same address has two answers, a page and its live part: a browser must not confuse
        // them.
        headers.insert(header::VARY, HeaderValue::from_static("hx-request"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        Ok(response)
    }
}

/// The `ETag` of `content`.
pub(crate) fn tag_of(content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("W/\"{:016x}\"", hasher.finish())
}

/// True if the client already has the content that `tag` names.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
    known.any(|known| known.trim() == tag)
}

/// The address with `page` set to another number; it has no other meaning here.
pub(crate) fn address_of(path: &str, params: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    let set = params.iter().filter(|(_, value)| !value.is_empty());
    for ((key, value), mark) in set.zip(std::iter::once('?').chain(std::iter::repeat('&'))) {
        address.push(mark);
        address.push_str(key);
        address.push('=');
        address.push_str(&encoded(value));
    }
    address
}

/// The address of what is called `name` below `path`.
pub(crate) fn link(path: &str, name: &str) -> String {
    format!("{path}{}", encoded(name))
}

/// `text` as a part of an address.
pub(crate) fn encoded(text: &str) -> String {
    askama::filters::urlencode_strict(text).map(|text| text.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_only_what_is_asked_and_escape_it() {
        assert_eq!(address_of("/jobs", &[("user", ""), ("class", "")]), "/jobs");
        let asked = address_of("/jobs", &[("user", "a&b=<"), ("class", ""), ("page", "2")]);
        assert_eq!(asked, "/jobs?user=a%26b%3D%3C&page=2");
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        let tag = tag_of("x");
        let mut headers = HeaderMap::new();
        assert!(!is_known(&headers, &tag));
        headers.insert(header::IF_NONE_MATCH, format!("W/\"1\", {tag}").parse().unwrap());
        assert!(is_known(&headers, &tag) && !is_known(&headers, &tag_of("y")));
    }
}
