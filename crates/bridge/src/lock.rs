//! Lock files: at most one daemon per socket and per state folder, and at most one program that
//! starts a daemon.
//!
//! The kernel ties a lock to the open file, so the lock ends with its holder, however that ends.
//! The file itself is never removed, because a lock on a removed file would exclude no one. It
//! contains the holder's process id and the daemon's socket, with which every client finds the
//! running daemon.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// The result of an attempt to take a lock.
#[derive(Debug)]
pub enum Attempt {
    Taken(Lock),
    /// Another process holds it. This is its process id, if it has written that yet.
    Held(Option<u32>),
}

/// The holder of a lock, as recorded in the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pub pid: u32,
    /// The socket of the daemon that the holder is or starts.
    pub socket: Option<PathBuf>,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        match &self.socket {
            Some(socket) => write!(f, " (socket {})", socket.display()),
            None => Ok(()),
        }
    }
}

impl Lock {
    /// Takes the lock if it is free, and writes our process id to it.
    pub fn attempt(path: &Path) -> anyhow::Result<Attempt> {
        let doing = || format!("cannot lock {}", path.display());
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let mut file = options.with_context(doing)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let mut lock = Self { file };
                lock.write(None);
                Ok(Attempt::Taken(lock))
            }
            Err(Errno::WOULDBLOCK) => Ok(Attempt::Held(read(&mut file).map(|holder| holder.pid))),
            Err(error) => Err(error).with_context(doing),
        }
    }

    /// Writes the socket of the daemon to the lock file.
    pub fn note(&mut self, socket: &Path) {
        self.write(Some(socket));
    }

    /// Returns the holder of a lock. Returns None if the lock is free, or if its holder has not
    /// written its process id yet.
    pub fn holder(path: &Path) -> Option<LockHolder> {
        let mut file = File::open(path).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => read(&mut file),
            Ok(()) | Err(_) => None,
        }
    }

    /// Returns the process id of the holder.
    pub fn held_by(path: &Path) -> Option<u32> {
        Self::holder(path).map(|holder| holder.pid)
    }

    /// Whether the file at this path is still the one that is locked.
    pub fn is_at(&self, path: &Path) -> bool {
        let named = std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
        let own = self.file.metadata().map(|found| (found.dev(), found.ino()));
        matches!((named, own), (Ok(named), Ok(own)) if named == own)
    }

    /// Writes the lock file. A full disk is not an error, because the lock works without its text.
    /// The process id comes first, in one write.
    fn write(&mut self, socket: Option<&Path>) {
        let mut text = format!("{}\n", std::process::id()).into_bytes();
        if let Some(socket) = socket {
            text.extend_from_slice(socket.as_os_str().as_bytes());
            text.push(b'\n');
        }
        let _ = self.file.rewind().and_then(|()| self.file.write_all(&text));
        let _ = self.file.set_len(text.len() as u64);
    }
}

fn read(file: &mut File) -> Option<LockHolder> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let pid = std::str::from_utf8(lines.next()?).ok()?.trim().parse().ok()?;
    let socket = lines.next().filter(|line| !line.is_empty()).map(|line| PathBuf::from(OsStr::from_bytes(line)));
    Some(LockHolder { pid, socket })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let Attempt::Taken(mut first) = Lock::attempt(&path).unwrap() else { panic!("a fresh lock was held") };
        let Attempt::Held(holder) = Lock::attempt(&path).unwrap() else { panic!("a lock was taken twice") };
        assert_eq!(holder, Some(std::process::id()));
        assert_eq!(Lock::holder(&path), Some(LockHolder { pid: std::process::id(), socket: None }));
        first.note(Path::new("/run/a long name/acpd.sock"));
        first.note(Path::new("/run/acpd.sock"));
        assert_eq!(Lock::holder(&path).unwrap().socket, Some("/run/acpd.sock".into()));
        drop(first);
        assert_eq!(Lock::held_by(&path), None);
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_known_to_be_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let Attempt::Taken(first) = Lock::attempt(&path).unwrap() else { panic!("a fresh lock was held") };
        assert!(first.is_at(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!first.is_at(&path));
        let Attempt::Taken(_second) = Lock::attempt(&path).unwrap() else { panic!("a new file was locked") };
        assert!(!first.is_at(&path));
    }
}
