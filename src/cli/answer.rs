//! An answer of the daemon, shown as it was asked for: in columns, in JSON, or line by line; once, or
//! again and again as things come about.

use std::io::{self, IsTerminal};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::client::DaemonClient;
use super::failure::Failure;
use super::formats;
use super::output::{OutputReader, say};
use super::questions::{Format, QueryFlags};
use super::table::plain;
use super::text::{TextStyle, narrowed};
use crate::api::wire::EventPage;

/// Longest wait of a request for events. A client waits longer than this for an answer.
const WAIT: &str = "25s";

/// However fast things come about, people are not shown more than this.
const PAUSE: Duration = Duration::from_secs(1);

/// A daemon's answer, as the commands show it.
pub(super) trait ShownAnswer: Serialize {
    /// Type of a line of `-o jsonl`.
    type Entry: Serialize;

    /// Entries, in order.
    fn entries(&self) -> &[Self::Entry];

    /// Returns the text of an entry for `-o name`: its name or number, as other commands take it.
    fn name(entry: &Self::Entry) -> String;

    /// For people.
    fn render(&self, look: TextStyle) -> String;
}

/// Answers to several questions, one each. A single answer is shown without a list around it.
#[derive(Debug)]
pub(super) struct Several<T>(pub(super) Vec<T>);

impl<T: Serialize> Serialize for Several<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<T: ShownAnswer<Entry = T>> ShownAnswer for Several<T> {
    type Entry = T;

    fn entries(&self) -> &[T] {
        &self.0
    }

    fn name(entry: &T) -> String {
        T::name(entry)
    }

    fn render(&self, look: TextStyle) -> String {
        self.0.iter().map(|one| one.render(look)).collect::<Vec<_>>().join("\n\n")
    }
}

/// Asks with `ask`, shows the answer, and with `--watch` does so again whenever something has come
/// about.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub(super) async fn answer<A: ShownAnswer>(
    asking: &QueryFlags,
    ask: impl AsyncFn(&DaemonClient) -> Result<A, Failure>,
) -> Result<(), Failure> {
    let client = DaemonClient::new(&asking.remote)?;
    if !asking.watch {
        show(&ask(&client).await?, asking)?;
        return Ok(());
    }
    // From before the answer, so that nothing falls between it and the first event.
    let mut since = events(&client, &[]).await?;
    let clears = io::stdout().is_terminal() && !is_for_programs(asking.format());
    loop {
        let answer = ask(&client).await?;
        if clears {
            say("\x1b[H\x1b[2J\x1b[3J")?;
        }
        if let OutputReader::Gone = show(&answer, asking)? {
            return Ok(());
        }
        if !clears && !is_for_programs(asking.format()) {
            say("\n")?;
        }
        tokio::time::sleep(PAUSE).await;
        since = come_about(&client, since).await?;
    }
}

/// Waits for an event after `since`, or until the wait ends. Returns the number of the newest
/// event.
async fn come_about(client: &DaemonClient, since: u64) -> Result<u64, Failure> {
    let number = since.to_string();
    let last = events(client, &[("since", &number), ("wait", WAIT)]).await;
    match last {
        // The store has dropped the events in between: the next answer includes their effect.
        Err(failure) if failure.is_gone() => events(client, &[]).await,
        last => last,
    }
}

/// Returns the number of the last event of `query`, or of the newest event if more follow.
async fn events(client: &DaemonClient, query: &[(&str, &str)]) -> Result<u64, Failure> {
    let page: EventPage = client.get(&["v1", "events"], query).await?;
    if !page.more {
        return Ok(page.sequence);
    }
    let newest: EventPage = client.get(&["v1", "events"], &[]).await?;
    Ok(newest.sequence)
}

fn is_for_programs(format: Format) -> bool {
    !matches!(format, Format::Table | Format::Wide)
}

/// Shows `answer` once.
fn show<A: ShownAnswer>(answer: &A, asking: &QueryFlags) -> io::Result<OutputReader> {
    let width = width();
    let look =
        TextStyle { is_wide: false, no_header: asking.no_header, width, has_colour: has_colour() };
    let text = match asking.format() {
        Format::Json => serde_json::to_string_pretty(answer)?,
        Format::Jsonl => {
            let lines = answer.entries().iter().map(serde_json::to_string);
            lines.collect::<Result<Vec<_>, _>>()?.join("\n")
        }
        Format::Yaml => formats::yaml(answer)?,
        Format::Csv => formats::csv(answer.entries(), !asking.no_header)?,
        Format::Name => {
            let names = answer.entries().iter().map(|entry| plain(&A::name(entry)));
            names.collect::<Vec<_>>().join("\n")
        }
        Format::Wide => answer.render(TextStyle { is_wide: true, width: None, ..look }),
        Format::Table => match width {
            Some(width) => narrowed(&answer.render(look), width),
            None => answer.render(look),
        },
    };
    let text = text.trim_end();
    if text.is_empty() { Ok(OutputReader::There) } else { say(&format!("{text}\n")) }
}

/// Returns the terminal's width in characters. `None` without a terminal: a file or pipe gets full
/// lines.
pub(super) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (width, _) = crossterm::terminal::size().ok()?;
    Some(usize::from(width)).filter(|width| 20 <= *width)
}

/// True if standard output is a terminal and `NO_COLOR` is not set.
fn has_colour() -> bool {
    let refuses = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refuses
}
