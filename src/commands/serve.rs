//! `acpd serve`: the daemon in the foreground, or detached for the program that needs one.
//!
//! Detached, it runs twice: the first leaves the caller's session, starts the second and ends, so that the daemon is
//! nobody's child; the second is the daemon, and says on stdout that it is ready or why it is not.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use acpd_actors::Rehearse;
use anyhow::Context;
use listenfd::ListenFd;

use crate::cli::Serve;
use crate::commands::Ending;
use crate::config::Loaded;
use crate::daemon::{Inherited, Parting};
use crate::paths::Places;
use crate::{assemble, daemon, launch, logging};

/// How long the installed program may take to say whether it could start.
const REHEARSAL_DEADLINE: Duration = Duration::from_secs(20);

/// The exit code of a program that does not know an argument, such as one from before there were rehearsals.
const WRONG_USAGE: i32 = 2;

pub fn run(places: &Places, args: &Serve) -> anyhow::Result<Ending> {
    if args.detach {
        detach(places, args)?;
        return Ok(Ending::Done);
    }
    let served = serve(places, args);
    if args.background
        && let Err(error) = &served
    {
        // Whoever started us reads this; if it has left, the log has the error too.
        let _ = writeln!(io::stdout(), "{error:#}");
    }
    served.map(|()| Ending::Done)
}

fn serve(places: &Places, args: &Serve) -> anyhow::Result<()> {
    if args.rehearse {
        return assemble::check(places, &load(places, args)?.config);
    }
    // Before any thread starts, since this clears the variables that describe the sockets.
    let inherited = ListenFd::from_env().take_unix_listener(0).context("cannot use the inherited socket")?;
    let loaded = load(places, args)?;
    logging::start(&loaded.config.log.filter, &places.daemon_log())?;
    let inherited = inherited.map(|listener| Inherited { listener, ours: args.claim });
    let ready = || if args.background { say_ready() } else { Ok(()) };
    match daemon::run(places, loaded, inherited, rehearsal(places, args), ready)? {
        Parting::Stopped => Ok(()),
        Parting::Restart(handover) => Err(handover.become_successor(|program| command(program, places, args))),
    }
}

fn load(places: &Places, args: &Serve) -> anyhow::Result<Loaded> {
    let file = args.config.as_deref().unwrap_or(&places.config);
    Loaded::read(file, launch::environment().collect(), flags(args))
}

/// The program that would take our place is asked itself, since it may know other keys than this one.
fn rehearsal(places: &Places, args: &Serve) -> Box<Rehearse> {
    let (places, args) = (places.clone(), args.clone());
    Box::new(move || {
        let command = launch::own_program().map(|program| command(&program, &places, &args));
        Box::pin(async move {
            match command {
                Ok(command) => rehearse(command.into()).await,
                Err(_) => Ok(()),
            }
        })
    })
}

async fn rehearse(mut command: tokio::process::Command) -> Result<(), String> {
    command.arg("--rehearse").stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(REHEARSAL_DEADLINE, command.output()).await {
        Ok(Ok(output)) if output.status.success() || output.status.code() == Some(WRONG_USAGE) => Ok(()),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let said = said.strip_prefix("acpd: ").unwrap_or(&said);
            Err(if said.is_empty() {
                format!("the installed program ended with {}", output.status)
            } else {
                said.to_owned()
            })
        }
        // Without an installed program, the running one starts over.
        Ok(Err(_)) => Ok(()),
        Err(_) => Err("the installed program does not answer".to_owned()),
    }
}

/// The daemon that these arguments describe.
fn command(program: &Path, places: &Places, args: &Serve) -> Command {
    let mut daemon = Command::new(program);
    daemon.arg("--socket").arg(&places.socket).arg("serve");
    if let Some(file) = &args.config {
        daemon.arg("--config").arg(file);
    }
    daemon.args(flags(args).iter().flat_map(|pair| ["--set", pair]));
    daemon
}

/// What the flags set, the short ones included.
fn flags(args: &Serve) -> Vec<String> {
    let http = args.http.iter().map(|address| format!("http.listen={address}"));
    args.set.iter().cloned().chain(http).collect()
}

/// Says so and lets go of the pipe, whose reader waits for its end otherwise.
fn say_ready() -> anyhow::Result<()> {
    let nothing = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    let mut stdout = io::stdout().lock();
    // A starter that has left meanwhile is no reason to leave, too.
    let _ = stdout.write_all(launch::READY.as_bytes()).and_then(|()| stdout.flush());
    rustix::stdio::dup2_stdout(nothing).context("cannot let go of stdout")
}

fn detach(places: &Places, args: &Serve) -> anyhow::Result<()> {
    rustix::process::setsid().context("cannot leave the session of the terminal")?;
    let mut daemon = command(&launch::own_program()?, places, args);
    daemon.arg("--background").stdin(Stdio::null()).spawn().context("cannot run acpd itself")?;
    Ok(())
}
