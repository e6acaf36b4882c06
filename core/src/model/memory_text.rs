//! Amounts of memory as people read them.

use super::units::{QShares, Quantum, counted};

/// "700 MB", "1.5 GB", "15 GB", "2,070 GB", "12.5 TB", of so many MiB. Below 100 of a unit to the nearest tenth.
pub fn memory_text(mebibytes: u64) -> String {
    match mebibytes {
        0 => "0 GB".to_owned(),
        1..1_024 => format!("{mebibytes} MB"),
        1_024..10_485_760 => in_units(mebibytes, "GB"),
        _ => in_units(mebibytes >> 10, "TB"),
    }
}

/// `parts` in a unit of 1024 of them.
fn in_units(parts: u64, unit: &str) -> String {
    let tenths = parts.saturating_mul(10).saturating_add(512) >> 10;
    match (tenths.div_euclid(10), tenths.rem_euclid(10)) {
        (whole @ 0..100, tenth @ 1..) => format!("{whole}.{tenth} {unit}"),
        (whole @ 0..100, 0) => format!("{whole} {unit}"),
        _ => format!("{} {unit}", thousands(parts >> 10)),
    }
}

/// "90 GB-minutes", "1.5 GB-hours", of so many MiB times seconds: memory that is held for a time.
pub fn memory_time(mebibyte_seconds: i64) -> String {
    const HOUR: u64 = 3600;
    let amount = mebibyte_seconds.unsigned_abs();
    let sign = if mebibyte_seconds < 0 { "-" } else { "" };
    match amount.div_euclid(HOUR) {
        0..1_024 => format!("{sign}{}-minutes", memory_text(amount.div_euclid(60))),
        hours => format!("{sign}{}-hours", memory_text(hours)),
    }
}

/// An amount in memory of this quantum, "105 GB"; in qshares if the quantum is not known.
pub fn amount_text(quantum: Option<Quantum>, amount: QShares) -> String {
    match quantum {
        Some(quantum) => memory_text(quantum.memory_of(amount).0),
        None => counted(amount.0, "qshare"),
    }
}

/// "2,070".
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + 4);
    for (place, digit) in digits.chars().enumerate() {
        if 0 < place && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_the_unit_that_is_read_at_once() {
        for (mebibytes, text) in [
            (0, "0 GB"),
            (700, "700 MB"),
            (1024, "1 GB"),
            (1536, "1.5 GB"),
            (2150, "2.1 GB"),
            (15 << 10, "15 GB"),
            (2070 << 10, "2,070 GB"),
            ((2070 << 10) + 512, "2,070 GB"),
            (10 << 20, "10 TB"),
            ((12 << 20) + (512 << 10), "12.5 TB"),
            (2_000 << 20, "2,000 TB"),
        ] {
            assert_eq!(memory_text(mebibytes), text, "{mebibytes}");
        }
    }

    #[test]
    fn memory_that_is_held_for_a_time_has_the_unit_that_is_read_at_once() {
        for (amount, text) in [
            (0, "0 GB-minutes"),
            (1024 * 600, "10 GB-minutes"),
            (-1024 * 600, "-10 GB-minutes"),
            (1024 * 5400, "1.5 GB-hours"),
        ] {
            assert_eq!(memory_time(amount), text, "{amount}");
        }
    }
}
