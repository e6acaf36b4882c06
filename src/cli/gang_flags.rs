//! Flags of gangs, for `run` and `submit`.

use clap::Args;
use serde_json::{Map, Value};

/// Heading of these flags alone, above them in the help.
const HEADING: &str = "Several nodes at once";

/// Nodes that run a program together.
#[derive(Clone, Debug, Default, Args)]
pub struct GangFlags {
    /// Nodes that the program gets together, all of them at once or none; as 2-8, a number that
    /// varies while it runs
    #[arg(help_heading = HEADING, long, value_name = "N|MIN-MAX")]
    pub nodes: Option<String>,
    /// Of nodes that vary, only such numbers
    #[arg(help_heading = HEADING, long, value_name = "RULE", requires = "nodes",
        value_parser = ["any", "even", "odd", "power_of_two"])]
    pub legal_sizes: Option<String>,
    /// Signal that tells the program of another number of nodes [default: SIGUSR1]
    #[arg(help_heading = HEADING, long, value_name = "SIGNAL", requires = "nodes")]
    pub resize_signal: Option<String>,
    /// Start the program on every node, not only on the first
    #[arg(help_heading = HEADING, long, requires = "nodes")]
    pub every_node: bool,
    /// Have nothing else on these nodes, if their number is fixed
    #[arg(help_heading = HEADING, long, requires = "nodes")]
    pub exclusive: bool,
    /// Tags that each node must have
    #[arg(help_heading = HEADING, long, value_name = "KEY=VALUE", value_delimiter = ',', requires = "nodes")]
    pub tags: Vec<String>,
    /// Only nodes with the same value of this tag, such as rack, if their number is fixed
    #[arg(help_heading = HEADING, long, value_name = "TAG", requires = "nodes")]
    pub group_by: Option<String>,
}

impl GangFlags {
    /// Puts the flags over what the section `gang` of a file says.
    pub(super) fn put(&self, document: &mut Map<String, Value>) {
        let Some(nodes) = &self.nodes else { return };
        let mut gang = match document.remove("gang") {
            Some(Value::Object(gang)) => gang,
            Some(_) | None => Map::new(),
        };
        let number = nodes.parse::<u64>().map(Value::from);
        gang.insert("nodes".to_owned(), number.unwrap_or_else(|_| nodes.as_str().into()));
        for (key, text) in
            [("legal_sizes", &self.legal_sizes), ("resize_signal", &self.resize_signal)]
        {
            if let Some(text) = text {
                gang.insert(key.to_owned(), text.as_str().into());
            }
        }
        for (key, flag) in [("every_node", self.every_node), ("exclusive", self.exclusive)] {
            if flag {
                gang.insert(key.to_owned(), true.into());
            }
        }
        if !self.tags.is_empty() {
            let pair = |text: &String| {
                let (key, value) = text.split_once('=').unwrap_or((text, ""));
                (key.to_owned(), Value::from(value))
            };
            gang.insert("tags".to_owned(), Value::Object(self.tags.iter().map(pair).collect()));
        }
        if let Some(key) = &self.group_by {
            gang.insert("group_by".to_owned(), key.as_str().into());
        }
        document.insert("gang".to_owned(), Value::Object(gang));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_go_over_the_file() {
        let document = json!({ "gang": { "nodes": 2, "exclusive": true } });
        let mut document = document.as_object().unwrap().clone();
        GangFlags::default().put(&mut document);
        assert_eq!(document["gang"]["nodes"], 2);
        let flags = GangFlags {
            nodes: Some("4".to_owned()),
            tags: vec!["gpu=a100".to_owned(), "bare".to_owned()],
            group_by: Some("rack".to_owned()),
            ..GangFlags::default()
        };
        flags.put(&mut document);
        let expected = json!({
            "nodes": 4, "exclusive": true, "tags": { "gpu": "a100", "bare": "" }, "group_by": "rack"
        });
        assert_eq!(document["gang"], expected);
        let flags = GangFlags {
            nodes: Some("2-8".to_owned()),
            legal_sizes: Some("even".to_owned()),
            resize_signal: Some("SIGUSR2".to_owned()),
            ..GangFlags::default()
        };
        let mut document = Map::new();
        flags.put(&mut document);
        let expected = json!({ "nodes": "2-8", "legal_sizes": "even", "resize_signal": "SIGUSR2" });
        assert_eq!(document["gang"], expected);
    }
}
