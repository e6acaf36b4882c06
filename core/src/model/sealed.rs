//! Bytes that must come back as they went.

/// Stored text that a later run, or another version, must be able to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Version of the body's format.
    pub version: u32,
    /// Stored bytes.
    pub body: Vec<u8>,
    /// A sum over version and body: a body that was changed does not agree with it.
    pub sum: Vec<u8>,
}
