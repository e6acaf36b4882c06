//! Limits of a specification, and the readers of sizes and durations.

use bytesize::Unit;

/// Most tasks of a campaign.
pub const MAX_TASKS: u64 = 10_000_000;
/// Most bytes of an argument: the limit of Linux, less the zero at its end.
pub const MAX_ARGUMENT: usize = 128 * 1024 - 1;
/// Bytes of all arguments together: the limit of Linux for arguments and environment.
pub const MAX_COMMAND: usize = 2 * 1024 * 1024 - MAX_ENVIRONMENT;
/// Bytes of all variables of the environment together.
pub const MAX_ENVIRONMENT: usize = 128 * 1024;
/// Bytes of the standard input that a campaign keeps.
pub const MAX_STDIN: usize = 64 * 1024 * 1024;
/// Characters of the name of a campaign.
pub const MAX_NAME: usize = 128;
/// The longest grace, in milliseconds.
pub const MAX_GRACE_MS: u64 = 600_000;
/// The longest duration, in milliseconds: ten years.
pub(super) const MAX_DURATION_MS: u64 = 10 * 365 * 24 * 3_600_000;

/// Returns the MiB of a size such as `4GB`; `None` if the text is no size. As everywhere, 1 GB is
/// 1,024 MB.
pub fn mebibytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.get(..text.len() - unit.len())?;
    let unit: Unit = unit.trim().parse().ok()?;
    let sizes = [
        ([Unit::MegaByte, Unit::MebiByte], 1),
        ([Unit::GigaByte, Unit::GibiByte], 1 << 10),
        ([Unit::TeraByte, Unit::TebiByte], 1 << 20),
    ];
    let (_, per) = sizes.into_iter().find(|(names, _)| names.contains(&unit))?;
    digits.parse::<u64>().ok()?.checked_mul(per).filter(|size| *size <= 1 << 40)
}

/// Returns the milliseconds of a duration such as `1h 30m`; `None` if the text is no duration.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let duration: jiff::SignedDuration = text.trim().parse().ok()?;
    u64::try_from(duration.as_millis()).ok().filter(|millis| *millis <= MAX_DURATION_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, expected) in [
            ("4GB", Some(4096)),
            ("512 MB", Some(512)),
            ("1TiB", Some(1 << 20)),
            ("4", None),
            ("GB", None),
            ("1.5GB", None),
            ("-1GB", None),
            ("18446744073709551615TB", None),
        ] {
            assert_eq!(mebibytes(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("0s", Some(0)),
            ("-1s", None),
            ("5", None),
            ("99999999999h", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
