//! The demonstration, as the shell starts it.

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU64;

use super::args::{Demo, ReportFormat};
use super::failure::{Failure, FailureKind};
use super::output::print;
use crate::demo;

/// Usual speed of the demo, and of the demo of the grid.
const SPEED: NonZeroU64 = NonZeroU64::new(20).expect("not 0");
const GRID_SPEED: NonZeroU64 = NonZeroU64::new(60).expect("not 0");

/// Plays the demo. With a report in JSON the story goes to standard error, and standard output gets
/// the document only.
///
/// # Errors
///
/// If the demo cannot be played, or the audit found something.
pub async fn run(args: &Demo) -> Result<(), Failure> {
    let as_json = args.report == ReportFormat::Json;
    let (out, is_terminal): (Box<dyn Write + Send>, bool) = if as_json {
        (Box::new(io::stderr()), io::stderr().is_terminal())
    } else {
        (Box::new(io::stdout()), io::stdout().is_terminal())
    };
    // Text for a pipe wraps as on a terminal of the usual width.
    let columns = crossterm::terminal::size().ok().filter(|_| is_terminal);
    let width = columns.map_or(80, |(columns, _)| usize::from(columns)).clamp(60, 120);
    let has_colour = is_terminal && std::env::var_os("NO_COLOR").is_none();
    let usual = if args.grid { GRID_SPEED } else { SPEED };
    let speed = args.speed.and_then(|speed| NonZeroU64::new(speed.into())).unwrap_or(usual);
    if args.grid {
        let (seed, duration) = (args.seed, args.duration);
        let options = demo::GridDemoOptions { speed, seed, duration, out, has_colour, width };
        let report = demo::run_grid(options).await;
        if as_json {
            print(&serde_json::to_string_pretty(&report)?)?;
        }
        return Ok(());
    }
    let report = demo::run(demo::DemoOptions {
        listen: args.listen,
        speed,
        seed: args.seed,
        once: args.once,
        duration: args.duration,
        out,
        width,
        has_colour,
    })
    .await?;
    if as_json {
        print(&serde_json::to_string_pretty(&report)?)?;
    }
    if report.audit_findings == 0 { Ok(()) } else { Err(Failure::silent(FailureKind::Refused)) }
}
