//! Flags of times, for `run` and `submit`.

use clap::Args;
use jiff::Zoned;
use serde_json::{Map, Value};

use super::failure::{Failure, FailureKind};
use super::time_spec::{TimeSpec, millis, parse_time};

/// Heading of these flags, above them in the help.
const HEADING: &str = "Time";

/// Times that the planner knows of a job.
#[derive(Clone, Debug, Default, Args)]
pub struct TimeFlags {
    /// The longest that the job runs, from its start: 2h, 90m, 2:00:00, 1-12:00:00, or a number of
    /// minutes. Other jobs are planned by it; a class may end the job after it, --time-limit ends a task
    #[arg(help_heading = HEADING, long, value_name = "LENGTH")]
    pub time: Option<String>,
    /// Earliest start, in every class: +2h, 18:00 (the next), or a date and time, with or without an
    /// offset from UTC
    #[arg(help_heading = HEADING, long, value_name = "TIME", value_parser = parse_time)]
    pub begin: Option<TimeSpec>,
    /// Latest end; the job is not started if it would not be over by then. Without effect on
    /// fair-share work
    #[arg(help_heading = HEADING, long, value_name = "TIME", value_parser = parse_time)]
    pub deadline: Option<TimeSpec>,
    /// Run only in the advance reservation of this name. Without effect on fair-share work, which may
    /// use reserved nodes
    #[arg(help_heading = HEADING, long, value_name = "NAME")]
    pub reservation: Option<String>,
}

impl TimeFlags {
    /// Puts the flags over what a file says, at the present of `now`.
    pub(super) fn put(
        &self,
        document: &mut Map<String, Value>,
        now: &Zoned,
    ) -> Result<(), Failure> {
        let beyond = |error: jiff::Error| Failure::new(FailureKind::Refused, error.to_string());
        let begin = self.begin.map(|begin| begin.resolve(now, now)).transpose().map_err(beyond)?;
        // A time of day is the next after the start.
        let earliest = begin.as_ref().unwrap_or(now);
        let deadline = self.deadline.map(|deadline| deadline.resolve(now, earliest));
        let deadline = deadline.transpose().map_err(beyond)?;
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let moment = |time: &Option<Zoned>| time.as_ref().map(|time| Value::from(millis(time)));
        for (key, value) in [
            ("time", text(&self.time)),
            ("begin", moment(&begin)),
            ("deadline", moment(&deadline)),
            ("reservation", text(&self.reservation)),
        ] {
            if let Some(value) = value {
                document.insert(key.to_owned(), value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_go_over_the_file_at_the_present() {
        let now: Zoned = "2026-11-26T15:30:00+01:00[+01:00]".parse().unwrap();
        let file = json!({ "time": "1h", "reservation": "r1", "memory": "1GB" });
        let mut document = file.as_object().unwrap().clone();
        TimeFlags::default().put(&mut document, &now).unwrap();
        assert_eq!(Value::from(document.clone()), file);
        let flags = TimeFlags {
            time: Some("2:00:00".to_owned()),
            begin: Some(parse_time("18:00").unwrap()),
            deadline: Some(parse_time("06:00").unwrap()),
            reservation: None,
        };
        flags.put(&mut document, &now).unwrap();
        let start = 1_795_712_400_000_u64;
        let expected = json!({
            "time": "2:00:00", "reservation": "r1", "memory": "1GB", "begin": start,
            "deadline": start + 12 * 3_600_000,
        });
        assert_eq!(Value::from(document), expected);
    }
}
