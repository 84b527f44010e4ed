//! `acpd __run`: starts one command, reaps whatever becomes its child, and leaves nobody behind. Small and without
//! a runtime, because it runs once for every command.
//!
//! A command in the sandbox is started by a thread that enters it first and then ends. What Landlock and seccomp forbid
//! holds for a thread and what it starts, so the helper itself stays free to end its descendants and to clean up after
//! them, and is out of the command's reach.
//!
//! It lives in a session of its own without a terminal, so that neither a prompt on /dev/tty nor the daemon's Ctrl-C
//! reaches the command. There is no PR_SET_PDEATHSIG: that signal comes when the *thread* that started the helper ends,
//! which in the daemon may be a pool thread; the end of the control socket says the same thing reliably.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::process_count::Headcount;
use super::sandbox::{SandboxError, Temporary};
use super::{Ending, MOST_DESCRIPTORS, Order, Sandbox, descendants, terminal_parent};

/// Asked to end: what is sent, and how long it may take to act on it.
const CANCEL: [(Signal, Duration); 2] =
    [(Signal::INT, Duration::from_millis(300)), (Signal::TERM, Duration::from_millis(500))];

/// The command is done and left children behind. No INT: a shell starts its background children with INT ignored.
const LEFTOVERS: [(Signal, Duration); 1] = [(Signal::TERM, Duration::from_millis(500))];

/// How long the killing may take. Only a process of another user, or one stuck in the kernel, lives longer.
const KILLING: Duration = Duration::from_millis(800);

/// The same for a crowd, for which nobody waits as for a cancelled command.
const KILLING_MANY: Duration = Duration::from_secs(10);

/// Runs the helper; `args` are those after `__run`: none for a command, or one for another kind of work that wants a
/// process of its own.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let done = match args.next() {
        Some(arg) if let Some(done) = terminal_parent::main(&arg, args.collect()) => match done {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Some(arg) => Err(io::Error::other(format!("unexpected argument {arg:?}"))),
        None => serve(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("acpd {}: {error}", super::SUBCOMMAND);
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    // Fails only for a group leader, such as a helper started by hand from a shell.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    no_core_dumps();
    let mut helper = Helper::new()?;
    let Some((order, stdin)) = helper.receive_order()? else {
        return Ok(());
    };
    let mut headcount = Headcount::new(order.process_limit);
    helper.start(order, stdin);
    match helper.watch(&mut headcount)? {
        Stop::Asked => helper.end_everyone(&CANCEL, KILLING),
        Stop::Done => helper.end_everyone(&LEFTOVERS, KILLING),
        Stop::TooMany => helper.end_everyone(&[], KILLING_MANY),
    }
}

/// Why everything is to end.
enum Stop {
    /// The command is done.
    Done,
    /// Somebody wants it.
    Asked,
    /// There are too many of them.
    TooMany,
}

struct Helper {
    control: UnixStream,
    /// Readable when a child ended.
    children: UnixStream,
    /// Readable when somebody signals the helper itself, which means the same as the end of the control socket.
    signals: UnixStream,
    state: State,
    /// Of a command in the sandbox; goes when everybody has ended.
    temporary: Option<Temporary>,
}

enum State {
    Idle,
    Running(Pid),
    /// The report has been sent.
    Done,
}

impl Helper {
    fn new() -> io::Result<Self> {
        // The duplicate closes on exec, and the command's descriptor 0 becomes /dev/null: it inherits neither.
        let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (children, notify) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGCHLD, notify)?;
        let (signals, notify) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
        }
        children.set_nonblocking(true)?;
        Ok(Self { control, children, signals, state: State::Idle, temporary: None })
    }

    /// The order, and what the command shall read if that came with it. None when the daemon went away instead.
    fn receive_order(&mut self) -> io::Result<Option<(Order, Option<OwnedFd>)>> {
        let mut line = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let mut descriptors = Vec::new();
        while line.last() != Some(&b'\n') {
            match receive(&self.control, &mut buffer, &mut descriptors)? {
                0 => return Ok(None),
                length => line.extend_from_slice(&buffer[..length]),
            }
        }
        let mut order: Order = serde_json::from_slice(&line)?;
        if descriptors.len() != usize::from(order.stdin_follows) + order.folders_follow {
            return Err(io::Error::other("the order came without the descriptors that it promises"));
        }
        let mut descriptors = descriptors.into_iter();
        let stdin = if order.stdin_follows { descriptors.next() } else { None };
        if let Some(sandbox) = &mut order.sandbox {
            sandbox.writable = descriptors.map(Arc::new).collect();
        }
        Ok(Some((order, stdin)))
    }

    fn start(&mut self, mut order: Order, stdin: Option<OwnedFd>) {
        let started = match (enter_folder(&order), order.sandbox.take()) {
            (Err(reason), _) => Err(reason),
            (Ok(()), None) => spawn(&order, stdin),
            (Ok(()), Some(sandbox)) => self.spawn_inside(&sandbox, &mut order, stdin),
        };
        match started {
            Ok(child) => {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                self.state = State::Running(pid.expect("the kernel gives process ids above zero"));
            }
            Err(reason) => self.report(Ending::Failed(reason)),
        }
    }

    fn spawn_inside(&mut self, sandbox: &Sandbox, order: &mut Order, stdin: Option<OwnedFd>) -> Result<Child, String> {
        let usual = order.environment.get("TMPDIR").map(String::as_str);
        let temporary = Temporary::make(usual).map_err(|error| SandboxError::Temporary(error).to_string())?;
        let temporary = self.temporary.insert(temporary).path();
        for name in ["TMPDIR", "TMP", "TEMP"] {
            order.environment.insert(name.to_owned(), temporary.to_string_lossy().into_owned());
        }
        if let Some(folder) = sandbox.writable.first() {
            // The working folder is the one that was checked, whatever its path leads to by now.
            rustix::process::fchdir(folder).map_err(|error| format!("entering the working folder: {error}"))?;
        }
        let enter = || {
            sandbox.enter(temporary).map_err(|error| error.to_string())?;
            spawn(order, stdin)
        };
        std::thread::scope(|scope| scope.spawn(enter).join())
            .unwrap_or_else(|_| Err("entering the sandbox failed inside acpd; nothing was run".to_owned()))
    }

    fn watch(&mut self, headcount: &mut Headcount) -> io::Result<Stop> {
        loop {
            let _ = self.reap();
            if matches!(self.state, State::Done) {
                return Ok(Stop::Done);
            }
            if let Some(most) = headcount.exceeded() {
                self.report(Ending::TooMany(most));
                return Ok(Stop::TooMany);
            }
            let mut sources = [
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            wait_for(&mut sources, headcount.pause())?;
            let asked = sources[..2].iter().any(|source| !source.revents().is_empty());
            if asked {
                return Ok(Stop::Asked);
            }
            self.drain_children();
        }
    }

    fn end_everyone(&mut self, softly: &[(Signal, Duration)], killing: Duration) -> io::Result<()> {
        for (signal, patience) in softly {
            if self.is_alone() {
                return Ok(());
            }
            // Finding many takes time, too.
            let deadline = Instant::now() + *patience;
            descendants::signal(*signal);
            if self.wait_until_alone(deadline)? {
                return Ok(());
            }
        }
        let deadline = Instant::now() + killing;
        while Instant::now() < deadline {
            descendants::kill_all();
            if self.wait_until_alone(Instant::now() + Duration::from_millis(20))? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn wait_until_alone(&mut self, deadline: Instant) -> io::Result<bool> {
        loop {
            if self.is_alone() {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            wait_for(&mut [PollFd::new(&self.children, PollFlags::IN)], Some(left))?;
            self.drain_children();
        }
    }

    /// Every descendant's chain of parents ends here, since orphans come to the subreaper: no children means nobody.
    fn is_alone(&mut self) -> bool {
        self.reap() == Err(Errno::CHILD)
    }

    /// Collects all children that ended; an error means that there are no children at all.
    fn reap(&mut self) -> Result<(), Errno> {
        while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
            if matches!(self.state, State::Running(command) if command == pid) {
                self.report(ending(status));
            }
        }
        Ok(())
    }

    fn report(&mut self, ending: Ending) {
        self.state = State::Done;
        let mut line = serde_json::to_vec(&ending).expect("an ending is plain data");
        line.push(b'\n');
        // A daemon that is gone does not miss the report.
        let _ = self.control.write_all(&line);
    }

    fn drain_children(&mut self) {
        let mut buffer = [0; 64];
        while matches!(self.children.read(&mut buffer), Ok(length) if length > 0) {}
    }
}

/// A command that is made to end should not leave its memory in the project. One that wants dumps can turn them on again.
fn no_core_dumps() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Core);
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}

/// Reads bytes, and keeps the descriptors that come with them.
fn receive(socket: &UnixStream, buffer: &mut [u8], kept: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(buffer)];
    let received = rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            kept.extend(descriptors);
        }
    }
    Ok(received.bytes)
}

fn enter_folder(order: &Order) -> Result<(), String> {
    let Some(folder) = &order.folder else { return Ok(()) };
    std::env::set_current_dir(folder).map_err(|error| format!("entering {}: {error}", folder.display()))
}

fn spawn(order: &Order, stdin: Option<OwnedFd>) -> Result<Child, String> {
    let stdin = match (stdin, &order.input) {
        (Some(stdin), _) => Stdio::from(stdin),
        (None, None) => Stdio::null(),
        (None, Some(input)) => {
            in_memory(input).map_err(|error| format!("preparing the input of {}: {error}", order.program))?
        }
    };
    std::process::Command::new(&order.program)
        .args(&order.arguments)
        .env_clear()
        .envs(&order.environment)
        .stdin(stdin)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("starting {}: {error}", order.program))
}

/// A file without a name: unlike a pipe it takes any amount before anybody reads.
fn in_memory(input: &str) -> io::Result<Stdio> {
    let mut file = File::from(rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

fn ending(status: WaitStatus) -> Ending {
    match status.terminating_signal() {
        Some(signal) => Ending::Signalled(signal),
        None => Ending::Exited(status.exit_status().unwrap_or(-1)),
    }
}

pub(super) fn wait_for(sources: &mut [PollFd<'_>], patience: Option<Duration>) -> io::Result<()> {
    let patience = patience.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(sources, patience.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
