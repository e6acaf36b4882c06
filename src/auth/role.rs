//! Table of permissions: the roles that may use each route.

use std::fmt;

/// Role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks at everything, changes nothing.
    Reader,
    /// Reports the nodes of its token only.
    Agent,
    /// Publishes work and follows the schedule.
    Orchestrator,
    /// Submits campaigns of a single user, and reads everything.
    Submitter,
    /// Takes nodes out and puts them back; changes the configuration.
    Operator,
}

impl Role {
    /// All there are.
    pub const ALL: [Role; 5] =
        [Role::Reader, Role::Agent, Role::Orchestrator, Role::Submitter, Role::Operator];

    /// Name of the role in the file of tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Agent => "agent",
            Role::Orchestrator => "orchestrator",
            Role::Submitter => "submitter",
            Role::Operator => "operator",
        }
    }

    /// The role called `name`.
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Permission that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Every client.
    Open,
    /// Every client, for an answer of a word or two; readers only, for requests with parameters.
    Terse,
    /// These roles.
    Only(&'static [Role]),
    /// Submitters, operators, and every user of this machine at the unix socket.
    Submit,
    /// Every authenticated caller, who only learns that there is no such route.
    Authenticated,
}

/// Permission to read.
pub const READ: Permission = Permission::Only(&[Role::Reader, Role::Orchestrator, Role::Operator]);
const REPORT: Permission = Permission::Only(&[Role::Agent]);
const PUBLISH: Permission = Permission::Only(&[Role::Orchestrator]);
const OPERATE: Permission = Permission::Only(&[Role::Operator]);
const URGENT: Permission = Permission::Only(&[Role::Orchestrator, Role::Operator]);

/// Permissions of all routes and pages. An unlisted route that changes state is for operators only;
/// any other unlisted route is for readers. A test requires each documented route to be listed.
const TABLE: &[(&str, &str, Permission)] = &[
    ("GET", "/livez", Permission::Terse),
    ("GET", "/readyz", Permission::Terse),
    ("GET", "/healthz", Permission::Terse),
    ("GET", "/login", Permission::Open),
    ("POST", "/login", Permission::Open),
    ("POST", "/logout", Permission::Open),
    ("GET", "/openapi.json", READ),
    ("GET", "/metrics", READ),
    ("POST", "/v1/heartbeats", REPORT),
    ("PUT", "/v1/publication", PUBLISH),
    ("POST", "/v1/publication/reset", OPERATE),
    ("GET", "/v1/orchestrators", READ),
    ("POST", "/v1/orchestrators/hand-over", OPERATE),
    ("GET", "/v1/schedule", READ),
    ("GET", "/v1/events", READ),
    ("GET", "/v1/status", READ),
    ("GET", "/v1/cycles", READ),
    ("GET", "/v1/clients", READ),
    ("GET", "/v1/nodes", READ),
    ("GET", "/v1/nodes/{name}", READ),
    ("GET", "/v1/jobs", READ),
    ("GET", "/v1/jobs/{id}", READ),
    ("GET", "/v1/jobs/{id}/why", READ),
    ("GET", "/v1/classes", READ),
    ("GET", "/v1/users", READ),
    ("GET", "/v1/load", READ),
    ("GET", "/v1/occupancy", READ),
    ("GET", "/v1/config", READ),
    ("GET", "/v1/config/generations", READ),
    ("GET", "/v1/config/generations/{generation}", READ),
    ("POST", "/v1/config/plan", OPERATE),
    ("POST", "/v1/config/apply", OPERATE),
    ("POST", "/v1/nodes/vary-off", OPERATE),
    ("POST", "/v1/nodes/vary-on", OPERATE),
    ("POST", "/v1/nodes/lost", OPERATE),
    ("POST", "/v1/nodes/forget", OPERATE),
    ("POST", "/v1/urgent", URGENT),
    ("GET", "/v1/reservations", READ),
    ("POST", "/v1/reservations", OPERATE),
    ("GET", "/v1/reservations/{name}", READ),
    ("DELETE", "/v1/reservations/{name}", OPERATE),
    ("POST", "/nodes/vary", OPERATE),
    // The orchestrator's.
    ("POST", "/v1/campaigns", Permission::Submit),
    ("GET", "/v1/campaigns", READ),
    ("GET", "/v1/campaigns/{id}", READ),
    ("GET", "/v1/campaigns/events", READ),
    ("GET", "/v1/campaigns/{id}/stats", READ),
    ("GET", "/v1/campaigns/{id}/why", READ),
    ("GET", "/v1/grid", READ),
    ("GET", "/v1/grid/{node}", READ),
    ("POST", "/v1/grid/leases", Permission::Submit),
    ("GET", "/v1/grid/status", READ),
    ("PUT", "/v1/grid/clusters/{name}", OPERATE),
    ("GET", "/v1/campaigns/{id}/forecasts", READ),
    ("GET", "/v1/grid/events", READ),
    ("PUT", "/v1/grid/events", OPERATE),
    ("DELETE", "/v1/grid/events/{id}", OPERATE),
    ("GET", "/v1/admission", OPERATE),
    ("POST", "/v1/admission/try", Permission::Submit),
    ("GET", "/v1/campaigns/{id}/spec", Permission::Submit),
    ("PUT", "/v1/campaigns/{id}/state", Permission::Submit),
    ("POST", "/v1/campaigns/{id}/resubmit", Permission::Submit),
    ("POST", "/v1/campaigns/{id}/tasks", Permission::Submit),
    ("GET", "/v1/campaigns/{id}/tasks", READ),
    ("GET", "/v1/campaigns/{id}/tasks/{task}", READ),
    ("POST", "/v1/campaigns/{id}/tasks/{task}/cancel", Permission::Submit),
    ("POST", "/v1/campaigns/{id}/tasks/{task}/signal", Permission::Submit),
    ("GET", "/v1/campaigns/{id}/tasks/{task}/output", Permission::Submit),
    ("POST", "/v1/nodes/{node}/exchange", REPORT),
    ("POST", "/v1/nodes/{node}/output/{request}", REPORT),
    ("GET", "/v1/nodes/{node}/stdin/{spec}", REPORT),
    ("POST", "/v1/slots/lost", OPERATE),
    ("GET", "/v1/adoption", READ),
    ("POST", "/v1/adoption", OPERATE),
    ("GET", "/orchestrator/openapi.json", READ),
    ("POST", "/campaigns/{id}/state", Permission::Submit),
    ("GET", "/orchestrator/metrics", READ),
];

/// Returns the permission that `method` on the route `path` needs. `None` stands for a path that is
/// no route.
pub fn rule(method: &str, path: Option<&str>) -> Permission {
    let Some(path) = path else { return Permission::Authenticated };
    // A caller that may `GET` a route may send `HEAD` to it.
    let method = if method == "HEAD" { "GET" } else { method };
    let mut routes = TABLE.iter().filter(|(_, route, _)| *route == path).peekable();
    let is_known = routes.peek().is_some();
    match routes.find(|(known, ..)| *known == method) {
        Some((.., rule)) => *rule,
        None if is_known && method != "GET" => Permission::Authenticated,
        None if method == "GET" => READ,
        None => OPERATE,
    }
}

/// True if the table has this route, so that no route falls back to the rule for unknown routes.
pub fn has_route(method: &str, path: &str) -> bool {
    TABLE.iter().any(|(known, route, _)| (*known, *route) == (method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_table_is_closed_where_it_changes_something() {
        for (method, path, expected) in [
            ("GET", Some("/v1/jobs"), READ),
            ("HEAD", Some("/v1/jobs"), READ),
            ("DELETE", Some("/v1/jobs"), Permission::Authenticated),
            ("GET", Some("/pages/of/tomorrow"), READ),
            ("POST", Some("/pages/of/tomorrow"), OPERATE),
            ("POST", None, Permission::Authenticated),
            ("POST", Some("/v1/nodes/vary-off"), OPERATE),
        ] {
            assert_eq!(rule(method, path), expected, "{method} {path:?}");
        }
    }

    #[test]
    fn nothing_that_changes_anything_is_open_or_for_readers() {
        for (method, path, rule) in TABLE.iter().filter(|(method, ..)| *method != "GET") {
            let is_session = ["/login", "/logout"].contains(path);
            let is_for_readers =
                matches!(rule, Permission::Only(roles) if roles.contains(&Role::Reader));
            assert!(
                is_session || (*rule != Permission::Open && !is_for_readers),
                "{method} {path}"
            );
        }
    }
}
