//! The configuration of UIMA-DUCC, translated: class, user and node files in, TOML out.
//!
//! Syntax errors are reported at their place in the original. The loader checks consistency, once,
//! on the translation. Its problems are mapped back to the line of the original that the
//! translation was made from.

mod book;
mod nodes;
mod properties;
mod stanzas;
mod translate;

use std::path::{Path, PathBuf};

use super::problem::Problems;
use super::{ConfigError, parse, read};
use book::{Book, SourceBooks, SourceFile};
use nodes::Hosts;
use translate::Translation;

/// The files to translate.
#[derive(Clone, Debug)]
pub struct DuccFiles {
    /// The class file, `ducc.classes`.
    pub classes: PathBuf,
    /// The folder with the node files that the class file names.
    pub nodes: PathBuf,
    /// The user registry, `ducc.users`.
    pub users: Option<PathBuf>,
    /// The properties, `ducc.properties`.
    pub properties: Option<PathBuf>,
}

/// A translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Text of the configuration file, which loads without problems.
    pub text: String,
    /// Settings that were left out for lack of a counterpart, and other notes.
    pub notes: Vec<String>,
}

/// Reason why the files cannot be translated.
#[derive(Debug, thiserror::Error)]
pub enum TranslationError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// Files are wrong; each with all that is wrong with it.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n"))]
    Problems(Vec<Problems>),
}

/// Translates the original's files.
///
/// # Errors
///
/// If a file cannot be read, or with everything that is wrong with them.
pub fn translate(files: &DuccFiles) -> Result<Translated, TranslationError> {
    let mut books = SourceBooks {
        classes: open(&files.classes)?,
        users: files.users.as_deref().map(open).transpose()?,
        properties: files.properties.as_deref().map(open).transpose()?,
    };
    let stanzas = stanzas::read(&mut books.classes);
    let users = books.users.as_mut().map(stanzas::read).unwrap_or_default();
    let mut translation = Translation::default();
    if let Some(book) = &mut books.properties {
        properties::translate(book, &mut translation);
    }
    let pools = translate::pools_in(&stanzas);
    let named = translate::node_files(&pools, &mut books.classes);
    let domain = pools.first().and_then(|pool| pool.attribute("domain"));
    let domain = domain.map(translate::text_of);
    let mut hosts = Hosts::new(&files.nodes, named, domain);
    translation.pools(&pools, &mut hosts, &mut books.classes)?;
    translation.classes(&stanzas, &mut books.classes);
    // Users may be in either file.
    translation.users(&stanzas, &stanzas, SourceFile::Classes, &mut books.classes);
    if let Some(book) = &mut books.users {
        translation.users(&users, &stanzas, SourceFile::Users, book);
    }
    let Translation { text, sources, notes } = translation;
    let mut problems: Vec<Problems> = hosts.books;
    if !books.are_clean() || problems.iter().any(|book| !book.is_empty()) {
        problems.extend(books.into_all());
        return Err(refusal(problems));
    }
    match parse("the translation", &text) {
        Ok(_) => Ok(Translated { text: with_notes(&text, &notes, files), notes }),
        Err(found) => {
            books.lead_back(&found, &text, &sources);
            Err(refusal(books.into_all()))
        }
    }
}

fn open(path: &Path) -> Result<Book, ConfigError> {
    Ok(Book::none(&path.display().to_string(), &read(path)?))
}

fn refusal(books: Vec<Book>) -> TranslationError {
    let wrong = books.into_iter().filter(|book| !book.is_empty()).map(Problems::sorted);
    TranslationError::Problems(wrong.collect())
}

fn with_notes(text: &str, notes: &[String], files: &DuccFiles) -> String {
    let notes: String = notes.iter().map(|note| ["# Note: ", note, ".\n"].concat()).collect();
    format!("# Translated from {} of UIMA-DUCC.\n{notes}{text}", files.classes.display())
}
