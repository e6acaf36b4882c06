//! The theme of pages that a browser keeps in a cookie.

use axum::http::HeaderMap;

use crate::api::http::cookies::cookie;

/// The cookie; the page's script sets it.
const COOKIE: &str = "apportion_theme";

/// Themes besides the theme of the system.
const THEMES: [&str; 2] = ["light", "dark"];

/// Returns the chosen theme; empty if the system's theme holds.
pub(crate) fn theme_of(headers: &HeaderMap) -> &'static str {
    let chosen = cookie(headers, COOKIE);
    THEMES.into_iter().find(|theme| Some(*theme) == chosen).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::header;

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
