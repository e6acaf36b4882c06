//! Nodes as people name them: names, host lists, and patterns with `*` and `?`.

use std::collections::BTreeSet;

use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::table::plain;
use crate::api::wire::{NodeInfo, NodeList};
use crate::model::{expand_hostlist, fold_hostlist, nearest};

/// Returns the names and patterns in `lists`.
fn names_in(lists: &[String]) -> Result<BTreeSet<String>, Failure> {
    let mut names = BTreeSet::new();
    for list in lists {
        let expanded = expand_hostlist(list).map_err(|error| {
            Failure::new(
                FailureKind::Refused,
                format!("`{}` is no host list: {error}", plain(list)),
            )
        })?;
        names.extend(expanded);
    }
    Ok(names)
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// True if `pattern` describes the whole of `name`: `*` stands for any characters, `?` for a single
/// character.
fn fits(pattern: &str, name: &str) -> bool {
    let mut letters = pattern.chars();
    match letters.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = letters.as_str();
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| fits(rest, &name[at..]))
        }
        Some(letter) => {
            let mut others = name.chars();
            let other = others.next();
            let is_same = other.is_some_and(|other| letter == '?' || letter == other);
            is_same && fits(letters.as_str(), others.as_str())
        }
    }
}

/// True if `names` has `node`, or a pattern that describes it.
fn is_named(names: &BTreeSet<String>, node: &str) -> bool {
    names.contains(node) || names.iter().any(|name| is_pattern(name) && fits(name, node))
}

/// Returns the nodes of `all` that `lists` name; all nodes if `lists` is empty.
///
/// # Errors
///
/// If a list is no host list.
pub(super) fn among(all: NodeList, lists: &[String]) -> Result<NodeList, Failure> {
    let names = names_in(lists)?;
    let is_wanted = |node: &NodeInfo| names.is_empty() || is_named(&names, &node.name);
    Ok(NodeList { nodes: all.nodes.into_iter().filter(is_wanted).collect(), ..all })
}

/// Selects as [`among`], and refuses names that no node has, all of them at once.
///
/// # Errors
///
/// If a list is no host list, or no node has a name in it.
pub(super) fn selected(all: NodeList, lists: &[String]) -> Result<NodeList, Failure> {
    let known: BTreeSet<&str> = all.nodes.iter().map(|node| node.name.as_str()).collect();
    let names = names_in(lists)?;
    let is_known = |name: &&str| {
        known.contains(name) || is_pattern(name) && known.iter().any(|node| fits(name, node))
    };
    let unknown: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
    if let Some(first) = unknown.first() {
        let hint = nearest(first, known.iter().copied()).filter(|_| !is_pattern(first));
        let hint = hint.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        let has_pattern = unknown.iter().any(|name| is_pattern(name));
        let folded =
            if has_pattern { unknown.join(" ") } else { fold_hostlist(unknown.iter().copied()) };
        let message = format!(
            "no node {} has reported{hint}; `apportion nodes` lists those there are",
            plain(&folded)
        );
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    among(all, lists)
}

/// `lists` as the daemon takes them: with the names of nodes in the place of patterns.
///
/// # Errors
///
/// If a pattern describes no node, or the daemon cannot be asked for its nodes.
pub(super) async fn spelled_out(
    client: &DaemonClient,
    lists: &[String],
) -> Result<Vec<String>, Failure> {
    if !lists.iter().any(|list| is_pattern(list)) {
        return Ok(lists.to_vec());
    }
    let all: NodeList = client.get(&["v1", "nodes"], &[]).await?;
    Ok(selected(all, lists)?.nodes.into_iter().map(|node| node.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_describes_the_whole_name() {
        for (pattern, name, is_it) in [
            ("r1*", "r1n04", true),
            ("r1*", "r2n04", false),
            ("r1n*4", "r1n04", true),
            ("*", "", true),
            ("n?", "n1", true),
            ("n?", "n10", false),
            ("n*0*", "n10", true),
            ("N*", "n1", false),
        ] {
            assert_eq!(fits(pattern, name), is_it, "{pattern} {name}");
        }
    }
}
