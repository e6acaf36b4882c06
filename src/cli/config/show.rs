//! Settings in effect, for people and for programs.

use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::output::print;
use super::super::table::Column::Left;
use super::super::table::table;
use super::args::Show;
use crate::config::{Config, Origin, Row};

/// What stands for a setting that is not set.
const NOT_SET: &str = "(not set)";

/// Shows `config`.
///
/// # Errors
///
/// If nobody takes the answer.
pub fn run(args: &Show, config: &Config) -> Result<(), Failure> {
    let text = match (args.json, args.origin) {
        (true, _) => {
            let rows: Vec<Value> = config.listing.rows().map(|row| json_of(row, config)).collect();
            serde_json::to_string_pretty(&rows)?
        }
        (false, true) => with_origins(config),
        (false, false) => {
            let line = |row: &Row| match &row.value {
                Some(value) => format!("{} = {value}", row.path),
                None => format!("# {} is not set", row.path),
            };
            config.listing.rows().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    Ok(print(&text)?)
}

fn with_origins(config: &Config) -> String {
    let rows = config.listing.rows().map(|row| {
        let value = row.value.clone().unwrap_or_else(|| NOT_SET.to_owned());
        [row.path.clone(), value, origin(&row.origin, config)]
    });
    table([Left("SETTING"), Left("VALUE"), Left("FROM")], rows)
}

fn origin(origin: &Origin, config: &Config) -> String {
    match origin {
        Origin::Line(line) => format!("{}:{line}", config.file.name),
        Origin::Default | Origin::Variable(_) | Origin::Flag(_) => origin.to_string(),
    }
}

fn json_of(row: &Row, config: &Config) -> Value {
    let from = match &row.origin {
        Origin::Default => json!({ "kind": "default" }),
        Origin::Line(line) => json!({ "kind": "file", "file": config.file.name, "line": line }),
        Origin::Variable(name) => json!({ "kind": "environment", "variable": name }),
        Origin::Flag(flag) => json!({ "kind": "flag", "flag": flag }),
    };
    json!({ "setting": row.path, "value": row.value, "origin": from })
}
