//! Files of a replay, packed or not.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::read::MultiGzDecoder;

/// First bytes of a file packed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Largest text, in bytes: a log of ten million jobs.
const LARGEST: u64 = 4 << 30;

/// Reads the text of a file. A name that ends with .gz, or content that looks so, is unpacked.
/// Bytes that are no UTF-8, as in comments of old logs, are replaced.
///
/// # Errors
///
/// If the file cannot be read or unpacked.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_packed = path.extension().is_some_and(|end| end == "gz") || bytes.starts_with(&GZIP);
    let bytes = if is_packed { unpacked(&bytes, path)? } else { bytes };
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn unpacked(bytes: &[u8], path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    MultiGzDecoder::new(bytes).take(LARGEST).read_to_end(&mut text).with_context(|| {
        format!("cannot unpack {}; it should be the whole output of `gzip`", path.display())
    })?;
    Ok(text)
}

/// The file of machines beside a log, `log.swf.machines` of `log.swf` or `log.swf.gz`, if it exists.
pub(super) fn machines_beside(log: &Path) -> Option<PathBuf> {
    let plain = if log.extension().is_some_and(|end| end == "gz") {
        log.with_extension("")
    } else {
        log.to_owned()
    };
    let mut name = plain.into_os_string();
    name.push(".machines");
    Some(PathBuf::from(name)).filter(|path| path.is_file())
}
