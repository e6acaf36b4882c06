//! Bytes that must come back as they went.

/// How something is kept that was written at one time and is read at another, perhaps by another
/// version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Which form the body has.
    pub version: u32,
    /// What is kept.
    pub body: Vec<u8>,
    /// A sum over version and body: a body that was changed does not agree with it.
    pub sum: Vec<u8>,
}
