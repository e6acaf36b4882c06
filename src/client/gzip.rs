//! Compression of long bodies, as a client sends and reads them.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Bodies longer than this are packed, in bytes.
pub const LONG_BODY: usize = 4096;

/// Compresses `plain` with gzip.
///
/// # Errors
///
/// Never: memory takes more bytes.
pub fn pack(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(plain)?;
    packed.finish()
}

/// Decompresses `packed` with gzip, to at most `most` bytes.
///
/// # Errors
///
/// If `packed` is not gzip, or its content is longer.
pub fn unpack(packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(packed).take(limit).read_to_end(&mut plain)?;
    if most < plain.len() {
        return Err(io::Error::other(format!("the unpacked body has more than {most} bytes")));
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_never_longer_than_allowed() {
        let plain = vec![7; 100_000];
        let packed = pack(&plain).unwrap();
        assert!(packed.len() < 1000);
        assert_eq!(unpack(&packed, plain.len()).unwrap(), plain);
        assert!(unpack(&packed, plain.len() - 1).is_err());
        assert!(unpack(b"not packed", 100).is_err());
        assert!(unpack(packed.get(..50).unwrap(), plain.len()).is_err());
    }
}
