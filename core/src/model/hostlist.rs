//! Host lists: many node names in few characters, `node[01-20],gpu[1-3,7]`.
//!
//! The notation is that of Slurm and `ClusterShell`. A list is names separated by commas; brackets
//! hold numbers and ranges; several brackets in a name multiply. A range counts up and pads to the
//! width of its first number, so `[08-10]` is 08, 09, 10. This module does not know which nodes
//! exist.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of names in a list; a longer list is a slip of the keyboard, `[1-1000000000]`.
pub const MAX_HOSTS: usize = 100_000;

/// The longest number that is counted with; every such number fits in 64 bits.
const MAX_DIGITS: usize = 18;

/// Error in a host list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum HostListError {
    #[error("a name is empty")]
    EmptyName,
    #[error("`{name}`: a `[` is never closed")]
    Unclosed { name: String },
    #[error("`{name}`: a `]` closes nothing")]
    Unopened { name: String },
    #[error("`{name}`: a bracket inside a bracket")]
    Nested { name: String },
    #[error("`[{range}]` is neither a number nor a range such as 1-20")]
    NotARange { range: String },
    #[error("`[{range}]` counts down")]
    Descending { range: String },
    #[error("`{name}` has a blank or a control character in it")]
    BadCharacter { name: String },
    #[error("more than {MAX_HOSTS} names")]
    TooMany,
}

/// The names that `list` stands for, in the order written, duplicates included.
///
/// # Errors
///
/// If the notation is broken, or the list stands for more than [`MAX_HOSTS`] names.
pub fn expand_hostlist(list: &str) -> Result<Vec<String>, HostListError> {
    let mut hosts = Vec::new();
    for name in split_names(list)? {
        hosts.extend(expand_name(name.trim(), MAX_HOSTS - hosts.len())?);
    }
    Ok(hosts)
}

/// Splits at the commas that are outside brackets.
fn split_names(list: &str) -> Result<Vec<&str>, HostListError> {
    let mut names = Vec::new();
    let mut start = 0;
    let mut is_inside = false;
    for (at, character) in list.char_indices() {
        let name = || list[start..].to_owned();
        match (character, is_inside) {
            ('[', true) => return Err(HostListError::Nested { name: name() }),
            (']', false) => return Err(HostListError::Unopened { name: name() }),
            ('[' | ']', _) => is_inside = !is_inside,
            (',', false) => {
                names.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(HostListError::Unclosed { name: list[start..].to_owned() });
    }
    names.push(&list[start..]);
    Ok(names)
}

/// Expands a single name to at most `limit` hosts. The caller has checked that its brackets are
/// paired.
fn expand_name(name: &str, limit: usize) -> Result<Vec<String>, HostListError> {
    if name.is_empty() {
        return Err(HostListError::EmptyName);
    }
    if name.chars().any(|c| c.is_whitespace() || super::is_hidden(c)) {
        return Err(HostListError::BadCharacter { name: name.to_owned() });
    }
    let mut hosts = vec![String::new()];
    let mut rest = name;
    while let Some((literal, bracket)) = rest.split_once('[') {
        let (ranges, after) = bracket.split_once(']').unwrap_or((bracket, ""));
        let numbers = expand_ranges(ranges, limit)?;
        if hosts.len().saturating_mul(numbers.len()) > limit {
            return Err(HostListError::TooMany);
        }
        let longer = |host: &String| {
            let stem = format!("{host}{literal}");
            numbers.iter().map(move |number| format!("{stem}{number}")).collect::<Vec<_>>()
        };
        hosts = hosts.iter().flat_map(longer).collect();
        rest = after;
    }
    if hosts.len() > limit {
        return Err(HostListError::TooMany);
    }
    for host in &mut hosts {
        host.push_str(rest);
    }
    Ok(hosts)
}

/// The numbers between two brackets, as text.
fn expand_ranges(ranges: &str, limit: usize) -> Result<Vec<String>, HostListError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let not_a_range = || HostListError::NotARange { range: range.to_owned() };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let low = number_of(first).ok_or_else(not_a_range)?;
        let high = number_of(last).ok_or_else(not_a_range)?;
        if high < low {
            return Err(HostListError::Descending { range: range.to_owned() });
        }
        let left = u64::try_from(limit - numbers.len()).unwrap_or(u64::MAX);
        if high - low >= left {
            return Err(HostListError::TooMany);
        }
        numbers.extend((low..=high).map(|number| padded(number, first.len())));
    }
    Ok(numbers)
}

fn number_of(digits: &str) -> Option<u64> {
    let is_countable = digits.len() <= MAX_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    is_countable.then(|| digits.parse().ok()).flatten()
}

fn padded(number: u64, width: usize) -> String {
    format!("{number:0width$}")
}

/// The shortest usual notation for `names`, sorted, each once.
///
/// [`expand_hostlist`] undoes it, for names that could be in a list at all: without blanks, commas
/// and brackets, and no more than [`MAX_HOSTS`] of them. Other names come through as they are.
pub fn fold_hostlist<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut plain: BTreeSet<&str> = BTreeSet::new();
    let mut series: BTreeMap<(&str, &str), BTreeSet<(u64, &str)>> = BTreeMap::new();
    for name in names {
        match numbered(name) {
            Some((stem, digits, number)) => {
                series.entry(stem).or_default().insert((number, digits));
            }
            None => {
                plain.insert(name);
            }
        }
    }
    let folded = series.iter().map(|((before, after), numbers)| {
        let ranges = fold_ranges(numbers);
        let is_one_host = numbers.len() == 1;
        if is_one_host {
            format!("{before}{ranges}{after}")
        } else {
            format!("{before}[{ranges}]{after}")
        }
    });
    plain.iter().map(|name| (*name).to_owned()).chain(folded).collect::<Vec<_>>().join(",")
}

/// Splits a name at its last number before the domain, and returns the text around it and the
/// number. `node7.cluster2` differs from its siblings in the 7.
fn numbered(name: &str) -> Option<((&str, &str), &str, u64)> {
    if name.contains(['[', ']', ',']) {
        return None;
    }
    let host = name.split_once('.').map_or(name, |(host, _)| host);
    let end = host.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = host[..end].trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let digits = &host[start..end];
    Some(((&name[..start], &name[end..]), digits, number_of(digits)?))
}

/// Folds 01, 02, 03, 07 into `01-03,07`. A number joins a run if counting from the run's first
/// number writes it the same way.
fn fold_ranges(numbers: &BTreeSet<(u64, &str)>) -> String {
    let mut runs: Vec<(&str, u64, &str)> = Vec::new();
    for &(number, digits) in numbers {
        match runs.last_mut() {
            Some((first, last, end))
                if number == *last + 1 && padded(number, first.len()) == digits =>
            {
                (*last, *end) = (number, digits);
            }
            _ => runs.push((digits, number, digits)),
        }
    }
    let written =
        runs.iter().map(
            |(first, _, end)| {
                if first == end { (*first).to_owned() } else { format!("{first}-{end}") }
            },
        );
    written.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_expand_in_the_order_written() {
        let cases = [
            ("a", "a"),
            ("a,b, c", "a b c"),
            ("node[1-3]", "node1 node2 node3"),
            ("node[08-11]", "node08 node09 node10 node11"),
            ("node[8-11]", "node8 node9 node10 node11"),
            ("a[1-3,7]", "a1 a2 a3 a7"),
            ("a[07]", "a07"),
            ("r[1-2]n[01-02].dom", "r1n01.dom r1n02.dom r2n01.dom r2n02.dom"),
            ("b2,a[2,1]", "b2 a2 a1"),
        ];
        for (list, hosts) in cases {
            assert_eq!(expand_hostlist(list).unwrap().join(" "), hosts, "{list}");
        }
    }

    #[test]
    fn broken_lists_say_what_is_broken() {
        let cases = [
            ("", "a name is empty"),
            ("a,,b", "a name is empty"),
            ("x,a[1-3", "`a[1-3`: a `[` is never closed"),
            ("a1-3]", "`a1-3]`: a `]` closes nothing"),
            ("a[1[2]]", "`a[1[2]]`: a bracket inside a bracket"),
            ("a[]", "`[]` is neither a number nor a range such as 1-20"),
            ("a[1-2-3]", "`[1-2-3]` is neither a number nor a range such as 1-20"),
            ("a[x]", "`[x]` is neither a number nor a range such as 1-20"),
            ("a[-3]", "`[-3]` is neither a number nor a range such as 1-20"),
            ("a[3-1]", "`[3-1]` counts down"),
            ("a b", "`a b` has a blank or a control character in it"),
            ("a[0-100000]", "more than 100000 names"),
            ("a[1-1000][1-1000]", "more than 100000 names"),
            ("a[1-100000],b", "more than 100000 names"),
            ("a[0-999999999999999999]", "more than 100000 names"),
        ];
        for (list, message) in cases {
            assert_eq!(expand_hostlist(list).unwrap_err().to_string(), message, "{list}");
        }
    }

    #[test]
    fn the_bound_itself_is_allowed() {
        assert_eq!(expand_hostlist("a[1-100000]").unwrap().len(), MAX_HOSTS);
    }

    #[test]
    fn names_fold_into_ranges() {
        let cases = [
            ("", ""),
            ("a", "a"),
            ("a1", "a1"),
            ("a2 a1 a3 a7", "a[1-3,7]"),
            ("n08 n09 n10 n11", "n[08-11]"),
            ("n8 n9 n10", "n[8-10]"),
            ("n7 n07 n8 n08", "n[07,7,08,8]"),
            ("n1.c2 n2.c2 n1.c3", "n[1-2].c2,n1.c3"),
            ("r1-ib r2-ib head", "head,r[1-2]-ib"),
            ("a[1] b,c", "a[1],b,c"),
        ];
        for (names, list) in cases {
            assert_eq!(fold_hostlist(names.split_whitespace()), list, "{names}");
        }
    }

    proptest! {
        #[test]
        fn folding_then_expanding_gives_the_names_back(
            names in prop::collection::btree_set("[a-c]{0,2}[0-9]{1,3}(-ib)?(\\.x[12])?|[a-z]{1,3}|[0-9]{17,20}", 1..60),
        ) {
            let folded = fold_hostlist(names.iter().map(String::as_str));
            let expanded = expand_hostlist(&folded).unwrap();
            prop_assert_eq!(expanded.len(), names.len(), "{}", folded);
            prop_assert_eq!(expanded.into_iter().collect::<BTreeSet<_>>(), names);
        }

        #[test]
        fn any_text_expands_or_is_refused(text in "[a1\\[\\],\\- é]{0,12}") {
            let _ = expand_hostlist(&text);
        }
    }
}
