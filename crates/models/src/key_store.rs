//! Stored API keys: one private file per provider, in one private folder.
//!
//! This module stores and deletes keys. `key` looks them up, and `device_flow` gets one from
//! GitHub.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::secret::Secret;

/// The folder of stored keys. Each call reads it again, because another process may change it.
#[derive(Clone, Debug)]
pub struct KeyStore {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    #[error("`{0}` is not a provider's name")]
    Name(String),
    #[error("the key is empty or has more than one line")]
    Key,
    #[error("storing the key for {name} in {folder}")]
    Store { name: String, folder: PathBuf, source: io::Error },
    #[error("removing the key for {name} from {folder}")]
    Forget { name: String, folder: PathBuf, source: io::Error },
}

impl KeyStore {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the path of a provider's key file, whether or not it exists.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.key"))
    }

    /// Lists the providers with a stored key. A folder that cannot be read counts as empty.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".key")?.to_owned()));
        let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
        names.sort();
        names
    }

    /// Stores a key, replacing an earlier one. Only the owner can read the file from the first byte
    /// on, and the write is atomic.
    ///
    /// # Errors
    ///
    /// If the name or the key is invalid, or if the folder cannot be written to.
    pub fn store(&self, name: &str, key: &Secret) -> Result<PathBuf, KeyStoreError> {
        if !is_name(name) {
            return Err(KeyStoreError::Name(name.to_owned()));
        }
        let text = key.expose().trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(KeyStoreError::Key);
        }
        let path = self.path(name);
        self.write(&path, text).map_err(|source| {
            let folder = self.folder.clone();
            KeyStoreError::Store { name: name.to_owned(), folder, source }
        })?;
        Ok(path)
    }

    /// Deletes a key. Returns false if there was none.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be removed.
    pub fn forget(&self, name: &str) -> Result<bool, KeyStoreError> {
        if !is_name(name) {
            return Err(KeyStoreError::Name(name.to_owned()));
        }
        match fs::remove_file(self.path(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(KeyStoreError::Forget { name: name.to_owned(), folder: self.folder.clone(), source }),
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))?;
        let partial = path.with_extension(format!("partial-{}", std::process::id()));
        let _ = fs::remove_file(&partial);
        let written =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).and_then(|mut file| {
                file.write_all(format!("{text}\n").as_bytes())?;
                file.sync_all()?;
                fs::rename(&partial, path)?;
                fs::File::open(&self.folder)?.sync_all()
            });
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_stored_privately_replaced_and_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let key_store = KeyStore::new(home.path().join("state/key_store"));
        assert!(key_store.names().is_empty());
        let path = key_store.store("anthropic", &Secret::new(" k1\n")).unwrap();
        key_store.store("anthropic", &Secret::new("k2")).unwrap();
        key_store.store("llama.cpp", &Secret::new("k3")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "k2\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(key_store.names(), ["anthropic", "llama.cpp"]);
        assert!(key_store.forget("anthropic").unwrap() && !key_store.forget("anthropic").unwrap());
        assert_eq!(key_store.names(), ["llama.cpp"]);
    }

    #[test]
    fn invalid_names_and_keys_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let key_store = KeyStore::new(home.path());
        for name in ["", "../x", "a/b", ".hidden", "a b"] {
            assert!(key_store.store(name, &Secret::new("k")).is_err(), "{name}");
            assert!(key_store.forget(name).is_err(), "{name}");
        }
        for key in ["", " \n", "a\nb"] {
            assert!(key_store.store("p", &Secret::new(key)).is_err(), "{key:?}");
        }
    }

    #[test]
    fn an_error_names_the_folder_and_not_the_key() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        let error = KeyStore::new(home.path().join("file")).store("p", &Secret::new("hush")).unwrap_err();
        assert!(error.to_string().starts_with("storing the key for p in "), "{error}");
        assert!(!format!("{error:?}").contains("hush"));
    }
}
