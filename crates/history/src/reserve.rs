//! A file of zeros beside the database, given up when the disk is full.
//!
//! sled's handle is of no use after a failed write, and opening it again needs room: it clears the end of the last
//! segment and writes a snapshot of its page table. The reserve is that room. As long as it cannot be put back the disk
//! is still full, so the committer refuses batches without touching the database, and reads go on. Called by the
//! committer only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Its name in the store's folder, which sled ignores.
pub(crate) const NAME: &str = "reserve";

/// Room for the segment that sled clears (512 KB), twice.
const LEAST: u64 = 1 << 20;

/// The snapshot was 1/1900 of a database of 2 KB events; this leaves room for one of tiny events.
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

/// Frees the room. A reserve that cannot be removed was not there, or is of no help anyway.
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
