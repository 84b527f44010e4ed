//! Starts the real program in a temporary home and exchanges lines with it.

// With paths, because the integration tests use this file, too.
#[path = "harness/peer.rs"]
mod peer;
#[path = "harness/terminal.rs"]
mod terminal;

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

pub(crate) use peer::Peer;
pub(crate) use terminal::Terminal;

/// How long anything may take. Generous, because tests share the machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Waits for a condition and returns its value.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs. A zombie does not, but a process with threads that are still ending
/// does: its files are open until the last thread has ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        Some('Z') => fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1),
        Some('X') | None => false,
        Some(_) => true,
    }
}

/// Stops a process and returns when every thread has stopped. The kernel delivers the signal thread
/// by thread, each when it is scheduled, so a busy machine takes a while.
pub(crate) fn pause(pid: u32) {
    signal(pid, Signal::STOP);
    until("every thread to be stopped", || is_stopped(pid).then_some(()));
}

fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// A user's world in a temporary folder. Dropping it ends the daemon that serves it.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("acpd-").tempdir().unwrap();
        for name in ["home", "run", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The home folder of the user.
    pub(crate) fn folder_of_user(&self) -> PathBuf {
        self.path().join("home")
    }

    /// The folder in which everything is started.
    pub(crate) fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("home/.local/state/acpd")
    }

    /// Writes the configuration file.
    pub(crate) fn configure(&self, text: &str) {
        let folder = self.path().join("home/.config/acpd");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("run/acpd/acpd.sock")
    }

    /// The program with only these variables in its environment.
    pub(crate) fn acpd(&self, args: &[&str]) -> Command {
        let mut command = self.bare(env!("CARGO_BIN_EXE_acpd"));
        command.args(args);
        command
    }

    /// Another program with the same variables.
    pub(crate) fn bare(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path().join("home"))
            .env("XDG_RUNTIME_DIR", self.path().join("run"))
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        finish(self.acpd(args))
    }

    /// Runs a subcommand, which must succeed, and returns its stdout.
    #[track_caller]
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "acpd {args:?} failed: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.stdout(args)).unwrap()
    }

    pub(crate) fn bridge(&self) -> Peer {
        Peer::spawn(self.acpd(&["acp"]))
    }

    /// A client on the socket itself, without a bridge.
    pub(crate) fn connect(&self) -> Peer {
        Peer::over(UnixStream::connect(self.socket()).unwrap())
    }

    /// A daemon in the foreground, ready for clients.
    pub(crate) fn serve(&self) -> Daemon {
        self.start(self.acpd(&["serve"]))
    }

    /// A daemon started in some other way. Its log goes to a file.
    pub(crate) fn start(&self, mut command: Command) -> Daemon {
        let log = fs::File::options().create(true).append(true).open(self.path().join("log")).unwrap();
        let mut daemon = Daemon(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        until("the daemon to listen", || {
            assert_eq!(daemon.0.try_wait().unwrap(), None, "the daemon ended: {}", self.log());
            UnixStream::connect(self.socket()).ok()
        });
        daemon
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    /// The daemon of this home, however it was started.
    pub(crate) fn daemon(&self) -> Option<u32> {
        let lock = fs::read_to_string(self.path().join("run/acpd/acpd.sock.lock")).ok()?;
        let pid = lock.lines().next()?.trim().parse().ok()?;
        (self.started(pid) && is_alive(pid)).then_some(pid)
    }

    /// Whether a process comes from this home: its arguments or environment name the home's random
    /// folder.
    fn started(&self, pid: u32) -> bool {
        let mark = self.path().as_os_str().as_encoded_bytes();
        ["cmdline", "environ"].into_iter().any(|name| {
            let text = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            text.windows(mark.len()).any(|window| window == mark)
        })
    }

    /// All processes that come from this home, including orphans.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| self.started(*pid) && is_alive(*pid)).collect()
    }

    #[track_caller]
    pub(crate) fn kill_daemon(&self) {
        let pid = self.daemon().expect("a daemon runs");
        signal(pid, Signal::KILL);
        until("the daemon to be gone", || (!is_alive(pid)).then_some(()));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A bridge that was killed while it started a daemon leaves one that is in no lock file
        // yet. For a moment, a process that executes another program has no environment by which it
        // could be recognised. So this looks until it has found nothing twice.
        let deadline = Instant::now() + DEADLINE;
        let mut found_nothing = false;
        while Instant::now() < deadline {
            let left = self.processes();
            if left.is_empty() && found_nothing {
                return;
            }
            found_nothing = left.is_empty();
            left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A daemon that is a child of the test.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn send(&self, what: Signal) {
        signal(self.id(), what);
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the daemon to end", || self.0.try_wait().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end, or ends it at the deadline.
#[track_caller]
pub(crate) fn finish(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(DEADLINE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            signal(pid, Signal::KILL);
            panic!("{command:?} did not end");
        }
    }
}

/// The lines that a program writes, each waited for no longer than the deadline.
pub(crate) struct Lines(mpsc::Receiver<String>);

impl Lines {
    pub(crate) fn of(output: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map_while(|line| sender.send(line).ok()).for_each(drop);
        });
        Self(receiver)
    }

    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(DEADLINE).expect("no line arrived in time")
    }

    /// The next line for which `wanted` holds.
    #[track_caller]
    pub(crate) fn find(&self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.next();
            if wanted(&line) {
                return line;
            }
        }
    }
}

/// Writes a script that can be run.
pub(crate) fn script(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, format!("#!/bin/sh\n{text}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
