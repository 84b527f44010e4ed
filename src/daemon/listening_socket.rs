//! The socket of a running daemon: accepts clients, and binds the socket again if its file was
//! deleted.
//!
//! Logging out deletes the runtime folder, and no client could reach the daemon any more. The
//! daemon binds the socket again at its usual path or, while that fails, in the state folder. The
//! lock file in the state folder names the socket in use. The daemon never displaces a socket on
//! which another process listens, such as systemd after `systemctl --user enable --now
//! acpd.socket`: that process serves from then on, and this daemon stops.

use std::path::{Path, PathBuf};
use std::time::Duration;

use interprocess::local_socket::traits::tokio::Listener as _;

use super::admission::Admission;
use super::folder_watch::FolderWatch;
use super::{ACCEPT_PAUSE, Inherited};
use crate::daemon::socket::{self, Listener, SocketFile};
use crate::launch::beside;
use crate::paths::{Paths, private_folder};
use bridge::lock::{Attempt, Lock};

/// How long to wait before the next attempt to bind a deleted socket.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The longest pause between two checks of the socket file.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Another process now listens on the path of this daemon's socket.
pub(super) struct SocketTaken;

pub(super) struct ListeningSocket {
    listener: Listener,
    /// The socket file. None if it was deleted before it could be inspected.
    file: Option<SocketFile>,
    /// Whether acpd created the file and must remove it. Otherwise a service manager created it.
    is_ours: bool,
    /// The path at which clients look for the daemon.
    place: PathBuf,
    /// The path at which the daemon listens while the usual one cannot be used.
    fallback: PathBuf,
    /// Whether the loss of the socket is already in the log.
    is_lost: bool,
    watch: FolderWatch,
    locks: Locks,
}

/// The locks that keep other daemons away while this process lives.
pub(super) struct Locks {
    /// The lock beside the socket.
    pub(super) of_socket: Lock,
    /// The lock in the state folder.
    pub(super) of_state: Lock,
}

/// The state of the socket file.
enum State {
    Ours,
    /// The file was deleted, or no process listens on it.
    Gone,
    /// Another process listens on it.
    Taken,
}

impl ListeningSocket {
    pub(super) fn open(paths: &Paths, inherited: Option<Inherited>, locks: Locks) -> anyhow::Result<Self> {
        let place = paths.socket.clone();
        let (listener, file, is_ours) = match inherited {
            Some(Inherited { listener, ours }) => (socket::adopt(listener)?, SocketFile::on(&place).ok(), ours),
            None => {
                let (listener, file) = socket::bind(&place)?;
                (listener, Some(file), true)
            }
        };
        let watch = FolderWatch::on(paths.socket_folder(), MAX_POLL_INTERVAL);
        let fallback = paths.fallback_socket();
        let mut socket = Self { listener, file, is_ours, place, fallback, is_lost: false, watch, locks };
        let place = socket.place.clone();
        socket.note(&place);
        Ok(socket)
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    pub(super) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Accepts clients until another process takes the socket.
    pub(super) async fn serve(&mut self, admission: &Admission) -> SocketTaken {
        let mut failing = false;
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok(stream) => {
                        failing = false;
                        admission.admit(stream).await;
                    }
                    Err(error) => {
                        // Without free descriptors this fails until a client disconnects; one log
                        // line is enough.
                        if !std::mem::replace(&mut failing, true) {
                            tracing::warn!(%error, "cannot accept connections for now");
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = self.watch.changed() => match self.look().await {
                    State::Ours => {}
                    State::Gone => self.bind_again().await,
                    State::Taken => return SocketTaken,
                },
            }
        }
    }

    /// Stops listening. The caller keeps the locks until the process ends.
    pub(super) fn close(self) -> Locks {
        drop(self.listener);
        if let Some(file) = self.file.filter(|_| self.is_ours) {
            file.release();
        }
        self.locks
    }

    pub(super) fn into_locks(self) -> Locks {
        self.locks
    }

    /// Checks the socket file on another thread, because its disk may not answer.
    async fn look(&self) -> State {
        let (file, place) = (self.file.clone(), self.place.clone());
        let look = move || {
            let is_there = file.as_ref().is_some_and(|file| file.path() == place && file.is_ours());
            if is_there {
                State::Ours
            } else if bridge::socket::connect(&place).is_ok() {
                State::Taken
            } else {
                State::Gone
            }
        };
        tokio::task::spawn_blocking(look).await.unwrap_or(State::Ours)
    }

    /// Binds the socket at its usual path or, until that is possible, in the state folder.
    async fn bind_again(&mut self) {
        match bind(self.place.clone()).await {
            Ok((listener, file)) => {
                tracing::warn!(socket = %self.place.display(), "the socket file was deleted and has been created again");
                let place = self.place.clone();
                self.replace(listener, file);
                self.note(&place);
                self.is_lost = false;
                self.watch = FolderWatch::on(place.parent().unwrap_or(Path::new("/")), MAX_POLL_INTERVAL);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::warn!("the socket file was deleted and cannot be created again yet: {error:#}");
                }
                let is_at_fallback =
                    self.file.as_ref().is_some_and(|file| file.path() == self.fallback && file.is_ours());
                if !is_at_fallback && self.fallback != self.place {
                    self.listen_at_fallback().await;
                }
                self.watch.look_again_in(RETRY_INTERVAL);
            }
        }
    }

    async fn listen_at_fallback(&mut self) {
        match bind(self.fallback.clone()).await {
            Ok((listener, file)) => {
                tracing::warn!(socket = %self.fallback.display(), "listening in the state folder until the socket can be created again");
                let fallback = self.fallback.clone();
                self.replace(listener, file);
                self.note(&fallback);
            }
            Err(error) => tracing::debug!("cannot listen in the state folder: {error:#}"),
        }
    }

    fn replace(&mut self, listener: Listener, file: SocketFile) {
        self.listener = listener;
        if let Some(before) = self.file.replace(file).filter(|_| self.is_ours) {
            before.release();
        }
        self.is_ours = true;
    }

    /// Writes the path of the socket in use to both lock files. The lock file beside the socket may
    /// have been deleted with it.
    fn note(&mut self, socket: &Path) {
        let path = beside(socket, "lock");
        if !self.locks.of_socket.is_at(&path)
            && let Ok(Attempt::Taken(lock)) = Lock::attempt(&path)
        {
            self.locks.of_socket = lock;
        }
        self.locks.of_socket.note(socket);
        self.locks.of_state.note(socket);
    }
}

async fn bind(path: PathBuf) -> anyhow::Result<(Listener, SocketFile)> {
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    tokio::task::spawn_blocking(move || private_folder(&folder)).await??;
    socket::bind(&path)
}
