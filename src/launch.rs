//! Reaching the daemon, and starting one if none answers: one only, however many programs try at once.
//!
//! Called by the bridge and by `ask`; `ctl` only looks and never starts anything. The steps are: probe, take the start
//! lock, probe again, start, wait until the daemon says `ready`. A daemon that uses our state folder and listens elsewhere,
//! because it was started with another runtime folder or without one, is found by its lock file. The daemon is started detached: in a session of its own
//! and as nobody's child, so that an editor that ends its children's whole tree does not end the daemon with it.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use domain::DaemonFolders;
use rustix::event::{PollFd, PollFlags, Timespec};
use wire::extension::HelloParams;

use crate::daemon::lock::{Attempt, Lock, LockHolder};
use crate::daemon::login_shell;
use crate::daemon::socket;
use crate::environment;
use crate::logging::log_file;
use crate::paths::{self, Places, private_folder};

/// The word with which a daemon in the background says that it listens.
pub const READY: &str = "ready\n";

/// How long a daemon may take to listen. It does so before its store is open, so this is for a machine under load, and for a
/// predecessor that is still leaving.
const START_DEADLINE: Duration = Duration::from_secs(15);

/// How long a daemon that holds its lock and does not listen may take to listen again, or to leave.
const RETURN_DEADLINE: Duration = Duration::from_secs(12);

/// For the C library: threads share a few heaps, and what is free goes back to the system soon. Without this, a daemon keeps
/// twice the memory after a busy hour.
const ALLOCATOR: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "2"), ("MALLOC_TRIM_THRESHOLD_", "262144"), ("MALLOC_MMAP_THRESHOLD_", "262144")];

/// How long to wait while others start it.
const PATIENCE: Duration = Duration::from_secs(30);

const STEP: Duration = Duration::from_millis(5);

/// A connection to the daemon, which is started if need be.
pub fn connect_or_start(places: &Places) -> anyhow::Result<UnixStream> {
    let patience = Instant::now() + PATIENCE;
    loop {
        if let Some(stream) = probe(&find_running(places).socket)? {
            return Ok(stream);
        }
        private_folder(&places.state)?;
        match Lock::attempt(&places.start_lock())? {
            Attempt::Taken(_lock) => return start_unless_there(places),
            Attempt::Held(_) if Instant::now() < patience => thread::sleep(STEP),
            Attempt::Held(holder) => {
                let holder = holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                bail!("{holder} has been starting the daemon for too long; end it and try again");
            }
        }
    }
}

/// The places with the socket of the daemon that uses our state folder, if one does and nobody named another socket.
pub fn find_running(places: &Places) -> Places {
    let noted = if places.is_named { None } else { Lock::holder(&places.daemon_lock()) };
    let socket = noted.and_then(|holder| holder.socket).unwrap_or_else(|| places.socket.clone());
    Places { socket, ..places.clone() }
}

/// The daemon that runs, if one does. Nobody is connected to, so that systemd does not start one for it.
pub fn daemon_holder(places: &Places) -> Option<LockHolder> {
    Lock::holder(&beside(&places.socket, "lock")).or_else(|| Lock::holder(&places.daemon_lock()))
}

/// Its process id.
pub fn daemon_pid(places: &Places) -> Option<u32> {
    daemon_holder(places).map(|holder| holder.pid)
}

/// How a program introduces itself to the daemon. With a socket that the user named any state and configuration will
/// do: the user chose that daemon.
pub fn hello(places: &Places, bridge: Option<String>) -> HelloParams {
    let folders = expected_folders(places);
    HelloParams {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        bridge,
        environment: environment().collect(),
        home: folders.home,
        state: folders.state.filter(|_| !places.is_named),
        config: folders.config.filter(|_| !places.is_named),
        one_shot: false,
    }
}

/// The folders that this program expects its daemon to have, with symbolic links resolved.
pub fn expected_folders(places: &Places) -> DaemonFolders {
    let resolved = |path: &Path| Some(paths::resolve_links(path));
    DaemonFolders { home: resolved(&places.home), state: resolved(&places.state), config: resolved(&places.config) }
}

/// The daemon's name in the mark of its commands. All daemons of a socket have the same, since a command may outlive one.
pub fn owner(places: &Places) -> String {
    places.socket.to_string_lossy().into_owned()
}

/// The variables of this process. Those that are not Unicode cannot travel as JSON, and those about inherited sockets are
/// of no use to others; which of the rest a tool gets to see is decided where tools are started.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let variables = environment::variables()
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables.filter(|(name, _)| !name.starts_with("LISTEN_"))
}

/// What every session rests on until the login shell has answered, whoever started the daemon.
pub fn base_environment() -> impl Iterator<Item = (String, String)> {
    let path = ("PATH".to_owned(), login_shell::PATH.to_owned());
    environment().filter(|(name, _)| is_of_the_user(name)).chain([path])
}

/// A file that belongs to the socket, such as its lock.
pub fn beside(socket: &Path, what: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// None if nobody listens.
fn probe(path: &Path) -> anyhow::Result<Option<UnixStream>> {
    match socket::connect(path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if socket::nobody_listens(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot connect to the daemon at {}", path.display())),
    }
}

/// The caller holds the start lock.
fn start_unless_there(places: &Places) -> anyhow::Result<UnixStream> {
    if let Some(stream) = await_return(places)? {
        return Ok(stream);
    }
    private_folder(places.socket_folder())?;
    start(places).with_context(|| format!("the daemon did not start; its log is {}", places.daemon_log().display()))?;
    socket::connect(&places.socket).context("the daemon started but does not answer")
}

/// A connection to a daemon that holds the lock of our state folder. It may be leaving, or about to bind a socket again that
/// was deleted; another one could not start before that. None if there is none, or none any more.
fn await_return(places: &Places) -> anyhow::Result<Option<UnixStream>> {
    let deadline = Instant::now() + RETURN_DEADLINE;
    loop {
        if let Some(stream) = probe(&find_running(places).socket)? {
            return Ok(Some(stream));
        }
        match Lock::holder(&places.daemon_lock()) {
            None => return Ok(None),
            Some(_) if Instant::now() < deadline => thread::sleep(STEP),
            Some(holder) => bail!(
                "the daemon does not listen: {holder} holds {}; end it with `kill {}` and try again",
                places.daemon_lock().display(),
                holder.pid
            ),
        }
    }
}

fn start(places: &Places) -> anyhow::Result<()> {
    let log = log_file::open(&places.daemon_log())?;
    let mut starter = Command::new(own_program()?)
        .arg("--socket")
        .arg(&places.socket)
        .args(["serve", "--detach"])
        .env_clear()
        .envs(shared_environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("cannot run acpd itself")?;
    let stdout = starter.stdout.take().context("the daemon's stdout was not piped")?;
    // The starter leaves at once; what it started holds the other end of the pipe until it is ready or dead.
    let said = read_readiness(stdout, Instant::now() + START_DEADLINE);
    let _ = starter.wait();
    match said? {
        said if said == READY => Ok(()),
        silence if silence.trim().is_empty() => Err(anyhow!("it ended without a word")),
        reason => Err(anyhow!("{}", reason.trim())),
    }
}

/// The installed program, which may be newer than the running one.
pub fn own_program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the path of acpd itself")?;
    // The kernel marks the path of a program that was replaced on the disk since it started.
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(replaced.filter(|path| path.exists()).unwrap_or(path))
}

/// What a daemon that a program of ours starts has as its environment. It serves every editor of the user, so it gets
/// nothing that is one editor's alone: no keys, nothing that a terminal or a project has set, no settings (`ACPD__*`), no
/// proxy and no certificates. Settings come from the configuration, and each editor's own environment with its hello.
pub fn shared_environment() -> impl Iterator<Item = (OsString, OsString)> {
    let shared = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_shared));
    let ours = ALLOCATOR.into_iter().chain([("PATH", login_shell::PATH)]);
    shared.chain(ours.map(|(name, value)| (name.into(), value.into())))
}

/// Of the XDG variables only those that say where the daemon's own files are: clients that expect other folders are
/// refused, so these cannot mislead anybody. The others are one editor's.
fn is_shared(name: &str) -> bool {
    const NAMES: [&str; 2] = ["TMPDIR", "RUST_BACKTRACE"];
    let is_ours = NAMES.contains(&name) || paths::FOLDER_VARIABLES.contains(&name);
    is_ours || (is_of_the_user(name) && !name.starts_with(paths::XDG))
}

/// Whether a variable is the same for all programs of a user, so that any session may have it from the daemon.
pub fn is_of_the_user(name: &str) -> bool {
    const NAMES: [&str; 8] = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "DBUS_SESSION_BUS_ADDRESS"];
    NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with(paths::XDG)
}

/// Reads until the word, the end, or the deadline.
fn read_readiness(mut stdout: ChildStdout, deadline: Instant) -> anyhow::Result<String> {
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    while said != READY.as_bytes() {
        if !readable(&stdout, deadline)? {
            bail!("it was not ready within {} seconds", START_DEADLINE.as_secs());
        }
        match stdout.read(&mut piece)? {
            0 => break,
            read => said.extend_from_slice(&piece[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn readable(stdout: &ChildStdout, deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
    Ok(rustix::event::poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&timeout))? > 0)
}
