//! The theme that somebody chose, as the browser remembers it in a cookie.

use axum::http::{HeaderMap, header};

/// The cookie; the page's script sets it.
const COOKIE: &str = "apportion_theme";

/// The themes there are besides that of the system.
const THEMES: [&str; 2] = ["light", "dark"];

/// The theme that was chosen; empty: as the system has it.
pub(crate) fn theme_of(headers: &HeaderMap) -> &'static str {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let chosen = pairs.find(|(name, _)| *name == COOKIE).map(|(_, theme)| theme);
    THEMES.into_iter().find(|theme| Some(*theme) == chosen).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_theme_is_taken() {
        let cases = [
            ("apportion_theme=dark", "dark"),
            ("a=b; apportion_theme=light; c=d", "light"),
            ("apportion_theme=\"><script>", ""),
            ("xapportion_theme=dark", ""),
            ("", ""),
        ];
        for (cookie, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie.parse().unwrap());
            assert_eq!(theme_of(&headers), expected, "{cookie}");
        }
    }
}
