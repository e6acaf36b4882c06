//! Callers of requests: checks their credentials, and finds the user they act for.

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Failed;
use super::state::ServeState;
use crate::api::{OTHER_HOST, credential, is_rebound, is_same_origin_post};
use crate::auth::{AccessRefusal, Actor, Identity, Peer, Permission, Role, rule};
use crate::orchestrator::drive::By;

/// Header with the user that a portal acts for.
const USER: &str = "apportion-user";

/// The caller of a request. The gate inserts it into the request.
#[derive(Clone, Debug)]
pub struct OrchestratorCaller {
    /// Credentials of the caller.
    pub identity: Identity,
    /// User that the caller names in the header, if the caller may act for this user.
    pub speaks_for: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for OrchestratorCaller {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<OrchestratorCaller, Failed> {
        let identity = parts.extensions.get::<Identity>().cloned().ok_or_else(Failed::not_known)?;
        let Some(user) = parts.headers.get(USER) else {
            return Ok(OrchestratorCaller { identity, speaks_for: None });
        };
        let user = user.to_str().unwrap_or_default().to_owned();
        check_user(&user)?;
        let caller = OrchestratorCaller { identity, speaks_for: None };
        if !caller.may_choose() && caller.own_name().as_deref() != Some(user.as_str()) {
            let detail = format!("{USER}: only tokens with `user=*` may act for {user}");
            return Err(Failed::not_allowed(detail));
        }
        Ok(OrchestratorCaller { speaks_for: Some(user), ..caller })
    }
}

/// Authorizes requests, if no other gate is in front.
pub(super) async fn gate(
    State(state): State<ServeState>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        return Failed::not_known().into_response();
    };
    let Some(gatekeeper) = &state.gatekeeper else {
        return Failed::not_known().into_response();
    };
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let rule = rule(request.method().as_str(), route);
    let identity = match gatekeeper.identify(peer, credential(request.headers())) {
        Ok(identity) => identity,
        Err(refusal) => {
            tracing::warn!(%peer, ?refusal, "refused");
            return Failed::not_known().into_response();
        }
    };
    if is_rebound(request.headers(), &identity) {
        return Failed::not_allowed(OTHER_HOST).into_response();
    }
    // A page of another site can make a browser send a request.
    if !is_same_origin_post(&request, &identity) {
        tracing::warn!(%peer, who = %identity.name, "change by a page of another site refused");
        return Failed::not_allowed("requests of other sites' pages are refused").into_response();
    }
    match gatekeeper.admit(&identity, rule) {
        Ok(()) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(AccessRefusal::TooOften(_)) => Failed::too_often().into_response(),
        Err(refusal) => {
            tracing::warn!(%peer, who = %identity.name, ?refusal, "refused");
            Failed::not_allowed("the role of this caller does not allow the request")
                .into_response()
        }
    }
}

impl OrchestratorCaller {
    /// The caller, for the record.
    pub fn by(&self) -> By {
        let Actor { who, origin } = self.identity.actor();
        let who = match &self.speaks_for {
            Some(user) if *user != who => format!("{who} for {user}"),
            Some(_) | None => who,
        };
        By { who, origin }
    }

    /// True if the caller may see and change the property of `owner`.
    pub fn may_touch(&self, owner: &str) -> bool {
        if let Some(user) = &self.speaks_for {
            return user == owner;
        }
        match (self.identity.role, &self.identity.user) {
            (None | Some(Role::Operator), _) => true,
            (Some(_), Some(user)) => user == owner || user == "*",
            (Some(Role::Reader), None) => self.local_name().as_deref() == Some(owner),
            (Some(_), None) => false,
        }
    }

    /// Refuses a caller that is neither `owner` nor an operator.
    ///
    /// # Errors
    ///
    /// If the caller is neither.
    pub fn check_touch(&self, owner: &str) -> Result<(), Failed> {
        if self.may_touch(owner) {
            return Ok(());
        }
        Err(Failed::not_allowed(format!("this belongs to {owner}; ask {owner} or an operator")))
    }

    /// True if the caller has this permission, for handlers that answer differently.
    pub fn may(&self, rule: Permission) -> bool {
        self.identity.may(rule)
    }

    /// True if the caller may name the user it acts for.
    fn may_choose(&self) -> bool {
        match self.identity.role {
            None | Some(Role::Operator) => true,
            Some(_) => self.identity.user.as_deref() == Some("*"),
        }
    }

    /// Returns the user of the credentials.
    fn own_name(&self) -> Option<String> {
        match &self.identity.user {
            Some(user) if user != "*" => Some(user.to_string()),
            Some(_) => None,
            None => self.local_name(),
        }
    }

    /// The name of a user of this machine at the unix socket.
    fn local_name(&self) -> Option<String> {
        let Peer::Local { uid, .. } = self.identity.peer else { return None };
        let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
        user.ok().flatten().map(|user| user.name)
    }

    /// The user that a campaign is submitted for, with its number at the head. Credentials decide;
    /// `wanted` counts only for callers that may choose.
    ///
    /// # Errors
    ///
    /// If the caller may not submit for that user, or no user is known.
    pub fn owner(&self, wanted: Option<&str>) -> Result<(String, Option<u32>), Failed> {
        let own = self.speaks_for.clone().or_else(|| self.own_name());
        let may_choose = self.may_choose() && self.speaks_for.is_none();
        let name = match (wanted, own) {
            (Some(wanted), own) if own.as_deref() == Some(wanted) || may_choose => {
                wanted.to_owned()
            }
            (Some(wanted), _) => {
                let detail = format!("campaigns of {wanted} are submitted by {wanted} only");
                return Err(Failed::not_allowed(detail));
            }
            (None, Some(own)) => own,
            (None, None) => return Err(Failed::bad("user: is absent; add the name of the user")),
        };
        check_user(&name)?;
        let uid = match self.identity.peer {
            Peer::Local { uid, .. } if self.local_name().as_deref() == Some(&name) => Some(uid),
            Peer::Local { .. } | Peer::Tcp { .. } | Peer::Inside => {
                let user = nix::unistd::User::from_name(&name).ok().flatten();
                user.map(|user| user.uid.as_raw())
            }
        };
        Ok((name, uid))
    }
}

/// Refuses a text that is no name of a user.
fn check_user(name: &str) -> Result<(), Failed> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-@$".contains(c);
    if name.is_empty() || 64 < name.len() || !name.chars().all(is_name) {
        return Err(Failed::bad("user: is no name; use up to 64 letters, digits and `._-@$`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::NodeScope;

    fn caller(role: Option<Role>, user: Option<&str>) -> OrchestratorCaller {
        let address = "127.0.0.1:1".parse().unwrap();
        let peer = Peer::Tcp { address, is_tls: false };
        let user = user.map(Into::into);
        let identity = Identity { name: "t".into(), role, user, nodes: NodeScope::none(), peer };
        OrchestratorCaller { identity, speaks_for: None }
    }

    #[test]
    fn credentials_decide_who_owns_a_campaign() {
        let ann = caller(Some(Role::Submitter), Some("ann"));
        assert_eq!(ann.owner(None).unwrap().0, "ann");
        assert_eq!(ann.owner(Some("ann")).unwrap().0, "ann");
        assert!(ann.owner(Some("bob")).is_err());
        assert!(ann.may_touch("ann") && !ann.may_touch("bob"));
        let portal = caller(Some(Role::Submitter), Some("*"));
        assert_eq!(portal.owner(Some("bob")).unwrap().0, "bob");
        assert!(portal.owner(None).is_err());
        let reader = caller(Some(Role::Reader), None);
        assert!(reader.owner(Some("ann")).is_err() && !reader.may_touch("ann"));
        let open = caller(None, None);
        assert_eq!(open.owner(Some("bob")).unwrap().0, "bob");
        assert!(open.owner(Some("a\nb")).is_err() && open.may_touch("bob"));
        let operator = caller(Some(Role::Operator), None);
        assert!(operator.may_touch("ann") && operator.may(Permission::Submit));
        assert!(!reader.may(Permission::Submit) && ann.may(Permission::Submit));
    }
}
