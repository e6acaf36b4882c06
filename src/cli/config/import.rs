//! The original's configuration, translated.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::super::failure::{Failure, FailureKind};
use super::super::output::{complain, print};
use super::super::settings::shown;
use super::args::ImportDucc;
use crate::config::ducc::{DuccFiles, TranslationError, translate};

/// Translates the files.
///
/// # Errors
///
/// If they cannot be read, or are wrong; then nothing is written.
pub fn run(args: &ImportDucc) -> Result<(), Failure> {
    let folder = args.classes.parent().filter(|folder| !folder.as_os_str().is_empty());
    let files = DuccFiles {
        classes: args.classes.clone(),
        nodes: args.nodes.clone().unwrap_or_else(|| folder.unwrap_or(Path::new(".")).to_owned()),
        users: args.users.clone(),
        properties: args.properties.clone(),
    };
    let translated = translate(&files).map_err(|error| match error {
        TranslationError::File(error) => {
            Failure { exit: FailureKind::Refused, error: Some(error.into()) }
        }
        TranslationError::Problems(files) => {
            for problems in &files {
                shown(problems, FailureKind::Refused);
            }
            Failure::silent(FailureKind::Refused)
        }
    })?;
    for note in &translated.notes {
        complain(&format!("note: {note}"));
    }
    let Some(output) = &args.output else { return Ok(print(&translated.text)?) };
    let mut file =
        File::create_new(output).with_context(|| format!("cannot write {}", output.display()))?;
    file.write_all(translated.text.as_bytes())?;
    file.sync_all()?;
    Ok(print(&format!("{} is written; `apportion config check` takes it", output.display()))?)
}
