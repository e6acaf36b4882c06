//! The kinds of value that a setting can have, each with the words to use when it has not.
//!
//! A kind reads a written value, writes it in the notation of the file, and has a [`ValueShape`] for
//! editors. No kind depends on the setting that it reads; limits come as arguments.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::Unit;
use jiff::SignedDuration;
use toml::de::DeValue;

use super::problem::{Code, quoted};
use super::shape::{MAX_NAME, ValueShape};
use crate::model::{
    HostListError, MAX_HOSTS, Mebibytes, Millis, expand_hostlist, floor_div, fold_hostlist,
    is_hidden, is_tag_key, is_tag_value, nearest,
};

/// A value as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written<'a> {
    /// A value of the file.
    Toml(&'a DeValue<'a>),
    /// A value from the environment, where everything is text.
    Text(&'a str),
}

/// Reason why a value is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub code: Code,
    pub message: String,
    pub remedy: String,
}

/// Result of reading a value.
pub(super) type ValueResult<T> = Result<T, Fault>;

/// Policy of a class, as the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyName {
    FairShare,
    FixedShare,
    Reserve,
}

impl PolicyName {
    pub(super) const ALL: [PolicyName; 3] =
        [PolicyName::FairShare, PolicyName::FixedShare, PolicyName::Reserve];

    /// Name in the file.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            PolicyName::FairShare => "fair-share",
            PolicyName::FixedShare => "fixed-share",
            PolicyName::Reserve => "reserve",
        }
    }
}

/// Fate of work that runs longer than it declared, as the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverrunName {
    Wait,
    End,
}

impl OverrunName {
    const ALL: [OverrunName; 2] = [OverrunName::Wait, OverrunName::End];

    /// Name in the file.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            OverrunName::Wait => "wait",
            OverrunName::End => "end",
        }
    }
}

impl<'a> Written<'a> {
    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Written::Toml(value) => value.as_str(),
            Written::Text(text) => Some(text),
        }
    }

    /// Returns the value as messages quote it.
    fn shown(self) -> String {
        match self {
            Written::Text(text) => quoted(text),
            Written::Toml(value) => match (value.as_str(), value.as_integer(), value.as_bool()) {
                (Some(text), ..) => quoted(text),
                (_, Some(integer), _) => integer.to_string(),
                (.., Some(flag)) => flag.to_string(),
                _ => format!("this {}", value.type_str()),
            },
        }
    }

    pub(super) fn fault(self, code: Code, problem: &str, remedy: impl Into<String>) -> Fault {
        Fault { code, message: format!("{} {problem}", self.shown()), remedy: remedy.into() }
    }
}

/// Function that writes a value in the notation of the file.
type Show<T> = fn(&T) -> String;

/// A kind of value.
pub(super) struct ValueKind<T> {
    /// Shape of accepted values, as far as a JSON schema can express it.
    pub shape: ValueShape,
    code: Option<Code>,
    read: Box<dyn Fn(Written<'_>) -> ValueResult<T>>,
    show: Show<T>,
}

impl<T> ValueKind<T> {
    pub(super) fn new(
        shape: ValueShape,
        read: impl Fn(Written<'_>) -> ValueResult<T> + 'static,
        show: Show<T>,
    ) -> ValueKind<T> {
        ValueKind { shape, code: None, read: Box::new(read), show }
    }

    /// Returns this kind with its own code for every fault.
    pub(super) fn coded(self, code: Code) -> ValueKind<T> {
        ValueKind { code: Some(code), ..self }
    }

    pub(super) fn read(&self, written: Written<'_>) -> ValueResult<T> {
        let with_code = |fault: Fault| Fault { code: self.code.unwrap_or(fault.code), ..fault };
        (self.read)(written).map_err(with_code)
    }

    /// `value` as it is written in the file.
    pub(super) fn show(&self, value: &T) -> String {
        (self.show)(value)
    }
}

impl<T> fmt::Debug for ValueKind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueKind").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// True or false.
pub(super) fn flag() -> ValueKind<bool> {
    ValueKind::new(ValueShape::Flag, read_flag, bool::to_string)
}

fn read_flag(written: Written<'_>) -> ValueResult<bool> {
    let flag = match written {
        Written::Toml(value) => value.as_bool(),
        Written::Text(text) => text.parse().ok(),
    };
    flag.ok_or_else(|| {
        written.fault(
            Code::Kind,
            "is neither true nor false",
            "write true or false, without quotes",
        )
    })
}

/// A whole number in `range`.
pub(super) fn number<T>(range: RangeInclusive<i64>) -> ValueKind<T>
where
    T: TryFrom<i64> + fmt::Display,
{
    let shape = ValueShape::Integer { least: *range.start(), most: *range.end() };
    let read = move |written: Written<'_>| {
        let bounds = || format!("allowed are {} to {}", range.start(), range.end());
        let digits = match written {
            Written::Toml(value) => {
                value.as_integer().map(|integer| (integer.as_str(), integer.radix()))
            }
            Written::Text(text) => Some((text, 10)),
        };
        let not_whole = || written.fault(Code::Kind, "is not a whole number", bounds());
        let (digits, radix) = digits.ok_or_else(not_whole)?;
        let outside = || written.fault(Code::Range, "is out of range", bounds());
        let number = match i64::from_str_radix(digits, radix) {
            Ok(number) => number,
            // TOML has vouched for the digits of its integers, so all that is left is their size.
            Err(_) if matches!(written, Written::Toml(_)) => return Err(outside()),
            Err(_) => return Err(not_whole()),
        };
        let number = range.contains(&number).then(|| T::try_from(number).ok());
        number.flatten().ok_or_else(outside)
    };
    ValueKind::new(shape, read, T::to_string)
}

/// An amount of memory in `range`, written with its unit.
///
/// A gigabyte is 1024³ bytes, written GB or GiB, as in UIMA-DUCC. Nodes report binary sizes, and a
/// quantum that differs from them by 7 % would waste a fifteenth of the memory.
pub(super) fn size(range: RangeInclusive<Mebibytes>) -> ValueKind<Mebibytes> {
    let read = move |written: Written<'_>| {
        let example =
            "write whole megabytes or larger with their unit, such as \"15GB\" or \"1536MB\"";
        let not_a_size = || written.fault(Code::Kind, "is not a size", example);
        let text = written.text().ok_or_else(not_a_size)?.trim();
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &text[..text.len() - unit.len()];
        let mebibytes = mebibytes_per(unit.trim()).ok_or_else(not_a_size)?;
        if digits.is_empty() {
            return Err(not_a_size());
        }
        let outside = || {
            let bounds = format!("allowed are {} to {}", range.start(), range.end());
            written.fault(Code::Range, "is out of range", bounds)
        };
        let amount = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(mebibytes));
        amount.map(Mebibytes).filter(|amount| range.contains(amount)).ok_or_else(outside)
    };
    ValueKind::new(ValueShape::Size, read, |size| toml_size(*size))
}

/// "15GB", and megabytes where they are not whole gigabytes.
pub(super) fn toml_size(size: Mebibytes) -> String {
    format!("\"{}\"", size.to_string().replace(' ', ""))
}

/// Returns the MiB of a `unit`; `None` for smaller units and for unknown words.
fn mebibytes_per(unit: &str) -> Option<u64> {
    let unit: Unit = unit.parse().ok()?;
    let sizes = [
        ([Unit::MegaByte, Unit::MebiByte], 1),
        ([Unit::GigaByte, Unit::GibiByte], 1 << 10),
        ([Unit::TeraByte, Unit::TebiByte], 1 << 20),
        ([Unit::PetaByte, Unit::PebiByte], 1 << 30),
    ];
    sizes.into_iter().find(|(names, _)| names.contains(&unit)).map(|(_, mebibytes)| mebibytes)
}

/// A span of time in `range`, written with its unit.
pub(super) fn duration(range: RangeInclusive<Duration>) -> ValueKind<Duration> {
    let read = move |written: Written<'_>| {
        let example = "write a time with its unit, such as \"30s\" or \"2m\"";
        let not_a_time = || written.fault(Code::Kind, "is not a span of time", example);
        let text = written.text().ok_or_else(not_a_time)?;
        let signed: SignedDuration = text.parse().map_err(|_| not_a_time())?;
        let duration = Duration::try_from(signed).ok().filter(|duration| range.contains(duration));
        duration.ok_or_else(|| {
            let bounds = format!("allowed are {:?} to {:?}", range.start(), range.end());
            written.fault(Code::Range, "is out of range", bounds)
        })
    };
    let shown = |duration: &Duration| toml_span(millis(*duration));
    ValueKind::new(ValueShape::Span, read, shown)
}

/// In milliseconds.
pub(super) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// "90s", "2m", "1h": in the largest unit that it is a whole number of.
pub(super) fn toml_span(span: Millis) -> String {
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let fits = |(_, millis): &(&str, Millis)| 0 < span && span.is_multiple_of(*millis);
    match units.into_iter().find(fits) {
        Some((unit, millis)) => {
            let millis = NonZeroU64::new(millis).expect("no unit is nothing");
            format!("\"{}{unit}\"", floor_div(span, millis))
        }
        None => "\"0s\"".to_owned(),
    }
}

/// Text in quotes, escaped as TOML requires.
pub(super) fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A list, on a single line.
pub(super) fn toml_list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// The name of a pool, class or user.
pub(super) fn name() -> ValueKind<String> {
    ValueKind::new(ValueShape::Name, read_name, |name| toml_text(name))
}

fn read_name(written: Written<'_>) -> ValueResult<String> {
    let remedy = format!("names have 1 to {MAX_NAME} bytes, without blanks and hidden characters");
    let text = written
        .text()
        .ok_or_else(|| written.fault(Code::Kind, "is not a name", "write it in quotes"))?;
    let is_clean = !text.chars().any(|c| c.is_whitespace() || is_hidden(c));
    if is_clean && (1..=MAX_NAME).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(written.fault(Code::Range, "cannot be a name", remedy))
    }
}

/// A name, or an empty text: "".
pub(super) fn optional_name() -> ValueKind<Option<String>> {
    let read = |written: Written<'_>| match written.text() {
        Some("") => Ok(None),
        _ => read_name(written).map(Some),
    };
    ValueKind::new(ValueShape::OptionalName, read, |name| {
        toml_text(name.as_deref().unwrap_or_default())
    })
}

/// A path in the file system.
pub(super) fn path() -> ValueKind<PathBuf> {
    ValueKind::new(ValueShape::Path, read_path, |path| toml_text(&path.to_string_lossy()))
}

fn read_path(written: Written<'_>) -> ValueResult<PathBuf> {
    match written.text() {
        Some(text) if !text.is_empty() && !text.contains('\0') => Ok(text.into()),
        _ => Err(written.fault(Code::Kind, "is not a path", "write the path of a file in quotes")),
    }
}

/// A path, or an empty text: "".
pub(super) fn optional_path() -> ValueKind<Option<PathBuf>> {
    let read = |written: Written<'_>| match written.text() {
        Some("") => Ok(None),
        _ => read_path(written).map(Some),
    };
    let show = |path: &Option<PathBuf>| {
        toml_text(&path.as_ref().map(|path| path.to_string_lossy()).unwrap_or_default())
    };
    ValueKind::new(ValueShape::OptionalPath, read, show)
}

/// Users or groups by their numbers, separated by commas: "1000, 1001".
pub(super) fn ids() -> ValueKind<Vec<u32>> {
    let read = |written: Written<'_>| {
        let text = written.text().map(str::trim);
        let parts = text.map(|text| text.split(',').filter(|_| !text.is_empty()));
        let ids = parts.map(|parts| parts.map(|part| part.trim().parse::<u32>()).collect());
        ids.and_then(|ids: Result<Vec<u32>, _>| ids.ok()).ok_or_else(|| {
            let remedy = "write their numbers in quotes, as `id -u` tells them: \"1000, 1001\"";
            written.fault(Code::Kind, "is no list of users or groups", remedy)
        })
    };
    let show =
        |ids: &Vec<u32>| toml_text(&ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
    ValueKind::new(ValueShape::Ids, read, show)
}

/// An address and a port.
pub(super) fn address() -> ValueKind<SocketAddr> {
    ValueKind::new(ValueShape::Address, read_address, |address| format!("\"{address}\""))
}

fn read_address(written: Written<'_>) -> ValueResult<SocketAddr> {
    let address = written.text().and_then(|text| text.parse::<SocketAddr>().ok());
    let not_an_address = "is not an address and a port";
    address
        .ok_or_else(|| written.fault(Code::Kind, not_an_address, "write it as \"127.0.0.1:7070\""))
}

/// A policy by name.
pub(super) fn policy() -> ValueKind<PolicyName> {
    let words = PolicyName::ALL.map(PolicyName::as_str).to_vec();
    ValueKind::new(ValueShape::Word(words), read_policy, |policy| toml_text(policy.as_str()))
}

fn read_policy(written: Written<'_>) -> ValueResult<PolicyName> {
    let text = written.text().unwrap_or_default();
    let named = PolicyName::ALL.into_iter().find(|policy| policy.as_str() == text);
    named.ok_or_else(|| {
        let names = PolicyName::ALL.map(PolicyName::as_str);
        let guess = nearest(text, names).map(|guess| format!("did you mean `{guess}`? "));
        let remedy = format!("{}policies are {}", guess.unwrap_or_default(), names.join(", "));
        written.fault(Code::Unknown, "is not a policy", remedy)
    })
}

/// A fate of overruns by name.
pub(super) fn on_overrun() -> ValueKind<OverrunName> {
    let words = OverrunName::ALL.map(OverrunName::as_str).to_vec();
    ValueKind::new(ValueShape::Word(words), read_on_overrun, |name| toml_text(name.as_str()))
}

fn read_on_overrun(written: Written<'_>) -> ValueResult<OverrunName> {
    let text = written.text().unwrap_or_default();
    let named = OverrunName::ALL.into_iter().find(|name| name.as_str() == text);
    let remedy = "write \"wait\" or \"end\"";
    named.ok_or_else(|| written.fault(Code::Unknown, "says nothing about overruns", remedy))
}

/// A tag: `key=value`.
pub(super) fn tag() -> ValueKind<(String, String)> {
    ValueKind::new(ValueShape::Name, read_tag, |(key, value)| toml_text(&format!("{key}={value}")))
}

fn read_tag(written: Written<'_>) -> ValueResult<(String, String)> {
    let remedy = "write it as \"key=value\", the key of a-z, 0-9, `_`, `.` and `-`";
    let text = written.text().ok_or_else(|| written.fault(Code::Kind, "is not a tag", remedy))?;
    let pair = text.split_once('=').filter(|(key, value)| is_tag_key(key) && is_tag_value(value));
    let (key, value) = pair.ok_or_else(|| written.fault(Code::Range, "is not a tag", remedy))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// A key of a tag.
pub(super) fn tag_key() -> ValueKind<String> {
    ValueKind::new(ValueShape::Name, read_tag_key, |key| toml_text(key))
}

fn read_tag_key(written: Written<'_>) -> ValueResult<String> {
    let remedy = "a key has 1 to 64 of a-z, 0-9, `_`, `.` and `-`";
    let text = written.text().ok_or_else(|| written.fault(Code::Kind, "is not a key", remedy))?;
    if is_tag_key(text) {
        Ok(text.to_owned())
    } else {
        Err(written.fault(Code::Range, "cannot be a key", remedy))
    }
}

/// A host list.
pub(super) fn hosts() -> ValueKind<Vec<String>> {
    let shown = |hosts: &Vec<String>| toml_text(&fold_hostlist(hosts.iter().map(String::as_str)));
    ValueKind::new(ValueShape::Hosts, read_hosts, shown)
}

fn read_hosts(written: Written<'_>) -> ValueResult<Vec<String>> {
    let example = "write it as \"node[01-20]\" or \"a[1-3,7]\"";
    let text =
        written.text().ok_or_else(|| written.fault(Code::Kind, "is not a host list", example))?;
    expand_hostlist(text).map_err(|error| {
        let remedy = if error == HostListError::TooMany {
            format!("one list may stand for {MAX_HOSTS} nodes")
        } else {
            example.to_owned()
        };
        Fault {
            code: Code::Nodes,
            message: format!("{} is not a host list: {error}", quoted(text)),
            remedy,
        }
    })
}
