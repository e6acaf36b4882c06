//! Parts of the `OpenAPI` document that are alike for every route: required roles, and answers that
//! any request can get.
//!
//! Made from the same table that decides, so it cannot differ.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use crate::auth::{Permission, rule};

const SCHEME: &str = "token";

/// `document` as it is served.
///
/// # Panics
///
/// If it does not become JSON.
pub fn completed(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).expect("a document becomes JSON");
    document["components"]["securitySchemes"][SCHEME] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A token from `apportion token new`. No caller needs one while the daemon has no \
                        tokens configured, nor at the unix socket, where the kernel says who it is.",
    });
    for (path, method, operation) in operations(&mut document) {
        let rule = rule(&method.to_uppercase(), Some(&path));
        complete(operation, rule);
    }
    document
}

/// Every operation, with its path and its method.
fn operations(document: &mut Value) -> Vec<(String, String, &mut Value)> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object_mut().into_iter().flatten();
        methods.map(|(method, operation)| (path.clone(), method.clone(), operation))
    });
    operations.filter(|(.., operation)| operation["responses"].is_object()).collect()
}

fn complete(operation: &mut Value, rule: Permission) {
    let has_body = operation["requestBody"].is_object();
    let (roles, scopes) = match rule {
        Permission::Only(roles) => {
            let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
            (roles.join(", "), json!([{ SCHEME: [] }]))
        }
        Permission::Submit => ("submitter, operator".to_owned(), json!([{ SCHEME: [] }])),
        Permission::Open | Permission::Terse | Permission::Authenticated => {
            ("all callers".to_owned(), json!([]))
        }
    };
    operation["security"] = scopes;
    let described = operation["description"].as_str().map(|text| format!("{text}\n\n"));
    operation["description"] = json!(format!("{}For: {roles}.", described.unwrap_or_default()));
    let (always, secured, body) = (
        [
            ("400", "not plain HTTP, or something in it cannot be read"),
            ("503", "the daemon is stopping, or it took too long"),
        ],
        [
            ("401", "the caller is not known"),
            ("403", "the caller may not do this"),
            ("429", "the caller asks too often; `retry-after` says when to go on"),
        ],
        [
            ("408", "the body came too slowly"),
            ("413", "larger than the limit"),
            ("415", "not plain JSON in UTF-8"),
        ],
    );
    // With parameters, what is open is for readers.
    let is_secured = rule != Permission::Open;
    let all = always
        .iter()
        .chain(is_secured.then_some(&secured).into_iter().flatten())
        .chain(has_body.then_some(&body).into_iter().flatten());
    for (status, description) in all {
        let response = &mut operation["responses"][status];
        if response.is_null() {
            *response = json!({
                "description": description,
                "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Problem" },
                } },
            });
        }
    }
    let responses = operation["responses"].as_object_mut().into_iter().flatten();
    for (_, response) in responses.filter(|(status, _)| 400 <= status.parse().unwrap_or(0)) {
        as_problem(response);
    }
}

/// Gives a response the content type of problems.
fn as_problem(response: &mut Value) {
    let Some(content) = response["content"].as_object_mut() else { return };
    if let Some(body) = content.remove("application/json") {
        content.insert("application/problem+json".to_owned(), body);
    }
}
