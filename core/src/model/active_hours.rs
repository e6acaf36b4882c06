//! Hours of the week in which a class is open, as a clock on the wall shows them.
//!
//! Nothing here knows a time zone or a date: the daemon turns these hours into moments.
//!
//! Design: requests and time, section 1.5.

use std::fmt;
use std::str::FromStr;

use super::{Millis, span};

/// Days of the week, as entries name them.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Minutes of a day.
const DAY: u16 = 24 * 60;
/// Minutes of a week.
const WEEK: u16 = 7 * DAY;

/// Hours of the week, as a list of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveHours(pub Vec<ActiveEntry>);

/// Days of the week with hours of the day: "mon-fri 20:00-06:00".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveEntry {
    /// First day, from 0 for Monday.
    first: u16,
    /// Number of days, 1 to 7.
    days: u16,
    /// First minute of the day.
    from: u16,
    /// First minute after the hours; after midnight, it counts on.
    to: u16,
}

/// Reason why a text is no entry of hours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ActiveProblem {
    #[error("`{0}` is not a day")]
    NoDay(String),
    #[error("`{0}` is not a time of day")]
    NoTime(String),
    #[error("`{0}` is not a range of times")]
    NoRange(String),
    #[error("the range of times is empty")]
    Empty,
}

/// State of a class at `now`: "open, closes in 20m". All times are in milliseconds since the epoch.
pub fn state_of_hours(is_open: bool, next_change: Option<Millis>, now: Millis) -> String {
    let (state, change) = if is_open { ("open", "closes") } else { ("closed", "opens") };
    match next_change.map(|next| next.saturating_sub(now)) {
        None => state.to_owned(),
        Some(0) => format!("{state}, {change} now"),
        Some(wait) => format!("{state}, {change} in {}", span(wait)),
    }
}

impl ActiveHours {
    /// True if every moment of the week is within the hours.
    pub fn are_always(&self) -> bool {
        (0..WEEK).all(|minute| self.0.iter().any(|entry| entry.contains(minute)))
    }
}

impl fmt::Display for ActiveHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self.0.iter().map(ActiveEntry::to_string).collect();
        f.write_str(&entries.join(", "))
    }
}

impl ActiveEntry {
    /// Minutes of the day at which the hours of a day begin and end; `None` if the entry is not for
    /// that day. The day counts from 0 for Monday. An end above 1440 is on the next day.
    pub fn minutes_on(&self, day: u16) -> Option<(u16, u16)> {
        let is_named = (day + 7 - self.first) % 7 < self.days;
        is_named.then_some((self.from, self.to))
    }

    /// True if the minute of the week, from Monday 00:00, is within the hours.
    fn contains(self, minute: u16) -> bool {
        let is_within = |day: u16| {
            let begin = ((self.first + day) % 7) * DAY + self.from;
            (minute + WEEK - begin) % WEEK < self.to - self.from
        };
        (0..self.days).any(is_within)
    }
}

impl FromStr for ActiveEntry {
    type Err = ActiveProblem;

    fn from_str(text: &str) -> Result<ActiveEntry, ActiveProblem> {
        let mut words = text.split_whitespace();
        let days = words.next().unwrap_or_default();
        let (first, last) = days.split_once('-').unwrap_or((days, days));
        let (first, last) = (day(first)?, day(last)?);
        let days = (last + 7 - first) % 7 + 1;
        let times = words.collect::<Vec<_>>().join(" ");
        if times.is_empty() {
            return Ok(ActiveEntry { first, days, from: 0, to: DAY });
        }
        let range = times.split_once('-').ok_or_else(|| ActiveProblem::NoRange(times.clone()))?;
        let (from, to) = (time(range.0)?, time(range.1)?);
        if from == to {
            return Err(ActiveProblem::Empty);
        }
        if from == DAY {
            return Err(ActiveProblem::NoTime(range.0.to_owned()));
        }
        Ok(ActiveEntry { first, days, from, to: if to < from { to + DAY } else { to } })
    }
}

fn day(word: &str) -> Result<u16, ActiveProblem> {
    let mut days = (0..).zip(DAYS);
    let named = days.find(|(_, day)| word.eq_ignore_ascii_case(day));
    named.map(|(day, _)| day).ok_or_else(|| ActiveProblem::NoDay(word.to_owned()))
}

/// Minute of the day of "20:00"; of "24:00", the first after the day.
fn time(word: &str) -> Result<u16, ActiveProblem> {
    let number = |digits: &str| {
        let is_plain = matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|_| is_plain)
    };
    let parts = word.split_once(':').filter(|(_, minutes)| minutes.len() == 2);
    let parts = parts.and_then(|(hours, minutes)| Some((number(hours)?, number(minutes)?)));
    let minute = parts.filter(|(_, minutes)| *minutes < 60).map(|(hour, rest)| hour * 60 + rest);
    minute.filter(|minute| *minute <= DAY).ok_or_else(|| ActiveProblem::NoTime(word.to_owned()))
}

impl fmt::Display for ActiveEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ActiveEntry { first, days, from, to } = *self;
        let name = |day: u16| DAYS[usize::from(day % 7)];
        f.write_str(name(first))?;
        if 1 < days {
            write!(f, "-{}", name(first + days - 1))?;
        }
        if (from, to) == (0, DAY) {
            return Ok(());
        }
        let to = if DAY < to { to - DAY } else { to };
        let clock =
            |minute: u16| format!("{:02}:{:02}", minute.div_euclid(60), minute.rem_euclid(60));
        write!(f, " {}-{}", clock(from), clock(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> ActiveEntry {
        text.parse().unwrap()
    }

    #[test]
    fn entries_are_written_as_they_are_read() {
        let texts = ["mon-fri 20:00-06:00", "sat-sun", "sat", "fri-mon 00:00-12:30", "sun-sat"];
        for text in texts {
            assert_eq!(entry(text).to_string(), text);
        }
        assert_eq!(entry(" Mon  8:00-24:00 ").to_string(), "mon 08:00-24:00");
        assert_eq!(entry("mon-mon 20:00-00:00").to_string(), "mon 20:00-24:00");
        assert_eq!(entry("mon 00:00-24:00"), entry("mon"));
    }

    #[test]
    fn a_wrong_entry_names_the_wrong_word() {
        let cases = [
            ("", "`` is not a day"),
            ("monday", "`monday` is not a day"),
            ("mon-", "`` is not a day"),
            ("mon,tue", "`mon,tue` is not a day"),
            ("mon 20:00", "`20:00` is not a range of times"),
            ("mon 20-22", "`20` is not a time of day"),
            ("mon 20:00-25:00", "`25:00` is not a time of day"),
            ("mon 20:00-24:01", "`24:01` is not a time of day"),
            ("mon 20:60-22:00", "`20:60` is not a time of day"),
            ("mon 20:0-22:00", "`20:0` is not a time of day"),
            ("mon +8:00-22:00", "`+8:00` is not a time of day"),
            ("mon 08:00-10:00 12:00-14:00", "`10:00 12:00-14:00` is not a time of day"),
            ("mon 24:00-06:00", "`24:00` is not a time of day"),
            ("mon 08:00-08:00", "the range of times is empty"),
        ];
        for (text, problem) in cases {
            assert_eq!(text.parse::<ActiveEntry>().unwrap_err().to_string(), problem, "{text}");
        }
    }

    #[test]
    fn hours_after_midnight_belong_to_the_day_before() {
        let night = entry("fri-mon 20:00-06:00");
        let on = |day| night.minutes_on(day);
        let night_hours = Some((20 * 60, 30 * 60));
        assert_eq!([on(4), on(5), on(6), on(0)], [night_hours; 4]);
        assert_eq!([on(1), on(2), on(3)], [None; 3]);
        let at = |day: u16, hour: u16| night.contains(day * DAY + hour * 60);
        assert!(at(1, 5) && !at(1, 6) && !at(1, 20) && at(4, 20) && !at(4, 19) && !at(4, 5));
        assert!(entry("sun 20:00-06:00").contains(0), "the week is a circle");
    }

    #[test]
    fn states_name_the_next_change() {
        let texts = [
            (state_of_hours(true, Some(1_200_000), 0), "open, closes in 20m"),
            (state_of_hours(false, Some(12_000_000), 1_200_000), "closed, opens in 3h"),
            (state_of_hours(false, Some(5), 7), "closed, opens now"),
            (state_of_hours(true, None, 7), "open"),
        ];
        for (text, expected) in texts {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn hours_that_cover_the_week_are_always() {
        let of = |texts: &[&str]| ActiveHours(texts.iter().map(|text| entry(text)).collect());
        assert!(of(&["mon-sun"]).are_always() && of(&["wed-tue"]).are_always());
        assert!(of(&["mon-sun 06:00-20:00", "mon-sun 20:00-06:00"]).are_always());
        assert!(!of(&["mon-sun 06:00-20:00", "mon-sun 20:01-06:00"]).are_always());
        assert!(!of(&[]).are_always() && !of(&["mon-sat", "sun 00:00-23:59"]).are_always());
    }
}
