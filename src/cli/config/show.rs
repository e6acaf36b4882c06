//! Settings in effect, for people and for programs.

use serde_json::{Value, json};

use super::super::client::DaemonClient;
use super::super::failure::Failure;
use super::super::output::{print, show};
use super::super::table::Column::Left;
use super::super::table::{plain, table};
use super::args::ConfigShowArgs;
use crate::api::wire::ConfigInfo;
use crate::config::{Config, Origin, Row};

/// Text for a setting without a value.
const NOT_SET: &str = "(not set)";

/// A shown setting: its key, its value if set, and its origin.
type SettingLine = (String, Option<String>, String);

/// Shows `config`.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn run(args: &ConfigShowArgs, config: &Config) -> Result<(), Failure> {
    if args.remote.json {
        let rows: Vec<Value> = config.listing.rows().map(|row| json_of(row, config)).collect();
        return Ok(print(&serde_json::to_string_pretty(&rows)?)?);
    }
    let line = |row: &Row| {
        let origin = match &row.origin {
            Origin::Line(line) => format!("{}:{line}", config.file.name),
            Origin::Default | Origin::Variable(_) | Origin::Flag(_) => row.origin.to_string(),
        };
        (row.path.clone(), row.value.clone(), origin)
    };
    Ok(print(&render(config.listing.rows().map(line), args.origin))?)
}

/// Shows what is in effect in the daemon.
///
/// # Errors
///
/// If it cannot be reached.
pub async fn running(args: &ConfigShowArgs) -> Result<(), Failure> {
    let info: ConfigInfo = DaemonClient::new(&args.remote)?.get(&["v1", "config"], &[]).await?;
    Ok(show(&info, args.remote.json, |info| {
        let lines = info.settings.iter().map(|setting| {
            let origin = match setting.origin.strip_prefix("line ") {
                Some(line) => format!("{}:{line}", info.name),
                None => setting.origin.clone(),
            };
            (setting.setting.clone(), setting.value.clone(), origin)
        });
        let mut text = render(lines, args.origin);
        text.push_str(&format_of_generation(info));
        text
    })?)
}

fn format_of_generation(info: &ConfigInfo) -> String {
    let waiting = &info.waiting_for_restart;
    let waits = match waiting.as_slice() {
        [] => String::new(),
        waiting => format!("\n# at a restart only: {}", plain(&waiting.join(", "))),
    };
    format!("\n# generation {}, {}{waits}", info.generation, plain(&info.name))
}

fn render(lines: impl Iterator<Item = SettingLine>, with_origins: bool) -> String {
    if with_origins {
        let rows = lines.map(|(path, value, origin)| {
            [path, value.unwrap_or_else(|| NOT_SET.to_owned()), origin]
        });
        return table([Left("SETTING"), Left("VALUE"), Left("FROM")], rows);
    }
    let line = |(path, value, _): SettingLine| match value {
        Some(value) => format!("{path} = {value}"),
        None => format!("# {path} is not set"),
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
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
