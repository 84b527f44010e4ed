//! `acpd install` and `acpd uninstall`: manage systemd user units that contain the path of this
//! program.
//!
//! Both make a plan first; with `--dry-run` they only print it. A unit that was changed by hand is
//! not replaced unless `--force` is given, in which case it is copied first. Drop-ins from other
//! sources are never touched.

#![allow(clippy::print_stdout, reason = "what is done is printed")]

mod units;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use domain::card::{ActivityCard, StatusCard};
use serde_json::json;
use wire::method;

use self::units::{Found, Unit, Units};
use crate::cli::{InstallArgs, UninstallArgs};
use crate::client::Client;
use crate::commands::{Ending, file_replacement, session_lookup, systemctl};
use crate::paths::{Paths, UserAccount};
use crate::{config, launch};
use bridge::socket;

/// How long a running daemon may take to report its state.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// How long a daemon may take to shut down. It has its own, shorter deadline.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

enum Step {
    Write {
        path: PathBuf,
        text: String,
        why: &'static str,
    },
    Copy {
        from: PathBuf,
        to: PathBuf,
    },
    Remove(PathBuf),
    /// Leaves this file unchanged, for this reason.
    Leave {
        path: PathBuf,
        why: &'static str,
    },
    StopDaemon {
        pid: u32,
    },
    Systemctl(&'static [&'static str]),
}

pub fn run(places: &Paths, args: &InstallArgs) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(install(places, args))
}

pub fn uninstall(places: &Paths, args: &UninstallArgs) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(remove_units(places, args))
}

async fn install(places: &Paths, args: &InstallArgs) -> anyhow::Result<Ending> {
    let program = launch::own_program()?;
    let absence = systemctl::absence().await;
    if let Some(why) = &absence {
        println!("There is no systemd for users here ({why}).");
        println!("Nothing needs to be installed: `acpd acp` and `acpd ask` start the daemon themselves.");
        if !args.dry_run {
            return Ok(Ending::Done);
        }
        println!("With systemd, this would be done:");
    }
    let units = Units::of(places, &program);
    let serving = look_at_daemon(places).await;
    let (mut plan, left) = plan_units(&units, args)?;
    let blocked = match &serving {
        Some(Serving { service: false, busy: 0, pid }) => {
            plan.push(Step::StopDaemon { pid: *pid });
            false
        }
        Some(Serving { service: false, .. }) => true,
        Some(Serving { service: true, .. }) | None => false,
    };
    plan.push(Step::Systemctl(&["daemon-reload"]));
    plan.push(Step::Systemctl(if blocked { &["enable", "acpd.socket"] } else { &["enable", "--now", "acpd.socket"] }));
    // The service must be enabled, too: a client of the socket starts the daemon, but an HTTP
    // client does not.
    let listens = listens(places);
    if listens {
        let enable: &[&str] = if blocked { &["enable", "acpd.service"] } else { &["enable", "--now", "acpd.service"] };
        plan.push(Step::Systemctl(enable));
    }
    carry_out(&plan, places, args.dry_run).await?;
    println!();
    if left {
        println!("A unit was edited, so it was not changed. --force replaces it and keeps a copy.");
    }
    if blocked && let Some(Serving { pid, busy, .. }) = &serving {
        println!("The running daemon (process {pid}) is busy; sessions at work: {busy}. When they are done, run:");
        let units = if listens { "acpd.socket acpd.service" } else { "acpd.socket" };
        println!("  acpd ctl stop && systemctl --user start {units}");
    }
    if let Some(Serving { service: true, pid, .. }) = &serving {
        println!("The running daemon (process {pid}) keeps running. After an update of acpd, run: acpd ctl restart");
    }
    match listens {
        _ if args.dry_run => {}
        true => println!("systemd starts the daemon when you log in, because it listens for HTTP (http.listen)."),
        false => println!("systemd starts the daemon when the first editor connects."),
    }
    explain_linger();
    Ok(Ending::Done)
}

/// Whether a daemon started by the units would listen for HTTP. It does not get the variables of
/// this terminal.
fn listens(places: &Paths) -> bool {
    match config::load(&places.config, [], &[]) {
        Ok(config) => config.http.listen.is_some(),
        Err(error) => {
            println!("No daemon can start until the configuration is fixed: {error:#}");
            false
        }
    }
}

/// Returns the steps for the units, and whether a changed unit was kept.
fn plan_units(units: &Units, args: &InstallArgs) -> anyhow::Result<(Vec<Step>, bool)> {
    let (mut plan, mut left) = (Vec::new(), false);
    for unit in units.all() {
        let is_drop_in = std::ptr::eq(unit, &units.hardened);
        let found = unit.look()?;
        // Without the flag, a drop-in from an earlier installation is updated, but none is created.
        if is_drop_in && !args.hardened && found == Found::Nothing {
            continue;
        }
        left |= found == Found::Changed && !args.force;
        plan.extend(place(unit, found, args.force)?);
    }
    Ok((plan, left))
}

fn place(unit: &Unit, found: Found, force: bool) -> anyhow::Result<Vec<Step>> {
    let Unit { path, text, .. } = unit;
    let write = |why| Step::Write { path: path.clone(), text: text.clone(), why };
    Ok(match found {
        Found::Nothing => vec![write("write")],
        Found::Ours => vec![write("update")],
        Found::Same => vec![Step::Leave { path: path.clone(), why: "is up to date" }],
        Found::Changed if force => {
            let copy = Step::Copy { from: path.clone(), to: file_replacement::name_for_copy(path)? };
            vec![copy, write("replace")]
        }
        Found::Changed => vec![Step::Leave { path: path.clone(), why: "was edited" }],
    })
}

async fn remove_units(places: &Paths, args: &UninstallArgs) -> anyhow::Result<Ending> {
    let units = Units::of(places, &launch::own_program()?);
    let (mut stop, mut remove) = (Vec::new(), Vec::new());
    for unit in units.all() {
        let found = unit.look()?;
        if found != Found::Nothing {
            stop.extend(unit.stop.map(Step::Systemctl));
        }
        match found {
            Found::Nothing => {}
            Found::Same | Found::Ours => remove.push(Step::Remove(unit.path.clone())),
            Found::Changed => remove.push(Step::Leave { path: unit.path.clone(), why: "was edited" }),
        }
    }
    if remove.is_empty() {
        println!("No units of acpd are installed in {}.", places.of_configuration("systemd/user").display());
        return Ok(Ending::Done);
    }
    let mut plan = remove;
    if systemctl::absence().await.is_none() {
        plan.splice(0..0, stop);
        plan.push(Step::Systemctl(&["daemon-reload"]));
    }
    let failed = carry_out_all(&plan, places, args.dry_run).await;
    println!("\nYour history and keys stay in {},", places.state.display());
    println!("and your configuration in {}.", places.config.with_file_name("").display());
    println!("Editors start the daemon themselves from now on.");
    ensure!(failed == 0, "{failed} steps failed; the others succeeded");
    Ok(Ending::Done)
}

async fn carry_out(plan: &[Step], places: &Paths, dry_run: bool) -> anyhow::Result<()> {
    for step in plan {
        println!("  {}", step.words(places));
        if !dry_run {
            step.carry_out(places).await?;
        }
    }
    Ok(())
}

/// Carries out every step, even after a failure. Returns the number of failures.
async fn carry_out_all(plan: &[Step], places: &Paths, dry_run: bool) -> usize {
    let mut failed = 0;
    for step in plan {
        if let Err(error) = carry_out(std::slice::from_ref(step), places, dry_run).await {
            println!("  failed   {error:#}");
            failed += 1;
        }
    }
    failed
}

impl Step {
    fn words(&self, places: &Paths) -> String {
        let short = |path: &Path| match path.strip_prefix(&places.home) {
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => path.display().to_string(),
        };
        match self {
            Self::Write { path, why, .. } => format!("{why:<8} {}", short(path)),
            Self::Copy { from, to } => format!("copy     {} to {}", short(from), short(to)),
            Self::Remove(path) => format!("remove   {}", short(path)),
            Self::Leave { path, why } => format!("leave    {}, which {why}", short(path)),
            Self::StopDaemon { pid } => {
                format!("stop     the idle daemon that an editor started (process {pid})")
            }
            Self::Systemctl(arguments) => format!("run      systemctl --user {}", arguments.join(" ")),
        }
    }

    async fn carry_out(&self, places: &Paths) -> anyhow::Result<()> {
        match self {
            Self::Write { path, text, .. } => file_replacement::replace(path, text),
            Self::Copy { from, to } => file_replacement::copy(from, to),
            Self::Remove(path) => {
                fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
                // An empty drop-in folder is removed; one with other drop-ins stays.
                if let Some(folder) = path.parent().filter(|folder| folder.ends_with("acpd.service.d")) {
                    let _ = fs::remove_dir(folder);
                }
                Ok(())
            }
            Self::Leave { .. } => Ok(()),
            Self::StopDaemon { .. } => stop_daemon(places).await,
            Self::Systemctl(arguments) => systemctl::run(arguments).await,
        }
    }
}

/// The daemon that currently serves this home.
struct Serving {
    pid: u32,
    /// Whether systemd started it.
    service: bool,
    /// The number of sessions that are running or wait for an answer.
    busy: usize,
}

/// Looks for a running daemon. Does not connect to a socket that systemd holds, because that would
/// start a daemon.
async fn look_at_daemon(places: &Paths) -> Option<Serving> {
    let holder = launch::daemon_pid(places)?;
    let asked = tokio::time::timeout(ANSWER_DEADLINE, async {
        let mut client = Client::over(socket::connect(&places.socket)?)?;
        let status: StatusCard = client.call(method::STATUS, json!({})).await?;
        let live = session_lookup::in_memory(&mut client).await?;
        anyhow::Ok((status.pid, live.iter().filter(|card| card.state != ActivityCard::Idle).count()))
    });
    // A daemon that does not answer counts as busy, and must not be stopped here.
    let (pid, busy) = match asked.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => (holder, 1),
    };
    let main = systemctl::property("acpd.service", "MainPID").await;
    Some(Serving { pid, service: main == pid.to_string(), busy })
}

async fn stop_daemon(places: &Paths) -> anyhow::Result<()> {
    let mut client = Client::over(socket::connect(&places.socket)?)?;
    client.send(method::STOP, json!({})).await?;
    let gone = async {
        while let Ok(Some(_)) = client.next().await {}
        while launch::daemon_pid(places).is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(STOP_DEADLINE, gone).await.context("the daemon did not stop in time")
}

fn explain_linger() {
    let name = UserAccount::own().map(|account| account.name);
    if name.is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists()) {
        println!("The daemon keeps running after you log out, because lingering is enabled for you.");
        return;
    }
    println!("The daemon stops when you log out, and running turns end. To keep it running, run:");
    println!("  loginctl enable-linger");
}
