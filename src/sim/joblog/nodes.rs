//! Nodes of the replayed cluster: their names, memory and processors.
//!
//! Sources in this order: options, a file of machines in Alea's form, the header of the log. Names
//! come from the configuration if it lists nodes.

use std::collections::BTreeMap;

use super::log::{JobLogError, LogHeader};
use crate::model::{Mebibytes, Topology, expand_hostlist, fold_hostlist};

/// Memory that stands for a processor where memory is of no concern, in MiB: a gigabyte.
const NOMINAL_MIB: u64 = 1024;

/// Most nodes that a header may name.
const MAX_NODES: u64 = 1_000_000;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNode {
    /// Name of the node.
    pub name: String,
    /// Memory of the node; `None` if no source gives it.
    pub memory: Option<Mebibytes>,
    /// Processors of the node; `None` if no source gives them.
    pub processors: Option<u64>,
}

/// A value for the nodes of a host list; without a list, for all nodes that no list names.
pub type NodeValue<T> = (Option<Vec<String>>, T);

/// Sizes of nodes from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOptions {
    /// Memory.
    pub memory: Vec<NodeValue<Mebibytes>>,
    /// Processors.
    pub processors: Vec<NodeValue<u64>>,
}

impl NodeOptions {
    /// All names of the lists, in order.
    fn names(&self) -> Vec<String> {
        let memory = self.memory.iter().filter_map(|(names, _)| names.as_ref());
        let processors = self.processors.iter().filter_map(|(names, _)| names.as_ref());
        memory.chain(processors).flatten().cloned().collect()
    }
}

/// Value for the node `name`: of a list that names it, else of the option without a list.
fn value_of<T: Copy>(values: &[NodeValue<T>], name: &str) -> Option<T> {
    let is_named = |names: &Option<Vec<String>>| {
        names.as_ref().is_some_and(|names| names.iter().any(|known| known == name))
    };
    let named = values.iter().rev().find(|(names, _)| is_named(names));
    named.or_else(|| values.iter().rev().find(|(names, _)| names.is_none())).map(|found| found.1)
}

/// Reads Alea's list of machines, which messages call `file`: for each kind a number, a name, a
/// count of nodes, processors of each, a speed, and memory of each in KB.
///
/// # Errors
///
/// If a line has another form.
pub fn parse_machines(file: &str, text: &str) -> Result<Vec<LogNode>, JobLogError> {
    let mut nodes = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with([';', '#']) {
            continue;
        }
        let kind = MachineKind::of(content).ok_or_else(|| JobLogError::Line {
            file: file.to_owned(),
            line,
            problem: format!("`{content}` describes no machines"),
            remedy: "write `0 name 20 80 1 529426432`: number, name, nodes, processors of each, \
                     speed, memory of each in KB"
                .to_owned(),
        })?;
        nodes.extend(kind.nodes());
    }
    Ok(nodes)
}

/// A line of Alea's list.
struct MachineKind<'a> {
    name: &'a str,
    count: u64,
    processors: u64,
    memory: Mebibytes,
}

impl<'a> MachineKind<'a> {
    fn of(line: &'a str) -> Option<MachineKind<'a>> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, name, count, processors, _, memory, ..] = fields[..] else { return None };
        let positive = |text: &str| text.parse::<u64>().ok().filter(|number| 0 < *number);
        Some(MachineKind {
            name,
            count: positive(count).filter(|count| *count <= MAX_NODES)?,
            processors: positive(processors)?,
            memory: Mebibytes(positive(memory)? >> 10),
        })
    }

    fn nodes(&self) -> impl Iterator<Item = LogNode> + use<'_> {
        numbered(self.name, self.count).map(|name| LogNode {
            name,
            memory: Some(self.memory),
            processors: Some(self.processors),
        })
    }
}

/// Names with numbers of the same width: `n01` to `n20`.
fn numbered(name: &str, count: u64) -> impl Iterator<Item = String> + use<'_> {
    let width = count.to_string().len();
    (1..=count).map(move |number| format!("{name}{number:0width$}"))
}

/// Everything that names nodes.
#[derive(Clone, Copy, Debug)]
pub struct NodeSources<'a> {
    /// Configuration, if the command names a file.
    pub topology: Option<&'a Topology>,
    /// Options.
    pub options: &'a NodeOptions,
    /// File of machines.
    pub machines: Option<&'a [LogNode]>,
    /// Header of the log.
    pub header: LogHeader,
    /// True if the memory of nodes matters. Otherwise a processor counts as a gigabyte.
    pub needs_memory: bool,
}

impl NodeSources<'_> {
    /// Returns the nodes, all with memory.
    ///
    /// # Errors
    ///
    /// If no source names nodes, or their memory.
    pub fn nodes(&self) -> Result<Vec<LogNode>, JobLogError> {
        let mut nodes = self.named()?;
        let ratio = self.header.processors.zip(self.header.nodes);
        let ratio = ratio.map(|(processors, nodes)| ceil_ratio(processors, nodes));
        for node in &mut nodes {
            let processors = value_of(&self.options.processors, &node.name);
            node.processors = processors.or(node.processors).or(ratio);
            node.memory = value_of(&self.options.memory, &node.name).or(node.memory);
        }
        if !self.needs_memory {
            for node in &mut nodes {
                let nominal = node.processors.map(|count| count.saturating_mul(NOMINAL_MIB));
                node.memory = nominal.map(Mebibytes).or(node.memory);
            }
        }
        let unknown: Vec<&str> = nodes
            .iter()
            .filter(|node| node.memory.is_none())
            .map(|node| node.name.as_str())
            .collect();
        if unknown.is_empty() { Ok(nodes) } else { Err(no_memory(&unknown)) }
    }

    /// Returns the nodes with the sizes of the file of machines, if it has them.
    fn named(&self) -> Result<Vec<LogNode>, JobLogError> {
        let machines = self.machines.unwrap_or_default();
        let known: BTreeMap<&str, &LogNode> =
            machines.iter().map(|node| (node.name.as_str(), node)).collect();
        let pools = self.topology.map_or(&[][..], |topology| topology.pools.as_slice());
        let names = pools.iter().flat_map(|pool| pool.nodes.iter().cloned());
        let mut seen = std::collections::BTreeSet::new();
        let names = names.chain(self.options.names()).filter(|name| seen.insert(name.clone()));
        let node = |name: String| {
            let same = known.get(name.as_str()).copied().cloned();
            same.unwrap_or(LogNode { name, memory: None, processors: None })
        };
        let nodes: Vec<LogNode> = names.map(node).collect();
        match (nodes.is_empty(), machines.is_empty()) {
            (false, _) => Ok(nodes),
            (true, false) => Ok(machines.to_vec()),
            (true, true) => self.counted_in_header(),
        }
    }

    /// Returns as many nodes as the header counts.
    fn counted_in_header(&self) -> Result<Vec<LogNode>, JobLogError> {
        let LogHeader { nodes, processors } = self.header;
        let each = value_of(&self.options.processors, "");
        let by_processors = || Some(ceil_ratio(processors?, each.unwrap_or(1)));
        let count = nodes.or_else(by_processors).filter(|count| *count <= MAX_NODES);
        let count = count.ok_or_else(|| {
            JobLogError::whole(
                "neither the log nor an option says which nodes there are",
                "add --node-memory 'n[1-64]=128GB', --machines FILE, or --config FILE",
            )
        })?;
        let each = if nodes.is_none() { each.or(Some(1)) } else { None };
        let node = |name| LogNode { name, memory: None, processors: each };
        Ok(numbered("n", count).map(node).collect())
    }
}

/// The error of nodes without memory.
fn no_memory(names: &[&str]) -> JobLogError {
    let folded = fold_hostlist(names.iter().copied());
    JobLogError::whole(
        format!("the memory of {folded} is not known"),
        "add --node-memory 128GB, or --size-by processors if memory is of no concern",
    )
}

/// Quotient, rounded up; the divisor counts as 1 at least.
fn ceil_ratio(dividend: u64, divisor: u64) -> u64 {
    dividend.div_ceil(divisor.max(1))
}

/// Reads `SIZE` or `HOSTLIST=SIZE`, the size by `read`.
///
/// # Errors
///
/// With the mistake and the remedy, in a text for the user of the option.
pub fn node_value<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<NodeValue<T>, String> {
    match text.split_once('=') {
        None => Ok((None, read(text)?)),
        Some((names, value)) => {
            let names = expand_hostlist(names).map_err(|error| error.to_string())?;
            Ok((Some(names), read(value)?))
        }
    }
}
