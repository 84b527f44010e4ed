//! The implementation for systems other than Linux: information that is missing is not shown, and
//! an operation that acpd cannot do without fails with an error.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The error for what only the Linux implementation does so far.
fn unsupported<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("{what} is supported on Linux only so far")))
}

pub(super) fn peer_process(_socket: BorrowedFd<'_>) -> Option<u32> {
    None
}

pub(super) fn process_name(_pid: u32) -> Option<String> {
    None
}

pub(super) fn is_suspended(_pid: u32) -> bool {
    false
}

pub(super) fn resident_memory(_pid: u32) -> Option<u64> {
    None
}

pub(super) fn program_of(_pid: u32) -> io::Result<PathBuf> {
    unsupported("finding the program of a process")
}

/// There are no units where there is no systemd.
pub(super) fn is_in_unit(_pid: u32, _unit: &str) -> bool {
    false
}

pub(super) fn running_program() -> io::Result<PathBuf> {
    unsupported("starting the running program again")
}

pub(super) fn memory_file(_name: &str) -> io::Result<File> {
    unsupported("a file in memory")
}

pub(super) fn set_timer_slack(_slack: Option<Duration>) {}

pub(super) fn folder_events(_folder: &Path) -> io::Result<OwnedFd> {
    unsupported("watching a folder")
}

pub(super) fn has_listener(_path: &Path) -> bool {
    false
}

pub(super) fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    Ok(File::open(folder)?.into())
}

pub(super) fn short_path(_folder: BorrowedFd<'_>) -> io::Result<OsString> {
    unsupported("a short path of a folder")
}

pub(super) fn end_unacknowledged(_listener: &TcpListener, _after: Duration) -> io::Result<()> {
    unsupported("a limit for unacknowledged bytes")
}
