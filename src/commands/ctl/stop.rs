//! `ctl stop`: asks the daemon to stop, and waits until it has stopped. After that its lock is
//! free, or held by another daemon because an editor made a request meanwhile. With `--force`, a
//! daemon that does not answer or does not stop is killed.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use wire::method;

use super::{DaemonClient, NoDaemon, status};
use crate::client::Message;
use crate::launch::beside;
use crate::paths::Paths;
use bridge::deadline::{NoAnswer, timeout};
use bridge::lock::{Attempt, Lock};

/// How long the daemon may take to shut down. It has its own, shorter deadline.
const DEADLINE: Duration = Duration::from_secs(20);

/// How long the kernel may take to end a killed process.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The daemon was asked to stop but still runs.
#[derive(Debug)]
struct StillRuns {
    holder: Option<u32>,
    waited: Duration,
}

impl fmt::Display for StillRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holder = self.holder.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        write!(f, "the daemon{holder} still runs after {} seconds", self.waited.as_secs_f64())
    }
}

impl std::error::Error for StillRuns {}

pub(super) async fn run(places: &Paths, json: bool, force: bool) -> anyhow::Result<()> {
    let lock = beside(&places.socket, "lock");
    match ask(places, json, &lock).await {
        Err(error) if force && is_hopeless(&error, &lock) => {
            let pid = kill(&lock).await.with_context(|| format!("{error:#}"))?;
            let killed = json!({ "stopped": true, "killed": pid });
            super::print(json, &killed, || format!("killed the daemon (process {pid})"));
            Ok(())
        }
        Err(error) if is_hopeless(&error, &lock) => match Lock::held_by(&lock) {
            Some(pid) => bail!("{error:#}\n`acpd ctl stop --force` kills process {pid}"),
            None => Err(error),
        },
        done => done,
    }
}

/// Whether there is a daemon that can only be stopped with `--force`.
fn is_hopeless(error: &anyhow::Error, lock: &Path) -> bool {
    let no_socket = error.is::<NoDaemon>() && Lock::held_by(lock).is_some();
    no_socket || error.is::<NoAnswer>() || error.is::<StillRuns>()
}

async fn ask(places: &Paths, json: bool, lock: &Path) -> anyhow::Result<()> {
    let mut daemon = DaemonClient::begin(places, json)?;
    let stopping = status::look(&mut daemon).await?.pid;
    let deadline = timeout(DEADLINE);
    // A daemon that stops at once may not answer, so this does not wait for the answer.
    daemon.client.send(method::STOP, json!({})).await?;
    if let Ok(Some(why)) = tokio::time::timeout(deadline, hang_up(&mut daemon)).await {
        bail!("the daemon did not stop: {why}");
    }
    let give_up = Instant::now() + deadline;
    while let Attempt::Held(holder) = Lock::attempt(lock)? {
        if holder.is_some_and(|pid| pid != stopping) {
            break;
        }
        if Instant::now() > give_up {
            return Err(StillRuns { holder, waited: deadline }.into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    daemon.show(&json!({ "stopped": true }), || "stopped".to_owned());
    Ok(())
}

/// Waits until the daemon closes the connection. Returns the reason if the daemon refuses to stop.
async fn hang_up(daemon: &mut DaemonClient) -> Option<String> {
    while let Some(message) = daemon.client.next().await.unwrap_or(None) {
        if let Message::Reply { result: Err(error), .. } = message {
            return Some(error.message);
        }
    }
    None
}

/// Kills the process that holds the daemon's lock, if it is an acpd process, and waits until the
/// lock is free.
async fn kill(lock: &Path) -> anyhow::Result<u32> {
    let pid = Lock::held_by(lock).context("no process holds the daemon's lock, so nothing was killed")?;
    let program = system::program_of(pid).with_context(|| format!("cannot inspect process {pid}"))?;
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name != "acpd" {
        bail!("process {pid} holds the daemon's lock but is {}, not acpd; it was not killed", program.display());
    }
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("the lock names no process")?;
    kill_process(process, Signal::KILL).with_context(|| format!("cannot kill process {pid}"))?;
    let deadline = Instant::now() + KILL_DEADLINE;
    while Lock::held_by(lock) == Some(pid) {
        if Instant::now() > deadline {
            bail!("process {pid} was killed and still holds the daemon's lock");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(pid)
}
