//! `acpd __run`: starts one command, adopts and reaps every orphan of it, and leaves no process
//! behind. It is small and has no async runtime, because it runs once per command.
//!
//! A command in the sandbox is started by a thread that enters the sandbox first and then ends. The
//! restrictions of Landlock and seccomp apply to a thread and what it starts. The helper itself
//! therefore stays free to end its descendants and to clean up, and the command cannot reach it.
//!
//! The helper runs in its own session without a terminal, so neither a prompt on /dev/tty nor the
//! daemon's Ctrl-C reaches the command. It does not use PR_SET_PDEATHSIG: that signal comes when
//! the *thread* that started the helper ends, which in the daemon may be a pool thread. The end of
//! the control socket reports the daemon's death reliably.

use std::ffi::OsString;
use std::io::{self, IoSliceMut, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Resource, Rlimit, Signal, WaitStatus};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::children::{Children, on_signals};
use crate::process_count::ProcessCount;
use crate::sandbox::{self, SandboxError, TemporaryFolder};
use crate::{CommandExit, HelperRequest, MAX_DESCRIPTORS, SUBCOMMAND, Sandbox, terminal_parent};

/// The signals for a cancelled command, and how long it may take to act on each.
const CANCEL: [(Signal, Duration); 2] =
    [(Signal::INT, Duration::from_millis(300)), (Signal::TERM, Duration::from_millis(500))];

/// The same for processes that a finished command left running. There is no INT, because a shell
/// starts its background children with INT ignored.
const LEFTOVERS: [(Signal, Duration); 1] = [(Signal::TERM, Duration::from_millis(500))];

/// How long killing may take. Only a process of another user, or one stuck in the kernel, survives
/// longer.
const KILLING: Duration = Duration::from_millis(800);

/// The same for a command with too many processes. It may take longer, because no user is waiting
/// for it.
const KILLING_MANY: Duration = Duration::from_secs(10);

/// Runs the helper. `args` are the arguments after `__run`: none for a command of the daemon, or
/// those of `terminal_parent`.
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
            eprintln!("acpd {SUBCOMMAND}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    // This fails only for a group leader, such as a helper that was started by hand from a shell.
    let _ = rustix::process::setsid();
    disable_core_dumps();
    let mut helper = Helper::new()?;
    let Some((request, stdin)) = helper.receive_request()? else {
        return Ok(());
    };
    let mut process_count = ProcessCount::new(request.process_limit);
    helper.start(request, stdin);
    let ended = match helper.watch(&mut process_count)? {
        EndCause::Cancelled => helper.children.end_all(&CANCEL, KILLING),
        EndCause::Finished => helper.children.end_all(&LEFTOVERS, KILLING),
        EndCause::TooMany => helper.children.end_all(&[], KILLING_MANY),
    };
    // A cancelled command has ended only now.
    helper.report_status();
    ended
}

/// The reason for ending all processes of the command.
enum EndCause {
    /// The command itself has ended.
    Finished,
    /// The daemon requested it or is gone, or the helper received a signal.
    Cancelled,
    /// The command has too many processes.
    TooMany,
}

struct Helper {
    control: UnixStream,
    children: Children,
    /// Readable when the helper receives a signal, which has the same meaning as the end of the
    /// control socket.
    signals: UnixStream,
    /// Whether the report has been sent.
    reported: bool,
    /// The temporary folder of a command in the sandbox. It is removed when all processes have
    /// ended.
    temporary: Option<TemporaryFolder>,
}

impl Helper {
    fn new() -> io::Result<Self> {
        // The command inherits neither: the duplicate closes on exec, and descriptor 0 of the
        // command becomes /dev/null.
        let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let signals = on_signals(&[SIGINT, SIGTERM, SIGHUP])?;
        Ok(Self { control, children: Children::adopt()?, signals, reported: false, temporary: None })
    }

    /// Receives the request, and the command's standard input if it comes with the request. Returns
    /// None if the daemon is gone.
    fn receive_request(&mut self) -> io::Result<Option<(HelperRequest, Option<OwnedFd>)>> {
        let mut line = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let mut descriptors = Vec::new();
        while line.last() != Some(&b'\n') {
            match receive(&self.control, &mut buffer, &mut descriptors)? {
                0 => return Ok(None),
                length => line.extend_from_slice(&buffer[..length]),
            }
        }
        let mut request: HelperRequest = serde_json::from_slice(&line)?;
        if descriptors.len() != usize::from(request.stdin_follows) + request.folders_follow {
            return Err(io::Error::other("the request came without the descriptors that it announces"));
        }
        let mut descriptors = descriptors.into_iter();
        let stdin = if request.stdin_follows { descriptors.next() } else { None };
        if let Some(sandbox) = &mut request.sandbox {
            sandbox.writable = descriptors.map(Arc::new).collect();
        }
        Ok(Some((request, stdin)))
    }

    fn start(&mut self, mut request: HelperRequest, stdin: Option<OwnedFd>) {
        let started = match (enter_folder(&request), request.sandbox.take()) {
            (Err(reason), _) => Err(reason),
            (Ok(()), None) if request.shield.is_empty() => spawn(&request, stdin),
            (Ok(()), None) => spawn_after(|| sandbox::shield(&request.shield), &request, stdin),
            (Ok(()), Some(sandbox)) => self.spawn_sandboxed(&sandbox, &mut request, stdin),
        };
        match started {
            Ok(child) => self.children.set_command(&child),
            Err(reason) => self.report(CommandExit::Failed(reason)),
        }
    }

    fn spawn_sandboxed(
        &mut self,
        sandbox: &Sandbox,
        request: &mut HelperRequest,
        stdin: Option<OwnedFd>,
    ) -> Result<Child, String> {
        let usual = request.environment.get("TMPDIR").map(String::as_str);
        let temporary = TemporaryFolder::make(usual).map_err(|error| SandboxError::Temporary(error).to_string())?;
        let temporary = self.temporary.insert(temporary).path();
        for name in ["TMPDIR", "TMP", "TEMP"] {
            request.environment.insert(name.to_owned(), temporary.to_string_lossy().into_owned());
        }
        if let Some(folder) = sandbox.writable.first() {
            // This enters the folder that was checked, even if its path leads elsewhere by now.
            rustix::process::fchdir(folder).map_err(|error| format!("entering the working folder: {error}"))?;
        }
        spawn_after(|| sandbox.enter(temporary), request, stdin)
    }

    /// Waits until there is a reason to end everything.
    fn watch(&mut self, process_count: &mut ProcessCount) -> io::Result<EndCause> {
        loop {
            let _ = self.children.reap();
            self.report_status();
            if self.reported {
                return Ok(EndCause::Finished);
            }
            if let Some(limit) = process_count.exceeded() {
                self.report(CommandExit::TooMany(limit));
                return Ok(EndCause::TooMany);
            }
            if self.children.wait(&[&self.control, &self.signals], process_count.pause())? {
                return Ok(EndCause::Cancelled);
            }
        }
    }

    /// Reports how the command ended, once it has. Does nothing if a report was sent before.
    fn report_status(&mut self) {
        if let (false, Some(status)) = (self.reported, self.children.command_status()) {
            self.report(exit_of(status));
        }
    }

    fn report(&mut self, exit: CommandExit) {
        self.reported = true;
        let mut line = serde_json::to_vec(&exit).expect("an exit is plain data");
        line.push(b'\n');
        // If the daemon is gone, the report is not needed.
        let _ = self.control.write_all(&line);
    }
}

/// Disables core dumps, so that a killed command does not leave one in the project. A command that
/// wants dumps can enable them again.
fn disable_core_dumps() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Core);
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}

/// Reads bytes and collects the descriptors that come with them.
fn receive(socket: &UnixStream, buffer: &mut [u8], collected: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(buffer)];
    let received = rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            collected.extend(descriptors);
        }
    }
    Ok(received.bytes)
}

fn enter_folder(request: &HelperRequest) -> Result<(), String> {
    let Some(folder) = &request.folder else { return Ok(()) };
    std::env::set_current_dir(folder).map_err(|error| format!("entering {}: {error}", folder.display()))
}

/// Starts the command from a thread that first applies the restrictions to itself.
fn spawn_after(
    restrict: impl FnOnce() -> Result<(), SandboxError> + Send,
    request: &HelperRequest,
    stdin: Option<OwnedFd>,
) -> Result<Child, String> {
    let start = || {
        restrict().map_err(|error| error.to_string())?;
        spawn(request, stdin)
    };
    std::thread::scope(|scope| scope.spawn(start).join())
        .unwrap_or_else(|_| Err("entering the sandbox failed inside acpd; nothing was run".to_owned()))
}

fn spawn(request: &HelperRequest, stdin: Option<OwnedFd>) -> Result<Child, String> {
    let stdin = match (stdin, &request.input) {
        (Some(stdin), _) => Stdio::from(stdin),
        (None, None) => Stdio::null(),
        (None, Some(input)) => {
            in_memory(input).map_err(|error| format!("preparing the input of {}: {error}", request.program))?
        }
    };
    std::process::Command::new(&request.program)
        .args(&request.arguments)
        .env_clear()
        .envs(&request.environment)
        .stdin(stdin)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("starting {}: {error}", request.program))
}

/// Returns an anonymous in-memory file with this input. Unlike a pipe, it holds any amount of
/// unread data.
fn in_memory(input: &str) -> io::Result<Stdio> {
    let mut file = system::memory_file("input")?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

fn exit_of(status: WaitStatus) -> CommandExit {
    match status.terminating_signal() {
        Some(signal) => CommandExit::Signalled(signal),
        None => CommandExit::Exited(status.exit_status().unwrap_or(-1)),
    }
}
