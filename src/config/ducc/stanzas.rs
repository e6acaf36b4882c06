//! The grammar of the original's class and user files: `Class normal fair-base { weight = 100 }`.
//!
//! The end of a line is as good as a `;`; blanks and commas separate words; the `=` is decoration.

use std::ops::Range;

use super::super::problem::{Code, ConfigProblem, ValuePlace, suggest};
use super::book::Book;

/// The stanzas there are.
const KEYWORDS: [&str; 3] = ["Nodepool", "Class", "User"];

/// A word, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub span: Range<usize>,
}

/// `key = word word`.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub key: Word,
    pub values: Vec<Word>,
}

/// `Class name parent { … }`.
#[derive(Clone, Debug)]
pub(super) struct Stanza {
    pub keyword: Word,
    pub name: Word,
    pub parent: Option<Word>,
    pub attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    Open(Range<usize>),
    Close(Range<usize>),
    End,
}

impl Attribute {
    /// All words of the value, joined by blanks.
    pub(super) fn text(&self) -> String {
        self.values.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Byte range of the value.
    pub(super) fn span(&self) -> Range<usize> {
        let first = self.values.first().map_or(&self.key.span, |word| &word.span);
        let last = self.values.last().map_or(&self.key.span, |word| &word.span);
        first.start..last.end
    }
}

impl Stanza {
    pub(super) fn attribute(&self, key: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.key.text == key)
    }
}

/// Reads the stanzas of a file. Reports text that is no stanza.
pub(super) fn read(book: &mut Book) -> Vec<Stanza> {
    let mut reader = Reader { tokens: tokens(book.text()), next: 0, book };
    let mut stanzas = Vec::new();
    while let Some(statement) = reader.statement() {
        reader.stanza(statement, &mut stanzas);
    }
    stanzas
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let mut word = None;
        for (at, character) in line.char_indices() {
            let at = start + at;
            let is_separator = character.is_whitespace() || ",={};#".contains(character);
            if let Some(begin) = word.filter(|_| is_separator) {
                let text = text[begin..at].to_owned();
                tokens.push(Token::Word(Word { text, span: begin..at }));
                word = None;
            }
            match character {
                '#' => break,
                '{' => tokens.push(Token::Open(at..at + 1)),
                '}' => tokens.push(Token::Close(at..at + 1)),
                ';' => tokens.push(Token::End),
                _ if is_separator => {}
                _ => word = word.or(Some(at)),
            }
        }
        start += line.len();
        if let Some(begin) = word {
            tokens.push(Token::Word(Word {
                text: text[begin..start].to_owned(),
                span: begin..start,
            }));
        }
        tokens.push(Token::End);
    }
    tokens
}

struct Reader<'a> {
    tokens: Vec<Token>,
    next: usize,
    book: &'a mut Book,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    /// The words up to the end of a line, a `;` or a brace. None at the end of the file.
    fn statement(&mut self) -> Option<Vec<Word>> {
        while self.peek() == Some(&Token::End) {
            self.next += 1;
        }
        self.peek()?;
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.next += 1;
        }
        Some(words)
    }

    fn stanza(&mut self, header: Vec<Word>, stanzas: &mut Vec<Stanza>) {
        let mut header = header.into_iter();
        let Some(keyword) = header.next() else {
            let (Some(Token::Open(span) | Token::Close(span)), remedy) =
                (self.peek().cloned(), "begin with Nodepool, Class or User, and a name")
            else {
                return;
            };
            self.next += 1;
            let message = "a brace that belongs to nothing";
            self.complain(Code::Syntax, &span, message.to_owned(), remedy.to_owned());
            return;
        };
        if !KEYWORDS.contains(&keyword.text.as_str()) {
            let message = format!("`{}` begins no stanza", keyword.text);
            let remedy = suggest(&keyword.text, KEYWORDS);
            self.complain(Code::Unknown, &keyword.span, message, remedy);
        }
        let (name, parent) = (header.next(), header.next());
        let Some(name) = name else {
            let message = format!("a {} without a name", keyword.text);
            let remedy = format!("write {} NAME {{ … }}", keyword.text);
            self.complain(Code::Syntax, &keyword.span, message, remedy);
            self.body(&keyword);
            return;
        };
        if let Some(attributes) = self.body(&name) {
            stanzas.push(Stanza { keyword, name, parent, attributes });
        }
    }

    /// Reads the attributes between the braces. If a brace is missing, the rest is read as well as
    /// possible.
    fn body(&mut self, name: &Word) -> Option<Vec<Attribute>> {
        if !matches!(self.peek(), Some(Token::Open(_))) {
            let message = format!("`{}` has no `{{`", name.text);
            self.complain(Code::Syntax, &name.span, message, "put `{` on this line".to_owned());
            return None;
        }
        self.next += 1;
        let mut attributes: Vec<Attribute> = Vec::new();
        loop {
            let start = self.next;
            let Some(words) = self.statement() else { break };
            match self.peek() {
                // A block in a block: the first was never closed. Its header is read again.
                Some(Token::Open(_)) => {
                    self.next = start;
                    break;
                }
                Some(Token::Close(_)) => {
                    self.next += 1;
                    self.attribute(words, &mut attributes);
                    return Some(attributes);
                }
                Some(Token::Word(_) | Token::End) | None => self.attribute(words, &mut attributes),
            }
        }
        let message = format!("`{}` opened here is never closed", name.text);
        self.complain(Code::Syntax, &name.span, message, "put a `}` at its end".to_owned());
        Some(attributes)
    }

    fn attribute(&mut self, words: Vec<Word>, attributes: &mut Vec<Attribute>) {
        let mut words = words.into_iter();
        let Some(key) = words.next() else { return };
        let values: Vec<Word> = words.collect();
        if values.is_empty() {
            let message = format!("`{}` has no value", key.text);
            let remedy = format!("write `{} = …`, or remove it", key.text);
            self.complain(Code::Syntax, &key.span, message, remedy);
        }
        if let Some(first) = attributes.iter().find(|attribute| attribute.key.text == key.text) {
            let message = format!("`{}` is set twice", key.text);
            let problem = ConfigProblem::new(
                Code::Duplicate,
                &key.text,
                &ValuePlace::File(key.span.clone()),
                message,
            );
            let first = ValuePlace::File(first.key.span.clone());
            self.book.add(problem.related(&first, "the first").remedy("remove one of the two"));
        }
        attributes.push(Attribute { key, values });
    }

    fn complain(&mut self, code: Code, span: &Range<usize>, message: String, remedy: String) {
        self.book.add(
            ConfigProblem::new(code, "", &ValuePlace::File(span.clone()), message).remedy(remedy),
        );
    }
}
