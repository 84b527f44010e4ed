//! The daemon's life: lock, bind or inherit the socket, accept, hear signals, drain, leave.
//!
//! Started by `serve`. Owns the locks, the listener and the actix system with its arbiters; who may come in is decided
//! in `daemon::gate`, and what is said inside is the actors' business.

mod gate;
mod handover;
mod idle;

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use acpd_actors::{Farewell, House, Ports, Rehearse};
use actix::{Arbiter, System};
use anyhow::{Context, bail};
use domain::BaseEnvironment;
use futures_util::StreamExt;
use history::Store;
use interprocess::local_socket::traits::tokio::Listener as _;
use rustix::io::Errno;
use rustix::process::Pid;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;

use crate::assemble::{Assembled, assemble, runner};
use crate::config::Loaded;
use crate::http::Http;
use crate::launch::{beside, owner};
use crate::lock::{Attempt, Lock};
use crate::metrics::{Metered, Metrics};
use crate::paths::{Places, private_folder};
use crate::socket::{self, Claim, Listener};
use crate::{login_shell, reload};

use self::gate::Gate;

pub use handover::Handover;

/// How long running turns may take before a restart.
const RESTART_PATIENCE: Duration = Duration::from_secs(30);

/// How long bridges may take to hear that the daemon leaves.
const GOODBYE_DEADLINE: Duration = Duration::from_millis(500);

/// How long sessions may take to be put away.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

/// How long a predecessor that no longer listens may take to leave.
const PREDECESSOR_DEADLINE: Duration = Duration::from_secs(12);

/// Between two looks at a lock.
const STEP: Duration = Duration::from_millis(10);

/// After a failed accept. The client waits in the kernel's queue meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A socket that was open before this program ran.
pub struct Inherited {
    pub listener: UnixListener,
    /// By us, before a restart; else by a service manager, and then its file is not ours to remove.
    pub ours: bool,
}

/// What is left to do when the daemon has ended in good order.
pub enum Parting {
    Stopped,
    Restart(Handover),
}

/// Serves until a signal or a client says stop or restart. `rehearse` tells whether a restart would succeed; `ready` is
/// called when clients can connect.
pub fn run(
    places: &Places,
    loaded: Loaded,
    inherited: Option<Inherited>,
    rehearse: Box<Rehearse>,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Parting> {
    private_folder(places.socket_folder())?;
    private_folder(&places.state)?;
    let config = loaded.config.clone();
    let is_activated = inherited.as_ref().is_some_and(|inherited| !inherited.ours);
    // Whoever comes over HTTP does not have it started again.
    let patience = idle::patience(config.daemon.exit_when_idle, is_activated && config.http.listen.is_none());
    let _locks = take_locks(places, inherited.is_some())?;
    let system = System::new();
    let (store, parting) = system.block_on(async {
        let (listener, claim) = listen(&places.socket, inherited)?;
        let Assembled { mut ports, store, base, parts } = assemble(places, &config)?;
        let metrics = config.http.listen.is_some().then(|| metered(&mut ports));
        let arbiters: Vec<Arbiter> = (0..cores()).map(|_| Arbiter::new()).collect();
        let house = House::open(ports, arbiters.iter().map(Arbiter::handle).collect());
        let http = metrics.map(|metrics| Http::open(places, &config, &house, metrics)).transpose()?.flatten();
        house.on_reload(reload::reloader(places, loaded, parts));
        house.on_restart(rehearse);
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot listen for signals")?;
        ready()?;
        actix::spawn(ask_login_shell(places.clone(), base));
        tracing::info!(socket = %places.socket.display(), version = env!("CARGO_PKG_VERSION"), "ready");
        tell_manager(&[NotifyState::Ready]);
        let gate = Gate::new(house.clone(), owner(places));
        let parting = match serve(&listener, &gate, &house, patience, &mut signals).await {
            Farewell::Stop => {
                tracing::info!("stopping");
                tell_manager(&[NotifyState::Stopping]);
                // From here on a new daemon may be started; it waits for our locks.
                drop(listener);
                if let Some(claim) = claim {
                    claim.release();
                }
                house.say_goodbye(GOODBYE_DEADLINE).await;
                Parting::Stopped
            }
            Farewell::Restart { .. } => {
                tracing::info!("restarting");
                tell_manager_of_reload();
                // Who connects from here on waits for our successor.
                Parting::Restart(Handover::of(&listener, claim.is_some())?)
            }
        };
        leave(&house, http, &mut signals, arbiters).await;
        anyhow::Ok((store, parting))
    })?;
    close(&store);
    Ok(parting)
}

/// Has everything counted that goes into the history.
fn metered(ports: &mut Ports) -> Arc<Metrics> {
    let metrics = Metrics::new();
    ports.history = Arc::new(Metered::new(ports.history.clone(), metrics.clone()));
    metrics
}

/// The login shell's variables, over the daemon's own, become what sessions rest on.
async fn ask_login_shell(places: Places, base: Arc<BaseEnvironment>) {
    match login_shell::environment(&places, runner()).await {
        Some(answered) => base.replace(answered.over(&base.get())),
        None => tracing::warn!("the login shell did not say its environment; tools do without it"),
    }
}

/// One daemon a socket, and one a state folder.
fn take_locks(places: &Places, inherited: bool) -> anyhow::Result<[Lock; 2]> {
    let deadline = Instant::now() + PREDECESSOR_DEADLINE;
    let socket = &places.socket;
    // An inherited socket answers before anybody serves it, so only one of our own tells that a daemon is there. One that
    // was killed while it started a command leaves lock and socket to that child for a moment, and serves nobody.
    let is_served = |holder| !inherited && is_there(holder) && socket::connect(socket).is_ok();
    let serving = wait_for(&beside(socket, "lock"), deadline, is_served)
        .with_context(|| format!("a daemon already serves {}", socket.display()))?;
    let keeping = wait_for(&places.state.join("daemon.lock"), deadline, |_| false)
        .with_context(|| format!("a daemon already uses {}", places.state.display()))?;
    Ok([serving, keeping])
}

/// Whether the process runs that has noted itself as the holder of a lock. One that has not yet is about to.
fn is_there(holder: Option<u32>) -> bool {
    let pid = holder.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// Waits for a predecessor to leave, unless `hopeless` says that it will not.
fn wait_for(path: &Path, deadline: Instant, hopeless: impl Fn(Option<u32>) -> bool) -> anyhow::Result<Lock> {
    loop {
        match Lock::attempt(path)? {
            Attempt::Taken(lock) => return Ok(lock),
            Attempt::Held(holder) if Instant::now() < deadline && !hopeless(holder) => thread::sleep(STEP),
            Attempt::Held(Some(pid)) => bail!("process {pid} holds {}", path.display()),
            Attempt::Held(None) => bail!("another process holds {}", path.display()),
        }
    }
}

/// The claim is on a socket of our own making; an inherited one is its maker's to remove.
fn listen(path: &Path, inherited: Option<Inherited>) -> anyhow::Result<(Listener, Option<Claim>)> {
    match inherited {
        Some(Inherited { listener, ours }) => {
            let listener = Listener::try_from(OwnedFd::from(listener)).context("cannot use the inherited socket")?;
            let claim = ours.then(|| Claim::on(path)).transpose()?;
            Ok((listener, claim))
        }
        None => socket::bind(path).map(|(listener, claim)| (listener, Some(claim))),
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Lets clients in until it is time to leave.
async fn serve(
    listener: &Listener,
    gate: &Gate,
    house: &House,
    patience: Option<Duration>,
    signals: &mut Signals,
) -> Farewell {
    let watchdog = actix::spawn(feed_watchdog());
    let farewell = tokio::select! {
        never = accept(listener, gate) => match never {},
        farewell = house.farewell(RESTART_PATIENCE) => {
            tracing::info!(?farewell, "a client asked the daemon to leave");
            farewell
        }
        () = idle::over(house, patience) => {
            tracing::info!("nobody has been here for a while");
            Farewell::Stop
        }
        signal = stop_signal(signals, house) => {
            tracing::info!(signal, "heard a signal");
            Farewell::Stop
        }
    };
    watchdog.abort();
    farewell
}

async fn accept(listener: &Listener, gate: &Gate) -> Infallible {
    let mut failing = false;
    loop {
        match listener.accept().await {
            Ok(stream) => {
                failing = false;
                gate.admit(stream).await;
            }
            Err(error) => {
                // With no descriptors left this fails until somebody leaves; one line in the log is enough.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept connections for now");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Resolves at a signal to stop; at a hang-up the configuration is read again.
async fn stop_signal(signals: &mut Signals, house: &House) -> i32 {
    while let Some(signal) = signals.next().await {
        match signal {
            SIGHUP => {
                tell_manager_of_reload();
                // What came of it is in the log.
                let _ = house.reload().await;
                tell_manager(&[NotifyState::Ready]);
            }
            other => return other,
        }
    }
    // The stream does not end while its owner lives.
    std::future::pending().await
}

/// Resolves at a signal to stop. A hang-up no longer counts: the service manager was told that we leave.
async fn second_signal(signals: &mut Signals) {
    while let Some(signal) = signals.next().await {
        if signal != SIGHUP {
            return;
        }
    }
    std::future::pending().await
}

/// Puts everything away. A second signal cuts it short: what is then left is repaired when it is opened again.
async fn leave(house: &House, http: Option<Http>, signals: &mut Signals, arbiters: Vec<Arbiter>) {
    let put_away = async {
        house.drain(DRAIN_DEADLINE).await;
        // Clients over HTTP hear the last words, too.
        if let Some(http) = http {
            http.close().await;
        }
    };
    tokio::select! {
        () = put_away => {}
        () = second_signal(signals) => tracing::warn!("heard a second signal; leaving at once"),
    }
    for arbiter in arbiters {
        arbiter.stop();
        if arbiter.join().is_err() {
            tracing::error!("an arbiter ended in a panic");
        }
    }
}

fn close(store: &Arc<Store>) {
    store.close();
    tracing::info!("stopped");
}

async fn feed_watchdog() {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    let mut beat = tokio::time::interval(patience / 2);
    loop {
        beat.tick().await;
        tell_manager(&[NotifyState::Watchdog]);
    }
}

fn tell_manager(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// It ends with the next word that we are ready. For the manager a restart in place is a reload, too, in which the successor
/// says that word.
fn tell_manager_of_reload() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell_manager(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot tell the service manager about the reload"),
    }
}
