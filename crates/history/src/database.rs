//! One open sled database, and what its errors mean.
//!
//! Only the committer thread writes to it (several writers deadlock sled 0.34.7); any thread may
//! read. Every call into sled that may panic goes through `guarded`. This file does not know keys
//! and values.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::sled_log;
use crate::sled_threads;
use crate::store::StoreSettings;

/// How long to wait for a lock. A handle that was just dropped holds it for some milliseconds more,
/// until sled's threads and our readers have released it.
const LOCK_DEADLINE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// The environment refuses: no room, no permission, another process, a newer version. The
    /// contents are intact.
    #[error("{0}")]
    Refused(String),
    /// The database cannot be read, or sled gave up on it.
    #[error("{0}")]
    Broken(String),
    /// One value cannot be decoded. The database is intact, and other values may still be readable.
    #[error("{0}")]
    Unreadable(String),
    /// The file is no longer at its path, so writes to it would be lost.
    #[error("its folder {} was removed or replaced while the daemon ran; restart the daemon to begin a new history", .0.display())]
    Removed(PathBuf),
}

impl From<sled::Error> for DatabaseError {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => Self::from(error),
            sled::Error::Unsupported(reason) => Self::Refused(reason),
            sled::Error::Corruption { .. } => Self::Broken("the database is corrupt".to_owned()),
            sled::Error::CollectionNotFound(_) => Self::Broken("the database lacks its tree".to_owned()),
            sled::Error::ReportableBug(reason) => Self::Broken(reason),
        }
    }
}

impl From<io::Error> for DatabaseError {
    /// A file that ends too early is damaged. All other errors come from the environment.
    fn from(error: io::Error) -> Self {
        let reason = match (error.kind(), error.raw_os_error()) {
            // sled passes on errors of its threads as debugging text; their kind is more readable.
            (kind, None) if kind != io::ErrorKind::Other => kind.to_string(),
            _ => error.to_string(),
        };
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Self::Broken(reason),
            _ => Self::Refused(reason),
        }
    }
}

/// Runs `work` and turns a panic, which is how sled reports much damage, into an error.
pub(crate) fn guarded<T>(doing: &str, work: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(DatabaseError::Broken(format!("panicked while {doing}: {reason}")))
    })
}

/// Syncs a file, so that what was written to it survives a power loss. This is `File::sync_data`,
/// unless a test replaces it to find out what a disk would have kept.
#[derive(Clone)]
pub struct SyncFile(Arc<SyncFn>);

type SyncFn = dyn Fn(&File) -> io::Result<()> + Send + Sync;

impl SyncFile {
    pub fn new(sync: impl Fn(&File) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sync))
    }
}

impl Default for SyncFile {
    fn default() -> Self {
        Self::new(File::sync_data)
    }
}

impl fmt::Debug for SyncFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncFile")
    }
}

pub(crate) struct Database {
    pub(crate) db: sled::Db,
    /// A second handle to the file, because sled does not expose its own for a sync.
    file: File,
    sync: SyncFile,
    folder: PathBuf,
    pub(crate) identity: Identity,
    /// sled's parameters were damaged and were written again, so an empty database is suspicious.
    pub(crate) had_damaged_parameters: bool,
    /// Held while a batch is applied, and by readers whose entries must belong together.
    batches: RwLock<()>,
}

/// Device and inode of a database's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    /// The identity of the database that is in `folder` now.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        fs::metadata(folder.join("db")).ok().map(|found| Self(found.dev(), found.ino()))
    }
}

impl Database {
    /// Opens the database in `folder`, or creates one.
    pub(crate) fn open(folder: &Path, settings: &StoreSettings) -> Result<Self, DatabaseError> {
        let path = folder.join("db");
        let is_new = !path.exists();
        if !is_new {
            let lock = await_lock(&path)?;
            drop_unfinished_snapshots(folder)?;
            let is_damaged = sled_log::has_hidden_damage(folder);
            // Unlocked explicitly, because closing the file may not be enough: a process that is
            // being started at this moment has a copy of the descriptor, and with it the lock,
            // until it executes its program.
            lock.unlock()?;
            if is_damaged? {
                return Err(DatabaseError::Broken("its log is damaged".to_owned()));
            }
        }
        let had_damaged_parameters = drop_damaged_parameters(folder)?;
        // sled's flusher thread would wake up twice a second for nothing, because the committer
        // flushes.
        let config = sled::Config::new().path(folder).cache_capacity(settings.cache_bytes).flush_every_ms(None);
        let db = sled_threads::open(&config)?;
        let file = File::open(path)?;
        let found = file.metadata()?;
        let identity = Identity(found.dev(), found.ino());
        let sync = settings.sync.clone();
        let (folder_path, batches) = (folder.to_owned(), RwLock::default());
        let database = Self { db, file, sync, folder: folder_path, identity, had_damaged_parameters, batches };
        if is_new {
            sync_folder(folder)?;
            folder.parent().map_or(Ok(()), sync_folder)?;
        }
        Ok(database)
    }

    /// Fails if the file is no longer at its path. An unlinked file accepts every write and loses
    /// it.
    pub(crate) fn in_place(&self) -> Result<(), DatabaseError> {
        match Identity::of(&self.folder) {
            Some(found) if found == self.identity => Ok(()),
            Some(_) | None => Err(DatabaseError::Removed(self.folder.clone())),
        }
    }

    /// Applies a batch. It is visible at once, and after a crash it is there as a whole or not at
    /// all.
    pub(crate) fn apply(&self, batch: sled::Batch) -> Result<(), DatabaseError> {
        let _applying = self.batches.write().unwrap_or_else(PoisonError::into_inner);
        Ok(self.db.apply_batch(batch)?)
    }

    /// Reads between two batches. sled's iterators are no snapshots: a session that moves to the
    /// front of an index while the index is read would be missed at both places.
    pub(crate) fn between_batches<T>(&self, read: impl FnOnce(&sled::Db) -> T) -> T {
        let _reading = self.batches.read().unwrap_or_else(PoisonError::into_inner);
        read(&self.db)
    }

    /// Makes what was applied survive the end of the process and, if `synced`, a power loss.
    pub(crate) fn flush(&self, synced: bool) -> Result<(), DatabaseError> {
        self.db.flush()?;
        if synced {
            (self.sync.0)(&self.file)?;
        }
        self.in_place()
    }

    /// Flushes once more, which wakes a flush that sled forgot after a failed write. See
    /// `flush_watchdog`.
    pub(crate) fn wake_waiters(&self) {
        if let Err(error) = guarded("flushing", || self.flush(false)) {
            tracing::warn!(%error, "the history's database has failed");
        }
    }
}

/// Locks the database once no other process holds it. sled locks the same file in the same way, but
/// its error says less.
fn await_lock(path: &Path) -> Result<File, DatabaseError> {
    let file = File::open(path)?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_DEADLINE => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(DatabaseError::Refused("another process has it open".to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// Deletes snapshots that sled was writing when it was killed or the disk was full. sled would
/// mistake one for the newest complete snapshot and report corruption. The previous snapshot is
/// still there.
fn drop_unfinished_snapshots(folder: &Path) -> Result<(), DatabaseError> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(folder.join(name.as_ref()))?;
        }
    }
    Ok(())
}

/// Deletes sled's parameters if their checksum is wrong; sled then writes them again. They are the
/// same in every store. sled itself would trust the damaged values and refuse the store.
fn drop_damaged_parameters(folder: &Path) -> Result<bool, DatabaseError> {
    let path = folder.join("conf");
    let Ok(bytes) = fs::read(&path) else { return Ok(false) };
    let is_sound = bytes
        .split_last_chunk::<4>()
        .is_some_and(|(parameters, checksum)| crc32fast::hash(parameters) == u32::from_le_bytes(*checksum));
    if !is_sound {
        tracing::warn!(path = %path.display(), "the parameters of the history's database are damaged; they are written anew");
        fs::remove_file(&path)?;
    }
    Ok(!is_sound)
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), DatabaseError> {
    Ok(File::open(folder)?.sync_all()?)
}
