//! Connects to the daemon, and starts one if none is running.
//!
//! The bridge and `ask` call this; `ctl` only connects and never starts a daemon. The steps are:
//! probe the socket, take the start lock, probe again, start a daemon, wait until it prints
//! `ready`. The lock makes sure that only one daemon starts, however many programs try at once. A
//! daemon that uses our state folder but listens elsewhere, because it was started with another
//! runtime folder, is found through its lock file. A daemon starts detached, in its own session and
//! without a parent, because some editors kill the whole process tree below them.

use std::collections::BTreeMap;
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

use crate::environment;
use crate::lock::{Attempt, Lock, LockHolder};
use crate::log_file;
use crate::paths::{self, Paths, private_folder};
use crate::socket;

/// The line that a daemon in the background prints when it listens.
pub const READY: &str = "ready\n";

/// The PATH of the daemon and of its sessions until the login shell has reported its own.
pub const INITIAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long a daemon may take to listen. It listens before its store is open, so this covers a
/// machine under load and a predecessor that is still stopping.
const START_DEADLINE: Duration = Duration::from_secs(15);

/// How long a daemon that holds its lock but does not listen may take to listen again or exit.
const RETURN_DEADLINE: Duration = Duration::from_secs(12);

/// Settings of the C library's allocator for a daemon: threads share a few heaps, and free memory
/// soon returns to the system. Without them, a daemon keeps much memory that it no longer needs
/// after a busy hour.
const DAEMON_ALLOCATOR: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "2"), ("MALLOC_TRIM_THRESHOLD_", "262144"), ("MALLOC_MMAP_THRESHOLD_", "262144")];

/// The same for a bridge, which needs little memory and of which there are many: its threads share
/// one heap, which grows by single pages.
pub const BRIDGE_ALLOCATOR: [(&str, &str); 4] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_TOP_PAD_", "4096"),
    ("MALLOC_TRIM_THRESHOLD_", "262144"),
    ("MALLOC_MMAP_THRESHOLD_", "262144"),
];

/// How long to wait while another program starts the daemon.
const LOCK_DEADLINE: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Connects to the daemon, and starts one if none is running. `program` is the path of acpd.
pub fn connect_or_start(paths: &Paths, program: &Path) -> anyhow::Result<UnixStream> {
    let deadline = Instant::now() + LOCK_DEADLINE;
    loop {
        if let Some(stream) = probe(&find_running(paths).socket)? {
            return Ok(stream);
        }
        private_folder(&paths.state)?;
        match Lock::attempt(&paths.start_lock())? {
            Attempt::Taken(mut lock) => {
                lock.note(&paths.socket);
                return start_unless_there(paths, program);
            }
            Attempt::Held(_) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Attempt::Held(_) => return Err(stuck_start(&paths.start_lock())),
        }
    }
}

/// The error for a start lock that another program does not release.
fn stuck_start(lock: &Path) -> anyhow::Error {
    let seconds = LOCK_DEADLINE.as_secs();
    match Lock::holder(lock) {
        Some(holder) => anyhow!(
            "{holder} has been starting a daemon for more than {seconds} seconds; end it with `kill {}` and try again",
            holder.pid
        ),
        None => anyhow!("another process has held {} for more than {seconds} seconds; try again", lock.display()),
    }
}

/// Returns the paths, with the socket on which the daemon of our state folder listens. A socket
/// that the user named stays.
pub fn find_running(paths: &Paths) -> Paths {
    let noted = if paths.is_named { None } else { Lock::holder(&paths.daemon_lock()) };
    let socket = noted.and_then(|holder| holder.socket).unwrap_or_else(|| paths.socket.clone());
    Paths { socket, ..paths.clone() }
}

/// Returns the process that holds the daemon's lock. Does not connect, because connecting would
/// make systemd start a daemon.
pub fn daemon_holder(paths: &Paths) -> Option<LockHolder> {
    Lock::holder(&beside(&paths.socket, "lock")).or_else(|| Lock::holder(&paths.daemon_lock()))
}

/// Returns the process id of the running daemon.
pub fn daemon_pid(paths: &Paths) -> Option<u32> {
    daemon_holder(paths).map(|holder| holder.pid)
}

/// Returns the parameters with which a program introduces itself to the daemon. If the user named
/// the socket, the user chose that daemon, so its state and configuration are not compared with
/// ours.
pub fn hello(paths: &Paths, bridge: Option<String>) -> HelloParams {
    let folders = expected_folders(paths);
    HelloParams {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        bridge,
        environment: environment().collect(),
        home: folders.home,
        state: folders.state.filter(|_| !paths.is_named),
        config: folders.config.filter(|_| !paths.is_named),
        one_shot: false,
        agent: None,
    }
}

/// Returns the introduction to a daemon that may be on another machine.
pub fn remote_hello() -> HelloParams {
    HelloParams {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        bridge: None,
        environment: BTreeMap::new(),
        home: None,
        state: None,
        config: None,
        one_shot: false,
        agent: None,
    }
}

/// Returns the folders that this program expects its daemon to use, with symbolic links resolved.
pub fn expected_folders(paths: &Paths) -> DaemonFolders {
    let resolved = |path: &Path| Some(paths::resolve_links(path));
    DaemonFolders { home: resolved(&paths.home), state: resolved(&paths.state), config: resolved(&paths.config) }
}

/// Returns the name with which the daemon tags the commands it runs. All daemons of one socket use
/// the same name, because a command may outlive its daemon.
pub fn owner(paths: &Paths) -> String {
    paths.socket.to_string_lossy().into_owned()
}

/// Returns the variables of this process, without those that are not Unicode (JSON cannot hold
/// them) and those about inherited sockets. The code that starts tools decides which of them a tool
/// sees.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let variables = environment::variables()
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables.filter(|(name, _)| !name.starts_with("LISTEN_"))
}

/// Returns the environment of every session until the login shell has reported its own.
pub fn base_environment() -> impl Iterator<Item = (String, String)> {
    let path = ("PATH".to_owned(), INITIAL_PATH.to_owned());
    environment().filter(|(name, _)| is_of_the_user(name)).chain([path])
}

/// Returns the path of a file that belongs to the socket, such as its lock.
pub fn beside(socket: &Path, what: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// Connects to the socket. Returns None if no process listens there.
fn probe(path: &Path) -> anyhow::Result<Option<UnixStream>> {
    match socket::connect(path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if socket::has_no_listener(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot connect to the daemon at {}", path.display())),
    }
}

/// Starts a daemon unless one is running by now. The caller holds the start lock.
fn start_unless_there(paths: &Paths, program: &Path) -> anyhow::Result<UnixStream> {
    if let Some(stream) = await_return(paths)? {
        return Ok(stream);
    }
    private_folder(paths.socket_folder())?;
    start(paths, program)
        .with_context(|| format!("cannot start the daemon (its log is {})", paths.daemon_log().display()))?;
    socket::connect(&paths.socket)
        .with_context(|| format!("cannot connect to the new daemon at {}", paths.socket.display()))
}

/// Waits for the daemon that holds the lock of our state folder, and connects to it.
///
/// That daemon may be stopping, or about to bind its deleted socket again; no other daemon can
/// start before it releases the lock. Returns None once no daemon holds the lock.
fn await_return(paths: &Paths) -> anyhow::Result<Option<UnixStream>> {
    let deadline = Instant::now() + RETURN_DEADLINE;
    loop {
        if let Some(stream) = probe(&find_running(paths).socket)? {
            return Ok(Some(stream));
        }
        match Lock::holder(&paths.daemon_lock()) {
            None => return Ok(None),
            Some(_) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Some(holder) => bail!(
                "the daemon runs but does not listen on its socket: {holder} holds {}; end it with `kill {}` and try again",
                paths.daemon_lock().display(),
                holder.pid
            ),
        }
    }
}

fn start(paths: &Paths, program: &Path) -> anyhow::Result<()> {
    let log = log_file::open(&paths.daemon_log())?;
    let mut starter = Command::new(program)
        .arg("--socket")
        .arg(&paths.socket)
        .args(["serve", "--detach"])
        .env_clear()
        .envs(shared_environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("cannot run the program acpd")?;
    let stdout = starter.stdout.take().context("the daemon's stdout was not piped")?;
    // The process that we started exits at once. The daemon holds the other end of the pipe until
    // it is ready or dead.
    let reported = read_readiness(stdout, Instant::now() + START_DEADLINE);
    let _ = starter.wait();
    match reported? {
        reported if reported == READY => Ok(()),
        silence if silence.trim().is_empty() => Err(anyhow!("it exited without reporting an error")),
        reason => Err(anyhow!("{}", reason.trim())),
    }
}

/// Returns the path of the installed program, which may be newer than the running one.
pub fn own_program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the path of the program acpd")?;
    // The kernel marks the path of a program that was replaced on the disk since it started.
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(replaced.filter(|path| path.exists()).unwrap_or(path))
}

/// Returns the environment of a daemon that a client starts.
///
/// The daemon serves every editor of the user, so it gets nothing that belongs to one editor: no
/// keys, no variables of a terminal or a project, no settings (`ACPD__*`), no proxy and no
/// certificates. Settings come from the configuration, and each editor sends its own environment
/// when it connects.
pub fn shared_environment() -> impl Iterator<Item = (OsString, OsString)> {
    let shared = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_shared));
    let ours = DAEMON_ALLOCATOR.into_iter().chain([("PATH", INITIAL_PATH)]);
    shared.chain(ours.map(|(name, value)| (name.into(), value.into())))
}

/// Whether the daemon gets this variable. Of the XDG variables it gets only those that locate its
/// own files; a client that expects other folders is refused, so these cannot mislead it.
fn is_shared(name: &str) -> bool {
    const NAMES: [&str; 2] = ["TMPDIR", "RUST_BACKTRACE"];
    let is_ours = NAMES.contains(&name) || paths::FOLDER_VARIABLES.contains(&name);
    is_ours || (is_of_the_user(name) && !name.starts_with(paths::XDG))
}

/// Whether a variable is the same for all programs of a user. Any session may get such a variable
/// from the daemon.
pub fn is_of_the_user(name: &str) -> bool {
    const NAMES: [&str; 8] = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "DBUS_SESSION_BUS_ADDRESS"];
    NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with(paths::XDG)
}

/// Reads until the daemon is ready, its output ends, or the deadline passes.
fn read_readiness(mut stdout: ChildStdout, deadline: Instant) -> anyhow::Result<String> {
    let mut reported = Vec::new();
    let mut piece = [0; 4096];
    while reported != READY.as_bytes() {
        if !readable(&stdout, deadline)? {
            bail!("it was not ready within {} seconds", START_DEADLINE.as_secs());
        }
        match stdout.read(&mut piece)? {
            0 => break,
            read => reported.extend_from_slice(&piece[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&reported).into_owned())
}

fn readable(stdout: &ChildStdout, deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
    Ok(rustix::event::poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&timeout))? > 0)
}
