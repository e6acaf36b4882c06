//! The files that are translated, each with its problems.

use std::ops::Range;

use super::super::problem::{ConfigProblem, Problems, ValuePlace};

/// A file, with its problems.
pub(super) type Book = Problems;

/// The node file of a nodepool that names none.
pub(super) const DEFAULT_NODES: &str = "ducc.nodes";

/// Origin of a line of the translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) file: SourceFile,
    pub(super) span: Range<usize>,
}

/// The files that lines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceFile {
    Classes,
    Users,
    Properties,
}

pub(super) struct SourceBooks {
    pub(super) classes: Book,
    pub(super) users: Option<Book>,
    pub(super) properties: Option<Book>,
}

impl SourceBooks {
    pub(super) fn are_clean(&self) -> bool {
        let rest = [&self.users, &self.properties];
        self.classes.is_empty() && rest.into_iter().flatten().all(Problems::is_empty)
    }

    pub(super) fn into_all(self) -> Vec<Book> {
        [Some(self.classes), self.users, self.properties].into_iter().flatten().collect()
    }

    pub(super) fn of(&mut self, file: SourceFile) -> &mut Book {
        let other = match file {
            SourceFile::Classes => None,
            SourceFile::Users => self.users.as_mut(),
            SourceFile::Properties => self.properties.as_mut(),
        };
        other.unwrap_or(&mut self.classes)
    }

    /// Adds the problems of the translation to the files that it was made from.
    pub(super) fn lead_back(&mut self, found: &Problems, text: &str, sources: &[Option<Source>]) {
        let source_of = |line: usize| sources.get(line.checked_sub(1)?)?.clone();
        for problem in found.iter() {
            let source = problem.line.and_then(source_of);
            let Source { file, span } =
                source.unwrap_or(Source { file: SourceFile::Classes, span: 0..0 });
            let mut led = ConfigProblem::new(
                problem.code,
                &problem.path,
                &ValuePlace::File(span),
                &problem.message,
            )
            .remedy(&problem.remedy);
            for (span, label) in problem.related_places() {
                let line = text.get(..span.start).unwrap_or(text).matches('\n').count() + 1;
                if let Some(source) = source_of(line).filter(|source| source.file == file) {
                    led = led.related(&ValuePlace::File(source.span), label);
                }
            }
            self.of(file).add(led);
        }
    }
}
