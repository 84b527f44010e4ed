//! Stores logins: one private file per server, in a private folder that is out of bounds for tools.
//!
//! The user's command and the daemon both write here, so a lock file orders them. A file's name is
//! a hash of the server's address, and its content names the address, so a server whose address
//! changes has no login.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};

use super::token::Login;
use crate::private_file;

/// The largest file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// How long the disk may take to respond.
const DISK_DEADLINE: Duration = Duration::from_secs(5);

const SUFFIX: &str = "json";
const LOCK: &str = "lock";

/// The extension of a file that could not be read and was moved aside.
const UNREADABLE: &str = "unreadable";

/// The logins of the user. Each call reads the files again, because another process may change
/// them.
#[derive(Debug, Default)]
pub struct StoredLogins {
    /// The folder with the files; None if nothing is stored.
    folder: Option<PathBuf>,
    /// Held while a login is renewed, per server: a refresh token is often valid only once.
    renewing: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Renewed logins that could not be written, each with the one on the disk that it replaces.
    /// The server has already forgotten that one, so a full disk must not cost the user the login.
    unsaved: Mutex<HashMap<String, (Login, Login)>>,
}

/// The file of a login that was stored.
#[derive(Debug)]
pub struct StoredFile {
    pub path: PathBuf,
    /// The new place of an earlier file that could not be read.
    pub moved: Option<PathBuf>,
}

/// Identifies the content of a file. It differs after every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    inode: u64,
    modified: (i64, i64),
}

impl StoredLogins {
    pub fn new(folder: impl Into<Option<PathBuf>>) -> Self {
        Self { folder: folder.into(), ..Self::default() }
    }

    /// Stores a login in place of an earlier one at the same server. If the earlier one cannot be
    /// read, its file is moved aside and kept. Blocks.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn store(&self, login: &Login) -> io::Result<StoredFile> {
        let folder = self.folder()?;
        let _lock = lock(folder)?;
        let path = path(folder, &login.server);
        let text = encoded(login)?;
        let moved = match read(&path, &login.server) {
            Ok(_) => None,
            Err(_) => Some(move_aside(&path)?),
        };
        private_file::write(folder, &path, &text)?;
        Ok(StoredFile { path, moved })
    }

    /// Returns the scopes of the login to a server; none without a login that can be read. Blocks.
    pub fn scopes(&self, server: &str) -> Vec<String> {
        self.read(server).ok().flatten().map(|login| login.scopes).unwrap_or_default()
    }

    /// Deletes the login to a server. Returns whether there was one. Blocks.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be removed.
    pub fn forget(&self, server: &str) -> io::Result<bool> {
        let folder = self.folder()?;
        if !folder.exists() {
            return Ok(false);
        }
        let _lock = lock(folder)?;
        private_file::remove(&path(folder, server))
    }

    /// Lists the addresses of the servers with a login. Files that cannot be read are left out.
    /// Blocks.
    pub fn servers(&self) -> Vec<String> {
        let entries = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == SUFFIX));
        let mut servers: Vec<String> = files.filter_map(|path| Some(parsed(&path).ok()??.server)).collect();
        servers.sort();
        servers
    }

    /// Returns the login to a server.
    pub(crate) async fn load(self: &Arc<Self>, server: &str) -> io::Result<Option<Login>> {
        let server = server.to_owned();
        self.work(move |this| this.read(&server)).await
    }

    /// Replaces or deletes a login, if it is still this one. Returns false if another process has
    /// changed it. A new login that cannot be written is still used, as long as acpd runs.
    pub(crate) async fn replace(self: &Arc<Self>, old: Login, new: Option<Login>) -> io::Result<bool> {
        let unsaved = new.clone().map(|new| (old.clone(), new));
        let replace = move |this: &Self| {
            let folder = this.folder()?;
            let _lock = lock(folder)?;
            if this.read(&old.server)?.as_ref() != Some(&old) {
                return Ok(false);
            }
            this.write(folder, &old.server, new)?;
            Ok(true)
        };
        let replaced = self.work(replace).await;
        if let (Err(_), Some((old, new))) = (&replaced, unsaved) {
            self.keep(old, new);
        }
        replaced
    }

    /// Keeps a renewed login that could not be written.
    fn keep(&self, old: Login, new: Login) {
        let mut unsaved = guard(&self.unsaved);
        let on_disk = match unsaved.remove(&old.server) {
            Some((on_disk, newer)) if newer == old => on_disk,
            Some(_) | None => old,
        };
        unsaved.insert(on_disk.server.clone(), (on_disk, new));
    }

    /// Returns the version of the login to a server; None without one.
    pub(crate) async fn version(self: &Arc<Self>, server: &str) -> Option<Version> {
        let server = server.to_owned();
        let look = move |this: &Self| {
            let facts = fs::metadata(path(this.folder()?, &server))?;
            Ok(Version { inode: facts.ino(), modified: (facts.mtime(), facts.mtime_nsec()) })
        };
        self.work(look).await.ok()
    }

    /// Returns the lock that is held while the login to a server is renewed.
    pub(crate) fn renewing(&self, server: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut renewing = guard(&self.renewing);
        renewing.retain(|_, lock| Arc::strong_count(lock) > 1);
        renewing.entry(server.to_owned()).or_default().clone()
    }

    fn read(&self, server: &str) -> io::Result<Option<Login>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let login = read(&path(folder, server), server)?;
        Ok(login.map(|login| match guard(&self.unsaved).get(server) {
            Some((replaced, newer)) if *replaced == login => newer.clone(),
            Some(_) | None => login,
        }))
    }

    /// Writes or deletes a login. The caller holds the lock.
    fn write(&self, folder: &Path, server: &str, new: Option<Login>) -> io::Result<()> {
        let path = path(folder, server);
        let Some(new) = new else { return private_file::remove(&path).map(drop) };
        private_file::write(folder, &path, &encoded(&new)?)?;
        guard(&self.unsaved).remove(server);
        Ok(())
    }

    fn folder(&self) -> io::Result<&Path> {
        self.folder.as_deref().ok_or_else(|| io::Error::other("there is no folder for logins"))
    }

    /// Runs work on a blocking thread.
    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let this = self.clone();
        let work = tokio::task::spawn_blocking(move || work(&this));
        match tokio::time::timeout(DISK_DEADLINE, work).await {
            Ok(done) => done.unwrap_or_else(|error| Err(io::Error::other(error))),
            Err(_) => Err(io::Error::other(format!("the disk did not answer within {} s", DISK_DEADLINE.as_secs()))),
        }
    }
}

/// Returns the content of a login's file, which must not be larger than what is read again.
fn encoded(login: &Login) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(login)?;
    if text.len() as u64 > MAX_FILE_BYTES { Err(io::Error::other("its tokens are too large")) } else { Ok(text) }
}

/// Reads the login to a server. An error names the file.
fn read(path: &Path, server: &str) -> io::Result<Option<Login>> {
    let login = parsed(path).and_then(|login| match login {
        Some(login) if login.server != server => Err(io::Error::other("it holds the login to another server")),
        login => Ok(login),
    });
    login.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

fn parsed(path: &Path) -> io::Result<Option<Login>> {
    let Some(text) = private_file::read(path, MAX_FILE_BYTES)? else { return Ok(None) };
    // An error of the parser may quote a token.
    serde_json::from_slice(&text).map(Some).map_err(|_| io::Error::other("it does not hold a login"))
}

/// Renames a file so that another can take its place, and returns the new path. An earlier file
/// that was moved aside is kept.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let names = (1..).map(|number| match number {
        1 => path.with_extension(UNREADABLE),
        number => path.with_extension(format!("{UNREADABLE}-{number}")),
    });
    for aside in names {
        // The caller holds the lock, so no other process of acpd takes the name meanwhile.
        if fs::symlink_metadata(&aside).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other("no name is free"))
}

fn path(folder: &Path, server: &str) -> PathBuf {
    let hash = Sha256::digest(server.as_bytes());
    let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{name}.{SUFFIX}"))
}

fn guard<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every operation leaves the map consistent, so a poisoned lock is harmless.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no other process changes the logins. The lock ends when the returned file is
/// dropped.
fn lock(folder: &Path) -> io::Result<File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::login::token::tests::login;

    #[tokio::test]
    async fn a_login_is_stored_privately_and_only_for_its_exact_address() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("keys/mcp-logins");
        let logins = Arc::new(StoredLogins::new(folder.clone()));
        let one = login();
        assert!(logins.load(&one.server).await.unwrap().is_none() && logins.servers().is_empty());
        assert!(!logins.forget(&one.server).unwrap());
        let before = logins.version(&one.server).await;
        let path = logins.store(&one).unwrap().path;
        assert_ne!(logins.version(&one.server).await, before);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        assert_eq!(logins.load(&one.server).await.unwrap(), Some(one.clone()));
        for other in ["https://a.example/mcp/", "https://a.example/mcp?x", "https://b.example/mcp"] {
            assert_eq!(logins.load(other).await.unwrap(), None, "{other}");
        }
        // A file that was copied to the name of another server is not used for it.
        fs::copy(&path, super::path(&folder, "https://b.example/mcp")).unwrap();
        let error = logins.load("https://b.example/mcp").await.unwrap_err().to_string();
        assert!(error.ends_with(": it holds the login to another server"), "{error}");
        assert!(logins.forget(&one.server).unwrap() && logins.load(&one.server).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_renewal_does_not_undo_what_the_user_did_meanwhile() {
        let home = tempfile::tempdir().unwrap();
        let logins = Arc::new(StoredLogins::new(home.path().to_owned()));
        let [old, mut newer, mut renewed] = [login(), login(), login()];
        newer.access_token = "newer".to_owned();
        renewed.access_token = "renewed".to_owned();
        logins.store(&old).unwrap();
        assert!(logins.replace(old.clone(), Some(renewed.clone())).await.unwrap());
        logins.store(&newer).unwrap();
        assert!(!logins.replace(renewed.clone(), Some(old.clone())).await.unwrap());
        assert!(!logins.replace(renewed.clone(), None).await.unwrap());
        assert_eq!(logins.load(&old.server).await.unwrap(), Some(newer.clone()));
        logins.forget(&old.server).unwrap();
        assert!(!logins.replace(newer, Some(old.clone())).await.unwrap());
        assert_eq!(logins.load(&old.server).await.unwrap(), None, "the user has logged out");
    }

    #[tokio::test]
    async fn a_renewed_login_that_cannot_be_written_is_used_all_the_same() {
        let home = tempfile::tempdir().unwrap();
        let logins = Arc::new(StoredLogins::new(home.path().to_owned()));
        let (old, mut renewed) = (login(), login());
        renewed.access_token = "renewed".to_owned();
        let path = logins.store(&old).unwrap().path;
        // A folder in place of the draft, which cannot be removed like a file.
        let draft = path.with_extension(private_file::DRAFT);
        fs::create_dir(&draft).unwrap();
        assert!(logins.replace(old.clone(), Some(renewed.clone())).await.is_err());
        assert_eq!(logins.load(&old.server).await.unwrap(), Some(renewed.clone()));
        fs::remove_dir(&draft).unwrap();
        let mut again = renewed.clone();
        again.access_token = "again".to_owned();
        assert!(logins.replace(renewed, Some(again.clone())).await.unwrap());
        assert_eq!(StoredLogins::new(home.path().to_owned()).read(&old.server).unwrap(), Some(again));
    }

    #[tokio::test]
    async fn renewed_logins_are_kept_while_the_folder_cannot_be_locked() {
        let home = tempfile::tempdir().unwrap();
        let logins = Arc::new(StoredLogins::new(home.path().to_owned()));
        let [old, one, two, three] = ["old", "one", "two", "three"].map(|token| {
            let access_token = token.to_owned();
            Login { access_token, ..login() }
        });
        logins.store(&old).unwrap();
        let lock = home.path().join(LOCK);
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        for (from, to) in [(&old, &one), (&one, &two)] {
            assert!(logins.replace(from.clone(), Some(to.clone())).await.is_err());
            assert_eq!(logins.load(&old.server).await.unwrap().as_ref(), Some(to));
        }
        fs::remove_dir(&lock).unwrap();
        assert!(logins.replace(two, Some(three.clone())).await.unwrap());
        assert_eq!(StoredLogins::new(home.path().to_owned()).read(&old.server).unwrap(), Some(three));
    }

    #[tokio::test]
    async fn a_damaged_file_is_an_error_that_quotes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let logins = Arc::new(StoredLogins::new(home.path().to_owned()));
        let path = logins.store(&login()).unwrap().path;
        fs::write(&path, r#"{"access_token": 7, "refresh_token": "hush""#).unwrap();
        let error = logins.load(&login().server).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{}: it does not hold a login", path.display()));
        assert!(logins.servers().is_empty());
    }

    #[tokio::test]
    async fn a_login_that_could_not_be_read_again_is_not_stored() {
        let home = tempfile::tempdir().unwrap();
        let logins = Arc::new(StoredLogins::new(home.path().to_owned()));
        let huge = Login { access_token: "x".repeat(MAX_FILE_BYTES as usize), ..login() };
        logins.store(&login()).unwrap();
        assert_eq!(logins.store(&huge).unwrap_err().to_string(), "its tokens are too large");
        assert_eq!(logins.load(&login().server).await.unwrap(), Some(login()));
        // A renewed one is used as long as acpd runs.
        assert!(logins.replace(login(), Some(huge.clone())).await.is_err());
        assert_eq!(logins.load(&login().server).await.unwrap(), Some(huge));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_moved_aside_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let logins = StoredLogins::new(home.path().to_owned());
        let path = logins.store(&login()).unwrap().path;
        assert_eq!(logins.store(&login()).unwrap().moved, None, "a good file is replaced");
        let other = Login { server: "https://b.example/mcp".to_owned(), ..login() };
        let damaged = ["half a l", &serde_json::to_string(&other).unwrap()];
        let moved = damaged.map(|text| {
            fs::write(&path, text).unwrap();
            logins.store(&login()).unwrap().moved.unwrap()
        });
        assert_eq!(moved.each_ref().map(|path| fs::read_to_string(path).unwrap()), damaged);
        assert_eq!(logins.servers(), [login().server]);
        assert_eq!(logins.read(&login().server).unwrap(), Some(login()));
    }
}
