//! Shapes of values, for the JSON schema of editors.

use serde_json::{Value, json};

/// The longest name of a pool, class, node or user, in bytes.
pub(super) const MAX_NAME: usize = 255;

/// Shape of a value. Less strict than the loader in places: the loader alone decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    /// True or false.
    Flag,
    /// A whole number.
    Integer {
        /// The smallest allowed.
        least: i64,
        /// The largest allowed.
        most: i64,
    },
    /// An amount of memory: "15GB".
    Size,
    /// A span of time: "30s".
    Span,
    /// The name of something.
    Name,
    /// A path in the file system.
    Path,
    /// A path, or an empty text.
    OptionalPath,
    /// A name, or an empty text.
    OptionalName,
    /// Numbers of users or groups, in a single text.
    Ids,
    /// An address and a port.
    Address,
    /// A word of this list.
    Word(Vec<&'static str>),
    /// A host list.
    Hosts,
    /// Days of the week with hours of the day.
    Active,
    /// A time zone by its name.
    Zone,
    /// Any number of these.
    List(Box<ValueShape>),
}

impl ValueShape {
    /// Returns the shape as JSON schema.
    pub(super) fn schema(&self) -> Value {
        match self {
            ValueShape::Flag => json!({ "type": "boolean" }),
            ValueShape::Integer { least, most } => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            ValueShape::Size => json!({
                "type": "string",
                "pattern": "^\\s*[0-9]+\\s*[mMgGtTpP][iI]?[bB]?\\s*$",
                "examples": ["15GB", "1536MB"],
            }),
            ValueShape::Span => json!({ "type": "string", "examples": ["30s", "2m", "500ms"] }),
            ValueShape::Name => json!({
                "type": "string", "minLength": 1, "maxLength": MAX_NAME, "pattern": "^\\S+$",
            }),
            ValueShape::Path => json!({ "type": "string", "minLength": 1 }),
            ValueShape::OptionalPath => json!({ "type": "string" }),
            ValueShape::OptionalName => json!({
                "type": "string", "maxLength": MAX_NAME, "pattern": "^\\S*$",
            }),
            ValueShape::Ids => json!({
                "type": "string", "pattern": "^[0-9, ]*$", "examples": ["1000, 1001"],
            }),
            ValueShape::Address => json!({ "type": "string", "examples": ["127.0.0.1:7070"] }),
            ValueShape::Word(words) => json!({ "type": "string", "enum": words }),
            ValueShape::Hosts => {
                json!({ "type": "string", "minLength": 1, "examples": ["node[01-20]", "a[1-3,7]"] })
            }
            ValueShape::Active => json!({
                "type": "string", "minLength": 3,
                "examples": ["mon-fri 20:00-06:00", "sat-sun"],
            }),
            ValueShape::Zone => {
                json!({ "type": "string", "minLength": 1, "examples": ["UTC", "Europe/Vienna"] })
            }
            ValueShape::List(item) => json!({ "type": "array", "items": item.schema() }),
        }
    }
}
