//! The log file of a daemon in the background, with rotation.
//!
//! A long file is renamed to `daemon.log.old`, when the daemon starts and while it runs, and a new
//! one begins. The program that starts the daemon makes the file its stderr, so it also contains
//! panics and messages of the system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The size in bytes at which the file is rotated. The old file is about as long.
const LIMIT: u64 = 1 << 20;

/// Opens the log to append to it.
pub fn open(path: &Path) -> anyhow::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.len() > LIMIT) {
        set_aside(path);
    }
    append(path).with_context(|| format!("cannot open the log {}", path.display()))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Renames the log. A failure is ignored: losing the older half of a log is not worth an error.
fn set_aside(path: &Path) {
    let _ = fs::rename(path, path.with_extension("log.old"));
}

/// The log of a running daemon.
pub struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    /// Makes another file the stderr of this process.
    redirect: fn(&File) -> io::Result<()>,
}

impl LogFile {
    /// Returns the log at `path` if stderr is that file.
    pub fn behind_stderr(path: &Path) -> Option<Self> {
        let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
        let (named, own) = (fs::metadata(path).ok()?, file.metadata().ok()?);
        let is_it = (named.dev(), named.ino()) == (own.dev(), own.ino());
        is_it.then(|| Self { path: path.to_owned(), file, size: own.len(), redirect: to_stderr })
    }

    fn rotate(&mut self) {
        // If this fails, the log continues in the old file until the next rotation is due.
        self.size = 0;
        set_aside(&self.path);
        if let Ok(file) = append(&self.path)
            && (self.redirect)(&file).is_ok()
        {
            self.file = file;
        }
    }
}

fn to_stderr(file: &File) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

impl Write for LogFile {
    /// Writes one log entry as a whole.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        if self.size > LIMIT {
            self.rotate();
        }
        self.file.write_all(entry)?;
        self.size += entry.len() as u64;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_file_is_rotated_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let file = open(&path).unwrap();
        let mut log = LogFile { path: path.clone(), file, size: 0, redirect: |_| Ok(()) };
        let entry = "x".repeat(99) + "\n";
        let entries = 5 * LIMIT / 100;
        for _ in 0..entries {
            log.write_all(entry.as_bytes()).unwrap();
        }
        for part in [&path, &path.with_extension("log.old")] {
            let size = fs::metadata(part).unwrap().len();
            assert!(size <= LIMIT + 100 && size % 100 == 0, "{}: {size}", part.display());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
