//! Reads JSON from outside, and reports where and why it does not fit.
//!
//! Not an extractor: the module knows text and types, not requests. serde distinguishes problems
//! only by their words, so no other place reads its messages.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_path_to_error::Segment;

use crate::api::http::error::{Code, RequestFault};
use crate::model::nearest;

/// Limit of the levels of nested arrays and objects.
pub const DEPTH_MAX: usize = 64;

/// Ending of messages about a refused request.
const NOTHING_CHANGED: &str = "; nothing was changed";

/// The code for a bad value in a field, by the field's name.
pub type FieldCodes = fn(&str) -> Code;

/// A `T` that is written as an object.
///
/// serde would also read a struct from an array of its values in order. An array names no field, so
/// swapped numbers or unknown ones would go unnoticed.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Object)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a whole body.
///
/// # Errors
///
/// If it is not JSON, nested too deeply, or not a `T`.
pub fn read_body<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    codes: FieldCodes,
) -> Result<T, RequestFault> {
    let refused = |code, what: String| RequestFault::new(code, "", what + NOTHING_CHANGED);
    if body.iter().all(u8::is_ascii_whitespace) {
        let what = "the body is empty; expected a JSON object".to_owned();
        return Err(refused(Code::EmptyBody, what));
    }
    if is_too_deep(body) {
        let what =
            format!("arrays and objects lie within each other more than {DEPTH_MAX} levels deep");
        return Err(refused(Code::TooDeep, what));
    }
    if let Some(value) = read_if_good(body) {
        return Ok(value);
    }
    // Once more, for what is wrong and where: keeping track of that takes longer than reading.
    let not_json = |error: &serde_json::Error| refused(Code::NotJson, where_it_breaks(body, error));
    let mut json = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| match error
        .inner()
        .classify()
    {
        Category::Data => {
            let mut fault = fault_of(&error, codes);
            fault.detail.push_str(NOTHING_CHANGED);
            fault
        }
        Category::Syntax | Category::Eof | Category::Io => not_json(error.inner()),
    })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

/// Reads a whole body if it is a `T`; otherwise [`read_body`] explains the fault. The depth is not
/// checked: use it for types that are not nested deeper themselves.
pub fn read_if_good<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Option<T> {
    serde_json::from_slice(body).ok().map(|Object(value)| value)
}

/// Reads a part of a body that is known to be JSON.
///
/// # Errors
///
/// If it is not a `T`.
pub fn read_part<'de, T: Deserialize<'de>>(
    part: &'de str,
    codes: FieldCodes,
) -> Result<T, RequestFault> {
    if let Ok(Object(value)) = serde_json::from_str(part) {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_str(part);
    serde_path_to_error::deserialize(&mut json)
        .map(|Object(value)| value)
        .map_err(|error| fault_of(&error, codes))
}

/// True if arrays and objects are nested more than [`DEPTH_MAX`] levels deep. A body with fewer
/// opening brackets than that needs no closer check.
fn is_too_deep(body: &[u8]) -> bool {
    let is_opening = |byte: &&u8| matches!(byte, b'[' | b'{');
    DEPTH_MAX < body.iter().filter(is_opening).count() && DEPTH_MAX < depth(body)
}

/// Returns the number of levels of nested arrays and objects.
fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Describes the fault that keeps `body` from being JSON, and its byte.
fn where_it_breaks(body: &[u8], error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    if error.is_eof() {
        let bytes = body.len();
        return format!(
            "not JSON: it ends at byte {bytes} (line {line} column {column}), before it is complete"
        );
    }
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    let what = without_position(&error.to_string()).to_owned();
    format!("not JSON: {what} at byte {} (line {line} column {column})", before + column)
}

/// A message of serde's without the line and column at its end.
fn without_position(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message)
}

/// A fault for JSON that does not have the shape it should.
fn fault_of(
    error: &serde_path_to_error::Error<serde_json::Error>,
    codes: FieldCodes,
) -> RequestFault {
    let message = error.inner().to_string();
    // The position counts from the place where reading began; the pointer is more exact.
    let message = without_position(&message);
    let pointer = pointer_to(error.path().iter());
    let named = message.split('`').nth(1).unwrap_or_default();
    let is_named = || pointer.rsplit('/').next() == Some(named);
    let (code, pointer) = if message.starts_with("unknown field") {
        (
            Code::UnknownField,
            if is_named() { pointer } else { format!("{pointer}/{}", escaped(named)) },
        )
    } else if message.starts_with("duplicate field") {
        (Code::DuplicateField, if is_named() { pointer } else { format!("{pointer}/{named}") })
    } else if message.starts_with("missing field") {
        let specific = codes(named);
        let code = if specific == Code::BadValue { Code::MissingField } else { specific };
        (code, format!("{pointer}/{named}"))
    } else {
        (codes(pointer.rsplit('/').next().unwrap_or_default()), pointer)
    };
    RequestFault::new(code, pointer, reworded(&clipped_message(message)) + &hint(message))
}

/// Suggests the most similar of the names that serde expected, if any name is similar.
fn hint(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let meant = names.next().and_then(|given| nearest(given, names));
    meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// Shortens the value in a message of serde. The message quotes the value first, and names last
/// what was expected.
fn clipped_message(message: &str) -> String {
    let (said, expected) =
        message.rfind(", expected").map_or((message, ""), |at| message.split_at(at));
    let (words, value) = said.find(['`', '"']).map_or((said, ""), |at| said.split_at(at));
    format!("{words}{}{expected}", clipped(value, VALUE_CHARS_MAX + "``".len()))
}

/// Rewrites a message of serde without the names of Rust's types.
fn reworded(message: &str) -> String {
    message
        .replace("expected u64", "expected a whole number, 0 or more")
        .replace("unknown variant", "unknown value")
        .replace("invalid type: sequence", "invalid type: array")
        .replace("invalid type: map", "invalid type: object")
        .replace("expected a sequence", "expected an array")
}

fn pointer_to<'a>(path: impl Iterator<Item = &'a Segment>) -> String {
    path.filter_map(|segment| match segment {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } => Some(format!("/{}", escaped(key))),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
    .collect()
}

/// A key as JSON pointers spell it.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// No more of a value from outside is repeated in a message.
const VALUE_CHARS_MAX: usize = 80;

/// Prepares a value from outside for a message or a log: a single line of limited length.
pub fn shortened(value: &str) -> String {
    clipped(value, VALUE_CHARS_MAX)
}

fn clipped(text: &str, chars_max: usize) -> String {
    let escaped = |c: char| {
        let is_plain = matches!(c, '"' | '\'' | '\\');
        let escape = (!is_plain).then(|| c.escape_debug());
        is_plain.then_some(c).into_iter().chain(escape.into_iter().flatten())
    };
    let mut chars = text.chars();
    let mut clipped: String = chars.by_ref().take(chars_max).flat_map(escaped).collect();
    if chars.next().is_some() {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::Work;

    fn codes(field: &str) -> Code {
        if field == "memory_mb" { Code::BadMemory } else { Code::BadValue }
    }

    #[track_caller]
    fn check(body: &str, code: Code, pointer: &str, detail: &str) {
        let fault = read_body::<Work>(body.as_bytes(), codes).unwrap_err();
        assert_eq!((fault.code, fault.pointer.as_str()), (code, pointer), "{body}");
        assert!(fault.detail.contains(detail), "{}", fault.detail);
    }

    #[test]
    fn faults_are_told_apart_and_placed() {
        check("", Code::EmptyBody, "", "expected a JSON object");
        check("{\"id\": 1,\n nope}", Code::NotJson, "", "line 2 column 2");
        check("{\"id\": 1", Code::NotJson, "", "line 1");
        check(&"[".repeat(65), Code::TooDeep, "", "64");
        check("{\"id\": 1, \"memroy_mb\": 2}", Code::UnknownField, "/memroy_mb", "`memory_mb`");
        check("{\"id\": 1, \"id\": 2}", Code::DuplicateField, "/id", "duplicate field `id`");
        check("{\"id\": 1, \"memory_mb\": -5}", Code::BadMemory, "/memory_mb", "`-5`");
        check("{\"id\": 1, \"memory_mb\": \"16GB\"}", Code::BadMemory, "/memory_mb", "16GB");
        check("{\"id\": 1.5}", Code::BadValue, "/id", "1.5");
        check("{\"nodes\": [\"a\", 7]}", Code::BadValue, "/nodes/1", "expected a string");
        check(
            "{\"kind\": \"jbo\"}",
            Code::BadValue,
            "/kind",
            "unknown value `jbo`, expected one of",
        );
        check("{\"id\": -1}", Code::BadValue, "/id", "expected a whole number, 0 or more");
        check("{}", Code::MissingField, "/id", "missing field `id`");
        check("{\"nodes\": \"a\"}", Code::BadValue, "/nodes", "expected an array");
    }

    #[test]
    fn a_long_value_does_not_hide_what_was_expected() {
        let long = format!("{{\"memory_mb\": \"{}\"}}", "x, expected y".repeat(100));
        let fault = read_part::<Work>(&long, codes).unwrap_err();
        assert!(
            fault.detail.ends_with("…, expected a whole number, 0 or more"),
            "{}",
            fault.detail
        );
        assert!(fault.detail.chars().count() < 160, "{}", fault.detail);
    }

    #[test]
    fn a_body_that_ends_too_early_says_at_which_byte() {
        let body = "{\"id\": 1,\n \"nodes\": [\"n1\"]}";
        for bytes in 1..body.len() {
            let fault = read_body::<Work>(&body.as_bytes()[..bytes], codes).unwrap_err();
            assert_eq!(fault.code, Code::NotJson, "{bytes}: {}", fault.detail);
            let place = format!("ends at byte {bytes} (line ");
            assert!(fault.detail.contains(&place), "{bytes}: {}", fault.detail);
        }
        check("{\"id\":\n 1,,}", Code::NotJson, "", "at byte 11 (line 2 column 4)");
    }

    #[test]
    fn a_slip_is_recognised() {
        check("{\"memroy_mb\": 2}", Code::UnknownField, "/memroy_mb", "did you mean `memory_mb`?");
        check("{\"kind\": \"jbo\"}", Code::BadValue, "/kind", "did you mean `job`?");
    }

    #[test]
    fn arrays_and_scalars_are_no_objects() {
        let work = r#"[1, "job", "ann", null, 1, 1, "running", 1, null, false, false, null, 1, [], null, []]"#;
        check(work, Code::BadValue, "", "invalid type: array, expected a JSON object");
        check("[]", Code::BadValue, "", "expected a JSON object");
        check("7", Code::BadValue, "", "expected a JSON object");
        let process = r#"{"processes": [[5, "n1", "running", 0, 0]]}"#;
        check(
            process,
            Code::BadValue,
            "/processes/0",
            "invalid type: array, expected a JSON object",
        );
        let fault = read_part::<Work>("[]", codes).unwrap_err();
        assert_eq!(fault.detail, "invalid type: array, expected a JSON object");
    }

    #[test]
    fn brackets_in_strings_are_no_depth() {
        assert_eq!(depth(br#"{"a": "[[[\"[[", "b": [{}]}"#), 3);
    }

    #[test]
    fn messages_stay_on_one_line() {
        assert_eq!(shortened("a\n\u{7}`\"b\""), "a\\n\\u{7}`\"b\"");
        assert_eq!(shortened(&"x".repeat(1000)), "x".repeat(80) + "…");
        assert_eq!(shortened(&"\u{202e}".repeat(80)), "\\u{202e}".repeat(80));
    }
}
