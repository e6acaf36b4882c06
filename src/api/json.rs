//! Reads JSON from outside and says where and why it does not fit.
//!
//! Not an extractor: it knows text and types, no requests. serde tells problems apart only in
//! words, so this is the one place that reads its messages.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_path_to_error::Segment;

use super::error::{Code, Fault};

/// Arrays and objects may lie within each other so many levels deep.
pub const DEPTH_MAX: usize = 64;

/// The code for a bad value in a field, by the field's name.
pub type FieldCodes = fn(&str) -> Code;

/// A `T` that is written as an object.
///
/// serde would also read a struct from an array of its values in order, which names no field: a
/// mix-up of two numbers, or one that is not ours, could not be told.
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
pub fn read_body<'de, T: Deserialize<'de>>(body: &'de [u8], codes: FieldCodes) -> Result<T, Fault> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::new(Code::EmptyBody, "", "the body is empty; expected a JSON object"));
    }
    if depth(body) > DEPTH_MAX {
        let detail =
            format!("arrays and objects lie within each other more than {DEPTH_MAX} levels deep");
        return Err(Fault::new(Code::TooDeep, "", detail));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| match error
        .inner()
        .classify()
    {
        Category::Data => misfit(&error, codes),
        Category::Syntax | Category::Eof | Category::Io => not_json(error.inner()),
    })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

/// Reads a part of a body that is known to be JSON.
///
/// # Errors
///
/// If it is not a `T`.
pub fn read_part<'de, T: Deserialize<'de>>(part: &'de str, codes: FieldCodes) -> Result<T, Fault> {
    let mut json = serde_json::Deserializer::from_str(part);
    serde_path_to_error::deserialize(&mut json)
        .map(|Object(value)| value)
        .map_err(|error| misfit(&error, codes))
}

/// How deep arrays and objects lie within each other.
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

fn not_json(error: &serde_json::Error) -> Fault {
    Fault::new(Code::NotJson, "", format!("not JSON: {error}; nothing was changed"))
}

/// A fault for JSON that does not have the shape it should.
fn misfit(error: &serde_path_to_error::Error<serde_json::Error>, codes: FieldCodes) -> Fault {
    let message = error.inner().to_string();
    // The position counts from wherever reading began; the pointer says it better.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
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
    Fault::new(code, pointer, shortened(&in_plain_words(message)))
}

/// What serde says, without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
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

/// `text` for a message or a log: on one line, and no longer than a message should be.
pub fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    let mut short: String = text.chars().flat_map(char::escape_debug).take(CHARS_MAX).collect();
    if text.len() > CHARS_MAX {
        short.push('…');
    }
    short.replace("\\\"", "\"").replace("\\'", "'")
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
        assert!(shortened(&"x".repeat(1000)).chars().count() <= 401);
    }
}
