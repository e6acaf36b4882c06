//! The file with the token that says who we are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TokenError {
    #[error("cannot read the token in {}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{} can be read by everybody, so that the token is no secret; chmod 600 it, and have the token replaced", file.display())]
    Open { file: PathBuf },
    #[error("{} holds no token: one line is expected, of letters, digits and signs, without blanks", file.display())]
    NoToken { file: PathBuf },
}

/// The token in `file`. A line's end after it is no part of it.
pub(super) fn read(file: &Path) -> Result<String, TokenError> {
    let unreadable = |source| TokenError::Unreadable { file: file.to_owned(), source };
    let text = fs::read_to_string(file).map_err(unreadable)?;
    if is_open(&fs::metadata(file).map_err(unreadable)?) {
        return Err(TokenError::Open { file: file.to_owned() });
    }
    let token = text.strip_suffix('\n').unwrap_or(&text);
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::NoToken { file: file.to_owned() });
    }
    Ok(token.to_owned())
}

/// Whether everybody may read it.
fn is_open(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.permissions().mode() & 0o007 != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_one_line_and_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let read_with = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            read(&file).map_err(|error| error.to_string())
        };
        assert_eq!(read_with("secret-1\n", 0o600), Ok("secret-1".to_owned()));
        assert_eq!(read_with("secret-1", 0o640), Ok("secret-1".to_owned()));
        for text in ["", "\n", "two words\n", "one\ntwo\n", "ends badly\r\n", "end\r\n"] {
            assert!(read_with(text, 0o600).unwrap_err().contains("holds no token"), "{text:?}");
        }
        assert!(read_with("secret-1\n", 0o644).unwrap_err().contains("chmod 600"));
        fs::remove_file(&file).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("cannot read the token"));
    }
}
