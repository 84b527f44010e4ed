//! The file that the log of a daemon in the background goes to. It is begun anew when it is long, at a start and while the
//! daemon runs; what was before is kept once.
//!
//! Whoever starts the daemon makes the file its stderr, so that a panic or an error of the system is in it, too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The log is kept below this size, and as much of what was before.
const LIMIT: u64 = 1 << 20;

/// Opens the log to add to it.
pub fn open(path: &Path) -> anyhow::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.len() > LIMIT) {
        set_aside(path);
    }
    append(path).with_context(|| format!("cannot open the log {}", path.display()))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Losing the older half of a log is not worth a word.
fn set_aside(path: &Path) {
    let _ = fs::rename(path, path.with_extension("log.old"));
}

/// The log of a daemon that runs.
pub struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    /// Makes another file stderr.
    redirect: fn(&File) -> io::Result<()>,
}

impl LogFile {
    /// The log at `path`, if that is where stderr goes.
    pub fn behind_stderr(path: &Path) -> Option<Self> {
        let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
        let (named, own) = (fs::metadata(path).ok()?, file.metadata().ok()?);
        let is_it = (named.dev(), named.ino()) == (own.dev(), own.ino());
        is_it.then(|| Self { path: path.to_owned(), file, size: own.len(), redirect: to_stderr })
    }

    fn begin_anew(&mut self) {
        // If this fails, the old one goes on, and the next try is a while away.
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
    /// One entry of the log, which is not divided.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        if self.size > LIMIT {
            self.begin_anew();
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
    fn a_long_log_is_begun_anew_and_what_was_before_is_kept_once() {
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
