//! Commands typed from habit: other spellings, and commands of other systems. A word with a clear
//! meaning here runs as our command. A command of another system gets a message that names our
//! command.

mod words;

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use self::words::{OTHERS, SAME};
use super::table::plain;
use crate::model::nearest;

/// Nouns that a name may follow directly: `job 7` is `job show 7`.
const NOUNS: [&str; 7] = ["campaign", "class", "job", "node", "reservation", "task", "user"];

/// Options that other programs take before the command, and whether a value follows.
const LEADING: [(&str, bool); 7] = [
    ("--json", false),
    ("--no-header", false),
    ("--watch", false),
    ("-o", true),
    ("--output", true),
    ("--token-file", true),
    ("--url", true),
];

/// `arguments` as the commands of `root` take them; the first is the name of the program.
pub fn understood(arguments: Vec<OsString>, root: &Command) -> Vec<OsString> {
    let arguments = named(same(arguments));
    let leading = leading(&arguments[1.min(arguments.len())..]);
    if leading == 0 {
        return one_thing(arguments, root);
    }
    let (program, rest) = arguments.split_at(1);
    let (options, words) = rest.split_at(leading);
    let words = one_thing(named(same([program, words].concat())), root);
    let depth = depth(&words[1..], root);
    let (path, rest) = words.split_at(1 + depth);
    [path, options, rest].concat()
}

/// Returns the number of leading `words` that are options and belong behind the command.
fn leading(words: &[OsString]) -> usize {
    let mut count = 0;
    while let Some(word) = words.get(count).and_then(|word| word.to_str()) {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let Some((_, has_value)) = LEADING.iter().find(|(option, _)| *option == name) else {
            break;
        };
        count += if *has_value && name == word { 2 } else { 1 };
    }
    if count < words.len() { count } else { 0 }
}

/// Returns the number of leading `words` that name a command below `root`.
fn depth(words: &[OsString], root: &Command) -> usize {
    let below = words.first().and_then(|word| root.find_subcommand(word));
    below.map_or(0, |below| 1 + depth(&words[1..], below))
}

/// `arguments`, with another spelling of a command replaced by ours.
fn same(arguments: Vec<OsString>) -> Vec<OsString> {
    match longest(&arguments, SAME.iter().map(|(typed, _)| *typed)) {
        None => arguments,
        Some((place, length)) => {
            let ours = SAME[place].1.split(' ').map(OsString::from);
            let rest = arguments.iter().skip(1 + length).cloned();
            arguments.iter().take(1).cloned().chain(ours).chain(rest).collect()
        }
    }
}

/// `arguments`, where a list is asked for by the plural of its noun.
fn named(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(word) = arguments.get_mut(1) {
        let noun = ["campaigns", "orchestrators", "reservations", "tokens"]
            .iter()
            .find(|plural| word == **plural);
        if let Some(noun) = noun {
            *word = noun.trim_end_matches('s').into();
            arguments.insert(2, "list".into());
        }
    }
    arguments
}

/// Returns `arguments`, with `show` between a noun and the name of a thing.
fn one_thing(mut arguments: Vec<OsString>, root: &Command) -> Vec<OsString> {
    let word = |place: usize| arguments.get(place).and_then(|word| word.to_str());
    if let (Some(noun), Some(thing)) = (word(1), word(2))
        && NOUNS.contains(&noun)
        && let Some(command) = root.find_subcommand(noun)
        && is_a_thing(thing, command)
    {
        arguments.insert(2, "show".into());
    }
    arguments
}

/// True if `word` names a thing: no option, no command of the noun, and no slip of a command.
fn is_a_thing(word: &str, noun: &Command) -> bool {
    let commands = || noun.get_subcommands().map(Command::get_name);
    let is_other = OTHERS.iter().any(|(typed, ..)| *typed == format!("{} {word}", noun.get_name()));
    let has_digit = word.contains(|c: char| c.is_ascii_digit() || "*?[".contains(c));
    !word.starts_with('-')
        && word != "help"
        && noun.find_subcommand(word).is_none()
        && !is_other
        && (has_digit || nearest(word, commands()).is_none())
}

/// The place of the longest of `phrases` that the words behind the program begin with, and its length.
fn longest<'a>(
    arguments: &[OsString],
    phrases: impl Iterator<Item = &'a str>,
) -> Option<(usize, usize)> {
    let words: Vec<&OsStr> = arguments.iter().skip(1).map(OsString::as_os_str).collect();
    let lengths = phrases.enumerate().filter_map(|(place, phrase)| {
        let phrase: Vec<&OsStr> = phrase.split(' ').map(OsStr::new).collect();
        words.starts_with(&phrase).then_some((place, phrase.len()))
    });
    lengths.max_by_key(|(_, length)| *length)
}

/// Returns a better message than `error` if `arguments` name no command of `root`.
pub fn lead_on(arguments: &[OsString], root: &Command, error: &clap::Error) -> Option<String> {
    let is_first = arguments.get(1).is_none_or(|word| root.find_subcommand(word).is_none());
    if !matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) {
        return None;
    }
    if let Some((place, _)) = longest(arguments, OTHERS.iter().map(|(typed, ..)| *typed)) {
        let (typed, whose, remedy) = OTHERS[place];
        return Some(format!("error: `{typed}` is a command of {whose}\n  tip: {remedy}"));
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    if !is_first {
        return None;
    }
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
    let ours = shown.map(Command::get_name);
    let others = SAME.iter().map(|(typed, _)| *typed).filter(|typed| !typed.contains(' '));
    let foreign = OTHERS.iter().map(|(typed, ..)| *typed).filter(|typed| !typed.contains(' '));
    let near = nearest(word, ours).or_else(|| nearest(word, others.chain(foreign)));
    let near = near.map(|near| match OTHERS.iter().find(|(typed, ..)| *typed == near) {
        Some((_, _, remedy)) => format!("\n  tip: {remedy}"),
        None => format!("\n  tip: did you mean `apportion {near}`?"),
    });
    let near = near.unwrap_or_default();
    let word = plain(word);
    Some(format!(
        "error: there is no command `{word}`{near}\n  tip: `apportion --help` lists all commands"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::args::Cli;
    use super::*;

    fn typed(words: &str) -> String {
        let words = words.split(' ').map(OsString::from).collect();
        let words = understood(words, &Cli::command());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_word_with_one_meaning_is_our_command() {
        for (line, ours) in [
            ("a vary-off n1 --yes", "a node vary-off n1 --yes"),
            ("a job 7", "a job show 7"),
            ("a job lst", "a job lst"),
            ("a job stop 7", "a job stop 7"),
            ("a user ann", "a user show ann"),
            ("a user show ann", "a user show ann"),
            ("a node n1", "a node show n1"),
            ("a node --help", "a node --help"),
            ("a --json nodes n1", "a nodes --json n1"),
            ("a -o wide --url head:1 node n1", "a node show -o wide --url head:1 n1"),
            ("a --json", "a --json"),
            ("a run -- jobs", "a run -- jobs"),
            ("a", "a"),
        ] {
            assert_eq!(typed(line), ours, "{line}");
        }
    }

    #[test]
    fn other_spellings_lead_to_commands_that_there_are() {
        let root = Cli::command();
        for (word, ours) in SAME {
            let words: Vec<OsString> = ours.split(' ').map(OsString::from).collect();
            let is_ours = ours.starts_with('-') || depth(&words, &root) == words.len();
            assert!(is_ours, "{word}: {ours}");
        }
        for (word, ..) in OTHERS {
            let words: Vec<OsString> = word.split(' ').map(OsString::from).collect();
            assert!(depth(&words, &root) < words.len(), "{word} is a command of ours");
        }
    }

    /// Messages name commands: their words must lead through the tree.
    #[test]
    fn tips_name_commands_that_there_are() {
        let root = Cli::command();
        for (word, _, remedy) in OTHERS {
            let mut commands =
                remedy.split('`').skip(1).step_by(2).filter(|it| it.starts_with("apportion"));
            let named = commands.clone().count();
            assert!(0 < named, "{word} leads nowhere");
            assert!(
                commands.all(|command| {
                    let words: Vec<OsString> =
                        command.split(' ').skip(1).map(OsString::from).collect();
                    0 < depth(&words, &root)
                }),
                "{word}: {remedy}"
            );
        }
    }
}
