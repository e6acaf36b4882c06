//! Times of a campaign: how long it runs, when it may start and has to be over, and where.

use jiff::{Span, SpanRelativeTo, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::Fields;
use super::limits::{MAX_DURATION_MS, MAX_NAME};
use super::params::short;

/// Milliseconds of a second, a minute, an hour and a day.
const UNITS: [u64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];

/// Latest moment, in milliseconds since the epoch: the end of the year 9999.
const LATEST_MS: u64 = 253_402_300_799_999;

/// Times of a campaign, by which the resource manager plans. Times that are absent bind nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignTimes {
    /// The longest that the campaign runs, from its start, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Earliest start, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// Latest end, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Advance reservation in which alone the campaign runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}

impl CampaignTimes {
    /// True if nothing is asked for. Specifications of before have none of it.
    pub fn are_absent(&self) -> bool {
        *self == CampaignTimes::default()
    }
}

/// Takes the times out of a document.
pub(super) fn take(fields: &mut Fields<'_>) -> CampaignTimes {
    let duration_ms = fields.read(
        "time",
        "write a length such as \"2h\", \"2:00:00\" or 120, which are minutes",
        |value| length_of(value).filter(|length| (1..=MAX_DURATION_MS).contains(length)),
    );
    let not_before_ms = moment(fields, "begin");
    let deadline_ms = moment(fields, "deadline");
    if let (Some(start), Some(end)) = (not_before_ms, deadline_ms)
        && end <= start
    {
        fields.fault("deadline", "is not after `begin`", "write a later deadline");
    }
    let remedy = "write the name that `apportion reservation list` shows";
    let reservation = fields.text("reservation", remedy);
    let is_name = |name: &String| {
        let is_plain = |c: char| !c.is_whitespace() && !crate::model::is_hidden(c);
        !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(is_plain)
    };
    if let Some(name) = reservation.as_ref().filter(|name| !is_name(name)) {
        fields.fault("reservation", format!("`{}` is no name", short(name)), remedy);
    }
    CampaignTimes { duration_ms, not_before_ms, deadline_ms, reservation }
}

fn moment(fields: &mut Fields<'_>, key: &'static str) -> Option<u64> {
    let remedy = "write a time with an offset, such as \"2026-12-01T18:00:00+01:00\"";
    fields.read(key, remedy, |value| {
        let from_text = |text: &str| {
            let time: Timestamp = text.parse().ok()?;
            u64::try_from(time.as_millisecond()).ok()
        };
        let millis = value.as_u64().or_else(|| value.as_str().and_then(from_text));
        millis.filter(|millis| *millis <= LATEST_MS)
    })
}

/// Milliseconds of a length: `2h`, or as Slurm writes it. A number alone is in minutes.
fn length_of(value: &Value) -> Option<u64> {
    if let Some(minutes) = value.as_u64() {
        return minutes.checked_mul(UNITS[1]);
    }
    let text = value.as_str()?.trim();
    if text.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '-') {
        return slurm_length(text);
    }
    let span: Span = text.parse().ok()?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    u64::try_from(length.as_millis()).ok()
}

/// Milliseconds of `minutes`, `minutes:seconds`, `hours:minutes:seconds`, or of days, a hyphen and
/// `hours`, `hours:minutes` or `hours:minutes:seconds`.
fn slurm_length(text: &str) -> Option<u64> {
    let [second, minute, hour, day] = UNITS;
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let units: &[u64] = match (days, parts.len()) {
        (None, 1) => &[minute],
        (None, 2) => &[minute, second],
        (_, 3) => &[hour, minute, second],
        (Some(_), 1) => &[hour],
        (Some(_), 2) => &[hour, minute],
        _ => return None,
    };
    let days = days.map_or(Some(0), |days| days.parse::<u64>().ok()?.checked_mul(day));
    parts.iter().zip(units).try_fold(days?, |sum, (part, unit)| {
        part.parse::<u64>().ok()?.checked_mul(*unit)?.checked_add(sum)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CampaignSpec;
    use super::*;

    #[test]
    fn lengths_are_read_in_both_notations() {
        const MINUTE: u64 = 60_000;
        let cases = [
            (json!("2h"), Some(120 * MINUTE)),
            (json!("90m"), Some(90 * MINUTE)),
            (json!("1h 30m"), Some(90 * MINUTE)),
            (json!("1d"), Some(1440 * MINUTE)),
            (json!("30s"), Some(30_000)),
            (json!("90"), Some(90 * MINUTE)),
            (json!(90), Some(90 * MINUTE)),
            (json!("5:30"), Some(5 * MINUTE + 30_000)),
            (json!("2:00:00"), Some(120 * MINUTE)),
            (json!("1-12"), Some(36 * 60 * MINUTE)),
            (json!("1-12:30"), Some((36 * 60 + 30) * MINUTE)),
            (json!("1-00:00:01"), Some(1440 * MINUTE + 1000)),
            (json!("2 fortnights"), None),
            (json!("1mo"), None),
            (json!("-5"), None),
            (json!("1:2:3:4"), None),
            (json!(""), None),
            (json!(1.5), None),
            (json!("99999999999999999999"), None),
        ];
        for (text, length) in cases {
            assert_eq!(length_of(&text), length, "{text}");
        }
    }

    fn read(more: &Value) -> Result<CampaignTimes, Vec<String>> {
        let mut document = json!({ "command": ["true"], "memory": "1GB" });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let read = CampaignSpec::read(document.as_object().unwrap().clone());
        let fields = |problems: Vec<super::super::SpecProblem>| {
            problems.into_iter().map(|problem| problem.field).collect()
        };
        read.map(|(spec, _)| spec.times).map_err(fields)
    }

    #[test]
    fn times_are_taken_and_bad_times_refused() {
        let times = read(&json!({
            "time": "2:00:00", "begin": "2026-12-01T18:00:00+01:00", "deadline": 1_800_000_000_000_u64,
            "reservation": "r1",
        }));
        let expected = CampaignTimes {
            duration_ms: Some(7_200_000),
            not_before_ms: Some(1_796_144_400_000),
            deadline_ms: Some(1_800_000_000_000),
            reservation: Some("r1".to_owned()),
        };
        assert_eq!(times, Ok(expected));
        let cases = [
            (json!({ "time": 0 }), "time"),
            (json!({ "time": "11y" }), "time"),
            (json!({ "begin": "tomorrow" }), "begin"),
            (json!({ "begin": "2026-12-01T18:00" }), "begin"),
            (json!({ "begin": 5, "deadline": 5 }), "deadline"),
            (json!({ "reservation": "a b" }), "reservation"),
            (json!({ "reservation": "" }), "reservation"),
        ];
        for (more, field) in cases {
            assert_eq!(read(&more), Err(vec![field.to_owned()]), "{more}");
        }
    }

    /// A specification without times is written as before, and one of before is read.
    #[test]
    fn stored_specifications_of_before_open() {
        let document = json!({ "command": ["true"], "memory": "1GB" });
        let (spec, _) = CampaignSpec::read(document.as_object().unwrap().clone()).unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        assert!(!text.contains("times"), "{text}");
        assert_eq!(serde_json::from_str::<CampaignSpec>(&text).unwrap(), spec);
        let times = CampaignTimes { duration_ms: Some(5), ..CampaignTimes::default() };
        let spec = CampaignSpec { times, ..spec };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<CampaignSpec>(&text).unwrap(), spec);
    }
}
