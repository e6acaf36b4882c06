//! Recorded scenarios: what happened, cycle by cycle, as text; played, and compared with what
//! another scheduler decided.
//!
//! [`play_file`] plays one file and returns one document; [`compare_file`] holds a play against
//! the decisions recorded in the same file. The format and the order of work inside one cycle are
//! written down in the README beside the recorded files ("README" below).

mod actor;
mod compare;
mod config;
mod document;
pub(super) mod player;
pub(super) mod scenario;

pub use compare::Difference;
pub use document::{Cycle, Document, Finding, JobLine, Taken};

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use self::compare::Recording;
use self::scenario::Scenario;
use super::error::{Flaw, SimError};

/// Plays the scenario in `path`: a recorded file, or a bare scenario.
///
/// # Errors
///
/// If the file cannot be read or is no scenario.
pub fn play_file(path: &Path) -> Result<Document, SimError> {
    let scenario = read(path)?.scenario;
    player::play(&scenario).map_err(|flaw| SimError::malformed(path, flaw))
}

/// Plays the scenario in `path` and lists where the counts differ from those recorded in it, in
/// every cycle whose counts do not hang on the original's hash order. A bare scenario records
/// nothing, so that nothing differs.
///
/// # Errors
///
/// If the file cannot be read or is no scenario.
pub fn compare_file(path: &Path) -> Result<Vec<Difference>, SimError> {
    let file = read(path)?;
    let played = player::play(&file.scenario).map_err(|flaw| SimError::malformed(path, flaw))?;
    Ok(file.recording.map_or_else(Vec::new, |recording| compare::compare(&recording, &played)))
}

/// A file of either shape.
struct ScenarioFile {
    scenario: Scenario,
    recording: Option<Recording>,
}

fn read(path: &Path) -> Result<ScenarioFile, SimError> {
    /// A recorded file has its scenario one level down.
    #[derive(Deserialize)]
    struct Shape {
        scenario: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Wrapper {
        scenario: Scenario,
    }

    let text = fs::read_to_string(path).map_err(SimError::reading(path))?;
    let flawed = |flaw| SimError::malformed(path, flaw);
    let shape: Shape = parse(&text).map_err(flawed)?;
    if shape.scenario.is_none() {
        return Ok(ScenarioFile { scenario: parse(&text).map_err(flawed)?, recording: None });
    }
    let Wrapper { scenario } = parse(&text).map_err(flawed)?;
    Ok(ScenarioFile { scenario, recording: Some(parse(&text).map_err(flawed)?) })
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
