//! Binds the daemon's socket, even if its path is too long for the kernel.
//!
//! It knows nothing about the messages, and never displaces a socket on which another process
//! listens.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bridge::socket::{Address, connect, has_no_listener};
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket;

pub type Listener = uds_local_socket::tokio::Listener;

/// How long a dead daemon's socket may stay open. When a daemon is killed while it starts a
/// command, that child holds its lock and its socket for a moment, and may release the lock first.
const STALE_SOCKET_DEADLINE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Binds the socket with mode 0600, and replaces the file of a daemon that died. The caller holds
/// the daemon's lock, so no other daemon binds at the same time. Must be called inside a tokio
/// runtime.
pub fn bind(path: &Path) -> anyhow::Result<(Listener, SocketFile)> {
    clear(path)?;
    let address = Address::of(path)?;
    // By default the crate removes any file with this name when the listener is dropped, even a
    // successor's socket.
    let name = address.name().to_fs_name::<GenericFilePath>()?;
    let options = ListenerOptions::new().name(name).mode(0o600).reclaim_name(false);
    let listener =
        options.create_tokio_as::<Listener>().with_context(|| format!("cannot bind the socket {}", path.display()))?;
    Ok((listener, SocketFile::on(path)?))
}

fn clear(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("{} exists and is not a socket; move it or choose another path with --socket", path.display());
    }
    let deadline = Instant::now() + STALE_SOCKET_DEADLINE;
    loop {
        match connect(path) {
            Ok(_) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Ok(_) => {
                bail!("another program listens on {}; end it or choose another path with --socket", path.display())
            }
            Err(error) if has_no_listener(&error) => {
                let removed = fs::remove_file(path);
                return removed.with_context(|| format!("cannot remove the stale socket {}", path.display()));
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot tell whether {} is in use", path.display()));
            }
        }
    }
}

/// Adopts a listener that another program bound, or this one before a restart. Must be called
/// inside a tokio runtime.
pub fn adopt(listener: UnixListener) -> anyhow::Result<Listener> {
    Listener::try_from(OwnedFd::from(listener)).context("cannot use the inherited socket")
}

/// The socket file that we bound. Releasing it removes the file, unless another file has that name
/// by then.
#[derive(Clone)]
pub struct SocketFile {
    path: PathBuf,
    file: Identity,
}

/// Device, inode and modification time. The time is needed because the kernel reuses the number of
/// a freed inode.
type Identity = (u64, u64, i64, i64);

impl SocketFile {
    pub fn on(path: &Path) -> anyhow::Result<Self> {
        let file = identity(path).with_context(|| format!("the socket {} was deleted", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file still exists. While the listener is open, no other file gets its inode. The
    /// time is not compared, because any program may touch the file.
    pub fn is_ours(&self) -> bool {
        identity(&self.path).is_ok_and(|(device, inode, ..)| (device, inode) == (self.file.0, self.file.1))
    }

    pub fn release(self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use bridge::socket::has_listener;

    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());

        let (_first, _file) = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let Err(refused) = bind(&path) else { panic!("a live socket was displaced") };
        assert!(refused.to_string().starts_with("another program listens on"));
        connect(&path).unwrap();
        assert!(has_listener(&path));
        assert!(!has_listener(&folder.path().join("y.sock")));
    }

    #[tokio::test]
    async fn a_file_in_the_way_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        fs::write(&path, "precious").unwrap();
        assert!(bind(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn a_touched_socket_is_still_ours_and_a_replacement_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let (_first, file) = bind(&path).unwrap();
        let now = rustix::fs::Timespec { tv_sec: 7, tv_nsec: 7 };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        rustix::fs::utimensat(rustix::fs::CWD, &path, &times, rustix::fs::AtFlags::empty()).unwrap();
        assert!(file.is_ours());
        fs::remove_file(&path).unwrap();
        assert!(!file.is_ours());
        let (_second, _file) = bind(&path).unwrap();
        assert!(!file.is_ours());
    }

    #[tokio::test]
    async fn releasing_spares_the_socket_of_a_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let (first, file) = bind(&path).unwrap();
        drop(first);
        let (_second, second_file) = bind(&path).unwrap();
        file.release();
        connect(&path).unwrap();
        second_file.release();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_path_beyond_the_kernels_limit_works() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        let path = deep.join("x.sock");
        let (_listener, file) = bind(&path).unwrap();
        connect(&path).unwrap();
        file.release();
        assert!(!path.exists());
        assert!(connect(&deep.join("n".repeat(150))).unwrap_err().to_string().contains("too long"));
    }
}
