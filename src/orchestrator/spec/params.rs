//! The tasks of a campaign: a range of numbers, lines, or items of JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SpecProblem;
use super::limits::{MAX_ARGUMENT, MAX_TASKS};

/// Numbers of tasks: `first`, `first + step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRange {
    /// The number of the first task.
    pub first: u64,
    /// Difference of two successive numbers, at least 1.
    pub step: u64,
    /// Number of tasks.
    pub count: u64,
}

impl TaskRange {
    /// The most tasks of a range.
    pub const LARGEST: u64 = MAX_TASKS;

    /// Tasks 1 to `count`.
    pub fn up_to(count: u64) -> TaskRange {
        TaskRange { first: 1, step: 1, count }
    }

    /// Reads `A-B`, `A-B:STEP` or `A`.
    ///
    /// # Errors
    ///
    /// With the problem, if it is no range or has too many tasks.
    pub fn parse(field: &str, text: &str) -> Result<TaskRange, SpecProblem> {
        let remedy = "write `1-1000`, `1-1000:2` or `7`";
        let fault =
            |what: &str| SpecProblem::new(field, format!("`{}` {what}", short(text)), remedy);
        let (range, step) = text.trim().split_once(':').unwrap_or((text.trim(), "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| fault("is no range"));
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        let steps = last.checked_sub(first).ok_or_else(|| fault("runs backwards"))?;
        let steps = steps.checked_div(step).ok_or_else(|| fault("has the step 0"))?;
        if MAX_TASKS <= steps || (1 << 53) < last {
            return Err(fault("has more than 10,000,000 tasks, or numbers above 2^53"));
        }
        Ok(TaskRange { first, step, count: steps + 1 })
    }

    /// The number of the task at `position`, counted from 0; `None` beyond the last.
    pub fn at(self, position: u64) -> Option<u64> {
        let is_in = position < self.count;
        is_in.then(|| self.first.saturating_add(position.saturating_mul(self.step)))
    }

    /// The position of a task, counted from 0; `None` if the range has no such task.
    pub fn position(self, task: u64) -> Option<u64> {
        let offset = task.checked_sub(self.first)?;
        let is_step = offset.checked_rem(self.step)? == 0;
        let position = offset.checked_div(self.step)?;
        (is_step && position < self.count).then_some(position)
    }
}

/// The parameters of the tasks of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Params {
    /// Each task has its number only.
    Numbers,
    /// Each task has a line or an item of JSON as text, in order.
    Texts(Vec<String>),
}

/// Takes the tasks out of a document: `tasks`, `lines` or `items`. A document without these fields
/// has a single task.
pub(super) fn take(
    document: &mut Map<String, Value>,
    problems: &mut Vec<SpecProblem>,
) -> (TaskRange, Params) {
    let one = (TaskRange::up_to(1), Params::Numbers);
    let given: Vec<&str> =
        ["tasks", "lines", "items"].into_iter().filter(|key| document.contains_key(*key)).collect();
    let (tasks, lines, items) =
        (document.remove("tasks"), document.remove("lines"), document.remove("items"));
    if 1 < given.len() {
        let message = format!("{} are given together", given.join(" and "));
        problems.push(SpecProblem::new(given[0], message, "keep one of them"));
        return one;
    }
    let read = match (tasks, lines, items) {
        (Some(range), ..) => read_range(&range),
        (_, Some(lines), _) => read_texts("lines", lines, line),
        (_, _, Some(items)) => read_texts("items", items, |_, item| Ok(item.to_string())),
        (None, None, None) => return one,
    };
    read.unwrap_or_else(|problem| {
        problems.push(problem);
        one
    })
}

/// Reads tasks that a request adds to a campaign: `count` of them, or the texts of `lines` or
/// `items`.
///
/// # Errors
///
/// With every problem of the document.
pub fn read_more(mut document: Map<String, Value>) -> Result<(u64, Params), Vec<SpecProblem>> {
    let mut problems = Vec::new();
    let count = document.remove("count");
    if let Some(other) = document.keys().find(|key| !["lines", "items"].contains(&key.as_str())) {
        let remedy = "write `count`, `lines` or `items`";
        problems.push(SpecProblem::new(&short(other), "is unknown", remedy));
        return Err(problems);
    }
    if count.is_some() == (document.len() == 1) || 1 < document.len() {
        let message = "exactly one of `count`, `lines` and `items` is needed";
        problems.push(SpecProblem::new("count", message, "write one of them"));
        return Err(problems);
    }
    let Some(count) = count else {
        let (range, params) = take(&mut document, &mut problems);
        return if problems.is_empty() { Ok((range.count, params)) } else { Err(problems) };
    };
    let fits = count.as_u64().filter(|count| (1..=MAX_TASKS).contains(count));
    fits.map(|count| (count, Params::Numbers)).ok_or_else(|| {
        let message = format!("`{}` does not fit", short(&count.to_string()));
        vec![SpecProblem::new("count", message, "write a whole number from 1 to 10,000,000")]
    })
}

fn read_range(value: &Value) -> Result<(TaskRange, Params), SpecProblem> {
    let text = value.as_str().map(str::to_owned);
    let text = text.or_else(|| value.as_u64().map(|count| format!("1-{count}")));
    let text =
        text.ok_or_else(|| SpecProblem::new("tasks", "is no range", "write `tasks = \"1-1000\"`"))?;
    TaskRange::parse("tasks", &text).map(|range| (range, Params::Numbers))
}

fn read_texts(
    field: &str,
    value: Value,
    read: impl Fn(usize, Value) -> Result<String, SpecProblem>,
) -> Result<(TaskRange, Params), SpecProblem> {
    let Value::Array(values) = value else {
        return Err(SpecProblem::new(
            field,
            "is no list",
            format!("write `{field} = [\"a\", \"b\"]`"),
        ));
    };
    let count = crate::model::count(&values);
    if count == 0 || MAX_TASKS < count {
        let remedy = "give at least one and at most 10,000,000";
        return Err(SpecProblem::new(field, format!("has {count} entries"), remedy));
    }
    let texts: Result<Vec<String>, SpecProblem> = values
        .into_iter()
        .enumerate()
        .map(|(index, value)| {
            let text = read(index, value)?;
            let fits = text.len() <= MAX_ARGUMENT && !text.contains('\0');
            let message = format!("entry {} is longer than 128 KiB or has a zero byte", index + 1);
            fits.then_some(text).ok_or_else(|| {
                SpecProblem::new(field, message, "put it in a file, and give the name of the file")
            })
        })
        .collect();
    Ok((TaskRange::up_to(count), Params::Texts(texts?)))
}

fn line(index: usize, value: Value) -> Result<String, SpecProblem> {
    if let Value::String(text) = value {
        return Ok(text);
    }
    let message = format!("entry {} is no text", index + 1);
    Err(SpecProblem::new("lines", message, "write it in quotes, or use `items`"))
}

/// The beginning of a text, for messages.
pub fn short(text: &str) -> String {
    let mut shown: String =
        text.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_numbers_that_it_names() {
        let range = TaskRange::parse("tasks", "3-12:4").unwrap();
        assert_eq!(range, TaskRange { first: 3, step: 4, count: 3 });
        assert_eq!([0, 1, 2, 3].map(|at| range.at(at)), [Some(3), Some(7), Some(11), None]);
        assert_eq!(
            [3, 11, 4, 15, 0].map(|n| range.position(n)),
            [Some(0), Some(2), None, None, None]
        );
        assert_eq!(TaskRange::parse("tasks", "7").unwrap().count, 1);
        for bad in ["", "a-b", "5-1", "1-9:0", "1-99999999", "-3"] {
            let problem = TaskRange::parse("tasks", bad).unwrap_err();
            assert_eq!(problem.field, "tasks", "{bad}");
        }
    }

    #[test]
    fn one_source_of_tasks_is_allowed() {
        let mut problems = Vec::new();
        let mut document = Map::new();
        document.insert("tasks".into(), "1-3".into());
        document.insert("lines".into(), Value::Array(vec!["a".into()]));
        take(&mut document, &mut problems);
        assert_eq!(
            problems[0].to_string(),
            "tasks: tasks and lines are given together; keep one of them"
        );
    }

    #[test]
    fn tasks_that_are_added_are_counted_or_listed() {
        let read = |document: Value| read_more(document.as_object().unwrap().clone());
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(json(r#"{"count": 7}"#)), Ok((7, Params::Numbers)));
        let texts = Params::Texts(vec!["{\"a\":1}".to_owned()]);
        assert_eq!(read(json(r#"{"items": [{"a": 1}]}"#)), Ok((1, texts)));
        for (text, field) in [
            ("{}", "count"),
            (r#"{"count": 0}"#, "count"),
            (r#"{"count": "7"}"#, "count"),
            (r#"{"count": 1, "lines": ["a"]}"#, "count"),
            (r#"{"lines": ["a"], "items": [1]}"#, "count"),
            (r#"{"lines": []}"#, "lines"),
            (r#"{"lines": ["a"], "memory": "1GB"}"#, "memory"),
        ] {
            let problems = read(json(text)).unwrap_err();
            assert_eq!((problems.len(), problems[0].field.as_str()), (1, field), "{text}");
        }
    }

    #[test]
    fn lines_are_kept_byte_for_byte() {
        let lines = ["a b", "\"q'", "\t", "", "ü"];
        let mut document = Map::new();
        document.insert("lines".into(), Value::from(lines.to_vec()));
        let (range, params) = take(&mut document, &mut Vec::new());
        assert_eq!(range, TaskRange::up_to(5));
        assert_eq!(params, Params::Texts(lines.map(str::to_owned).to_vec()));
    }
}
