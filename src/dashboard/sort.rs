//! Tables that can be sorted: the heads of their columns are links, which say so in the address.

use super::frame::address_of;

/// The parameter that names a column; with a minus in front the largest comes first.
const PARAMETER: &str = "sort";

/// Sort column of a list, and the links that sort by another column.
#[derive(Clone, Debug, Default)]
pub(super) struct Sort {
    /// Empty: as it comes.
    column: String,
    is_down: bool,
    /// The list's address without its order; empty where it cannot be sorted.
    path: &'static str,
    params: Vec<(&'static str, String)>,
}

impl Sort {
    /// The order that `asked` names, of the list at `path` with `params`.
    pub fn of(asked: &str, path: &'static str, params: &[(&'static str, &str)]) -> Sort {
        let column = asked.strip_prefix('-').unwrap_or(asked).to_owned();
        let params = params.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Sort { column, is_down: asked.starts_with('-'), path, params }
    }

    /// The parameter as it stands in the address.
    pub fn word(&self) -> String {
        let mark = if self.is_down { "-" } else { "" };
        if self.column.is_empty() { String::new() } else { format!("{mark}{}", self.column) }
    }

    /// Sorts `things` by the key that `by` returns for the column. A column without a key leaves
    /// them as they are. Equal things keep their order.
    pub fn sort<T>(&self, things: &mut [T], by: impl Fn(&str, &T) -> Option<Key>) {
        if self.column.is_empty() {
            return;
        }
        if self.is_down {
            things.sort_by_cached_key(|thing| std::cmp::Reverse(by(&self.column, thing)));
        } else {
            things.sort_by_cached_key(|thing| by(&self.column, thing));
        }
    }

    /// The head of a column, as HTML. `class` is of the style sheet, `title` already HTML.
    pub fn head(&self, column: &str, class: &str, title: &str) -> String {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        if self.path.is_empty() {
            return format!("<th scope=\"col\"{class}>{title}</th>");
        }
        let is_mine = self.column == column;
        // Amounts are looked at from the largest on, names from the first.
        let is_amount = class.contains('n');
        let is_next_down = if is_mine { !self.is_down } else { is_amount };
        let next = format!("{}{column}", if is_next_down { "-" } else { "" });
        let params = self.params.iter().map(|(key, value)| (*key, value.as_str()));
        let params: Vec<(&str, &str)> = params.chain([(PARAMETER, next.as_str())]).collect();
        let address = address_of(self.path, &params).replace('&', "&amp;");
        let (sorted, arrow) = match (is_mine, self.is_down) {
            (false, _) => ("", ""),
            (true, false) => (" aria-sort=\"ascending\"", " ▲"),
            (true, true) => (" aria-sort=\"descending\"", " ▼"),
        };
        format!("<th scope=\"col\"{class}{sorted}><a href=\"{address}\">{title}{arrow}</a></th>")
    }
}

/// Sort key of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// An amount.
    Amount(u64),
    /// A name.
    Text(String),
}

impl From<u64> for Key {
    fn from(amount: u64) -> Key {
        Key::Amount(amount)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_leads_to_its_order_and_then_to_the_other_way_round() {
        let cases = [
            (
                "",
                "<th scope=\"col\" class=\"n\"><a href=\"/jobs?user=ann&amp;sort=-held\">Holds</a></th>",
            ),
            (
                "-held",
                "<th scope=\"col\" class=\"n\" aria-sort=\"descending\"><a href=\"/jobs?user=ann&amp;sort=held\">Holds ▼</a></th>",
            ),
            (
                "held",
                "<th scope=\"col\" class=\"n\" aria-sort=\"ascending\"><a href=\"/jobs?user=ann&amp;sort=-held\">Holds ▲</a></th>",
            ),
        ];
        for (asked, expected) in cases {
            let sort = Sort::of(asked, "/jobs", &[("user", "ann"), ("class", "")]);
            assert_eq!(sort.head("held", "n", "Holds"), expected);
            assert_eq!(sort.word(), asked);
        }
        assert_eq!(Sort::default().head("user", "", "User"), "<th scope=\"col\">User</th>");
    }

    #[test]
    fn rows_are_sorted_and_equal_ones_stay_in_their_order() {
        let sorted = |asked: &str| {
            let mut things = [(1, "b"), (3, "a"), (2, "b")];
            let by = |column: &str, thing: &(u64, &str)| match column {
                "amount" => Some(thing.0.into()),
                "name" => Some(thing.1.into()),
                _ => None,
            };
            Sort::of(asked, "/jobs", &[]).sort(&mut things, by);
            things.map(|(amount, _)| amount)
        };
        let cases = [
            ("", [1, 3, 2]),
            ("colour", [1, 3, 2]),
            ("amount", [1, 2, 3]),
            ("-amount", [3, 2, 1]),
            ("name", [3, 1, 2]),
            ("-name", [1, 2, 3]),
        ];
        for (asked, expected) in cases {
            assert_eq!(sorted(asked), expected, "{asked}");
        }
    }
}
