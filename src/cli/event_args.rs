//! Arguments of `events`.

use clap::{Args, ValueEnum};

use super::remote::Remote;

pub(super) const EVENTS_EXAMPLES: &str = "\
Examples:
  apportion events                     the last ones
  apportion events -f                  and those to come, until Ctrl-C
  apportion events --since 10m         what came about in the last ten minutes
  apportion events --job 7 -n 5        the last five that concern job 7
  apportion events --since 4711 -o jsonl | jq 'select(.kind == \"removed\")'";

/// Prints events.
#[derive(Debug, Args)]
pub struct Events {
    /// Continue with new events
    #[arg(long, short)]
    pub follow: bool,
    /// From here on: after the event of this number, or for the last 30s, 10m, 2h
    #[arg(long, short, value_name = "NUMBER|SPAN", value_parser = parse_since)]
    pub since: Option<Since>,
    /// The last so many; without it and --since, the last 20
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
    /// Only of these kinds
    #[arg(long, short, value_enum, value_delimiter = ',')]
    pub kind: Vec<EventKind>,
    /// Only what concerns these jobs
    #[arg(long, short, value_name = "JOB", value_delimiter = ',')]
    pub job: Vec<u64>,
    /// Only what concerns these nodes: names, host lists or patterns
    #[arg(long, value_name = "HOSTLIST")]
    pub node: Vec<String>,
    /// The form of the events; JSON is one event a line
    #[arg(long, short, value_enum, value_name = "HOW", conflicts_with = "json")]
    pub output: Option<EventFormat>,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Form of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventFormat {
    /// A line for each job or node
    Table,
    /// With the date, and the number of the event
    Wide,
    /// JSON, an event a line
    #[value(alias = "jsonl")]
    Json,
    /// YAML, a document an event
    Yaml,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventKind {
    /// Shares to start a process in.
    Added,
    /// Shares to give up.
    Removed,
    /// Jobs that are refused.
    Refused,
    /// Nodes that are new, or have another state or size.
    Nodes,
    /// Acts of administrators.
    #[value(alias = "admin")]
    Administration,
}

/// Start of the printed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// After this event.
    Number(u64),
    /// For so many milliseconds.
    Span(i64),
}

fn parse_since(text: &str) -> Result<Since, String> {
    if let Ok(number) = text.parse() {
        return Ok(Since::Number(number));
    }
    let span = text.parse::<jiff::SignedDuration>().ok().filter(|span| !span.is_negative());
    let span = span.and_then(|span| i64::try_from(span.as_millis()).ok());
    span.map(Since::Span).ok_or_else(|| {
        "write the number of an event, or a span of time such as 30s or 10m".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_from_a_number_or_for_a_span() {
        assert_eq!(parse_since("4711"), Ok(Since::Number(4711)));
        assert_eq!(parse_since("10m"), Ok(Since::Span(600_000)));
        for wrong in ["", "yesterday", "-5m", "-1"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }
}
