//! Problems of a configuration, each with the place and the remedy.
//!
//! [`Problems`] collects the problems of reading and checking, and is the error that the caller
//! gets. All mistakes are reported at once, in the order of the file. As text it looks like an
//! error of rustc. As data, every [`ConfigProblem`] has a code, a key, a place, a message and a
//! remedy.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::model::nearest;

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal),* $(,)?) => {
        /// Kind of a problem. The texts are stable: scripts and documentation use them. C001 to
        /// C004 are files that cannot be read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $code),* }

        impl Code {
            /// Text of the code, "C010".
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$code => $text),* }
            }
        }
    };
}

codes! {
    /// The text is not TOML.
    Syntax = "C005",
    /// A key, pool, class, or user twice.
    Duplicate = "C006",
    /// A nodepool lies in itself.
    PoolCycle = "C007",
    /// A nodepool's parent is not configured.
    UnknownParent = "C008",
    /// A class's nodepool is not configured.
    UnknownPool = "C009",
    /// No setting or policy has this name.
    Unknown = "C010",
    /// A class inherits from itself.
    InheritanceCycle = "C011",
    /// An abstract class cannot be a default.
    AbstractDefault = "C012",
    /// A policy has two default classes.
    TwoDefaults = "C013",
    /// Classes of the same priority have different policies.
    MixedPriority = "C014",
    /// A weight out of range.
    Weight = "C015",
    /// A quantum that cannot be, or that is in a subpool.
    Quantum = "C016",
    /// An allotment that cannot be.
    Allotment = "C017",
    /// A list of nodes that is broken, or a node that is in two.
    Nodes = "C018",
    /// A number out of range.
    Range = "C019",
    /// A file with secrets that goes with another, which is missing.
    Secrets = "C020",
    /// An address that other hosts reach without tokens or TLS.
    Listen = "C021",
    /// A value of the wrong kind.
    Kind = "C022",
    /// A setting that must be there is not.
    Missing = "C023",
    /// A class's parent is not configured.
    UnknownClass = "C024",
    /// A setting that means nothing under the class's policy.
    Misplaced = "C025",
    /// The first nodepool is a subpool.
    FirstPool = "C026",
    /// Hours of a class that cannot be, or that are never or always.
    Hours = "C027",
    /// A time zone that this machine does not know.
    Zone = "C028",
    /// An urgent class below another class.
    UrgentPriority = "C029",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Most problems kept; an author mends a file with more than that in another way than line by line.
const MAX_PROBLEMS: usize = 100;

/// Place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValuePlace {
    /// These bytes of the file.
    File(Range<usize>),
    /// This environment variable.
    Variable(String),
    /// This flag of the command line.
    Flag(String),
}

/// A mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Kind of the problem.
    pub code: Code,
    /// Key of the setting, "class.normal.weight"; empty for the file as a whole.
    pub path: String,
    /// The line in the file, from 1. `None` if the value is not in the file.
    pub line: Option<usize>,
    /// The character in the line, from 1.
    pub column: Option<usize>,
    /// The environment variable or the flag that the value came from.
    pub outside: Option<String>,
    /// Description of the mistake.
    pub message: String,
    /// Remedy for the author.
    pub remedy: String,
    span: Range<usize>,
    related: Vec<(Range<usize>, String)>,
}

impl ConfigProblem {
    pub(super) fn new(
        code: Code,
        path: &str,
        place: &ValuePlace,
        message: impl Into<String>,
    ) -> ConfigProblem {
        let (span, outside) = match place {
            ValuePlace::File(span) => (span.clone(), None),
            ValuePlace::Variable(name) => (0..0, Some(format!("environment variable {name}"))),
            ValuePlace::Flag(flag) => (0..0, Some(format!("flag {flag}"))),
        };
        ConfigProblem {
            code,
            path: path.to_owned(),
            line: None,
            column: None,
            outside,
            message: message.into(),
            remedy: String::new(),
            span,
            related: Vec::new(),
        }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> ConfigProblem {
        self.remedy = remedy.into();
        self
    }

    /// Related places, each with its label.
    pub(super) fn related_places(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.related.iter().map(|(span, label)| (span, label.as_str()))
    }

    /// Adds a related place.
    pub(super) fn related(mut self, place: &ValuePlace, label: impl Into<String>) -> ConfigProblem {
        if let ValuePlace::File(span) = place {
            self.related.push((span.clone(), label.into()));
        }
        self
    }
}

/// All problems of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    name: String,
    text: String,
    list: Vec<ConfigProblem>,
    more: usize,
}

impl Problems {
    /// None so far with the file called `name`, which holds `text`.
    pub(super) fn none(name: &str, text: &str) -> Problems {
        Problems { name: name.to_owned(), text: text.to_owned(), list: Vec::new(), more: 0 }
    }

    /// Adds a problem, unless the value already has a problem of this code: a value that many
    /// classes inherit is reported once. Missing settings are exempt, as many can be missing at the
    /// same place.
    pub(super) fn add(&mut self, mut problem: ConfigProblem) {
        let is_same = |known: &ConfigProblem| {
            (known.code, &known.span, &known.outside)
                == (problem.code, &problem.span, &problem.outside)
        };
        if problem.code != Code::Missing && self.list.iter().any(is_same) {
            return;
        }
        if self.list.len() == MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        if problem.outside.is_none() {
            let before = self.text.get(..problem.span.start).unwrap_or(&self.text);
            let line = before.rsplit('\n').next().unwrap_or("");
            problem.line = Some(before.matches('\n').count() + 1);
            problem.column = Some(line.chars().count() + 1);
        }
        self.list.push(problem);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The text of the file.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Sorts the problems by their place in the file; problems outside the file come first.
    pub(super) fn sorted(mut self) -> Problems {
        self.list.sort_by(|a, b| (a.span.start, &a.outside).cmp(&(b.span.start, &b.outside)));
        self
    }

    /// The problems, the first hundred found. Never empty once it is returned as an error.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.list.iter()
    }

    /// Name of the file in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renders the problems as rustc does, with colours for a terminal if `is_styled`.
    pub fn render(&self, is_styled: bool) -> String {
        let renderer = if is_styled { Renderer::styled() } else { Renderer::plain() };
        let rendered = self.list.iter().map(|problem| renderer.render(&[self.group(problem)]));
        let more = (0 < self.more).then(|| format!("and {} more problems", self.more));
        rendered.chain(more).collect::<Vec<_>>().join("\n\n")
    }

    fn group<'a>(&'a self, problem: &'a ConfigProblem) -> Group<'a> {
        let title = Level::ERROR.primary_title(&problem.message).id(problem.code.as_str());
        let group = match &problem.outside {
            Some(outside) => title.element(Origin::path(outside)),
            None => title.element(self.snippet(problem)),
        };
        match problem.remedy.as_str() {
            "" => group,
            remedy => group.element(Level::HELP.message(remedy)),
        }
    }

    fn snippet<'a>(
        &'a self,
        problem: &'a ConfigProblem,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let related = problem
            .related
            .iter()
            .map(|(span, label)| AnnotationKind::Context.span(span.clone()).label(label));
        let primary = AnnotationKind::Primary.span(problem.span.clone());
        Snippet::source(&self.text).path(&self.name).annotation(primary).annotations(related)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

/// Returns the remedy for a word that is not in `known`.
pub(super) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("there {}", one_of(known)),
    }
}

/// "is `a`", or "are `a`, `b` and 3 more".
fn one_of<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let known: Vec<_> = known.into_iter().map(|word| format!("`{word}`")).collect();
    match known.len() {
        0 => "is none".to_owned(),
        1 => format!("is {}", known.concat()),
        many if many <= SHOWN => format!("are {}", known.join(", ")),
        many => format!("are {} and {} more", known[..SHOWN].join(", "), many - SHOWN),
    }
}

/// A value as a message may quote it: escaped, and cut where it gets long.
pub(super) fn quoted(value: &str) -> String {
    const SHOWN: usize = 80;
    let cut: String = value.chars().take(SHOWN).collect();
    let dots = if cut.len() < value.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_debug())
}
