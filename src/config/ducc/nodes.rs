//! The node files of UIMA-DUCC: a host on each line, `import FILE` for the hosts of another file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::problem::{Code, ConfigProblem, ValuePlace};
use super::super::{ConfigError, read};
use super::book::Book;

/// Hosts of all node files.
#[derive(Debug)]
pub(super) struct Hosts<'a> {
    /// The folder they are in.
    pub folder: &'a Path,
    /// Files named by nodepools. An import of such a file is skipped, as its nodepool reads it.
    pub named: Vec<String>,
    /// Domain that UIMA-DUCC appends to short names. Without it, a short and a full name would
    /// count as two hosts.
    pub domain: Option<String>,
    /// Every host, by its short name: which file lists it, and in which line.
    known: BTreeMap<String, (String, usize)>,
    /// The files of nodepools that were read.
    begun: BTreeSet<String>,
    /// The files read, each with its problems.
    pub books: Vec<Book>,
}

impl<'a> Hosts<'a> {
    pub(super) fn new(folder: &'a Path, named: Vec<String>, domain: Option<String>) -> Hosts<'a> {
        let (known, begun) = (BTreeMap::new(), BTreeSet::new());
        Hosts { folder, named, domain, known, begun, books: Vec::new() }
    }

    /// Returns the hosts that `file` lists or imports, in their order. Empty at the second call for
    /// a file: two nodepools with the same file are a single mistake, not a mistake for each host.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(super) fn of(&mut self, file: &str) -> Result<Vec<String>, ConfigError> {
        let mut hosts = Vec::new();
        if self.begun.insert(file.to_owned()) {
            self.read(file, &mut vec![file.to_owned()], &mut hosts)?;
        }
        Ok(hosts)
    }

    fn read(
        &mut self,
        file: &str,
        trail: &mut Vec<String>,
        hosts: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        let path = self.folder.join(file);
        let mut book = Book::none(&path.display().to_string(), &read(&path)?);
        let text = book.text().to_owned();
        let mut start = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let content = line.split('#').next().unwrap_or_default();
            let begin = start + content.len() - content.trim_start().len();
            let place = ValuePlace::File(begin..begin + content.trim().len());
            start += line.len();
            let words: Vec<&str> = content.split_whitespace().collect();
            match words.as_slice() {
                [] | ["domain", _] => {}
                ["import"] => {
                    let problem = ConfigProblem::new(Code::Syntax, "", &place, "imports no file");
                    book.add(problem.remedy("name a file, or remove the line"));
                }
                ["import", other] if self.named.iter().any(|named| named == other) => {}
                ["import", other] if trail.iter().any(|file| file == other) => {
                    let message =
                        format!("`{other}` imports itself: {} -> {other}", trail.join(" -> "));
                    let problem = ConfigProblem::new(Code::Nodes, "", &place, message);
                    book.add(problem.remedy("remove one of the imports"));
                }
                ["import", other] => {
                    trail.push((*other).to_owned());
                    self.read(other, trail, hosts)?;
                    trail.pop();
                }
                [host] => match self.enter(host, file, number + 1) {
                    Ok(()) => hosts.push((*host).to_owned()),
                    Err(first) => {
                        let message = format!("`{host}` is listed before, in {first}");
                        let problem = ConfigProblem::new(Code::Nodes, "", &place, message);
                        book.add(problem.remedy("a node is in one nodepool, once: remove one"));
                    }
                },
                _ => {
                    let problem = ConfigProblem::new(Code::Nodes, "", &place, "more than one word");
                    book.add(problem.remedy("each node is on its own line"));
                }
            }
        }
        self.books.push(book);
        Ok(())
    }

    /// Enters a host; if it is known already, says where from.
    fn enter(&mut self, host: &str, file: &str, line: usize) -> Result<(), String> {
        let domain = self.domain.as_ref().map(|domain| format!(".{domain}"));
        let short = domain.and_then(|domain| host.strip_suffix(&domain)).unwrap_or(host);
        if let Some((file, line)) = self.known.get(short) {
            return Err(format!("{file}:{line}"));
        }
        self.known.insert(short.to_owned(), (file.to_owned(), line));
        Ok(())
    }
}
