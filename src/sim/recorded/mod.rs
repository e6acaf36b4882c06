//! Recorded scenarios: events, cycle by cycle, as text; played, and compared with the decisions of
//! another scheduler.
//!
//! An excerpt of a daemon's journal is a scenario too: its inputs, from a checkpoint on.
//!
//! [`play_file`] plays a file and returns a document; [`compare_file`] compares a play with the
//! decisions recorded in the same file. The README beside the recorded files ("README" below)
//! describes the format and the order of work inside a cycle.

mod actor;
mod arrival;
mod compare;
mod config;
mod document;
mod excerpt;
mod lines;
pub(super) mod player;
pub(super) mod scenario;
pub(super) mod shape;

pub use compare::Difference;
pub use document::{PlayedCycle, PlayedDocument, PlayedFinding, PlayedJob, PreemptedShare};

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use self::compare::Recording;
use self::scenario::Scenario;
use super::error::{Flaw, SimError};
use crate::journal::Excerpt;

/// Plays the scenario in `path`: a recorded file, a bare scenario, or an excerpt of a journal.
///
/// # Errors
///
/// If the file cannot be read or is no scenario.
pub fn play_file(path: &Path) -> Result<PlayedDocument, SimError> {
    let played = match read(path)? {
        PlayedFile::Excerpt(excerpt) => excerpt::play(*excerpt),
        PlayedFile::Scenario(scenario, _) => player::play(&scenario),
    };
    played.map_err(|flaw| SimError::malformed(path, flaw))
}

/// Plays the scenario in `path` and lists the counts that differ from the recorded counts. Cycles
/// whose counts depend on the original's hash order are left out. A bare scenario and an excerpt
/// record nothing, so nothing differs.
///
/// # Errors
///
/// If the file cannot be read or is no scenario.
pub fn compare_file(path: &Path) -> Result<Vec<Difference>, SimError> {
    let PlayedFile::Scenario(scenario, Some(recording)) = read(path)? else {
        return Ok(Vec::new());
    };
    let played = player::play(&scenario).map_err(|flaw| SimError::malformed(path, flaw))?;
    Ok(compare::compare(&recording, &played))
}

/// A file of either shape.
enum PlayedFile {
    Scenario(Box<Scenario>, Option<Recording>),
    Excerpt(Box<Excerpt>),
}

fn read(path: &Path) -> Result<PlayedFile, SimError> {
    /// A recorded file has its scenario a level down, and an excerpt has none.
    #[derive(Deserialize)]
    struct Shape {
        scenario: Option<IgnoredAny>,
        journal: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Wrapper {
        scenario: Scenario,
    }

    let text = fs::read_to_string(path).map_err(SimError::reading(path))?;
    let flawed = |flaw| SimError::malformed(path, flaw);
    let shape: Shape = parse(&text).map_err(flawed)?;
    if shape.journal.is_some() {
        return Ok(PlayedFile::Excerpt(Box::new(parse(&text).map_err(flawed)?)));
    }
    if shape.scenario.is_none() {
        return Ok(PlayedFile::Scenario(Box::new(parse(&text).map_err(flawed)?), None));
    }
    let Wrapper { scenario } = parse(&text).map_err(flawed)?;
    Ok(PlayedFile::Scenario(Box::new(scenario), Some(parse(&text).map_err(flawed)?)))
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Flaw> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.inner());
        let place = format!("line {}, column {}, at `{path}`", cause.line(), cause.column());
        Flaw::new(
            place,
            cause.to_string(),
            "see the README beside the recorded scenarios for the shape",
        )
    })
}

#[cfg(test)]
mod tests;
