//! A file of zeros beside the database that is deleted when the disk is full.
//!
//! sled's handle is useless after a failed write, and opening the database again needs room: sled
//! clears the end of the last segment and writes a snapshot of its page table. The reserve is that
//! room. As long as the reserve cannot be written again the disk is still full, and the committer
//! refuses batches without touching the database; reads go on. Only the committer calls this.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file's name in the store's folder. sled ignores it.
pub(crate) const NAME: &str = "reserve";

/// The minimum size: twice the segment that sled clears (512 KB).
const LEAST: u64 = 1 << 20;

/// The divisor of the database's size that gives room for a snapshot. A snapshot was 1/1900 of a
/// database of 2 KB events; this leaves room for one of tiny events.
const SHARE: u64 = 256;

/// Makes the reserve if it is missing or too small; fails if there is no room.
pub(crate) fn keep(folder: &Path) -> io::Result<()> {
    let database = fs::metadata(folder.join("db"))?.len();
    let wanted = LEAST + database / SHARE;
    let path = path(folder);
    if fs::metadata(&path).is_ok_and(|found| found.len() >= wanted) {
        return Ok(());
    }
    fill(&path, wanted).inspect_err(|_| spend(folder))
}

/// Deletes the reserve. If that fails, it did not exist or cannot help.
pub(crate) fn spend(folder: &Path) {
    let _ = fs::remove_file(path(folder));
}

fn fill(path: &Path, size: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::copy(&mut io::Read::take(io::repeat(0), size), &mut file)?;
    file.flush()?;
    file.sync_data()
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}
