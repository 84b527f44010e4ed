//! `acpd serve`: runs the daemon in the foreground, or detached for a program that needs one.
//!
//! Detaching takes two processes. The first one leaves the caller's session, starts the second and
//! exits, which detaches the daemon from its parent. The second process is the daemon, which
//! reports on stdout that it is ready or why it is not.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acpd_actors::{CheckRestart, RestartError};
use anyhow::Context;
use listenfd::ListenFd;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde_json::json;
use wire::frame::{Framing, encode};
use wire::rpc::{self, Id, RpcError};

use crate::cli::ServeArgs;
use crate::commands::Ending;
use crate::config::Loaded;
use crate::daemon::{DaemonExit, Inherited};
use crate::paths::Paths;
use crate::{assemble, daemon, launch, logging};

/// How long the installed program may take to report whether it could start.
const START_CHECK_DEADLINE: Duration = Duration::from_secs(20);

/// How long a daemon that cannot start answers connecting clients.
const REFUSAL_PERIOD: Duration = Duration::from_secs(3);

/// The exit status for an unknown argument, as from a version that does not know `--rehearse`.
const WRONG_USAGE: i32 = 2;

/// A socket-activated daemon could not start, and the waiting clients have received the reason.
#[derive(Debug)]
pub struct CannotServe;

impl fmt::Display for CannotServe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the daemon cannot start")
    }
}

pub fn run(places: &Paths, args: &ServeArgs) -> anyhow::Result<Ending> {
    if args.detach {
        detach(places, args)?;
        return Ok(Ending::Done);
    }
    // This must run before any thread starts, because it removes the variables that describe the
    // sockets.
    let inherited = ListenFd::from_env().take_unix_listener(0).context("cannot use the inherited socket")?;
    // A second descriptor of the socket, in case the daemon cannot serve clients on the first.
    let waiting = match &inherited {
        Some(listener) if !args.claim && !args.rehearse => listener.try_clone().ok(),
        Some(_) | None => None,
    };
    let is_ready = Cell::new(false);
    let mut served = serve(places, args, inherited, &is_ready);
    if let (Err(error), Some(listener), false) = (&served, waiting, is_ready.get()) {
        turn_away(&listener, &format!("{error:#}"));
        served = served.context(CannotServe);
    }
    if args.background
        && let Err(error) = &served
    {
        // The starting process reads this. If it has exited, the error is also in the log.
        let _ = writeln!(io::stdout(), "{error:#}");
    }
    served.map(|()| Ending::Done)
}

fn serve(
    places: &Paths,
    args: &ServeArgs,
    inherited: Option<UnixListener>,
    is_ready: &Cell<bool>,
) -> anyhow::Result<()> {
    let named_config = args.config.as_deref().and_then(|file| std::path::absolute(file).ok());
    let places = &Paths { named_config, ..places.clone() };
    if args.rehearse {
        return assemble::check(places, &load(places, args)?.config);
    }
    let loaded = load(places, args)?;
    logging::start(&loaded.config.log.filter, &places.daemon_log())?;
    let inherited = inherited.map(|listener| Inherited { listener, ours: args.claim });
    let ready = || {
        is_ready.set(true);
        if args.background { report_ready() } else { Ok(()) }
    };
    match daemon::run(places, loaded, inherited, restart_check(places, args), ready)? {
        DaemonExit::Stopped => Ok(()),
        DaemonExit::Restart(handover) => Err(handover.become_successor(|program| command(program, places, args))),
    }
}

/// Answers clients on the service manager's socket with the reason why there is no daemon; without
/// an answer they would wait. It keeps running for a moment, because otherwise a client that
/// retries would make the manager start the daemon so often that the manager gives up.
fn turn_away(listener: &UnixListener, reason: &str) {
    let hint = "fix this, then check with `acpd doctor`; the log: journalctl --user --unit acpd.service";
    let error = RpcError::internal("The acpd daemon cannot start", json!({ "reason": reason, "hint": hint }));
    let line = encode(Framing::Lines, &rpc::failure(&Id::null(), &error));
    let deadline = Instant::now() + REFUSAL_PERIOD;
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        while let Ok((mut client, _)) = listener.accept() {
            // The line fits the buffer of a new connection. Failures are ignored, because they mean
            // that the client is gone.
            let _ = client.set_nonblocking(true).and_then(|()| client.write_all(&line));
        }
    }
}

fn load(places: &Paths, args: &ServeArgs) -> anyhow::Result<Loaded> {
    let file = args.config.as_deref().unwrap_or(&places.config);
    Loaded::read(file, launch::environment().collect(), flags(args))
}

/// Runs the installed program to find out whether it could start, because it may accept other
/// configuration keys than this one.
fn restart_check(places: &Paths, args: &ServeArgs) -> Box<CheckRestart> {
    let (places, args) = (places.clone(), args.clone());
    Box::new(move || {
        let command = launch::own_program().map(|program| command(&program, &places, &args));
        Box::pin(async move {
            match command {
                Ok(command) => check_start(command.into()).await,
                Err(_) => Ok(()),
            }
        })
    })
}

async fn check_start(mut command: tokio::process::Command) -> Result<(), RestartError> {
    command.arg("--rehearse").stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(START_CHECK_DEADLINE, command.output()).await {
        Ok(Ok(output)) if output.status.success() || output.status.code() == Some(WRONG_USAGE) => Ok(()),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let said = said.strip_prefix("acpd: ").unwrap_or(&said);
            Err(RestartError(if said.is_empty() {
                format!("the installed program ended with {}", output.status)
            } else {
                said.to_owned()
            }))
        }
        // Without an installed program, the running one restarts.
        Ok(Err(_)) => Ok(()),
        Err(_) => Err(RestartError("the installed program does not answer".to_owned())),
    }
}

/// Returns the command line of the daemon that these arguments describe.
fn command(program: &Path, places: &Paths, args: &ServeArgs) -> Command {
    let mut daemon = Command::new(program);
    daemon.arg("--socket").arg(&places.socket).arg("serve");
    if let Some(file) = &args.config {
        daemon.arg("--config").arg(file);
    }
    daemon.args(flags(args).iter().flat_map(|pair| ["--set", pair]));
    daemon
}

/// Returns the settings from the flags, including the short forms.
fn flags(args: &ServeArgs) -> Vec<String> {
    let http = args.http.iter().map(|address| format!("http.listen={address}"));
    args.set.iter().cloned().chain(http).collect()
}

/// Reports readiness and closes the pipe, because its reader waits for the end of the stream.
fn report_ready() -> anyhow::Result<()> {
    let nothing = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    let mut stdout = io::stdout().lock();
    // The daemon keeps running even if the starting process has exited.
    let _ = stdout.write_all(launch::READY.as_bytes()).and_then(|()| stdout.flush());
    rustix::stdio::dup2_stdout(nothing).context("cannot close stdout")
}

fn detach(places: &Paths, args: &ServeArgs) -> anyhow::Result<()> {
    rustix::process::setsid().context("cannot detach from the terminal")?;
    let mut daemon = command(&launch::own_program()?, places, args);
    // A bridge of an older version may have passed on variables that concern only its own editor.
    daemon.env_clear().envs(launch::shared_environment());
    daemon.arg("--background").stdin(Stdio::null()).spawn().context("cannot run acpd itself")?;
    Ok(())
}
