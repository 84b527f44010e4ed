//! The services of the operating system that acpd needs beyond POSIX: facts about processes and
//! sockets, files in memory, and changes in a folder.
//!
//! Each function has two implementations. `linux` uses /proc and system calls that only Linux has.
//! `elsewhere` returns what is true without them: nothing, or an error of kind `Unsupported`. A
//! port replaces `elsewhere`. The other code that needs Linux is in `process`, which does not build
//! elsewhere; docs/packages.md lists it. This crate knows nothing about acpd.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
use elsewhere as native;
#[cfg(target_os = "linux")]
use linux as native;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the process id of the process at the other end of a Unix socket, if the system reports
/// it. At the end of a client, this is the process that listens.
pub fn peer_process(socket: impl AsFd) -> Option<u32> {
    native::peer_process(socket.as_fd())
}

/// Returns the name of a process, if the system reports it.
pub fn process_name(pid: u32) -> Option<String> {
    native::process_name(pid)
}

/// Whether a process is suspended, for example by Ctrl-Z. False if the system does not report it.
pub fn is_suspended(pid: u32) -> bool {
    native::is_suspended(pid)
}

/// Returns the resident memory of a process in bytes, if the system reports it.
pub fn resident_memory(pid: u32) -> Option<u64> {
    native::resident_memory(pid)
}

/// Returns the path of the program that a process runs, as it was when the process started.
///
/// # Errors
///
/// If there is no such process, if it belongs to another user, or if the system does not report it.
pub fn program_of(pid: u32) -> io::Result<PathBuf> {
    native::program_of(pid)
}

/// Whether a process belongs to this systemd unit.
pub fn is_in_unit(pid: u32, unit: &str) -> bool {
    native::is_in_unit(pid, unit)
}

/// Returns a path at which the running program can be started again, even if another one was
/// installed in its place.
///
/// # Errors
///
/// If the system does not have such a path.
pub fn running_program() -> io::Result<PathBuf> {
    native::running_program()
}

/// Returns a new file that is only in memory, and that other processes reach only if they are
/// passed its descriptor.
///
/// # Errors
///
/// If it cannot be created.
pub fn memory_file(name: &str) -> io::Result<File> {
    native::memory_file(name)
}

/// Runs `work` while the kernel may wake this thread, and the threads that it starts, this much
/// later than they asked for. The threads that were started keep that; this thread does not.
pub fn with_timer_slack<T>(slack: Duration, work: impl FnOnce() -> T) -> T {
    struct UntilDropped;
    impl Drop for UntilDropped {
        fn drop(&mut self) {
            native::set_timer_slack(None);
        }
    }
    native::set_timer_slack(Some(slack));
    let _slack = UntilDropped;
    work()
}

/// Watches a folder. The descriptor becomes readable when an entry appears in the folder or
/// disappears, or when the folder itself is moved or removed. Reading from it does not block.
///
/// # Errors
///
/// If the folder cannot be watched.
pub fn folder_events(folder: &Path) -> io::Result<OwnedFd> {
    native::folder_events(folder)
}

/// Whether a process listens at this path of a Unix socket, according to the kernel. Does not
/// connect.
pub fn has_listener(path: &Path) -> bool {
    native::has_listener(path)
}

/// Opens a folder only to name its entries.
///
/// # Errors
///
/// If there is no such folder.
pub fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    native::open_folder(folder)
}

/// Returns a short path of an open folder, which is valid while the descriptor is open.
///
/// # Errors
///
/// If the system does not have such paths.
pub fn short_path(folder: BorrowedFd<'_>) -> io::Result<OsString> {
    native::short_path(folder)
}

/// Lets the kernel end each connection of a listener whose client leaves bytes unacknowledged for
/// this long.
///
/// # Errors
///
/// If the kernel cannot do that.
pub fn end_unacknowledged(listener: &TcpListener, after: Duration) -> io::Result<()> {
    native::end_unacknowledged(listener, after)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn this_process_is_described() {
        let me = std::process::id();
        assert!(process_name(me).is_some_and(|name| !name.is_empty() && !name.ends_with('\n')));
        assert!(!is_suspended(me) && resident_memory(me).is_some_and(|bytes| bytes > 100_000));
        let program = program_of(me).unwrap();
        assert_eq!(program, std::env::current_exe().unwrap());
        assert_eq!(fs::canonicalize(running_program().unwrap()).unwrap(), program);
        assert!(!is_in_unit(me, "no-such-unit.service"));
        assert!(process_name(u32::MAX).is_none() && program_of(u32::MAX).is_err() && !is_suspended(u32::MAX));
    }

    #[test]
    fn a_listener_is_found_before_and_after_connecting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        assert!(!has_listener(&path));
        let listener = UnixListener::bind(&path).unwrap();
        assert!(has_listener(&path) && !has_listener(&folder.path().join("sock")));
        let client = UnixStream::connect(&path).unwrap();
        assert_eq!(peer_process(&client), Some(std::process::id()));
        drop(listener);
        assert!(!has_listener(&path));
    }

    #[test]
    fn a_file_in_memory_is_read_back() {
        let mut file = memory_file("x").unwrap();
        file.write_all(b"text").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn a_thread_keeps_the_timer_slack_under_which_it_was_started() {
        let slack = || rustix::thread::current_timer_slack().unwrap();
        let before = slack();
        let (here, started) =
            with_timer_slack(Duration::from_secs(2), || (slack(), std::thread::spawn(slack).join().unwrap()));
        assert_eq!((here, started), (2_000_000_000, 2_000_000_000));
        assert!(before < here && slack() == before);
    }

    #[test]
    fn a_new_entry_of_a_folder_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = File::from(folder_events(folder.path()).unwrap());
        let mut bytes = [0; 512];
        assert_eq!(events.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        fs::write(folder.path().join("x"), "").unwrap();
        assert!(events.read(&mut bytes).unwrap() > 0);
    }

    #[test]
    fn a_folder_has_a_short_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), "text").unwrap();
        let open = open_folder(folder.path()).unwrap();
        let path = PathBuf::from(short_path(open.as_fd()).unwrap());
        assert!(path.as_os_str().len() < 30);
        assert_eq!(fs::read_to_string(path.join("x")).unwrap(), "text");
    }

    #[test]
    fn a_listener_gets_a_limit_for_unacknowledged_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        end_unacknowledged(&listener, Duration::from_secs(60)).unwrap();
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&listener).unwrap(), 60_000);
    }
}
