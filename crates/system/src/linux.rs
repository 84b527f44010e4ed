//! The implementation for Linux, with /proc and its own system calls.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::sockopt;

pub(super) fn peer_process(socket: BorrowedFd<'_>) -> Option<u32> {
    let who = sockopt::socket_peercred(socket).ok()?;
    who.pid.as_raw_nonzero().get().try_into().ok()
}

pub(super) fn process_name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned())
}

pub(super) fn is_suspended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in parentheses, which may itself contain some.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't'))
}

pub(super) fn resident_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024)
}

pub(super) fn program_of(pid: u32) -> io::Result<PathBuf> {
    let program = fs::read_link(format!("/proc/{pid}/exe"))?;
    // The kernel marks the path of a program that was replaced after it started.
    let path = program.as_os_str().as_bytes();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

pub(super) fn is_in_unit(pid: u32, unit: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|group| group.contains(unit))
}

pub(super) fn running_program() -> io::Result<PathBuf> {
    let path = Path::new("/proc/self/exe");
    // Without a mounted /proc there is no such path.
    fs::metadata(path)?;
    Ok(path.to_owned())
}

pub(super) fn memory_file(name: &str) -> io::Result<File> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// Sets the timer slack of this thread, or sets it back to that with which the thread was started.
/// Without it timers are only more exact than they need to be, so a failure is ignored. rustix
/// cannot read a slack of more than two seconds.
pub(super) fn set_timer_slack(slack: Option<Duration>) {
    let nanos = slack.map(|slack| u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX));
    let _ = rustix::thread::set_current_timer_slack(nanos.and_then(NonZeroU64::new));
}

pub(super) fn folder_events(folder: &Path) -> io::Result<OwnedFd> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let what = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    inotify::add_watch(&events, folder, what)?;
    Ok(events)
}

pub(super) fn has_listener(path: &Path) -> bool {
    const ACCEPTS: u32 = 0x1_0000;
    let name = [b" ", path.as_os_str().as_bytes()].concat();
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    table.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.splitn(8, |byte| *byte == b' ').filter(|field| !field.is_empty());
        let flags = fields.nth(3).and_then(|flags| std::str::from_utf8(flags).ok());
        let accepts =
            flags.and_then(|flags| u32::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & ACCEPTS != 0);
        accepts && line.ends_with(&name)
    })
}

pub(super) fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[allow(clippy::unnecessary_wraps, reason = "other systems have no such path")]
pub(super) fn short_path(folder: BorrowedFd<'_>) -> io::Result<OsString> {
    Ok(format!("/proc/self/fd/{}", folder.as_raw_fd()).into())
}

pub(super) fn end_unacknowledged(listener: &TcpListener, after: Duration) -> io::Result<()> {
    let millis = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(listener, millis)?)
}
