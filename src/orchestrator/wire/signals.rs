//! Signals by name, with the numbers that they have on Linux.

/// The signals that a task may be sent.
const SIGNALS: [(&str, u8); 16] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("XCPU", 24),
    ("WINCH", 28),
];

/// The number of a signal given as `USR1`, `SIGUSR1` or `10`; `None` if there is no such signal.
pub fn signal_number(text: &str) -> Option<u8> {
    let name = text.trim().to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let by_name = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    by_name.or_else(|| name.parse().ok().filter(|number| (1..=64).contains(number)))
}

/// The name of a signal, such as `SIGTERM`.
pub fn signal_name(number: u8) -> String {
    let known = SIGNALS.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| format!("signal {number}"), |(name, _)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_number() {
        for text in ["USR1", "sigusr1", "10"] {
            assert_eq!(signal_number(text), Some(10), "{text}");
        }
        assert_eq!(
            (signal_number("0"), signal_number("65"), signal_number("US")),
            (None, None, None)
        );
        assert_eq!((signal_name(15), signal_name(40)), ("SIGTERM".into(), "signal 40".into()));
    }
}
