//! The handle to the whole actor system, which the program holds: starts the `Directory`, replaces
//! it if it dies, and distributes sessions and connections over the arbiters.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Actor, Addr, ArbiterHandle};
use domain::card::{ActivityCard, ReloadCard, SessionCard};
use domain::{Millis, SessionId, Swap};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Semaphore, mpsc, watch};

use crate::connection::{self, Connection, Peer};
use crate::directory::{Describe, Directory, Drain, Find, Overview};
use crate::mail::DeathNotice;
use crate::outbox_gate::OutboxBudget;
use crate::ports::{Ports, RuntimeSettings};

/// A handle to the actor system. Clones share the same system.
#[derive(Clone)]
pub struct Runtime(Arc<RuntimeState>);

/// Reloads the configuration. Resolves with the changes and the settings for new sessions and
/// connections.
pub type Reload = dyn Fn() -> BoxFuture<'static, Result<(ReloadCard, RuntimeSettings), ReloadError>> + Send + Sync;

/// Checks whether a restarted daemon could start.
pub type CheckRestart = dyn Fn() -> BoxFuture<'static, Result<(), RestartError>> + Send + Sync;

/// Why a reload left the configuration unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    #[error("this daemon has no configuration to read")]
    NoConfiguration,
    #[error("{0}")]
    Invalid(String),
}

/// Why the next daemon could not start, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestartError(pub String);

struct RuntimeState {
    ports: Swap<Ports>,
    /// Reloads the configuration. Set by the program.
    reload: OnceLock<Box<Reload>>,
    /// Held while a configuration is read and replaced: of two reloads the later one takes effect.
    reloading: Mutex<()>,
    /// Checks whether the installed program could start. Set by the program.
    check_restart: OnceLock<Box<CheckRestart>>,
    directory: Swap<Addr<Directory>>,
    /// The number of directories that have been replaced.
    directories: watch::Sender<u32>,
    arbiters: Vec<ArbiterHandle>,
    next_arbiter: AtomicUsize,
    shutdown: watch::Sender<Option<Shutdown>>,
    /// True once the daemon is stopped and will not restart. A connection holds a receiver until it
    /// has sent the goodbye to its client.
    stopping: watch::Sender<bool>,
    /// True once all sessions have been evicted. A connection holds a receiver until its last
    /// answers are written.
    drained: watch::Sender<bool>,
    /// Whether sessions are being evicted. Turns that wait for an answer continue in the next
    /// daemon.
    draining: AtomicBool,
    /// One permit per long answer that is being prepared, for any client.
    long_answers: Arc<Semaphore>,
    /// The bytes that wait to be read by all clients.
    outboxes: Arc<OutboxBudget>,
    started: Millis,
}

/// How many long answers may be prepared at a time, for all clients together.
const LONG_ANSWERS: usize = 8;

/// How a client wants the daemon to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    Stop,
    /// Restart as the installed program; not before the running turns have ended, unless `now`.
    Restart {
        now: bool,
    },
}

/// How long clients may take to read the last answers of their sessions.
const LAST_ANSWERS_DEADLINE: Duration = Duration::from_millis(500);

/// The interval between two checks whether a turn still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Reports that the directory died.
struct DirectoryDied;

impl Runtime {
    /// Starts the actors. Must be called inside an actix system. Without arbiters everything runs
    /// on the current one.
    pub fn open(ports: Ports, mut arbiters: Vec<ArbiterHandle>) -> Runtime {
        if arbiters.is_empty() {
            arbiters.push(actix::Arbiter::current());
        }
        let (deaths, mut died) = mpsc::unbounded_channel();
        let runtime = Runtime(Arc::new(RuntimeState {
            directory: Swap::new(start_directory(&ports, &deaths)),
            directories: watch::Sender::new(0),
            ports: Swap::new(ports),
            reload: OnceLock::new(),
            reloading: Mutex::new(()),
            check_restart: OnceLock::new(),
            arbiters,
            next_arbiter: AtomicUsize::new(0),
            shutdown: watch::Sender::new(None),
            stopping: watch::Sender::new(false),
            drained: watch::Sender::new(false),
            draining: AtomicBool::new(false),
            long_answers: Arc::new(Semaphore::new(LONG_ANSWERS)),
            outboxes: Arc::default(),
            started: Millis::now(),
        }));
        runtime.reopen_waiting();
        let state = Arc::downgrade(&runtime.0);
        actix::spawn(async move {
            while let Some(DirectoryDied) = died.recv().await {
                let Some(state) = state.upgrade() else { return };
                Runtime(state).replace_directory(&deaths);
            }
        });
        runtime
    }

    /// The budget of the bytes that wait to be read by all clients. A transport that queues bytes
    /// of its own takes part in it.
    pub fn outboxes(&self) -> Arc<OutboxBudget> {
        self.0.outboxes.clone()
    }

    pub(crate) fn long_answers(&self) -> Arc<Semaphore> {
        self.0.long_answers.clone()
    }

    fn replace_directory(&self, deaths: &mpsc::UnboundedSender<DirectoryDied>) {
        tracing::error!("the directory died; starting another");
        self.0.directory.replace(start_directory(&self.ports(), deaths));
        self.0.directories.send_modify(|count| *count += 1);
        self.reopen_waiting();
    }

    /// Starts a connection over this pair and returns at once. It ends when the reader does.
    pub fn connect<R, W>(&self, reader: R, writer: W, peer: Peer)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.connect_with(move || Ok((reader, writer)), peer);
    }

    /// Starts a connection over the pair that `open` makes on the thread that will serve it, and
    /// returns at once. A socket belongs to the reactor of the thread that registers it; on another
    /// thread than its connection's, every message would wake both.
    pub fn connect_with<R, W>(&self, open: impl FnOnce() -> io::Result<(R, W)> + Send + 'static, peer: Peer)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let runtime = self.clone();
        // False if the arbiter has ended, as at the end of the daemon; then no client is served.
        let _ = self.arbiter().spawn_fn(move || match open() {
            Ok((reader, writer)) => {
                Connection::create(|ctx| Connection::new(runtime, peer, reader, writer, ctx));
            }
            Err(error) => tracing::warn!(%error, "cannot serve a connection"),
        });
    }

    /// Resolves when the daemon should stop at a client's request: at once or, for a restart that
    /// can wait, when the running turns have ended or `time_limit` has passed.
    pub async fn shutdown_requested(&self, time_limit: Duration) -> Shutdown {
        let mut requests = self.0.shutdown.subscribe();
        loop {
            // The sender lives in `self`, so neither wait can end early.
            let request = requests.wait_for(Option::is_some).await.ok().and_then(|request| *request);
            let Some(request) = request else { return std::future::pending().await };
            match request {
                Shutdown::Stop | Shutdown::Restart { now: true } => return request,
                Shutdown::Restart { now: false } => {}
            }
            tokio::select! {
                () = self.until_turns_end() => return request,
                () = tokio::time::sleep(time_limit) => {
                    tracing::warn!("some turns did not end in time for the restart; they are cancelled");
                    return request;
                }
                // Another client may want the daemon to stop at once.
                _ = requests.changed() => {}
            }
        }
    }

    /// Opens the sessions whose turns wait for an answer. Their questions can then be seen and
    /// answered.
    fn reopen_waiting(&self) {
        actix::spawn(connection::reopen_waiting(self.clone()));
    }

    /// Resolves when no turn runs. A turn that only waits for an answer continues after the
    /// restart.
    async fn until_turns_end(&self) {
        loop {
            let overview = self.directory().send(Describe).await;
            let running = |card: &SessionCard| match card.state {
                ActivityCard::Idle => false,
                ActivityCard::Running => true,
                ActivityCard::Waiting => !card.doing.is_empty(),
            };
            if overview.is_ok_and(|overview| !overview.sessions.iter().any(running)) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Sends a goodbye to the bridges, after which none of them starts another daemon by itself.
    /// Resolves when all goodbyes are written, or after the deadline: a bridge may not be reading.
    pub async fn send_goodbyes(&self, deadline: Duration) {
        self.0.stopping.send_replace(true);
        if tokio::time::timeout(deadline, self.0.stopping.closed()).await.is_err() {
            tracing::debug!("some bridges did not receive the goodbye in time");
        }
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// Whether the sessions are being evicted.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    pub(crate) fn drained(&self) -> watch::Receiver<bool> {
        self.0.drained.subscribe()
    }

    /// Drains the daemon. No new turns begin. Running turns are cancelled and recorded; those that
    /// wait for an answer stay as they are. Every session is evicted with its log cleanly closed,
    /// and clients that read receive their last answers.
    pub fn drain(&self, deadline: Duration) -> impl Future<Output = ()> + use<> {
        self.0.draining.store(true, Ordering::Release);
        let drained = self.directory().send(Drain);
        let runtime = self.clone();
        async move {
            if !matches!(tokio::time::timeout(deadline, drained).await, Ok(Ok(()))) {
                tracing::warn!("some sessions were not evicted in time; they are repaired when they are opened again");
            }
            runtime.0.drained.send_replace(true);
            if tokio::time::timeout(LAST_ANSWERS_DEADLINE, runtime.0.drained.closed()).await.is_err() {
                tracing::debug!("some clients did not receive the ends of their turns in time");
            }
        }
    }

    pub(crate) fn request_shutdown(&self, shutdown: Shutdown) {
        self.0.shutdown.send_if_modified(|request| request.replace(shutdown) != Some(shutdown));
    }

    /// Stops the daemon as for a restart: no new turns begin, and those that run may finish.
    pub fn stop_when_turns_end(&self) {
        self.request_shutdown(Shutdown::Restart { now: false });
    }

    /// Whether the daemon is about to stop. No new turns begin then.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.shutdown.borrow().is_some()
    }

    pub(crate) fn ports(&self) -> Arc<Ports> {
        self.0.ports.get()
    }

    /// Sets the function that reloads the configuration for clients. Only the first call counts.
    pub fn on_reload(&self, reload: Box<Reload>) {
        let _ = self.0.reload.set(reload);
    }

    /// Reloads the configuration. Changed settings apply to sessions and connections opened from
    /// now on.
    pub async fn reload(&self) -> Result<ReloadCard, ReloadError> {
        let reload = self.0.reload.get().ok_or(ReloadError::NoConfiguration)?;
        let _turn = self.0.reloading.lock().await;
        let (card, settings) = reload().await?;
        let ports = self.ports();
        self.0.ports.replace(Ports { settings, ..(*ports).clone() });
        Ok(card)
    }

    /// Sets the function that checks before a restart whether it would succeed. Only the first call
    /// counts.
    pub fn on_restart(&self, check_restart: Box<CheckRestart>) {
        let _ = self.0.check_restart.set(check_restart);
    }

    /// Reports why a restarted daemon could not start, as far as that can be determined while this
    /// one runs.
    pub(crate) async fn check_restart(&self) -> Result<(), RestartError> {
        match self.0.check_restart.get() {
            Some(check_restart) => check_restart().await,
            None => Ok(()),
        }
    }

    /// Changes when another directory has replaced one that died.
    pub(crate) fn directories(&self) -> watch::Receiver<u32> {
        self.0.directories.subscribe()
    }

    pub(crate) fn directory(&self) -> Addr<Directory> {
        (*self.0.directory.get()).clone()
    }

    /// Describes everything that is in memory at one moment. None if the directory has just died;
    /// another replaces it.
    pub async fn describe(&self) -> Option<Overview> {
        self.directory().send(Describe).await.ok()
    }

    /// Whether such a session exists, in memory or stored.
    pub async fn session_exists(&self, session: &SessionId) -> bool {
        let live = self.directory().send(Find(session.clone())).await;
        live.is_ok_and(|live| live.is_some())
            || self.ports().history.find(session.clone()).await.is_ok_and(|found| found.is_some())
    }

    pub fn started(&self) -> Millis {
        self.0.started
    }

    /// Returns the next arbiter; they take turns.
    pub(crate) fn arbiter(&self) -> ArbiterHandle {
        let turn = self.0.next_arbiter.fetch_add(1, Ordering::Relaxed);
        self.0.arbiters[turn % self.0.arbiters.len()].clone()
    }
}

fn start_directory(ports: &Ports, deaths: &mpsc::UnboundedSender<DirectoryDied>) -> Addr<Directory> {
    let deaths = deaths.clone();
    let death_notice = DeathNotice::new(move |_| {
        // The receiver is gone once the runtime itself is.
        let _ = deaths.send(DirectoryDied);
    });
    Directory::new(ports.history.clone(), ports.toolbox.clone(), ports.settings.idle_after, death_notice).start()
}
