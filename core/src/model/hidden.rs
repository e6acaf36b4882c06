//! Characters that are invisible, or that change the reading of their neighbours.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// True if `c` can make a text read differently from its content. These are control characters,
/// line separators, characters that reverse or join their neighbours, such as U+202E, and
/// characters without public meaning.
pub fn is_hidden(c: char) -> bool {
    use GeneralCategory::{
        Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, Surrogate, Unassigned,
    };
    let hidden =
        [Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, Surrogate, Unassigned];
    !c.is_ascii_graphic() && hidden.contains(&c.general_category())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_hides_text_is_told_from_what_is_read() {
        for c in ['a', '~', ' ', 'é', 'ß', 'Ж', '日', '–', '😀'] {
            assert!(!is_hidden(c), "{c:?}");
        }
        for c in "\0\n\t\u{7f}\u{85}\u{ad}\u{200b}\u{200e}\u{2028}\u{202e}\u{2066}\u{feff}\u{e000}"
            .chars()
        {
            assert!(is_hidden(c), "{c:?}");
        }
    }
}
