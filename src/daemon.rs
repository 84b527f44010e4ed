//! Runs the daemon: locks, binds or inherits the socket, accepts clients, handles signals, drains,
//! exits.
//!
//! `serve` starts it. It owns the locks, the listener and the actix system with its arbiters.
//! `daemon::admission` decides which processes may connect, and the actors handle their messages.

mod admission;
mod folder_watch;
mod handover;
mod idle;
mod listening_socket;
pub mod login_shell;
mod reload;
mod shutdown;
pub mod socket;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use acpd_actors::{CheckRestart, Ports, Runtime, Shutdown};
use actix::{Arbiter, System};
use anyhow::{Context, bail};
use bridge::lock::{Attempt, Lock, LockHolder};
use domain::{BaseEnvironment, Environment};
use futures_util::StreamExt;
use rustix::io::Errno;
use rustix::process::Pid;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::sync::oneshot;

use crate::assemble::{Assembled, assemble, runner};
use crate::config::{self, Config, Loaded, ResolvedNetwork};
use crate::http;
use crate::launch::{self, beside, owner};
use crate::metrics::{Metered, Metrics};
use crate::paths::{Paths, private_folder};

use self::admission::Admission;
use self::listening_socket::{ListeningSocket, Locks, SocketTaken};

pub use handover::Handover;

/// How long running turns may take to finish before a restart.
const RESTART_GRACE: Duration = Duration::from_secs(30);

/// How long the daemon waits for bridges to receive its goodbye.
const GOODBYE_DEADLINE: Duration = Duration::from_millis(500);

/// How long a predecessor that no longer listens may take to exit.
const PREDECESSOR_DEADLINE: Duration = Duration::from_secs(12);

/// The same deadline if a service manager took over the socket of a daemon, which may have turns to
/// finish.
const DISPLACED_DEADLINE: Duration = Duration::from_secs(45);

/// The pause between two attempts to take a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The pause after a failed accept. The client waits in the kernel's queue meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A socket that was open before this program ran.
pub struct Inherited {
    pub listener: UnixListener,
    /// Whether acpd opened the socket, before a restart. Otherwise a service manager opened it, and
    /// acpd must not remove its file.
    pub ours: bool,
}

/// What the process does after the daemon has shut down properly.
pub enum DaemonExit {
    Stopped,
    Restart(Handover),
}

/// Serves until a signal or a client asks the daemon to stop or restart. `check_restart` checks
/// whether a restart would succeed; `ready` is called when clients can connect.
pub fn run(
    paths: &Paths,
    loaded: Loaded,
    inherited: Option<Inherited>,
    check_restart: Box<CheckRestart>,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<DaemonExit> {
    private_folder(paths.socket_folder())?;
    private_folder(&paths.state)?;
    let config = loaded.config.clone();
    let is_activated = inherited.as_ref().is_some_and(|inherited| !inherited.ours);
    // A service manager restarts the daemon for a client of the socket, but not for an HTTP client.
    let idle_limit = idle::limit(config.daemon.exit_when_idle, is_activated && config.http.listen.is_none());
    let locks = take_locks(paths, inherited.as_ref())?;
    let system = System::new();
    let (store, parting, locks) = system.block_on(async {
        let mut socket = ListeningSocket::open(paths, inherited, locks)?;
        let network_known = install_network(&config);
        let Assembled { mut ports, store, base, parts } = assemble(paths, &config)?;
        let metrics = config.http.listen.is_some().then(|| metered(&mut ports));
        let arbiters: Vec<Arbiter> = (0..cores()).map(|_| Arbiter::new()).collect();
        let runtime = Runtime::open(ports, arbiters.iter().map(Arbiter::handle).collect());
        let http = metrics.map(|metrics| http::open(paths, &config, &runtime, metrics)).transpose()?.flatten();
        runtime.on_reload(reload::reloader(paths, loaded, parts));
        runtime.on_restart(check_restart);
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot listen for signals")?;
        ready()?;
        actix::spawn(ask_login_shell(paths.clone(), base, config.network.clone(), network_known));
        tracing::info!(socket = %paths.socket.display(), version = env!("CARGO_PKG_VERSION"), "ready");
        notify_manager(&[NotifyState::Ready]);
        let admission = Admission::new(runtime.clone(), owner(paths));
        let (parting, locks) = match serve(&mut socket, &admission, &runtime, idle_limit, &mut signals).await {
            Shutdown::Stop => {
                tracing::info!("stopping");
                notify_manager(&[NotifyState::Stopping]);
                // From here on another daemon may be started; it waits for our locks.
                let locks = socket.close();
                runtime.send_goodbyes(GOODBYE_DEADLINE).await;
                (DaemonExit::Stopped, locks)
            }
            Shutdown::Restart { .. } => {
                tracing::info!("restarting");
                notify_manager_of_reload();
                // A client that connects from here on waits for the successor.
                let handover = Handover::of(socket.listener(), socket.is_ours())?;
                (DaemonExit::Restart(handover), socket.into_locks())
            }
        };
        shutdown::drain(&runtime, http, &mut signals).await;
        shutdown::end_threads(arbiters);
        anyhow::Ok((store, parting, locks))
    })?;
    shutdown::close(&store);
    // The process ends or is replaced now. Dropping the runtime would wait for threads that may
    // never end, and the locks must be held until the last thread has ended.
    std::mem::forget(system);
    std::mem::forget(locks);
    Ok(parting)
}

/// Wraps the history in a layer that counts everything that is written to it.
fn metered(ports: &mut Ports) -> Arc<Metrics> {
    let metrics = Metrics::new();
    ports.history = Arc::new(Metered::new(ports.history.clone(), metrics.clone()));
    metrics
}

/// Installs the proxy and certificates that are known at the start.
///
/// If the login shell may set others, connections to other machines wait until the returned sender
/// is dropped.
fn install_network(config: &Config) -> Option<oneshot::Sender<()>> {
    let known = ResolvedNetwork::of(&config.network, &launch::environment().collect(), &Environment::default());
    let is_complete = known.is_complete();
    known.install();
    if is_complete {
        return None;
    }
    let (known, dropped) = oneshot::channel();
    network::wait_for(async move { drop(dropped.await) });
    Some(known)
}

/// Reads the login shell's environment and merges it over the daemon's own, as the base of every
/// session's environment.
///
/// It also sets the proxy if no other source does. Dropping `network_known` reports that this
/// is done.
async fn ask_login_shell(
    paths: Paths,
    base: Arc<BaseEnvironment>,
    settings: config::NetworkConfig,
    network_known: Option<oneshot::Sender<()>>,
) {
    match login_shell::environment(&paths, runner()).await {
        Some(answered) => {
            base.replace(answered.over(&base.get()));
            if network_known.is_some() {
                ResolvedNetwork::of(&settings, &launch::environment().collect(), &base.get()).install();
            }
        }
        None => tracing::warn!("the login shell did not report its environment; tools run without it"),
    }
    drop(network_known);
}

/// Takes both locks: one daemon per socket, and one per state folder.
fn take_locks(paths: &Paths, inherited: Option<&Inherited>) -> anyhow::Result<Locks> {
    let is_activated = inherited.is_some_and(|inherited| !inherited.ours);
    let limit = if is_activated { DISPLACED_DEADLINE } else { PREDECESSOR_DEADLINE };
    let deadline = Instant::now() + limit;
    let socket = &paths.socket;
    // An inherited socket accepts connections before a daemon serves it, so a connection to it
    // proves nothing. When a daemon is killed while it starts a command, that child holds the lock
    // and the socket for a moment.
    let is_served = |at: &Path| (inherited.is_none() || at != socket) && bridge::socket::connect(at).is_ok();
    let serves_here = |holder: Option<&LockHolder>| is_alive(holder) && is_served(socket);
    let serves = format!("a daemon already serves {}", socket.display());
    let of_socket = wait_for(&beside(socket, "lock"), deadline, serves_here, &serves)?;
    let serves_elsewhere = |holder: Option<&LockHolder>| {
        is_alive(holder) && holder.and_then(|holder| holder.socket.as_deref()).is_some_and(is_served)
    };
    let uses = format!("a daemon already uses {}", paths.state.display());
    let of_state = wait_for(&paths.daemon_lock(), deadline, serves_elsewhere, &uses)?;
    Ok(Locks { of_socket, of_state })
}

/// Whether the holder of a lock is alive. A holder that has not written its process id yet counts
/// as alive.
fn is_alive(holder: Option<&LockHolder>) -> bool {
    let pid = holder.and_then(|holder| i32::try_from(holder.pid).ok()).and_then(Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// Takes a lock, and waits for its holder to exit unless `hopeless` finds that it will not.
/// `meaning` explains in the error what a held lock means.
fn wait_for(
    path: &Path,
    deadline: Instant,
    hopeless: impl Fn(Option<&LockHolder>) -> bool,
    meaning: &str,
) -> anyhow::Result<Lock> {
    loop {
        if let Attempt::Taken(lock) = Lock::attempt(path)? {
            return Ok(lock);
        }
        let holder = Lock::holder(path);
        if Instant::now() < deadline && !hopeless(holder.as_ref()) {
            thread::sleep(POLL_INTERVAL);
            continue;
        }
        match holder {
            Some(holder) => {
                let (lock, pid) = (path.display(), holder.pid);
                bail!("{meaning}: {holder} holds {lock}; end it with `acpd ctl stop` or `kill {pid}`")
            }
            None => bail!("{meaning}: another process holds {0}; `fuser {0}` shows its process id", path.display()),
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Accepts clients until the daemon must stop or restart.
async fn serve(
    socket: &mut ListeningSocket,
    admission: &Admission,
    runtime: &Runtime,
    idle_limit: Option<Duration>,
    signals: &mut Signals,
) -> Shutdown {
    let watchdog = actix::spawn(feed_watchdog());
    let mut displaced = None;
    let shutdown = loop {
        tokio::select! {
            done = socket.serve(admission), if displaced.is_none() => {
                tracing::warn!("another process listens on this daemon's socket; this daemon stops when its turns have ended");
                displaced = Some(done);
                runtime.stop_when_turns_end();
            }
            shutdown = runtime.shutdown_requested(RESTART_GRACE) => break match displaced {
                // The process that listens there now takes over.
                Some(SocketTaken) => Shutdown::Stop,
                None => {
                    tracing::info!(?shutdown, "a client asked the daemon to stop or restart");
                    shutdown
                }
            },
            () = idle::over(runtime, idle_limit) => {
                tracing::info!("no client has been connected for a while");
                break Shutdown::Stop;
            }
            signal = stop_signal(signals, runtime) => {
                tracing::info!(signal, "received a signal");
                break Shutdown::Stop;
            }
        }
    };
    watchdog.abort();
    shutdown
}

/// Resolves at a signal to stop. At SIGHUP it reloads the configuration and keeps waiting.
async fn stop_signal(signals: &mut Signals, runtime: &Runtime) -> i32 {
    while let Some(signal) = signals.next().await {
        match signal {
            SIGHUP => {
                notify_manager_of_reload();
                // The reload writes its result to the log.
                let _ = runtime.reload().await;
                notify_manager(&[NotifyState::Ready]);
            }
            other => return other,
        }
    }
    // The stream of signals does not end while its owner lives.
    std::future::pending().await
}

async fn feed_watchdog() {
    let Some(timeout) = sd_notify::watchdog_enabled() else { return };
    let mut beat = tokio::time::interval(timeout / 2);
    loop {
        beat.tick().await;
        notify_manager(&[NotifyState::Watchdog]);
    }
}

fn notify_manager(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Reports to the service manager that a reload begins. The next `Ready` ends it. A restart in
/// place counts as a reload, whose `Ready` the successor sends.
fn notify_manager_of_reload() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify_manager(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot tell the service manager about the reload"),
    }
}
