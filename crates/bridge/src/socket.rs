//! Connects to the daemon's socket, even if its path is too long for the kernel.
//!
//! The daemon and all its clients use this module. It knows nothing about the messages.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

pub use system::has_listener;

use crate::deadline::timeout;

/// The longest path that fits into `sun_path`, without the terminating zero byte.
const MAX_PATH_BYTES: usize = 107;

/// How long a listener may take to accept earlier connections if its queue is full.
const CONNECT: Duration = Duration::from_secs(10);

/// Connects to the process that listens at `path`.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    connect_within(path, timeout(CONNECT))
}

fn connect_within(path: &Path, time_limit: Duration) -> io::Result<UnixStream> {
    let address = Address::of(path)?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The queue of a listener that never accepts fills up, and connecting would then wait forever.
    net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(time_limit))?;
    net::connect(&socket, &SocketAddrUnix::new(address.name())?).map_err(|error| match error {
        Errno::WOULDBLOCK => {
            io::Error::new(io::ErrorKind::TimedOut, "the program that listens there accepts no connections")
        }
        error => error.into(),
    })?;
    net::sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Whether an error of `connect` means that no process listens, and a daemon may be started.
pub fn has_no_listener(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// A path in a form that fits into a socket address.
///
/// A path that is too long is reached through a descriptor of its folder.
/// Every program can open that folder itself, so the socket stays at its path.
pub struct Address {
    name: OsString,
    /// Keeps the folder's descriptor open while its number is in use.
    _folder: Option<OwnedFd>,
}

impl Address {
    pub fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= MAX_PATH_BYTES {
            return Ok(Self { name: path.into(), _folder: None });
        }
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("the socket's path names no file"));
        };
        let folder = system::open_folder(folder)?;
        let mut name = system::short_path(folder.as_fd())?;
        name.push("/");
        name.push(file);
        if name.len() > MAX_PATH_BYTES {
            let text = format!("the socket's file name has {} bytes, which is too long", file.as_bytes().len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Self { name, _folder: Some(folder) })
    }

    /// The name for a socket address.
    pub fn name(&self) -> &OsStr {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_listen_queue_does_not_block_a_caller() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&socket, 0).unwrap();
        let time_limit = Duration::from_millis(10);
        let mut waiting = Vec::new();
        let refused = loop {
            match connect_within(&path, time_limit) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.to_string(), "the program that listens there accepts no connections");
    }
}
