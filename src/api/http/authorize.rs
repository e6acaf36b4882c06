//! The gate that every request goes through: identity, permission, and intent of the caller.
//!
//! A refused caller learns only that it is refused; the reason is in the log and in the audit log.

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::http::error::{ApiError, Code};
use crate::api::http::origin::{credential, is_rebound, is_same_origin_post};
use crate::api::http::refuse::{NOT_KNOWN, record, refused, stranger};
use crate::api::metrics::client_stats::Client;
use crate::api::state::ApiState;
use crate::auth::{AccessRefusal, Identity, Peer, Permission, READ, rule};

/// Identity of the caller of a request.
#[derive(Clone, Debug)]
pub struct Caller(pub Identity);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, ApiError> {
        // A request without an identity did not pass the gate, so it is refused.
        let identity = parts.extensions.get::<Identity>().cloned();
        identity.map(Caller).ok_or_else(|| ApiError::new(Code::NotKnown, NOT_KNOWN))
    }
}

pub(crate) const OTHER_HOST: &str = "without tokens the daemon answers to addresses and local names only: ask it as 127.0.0.1 or localhost";
const FOREIGN_HOST: AccessRefusal =
    AccessRefusal::Unknown("asked for under another host's name", None);

/// Passes on permitted requests, and counts requests by client.
pub async fn gate(state: &ApiState, request: Request, next: Next) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        return ApiError::new(Code::NotKnown, NOT_KNOWN).into_response();
    };
    let identity = state.gatekeeper.identify(peer, credential(request.headers()));
    let client = Client::of(&identity, peer);
    let response = let_in(state, request, next, peer, identity).await;
    state.clients.answered(client, response.status());
    response
}

async fn let_in(
    state: &ApiState,
    mut request: Request,
    next: Next,
    peer: Peer,
    identity: Result<Identity, AccessRefusal>,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let rule = rule(request.method().as_str(), route);
    let asks_for_more = rule == Permission::Terse && request.uri().query().is_some();
    let rule = if asks_for_more { READ } else { rule };
    if matches!(rule, Permission::Open | Permission::Terse) {
        if let Ok(identity) = identity {
            request.extensions_mut().insert(identity);
        }
        return next.run(request).await;
    }
    let (by, refusal) = match identity {
        Ok(identity) if is_rebound(request.headers(), &identity) => {
            record(state, request.method(), request.uri(), identity.actor(), &FOREIGN_HOST);
            return ApiError::new(Code::NotAllowed, OTHER_HOST).into_response();
        }
        Ok(identity) => {
            let is_theirs = is_same_origin_post(&request, &identity);
            match state.gatekeeper.admit(&identity, rule) {
                Ok(()) if is_theirs => {
                    request.extensions_mut().insert(identity);
                    return next.run(request).await;
                }
                Ok(()) => (identity.actor(), AccessRefusal::NotAllowed),
                Err(refusal) => (identity.actor(), refusal),
            }
        }
        Err(refusal) => (stranger(&refusal, peer), refusal),
    };
    refused(state, &request, by, &refusal)
}
