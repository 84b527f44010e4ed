//! The bearer token: created once, kept in a file that only its owner can read, compared in
//! constant time.
//!
//! It is never part of an address and never logged, and its `Debug` hides it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

use crate::error::Error;

/// The number of random bytes in a new token.
const BYTES: usize = 32;
/// The minimum length of a token. A shorter one could be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Reads the file, or creates it with a new token.
    pub(crate) fn load(file: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::ReadToken { path: file.to_owned(), source };
        let token = match fs::read_to_string(file) {
            Ok(text) => {
                check_owner(file)?;
                text.trim().to_owned()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(file)?,
            Err(error) => return Err(unreadable(error)),
        };
        if token.len() < MIN_TOKEN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::WeakToken { path: file.to_owned(), shortest: MIN_TOKEN_LENGTH });
        }
        Ok(Self(token))
    }

    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

fn check_owner(file: &Path) -> Result<(), Error> {
    let found = fs::metadata(file).map_err(|source| Error::ReadToken { path: file.to_owned(), source })?;
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me || found.mode() & 0o077 != 0 {
        return Err(Error::TokenOpenToOthers(file.to_owned()));
    }
    Ok(())
}

/// Writes a new token under another name and renames it, so that no reader sees half a token.
fn create(file: &Path) -> Result<String, Error> {
    let failed = |source| Error::WriteToken { path: file.to_owned(), source };
    let mut random = [0; BYTES];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random)).map_err(failed)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".{}", uuid::Uuid::now_v7()));
    let draft = PathBuf::from(draft);
    let write = || {
        let mut open = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        writeln!(open, "{token}")?;
        open.sync_all()?;
        fs::rename(&draft, file)?;
        file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().inspect_err(|_| drop(fs::remove_file(&draft))).map_err(failed)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("http.token");
        let made = Token::load(&file).unwrap();
        assert_eq!(made.0.len(), 2 * BYTES);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(Token::load(&file).unwrap().is(&made.0));
        assert!(!made.is("") && !made.is(&made.0[1..]) && !made.is(&made.0.to_uppercase().replace('A', "b")));
        assert_eq!(format!("{made:?}"), "Token(..)");
    }

    #[test]
    fn a_token_that_others_can_read_or_guess_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("http.token");
        fs::write(&file, "a long enough one?".replace(' ', "-")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::load(&file).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        Token::load(&file).unwrap();
        fs::write(&file, "short\n").unwrap();
        assert!(Token::load(&file).unwrap_err().to_string().contains("at least 16"));
    }
}
