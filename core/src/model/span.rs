//! Time as people write it.

use super::Millis;

/// A span of time in its two largest units: "2h 5m".
pub fn span(time: Millis) -> String {
    const UNITS: [(Millis, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let mut rest = time;
    let mut words = Vec::new();
    for (length, unit) in UNITS {
        let count = rest.div_euclid(length);
        rest = rest.rem_euclid(length);
        // Two neighbours at most: 3d 5s says nothing that 3d does not.
        if 0 < count {
            words.push(format!("{count}{unit}"));
        } else if !words.is_empty() {
            break;
        }
        if words.len() == 2 {
            break;
        }
    }
    if words.is_empty() { "0s".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_two_units_at_most() {
        let cases = [
            (0, "0s"),
            (999, "0s"),
            (1_000, "1s"),
            (60_000, "1m"),
            (61_000, "1m 1s"),
            (3_605_000, "1h"),
            (7_500_000, "2h 5m"),
            (90_061_000, "1d 1h"),
        ];
        for (time, text) in cases {
            assert_eq!(span(time), text, "{time}");
        }
    }
}
