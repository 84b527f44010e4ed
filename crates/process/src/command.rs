//! The daemon's side of a command: starts the helper, receives its report, and asks it to end the
//! command.
//!
//! Dropping a `Process` closes the control socket, which ends everything that the command started.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::timeout;

use super::{CommandExit, HelperRequest, MAX_DESCRIPTORS, SUBCOMMAND, Sandbox, descendants};
use crate::tag::{self, ProcessTag};

/// How long the helper may take to end everything before it is killed. It plans for 1.6 seconds,
/// see `helper`.
const HELPER_EXIT_TIMEOUT: Duration = Duration::from_millis(2500);

/// A command to run, and its folder, environment and limits.
#[derive(Debug)]
pub struct CommandSpec {
    /// The acpd binary.
    pub runner: PathBuf,
    pub program: String,
    pub arguments: Vec<String>,
    /// The whole environment except the tag. The command inherits nothing from the daemon.
    pub environment: BTreeMap<String, String>,
    pub folder: PathBuf,
    /// The sandbox; None runs the command with all the rights of the daemon.
    pub sandbox: Option<Sandbox>,
    /// Files and folders that the command cannot read although it runs outside the sandbox. Needs
    /// Landlock unless empty.
    pub shield: Vec<PathBuf>,
    /// The most processes that it may have at once; None for no limit.
    pub process_limit: Option<usize>,
    /// Its standard input; None means empty.
    pub input: Option<String>,
}

/// A running command. The two parts are separate so that both can be awaited at once.
pub struct RunningCommand {
    pub process: Process,
    /// Standard output and standard error of the command and everything that it starts, interleaved
    /// as written.
    pub output: pipe::Receiver,
}

/// A running command with separate pipes for input, output and errors.
pub struct PipedCommand {
    pub process: Process,
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
}

impl CommandSpec {
    /// Starts the command. Must be called within a tokio runtime.
    pub async fn start(self) -> io::Result<RunningCommand> {
        let (output, input) = io::pipe()?;
        let process = self.launch(input.try_clone()?.into(), input.into(), None).await?;
        Ok(RunningCommand { process, output: pipe::Receiver::from_owned_fd(output.into())? })
    }

    /// Starts the command with an open standard input, to which the caller writes. The field
    /// `input` is ignored. Must be called within a tokio runtime.
    pub async fn start_with_input(self) -> io::Result<(RunningCommand, pipe::Sender)> {
        let (stdin, stdin_writer) = io::pipe()?;
        let (output, input) = io::pipe()?;
        let process = self.launch(input.try_clone()?.into(), input.into(), Some(stdin.into())).await?;
        let running = RunningCommand { process, output: pipe::Receiver::from_owned_fd(output.into())? };
        Ok((running, pipe::Sender::from_owned_fd(stdin_writer.into())?))
    }

    /// Starts the command with three pipes for input, output and errors. The field `input` is
    /// ignored. Must be called within a tokio runtime.
    pub async fn start_piped(self) -> io::Result<PipedCommand> {
        let (stdin, stdin_writer) = io::pipe()?;
        let (stdout, stdout_writer) = io::pipe()?;
        let (stderr, stderr_writer) = io::pipe()?;
        let process = self.launch(stdout_writer.into(), stderr_writer.into(), Some(stdin.into())).await?;
        Ok(PipedCommand {
            process,
            stdin: pipe::Sender::from_owned_fd(stdin_writer.into())?,
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
        })
    }

    /// Starts the helper and sends it the request. The command inherits the helper's output. The
    /// descriptor of the command's input is sent with the request, because the helper's own input
    /// is the control socket. The folders that the sandbox may write are sent as descriptors too,
    /// which guarantees that they are the folders that were checked.
    async fn launch(self, stdout: OwnedFd, stderr: OwnedFd, stdin: Option<OwnedFd>) -> io::Result<Process> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let helper = tokio::process::Command::new(&self.runner)
            .arg(SUBCOMMAND)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout)
            .stderr(stderr)
            .spawn()?;
        ours.set_nonblocking(true)?;
        let mut environment = self.environment;
        let tag = ProcessTag::started(environment.get(tag::VARIABLE), helper.id().unwrap_or_default());
        environment.insert(tag::VARIABLE.to_owned(), tag.value());
        let mut process = Process { helper, control: UnixStream::from_std(ours)?, received: Vec::new(), tag };
        let folders = self.sandbox.as_ref().map(|sandbox| sandbox.writable.clone()).unwrap_or_default();
        let request = HelperRequest {
            program: self.program,
            arguments: self.arguments,
            environment,
            folder: Some(self.folder),
            sandbox: self.sandbox,
            shield: self.shield,
            input: self.input,
            stdin_follows: stdin.is_some(),
            folders_follow: folders.len(),
            process_limit: self.process_limit,
        };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        let descriptors: Vec<_> =
            stdin.iter().map(AsFd::as_fd).chain(folders.iter().map(|folder| folder.as_fd())).collect();
        if !descriptors.is_empty() {
            let (first, more) = line.split_at(1);
            send_with(&process.control, first, &descriptors)?;
            rest = more;
        }
        process.control.write_all(rest).await?;
        Ok(process)
    }
}

/// Sends bytes together with descriptors. The socket is new, so its buffer has room for both.
fn send_with(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("the session has too many folders for the sandbox"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// A running helper. It owns everything that its command started.
pub struct Process {
    helper: Child,
    control: UnixStream,
    /// The part of the report received so far. It is kept here so that `ended` is cancel safe.
    received: Vec<u8>,
    /// The tag in the environment of everything that the command starts.
    tag: ProcessTag,
}

impl Process {
    /// Asks the helper to end everything and returns at once. `ended` resolves when it is done,
    /// within 2 seconds.
    pub fn end(&self) {
        // The command may have stopped its helper with a signal, and a stopped helper does not
        // react.
        self.signal_helper(Signal::CONT);
        let _ = rustix::net::shutdown(&self.control, Shutdown::Write);
    }

    /// Kills a helper that did not react to `end`.
    pub fn kill(&self) {
        self.signal_helper(Signal::KILL);
    }

    /// Resolves when the command and everything that it started is gone. Cancel safe.
    pub async fn ended(&mut self) -> CommandExit {
        // An error means the same as end of file: the helper is gone.
        while matches!(self.control.read_buf(&mut self.received).await, Ok(length) if length > 0) {}
        let ending = serde_json::from_slice(&self.received).unwrap_or(CommandExit::Lost);
        if let (CommandExit::Lost, Some(leader)) = (&ending, self.helper.id()) {
            // The helper is dead but not reaped, so its session id still belongs to it.
            let start = self.tag.start.clone();
            let _ = tokio::task::spawn_blocking(move || descendants::kill_leftovers(leader, &start)).await;
        }
        let _ = self.helper.wait().await;
        ending
    }

    /// Ends everything and waits until it is gone. Kills a helper that does not react.
    pub async fn close(mut self) {
        self.end();
        if timeout(HELPER_EXIT_TIMEOUT, self.ended()).await.is_err() {
            self.kill();
            self.ended().await;
        }
    }

    fn signal_helper(&self, signal: Signal) {
        // tokio returns the id only while the helper is not reaped, so it cannot belong to another
        // process.
        let pid = self.helper.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
