//! Checks the daemon, its socket and its store from outside. It starts nothing: if systemd holds
//! the socket, it connects only if a daemon is already running.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use domain::card::StatusCard;
use domain::history::StoreStatus;
use serde_json::json;
use wire::extension::HelloResult;
use wire::method;

use super::finding::{Finding, human};
use super::state;
use crate::client::Client;
use crate::launch;
use crate::paths::Paths;
use bridge::lock::LockHolder;
use bridge::socket;

/// How long the daemon may take to answer. This leaves time for the other checks within the
/// deadline.
const ANSWER_DEADLINE: Duration = Duration::from_secs(3);

/// What earlier checks have found.
pub(super) struct EarlierFindings {
    /// The name of the check whose failure prevents a daemon from starting, if there is one.
    pub(super) obstacle: Option<&'static str>,
    /// Whether systemd listens on the daemon's behalf.
    pub(super) is_activated: bool,
    pub(super) is_writable: bool,
}

pub(super) async fn check(places: &Paths, earlier: &EarlierFindings) -> Vec<Finding> {
    let holder = launch::daemon_holder(places);
    let mut findings = vec![check_socket(places, holder.as_ref(), earlier)];
    let status = match &holder {
        Some(holder) => match look(places, holder).await {
            Ok(status) => Some(status),
            Err(finding) => {
                findings.push(finding);
                None
            }
        },
        None => {
            findings.push(none_runs(earlier));
            None
        }
    };
    if let Some(status) = &status {
        findings.push(describe(status));
    }
    let store = places.history();
    // Measuring a large store takes a moment, and the disk may be slow.
    let found = tokio::task::spawn_blocking(move || StoreFolder::look(&store)).await;
    findings.push(check_store(places, status.as_ref(), found.unwrap_or_default(), earlier));
    findings
}

fn none_runs(earlier: &EarlierFindings) -> Finding {
    match earlier.obstacle {
        Some(check) => {
            let says = format!("no daemon is running, and none can start: see `{check}`");
            Finding::fail("daemon", says, "fix that first; then the next editor or `acpd ask` starts a daemon")
        }
        None if earlier.is_activated => {
            Finding::ok("daemon", "no daemon is running; systemd starts one when a client connects")
        }
        None => Finding::ok("daemon", "no daemon is running; the first editor or `acpd ask` starts one"),
    }
}

/// Requests the daemon's state. If the daemon does not answer, the finding explains why.
async fn look(places: &Paths, holder: &LockHolder) -> Result<StatusCard, Finding> {
    let pid = holder.pid;
    let end = format!("stop it with `kill {pid}`; the next client starts another daemon");
    if system::is_suspended(pid) {
        let says = format!("{holder} is suspended and does not answer");
        // A suspended process does not react to a plain `kill`.
        let advice = format!("resume it with `kill -CONT {pid}`, or kill it with `acpd ctl stop --force`");
        return Err(Finding::fail("daemon", says, advice));
    }
    if !holder.socket.as_deref().unwrap_or(&places.socket).exists() {
        let says = format!("{holder} runs, but its socket was deleted, so no client can reach it");
        let advice = format!("it creates the socket again within a minute; an older version does not: {end}");
        return Err(Finding::fail("daemon", says, advice));
    }
    match tokio::time::timeout(ANSWER_DEADLINE, ask(places)).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => {
            let says = format!("{holder} refused the connection: {error:#}");
            Err(Finding::fail("daemon", says, format!("see its log with `acpd ctl logs`, or {end}")))
        }
        Err(_) => {
            let says = format!("{holder} does not answer within {} seconds", ANSWER_DEADLINE.as_secs());
            Err(Finding::fail("daemon", says, format!("see its log with `acpd ctl logs`, or {end}")))
        }
    }
}

async fn ask(places: &Paths) -> anyhow::Result<StatusCard> {
    let mut client = Client::over(socket::connect(&places.socket)?)?;
    // A daemon that belongs to another home reports that in this answer.
    let _: HelloResult = client.call(method::HELLO, launch::hello(places, None)).await?;
    client.call(method::STATUS, json!({})).await
}

fn describe(status: &StatusCard) -> Finding {
    let mine = env!("CARGO_PKG_VERSION");
    let StatusCard { version, pid, sessions, connections, .. } = status;
    // One of the connections is our own.
    let clients = connections.saturating_sub(1);
    let says = format!("process {pid}; sessions in memory: {sessions}, clients: {clients}");
    if version == mine {
        Finding::ok("daemon", format!("version {version}, {says}"))
    } else {
        let says = format!("version {version}, but this program is {mine}; {says}");
        Finding::warn("daemon", says, "switch to the installed version: acpd ctl restart")
    }
}

fn check_socket(places: &Paths, holder: Option<&LockHolder>, earlier: &EarlierFindings) -> Finding {
    let path = places.socket.display();
    let folder = places.socket_folder();
    match fs::metadata(folder) {
        Err(_) => return not_there(places),
        Ok(found) if !found.is_dir() => {
            let says = format!("{} is a file, where a folder for the socket is needed", folder.display());
            return Finding::fail("socket", says, format!("move it away: mv {0} {0}.old", folder.display()));
        }
        Ok(found) if found.uid() != rustix::process::getuid().as_raw() => {
            let says = format!("{} belongs to another user", folder.display());
            return Finding::fail("socket", says, "choose another place with ACPD_SOCKET or --socket");
        }
        Ok(found) if found.mode() & 0o077 != 0 => {
            let says = format!("other users can enter {}", folder.display());
            return Finding::fail("socket", says, format!("chmod 700 {}", folder.display()));
        }
        Ok(_) => {}
    }
    match fs::symlink_metadata(&places.socket) {
        Err(_) => not_there(places),
        Ok(found) if !found.file_type().is_socket() => {
            Finding::fail("socket", format!("{path} is not a socket"), format!("move it away: mv {path} {path}.old"))
        }
        Ok(found) if found.mode() & 0o077 != 0 => {
            Finding::fail("socket", format!("{path} is open to other users"), format!("chmod 600 {path}"))
        }
        Ok(_) if holder.is_some() => Finding::ok("socket", path.to_string()),
        Ok(_) => unserved(&places.socket, earlier),
    }
}

/// Returns the finding about a socket without a daemon. The kernel reports whether a process
/// listens on it; connecting would start a daemon.
fn unserved(socket: &Path, earlier: &EarlierFindings) -> Finding {
    let path = socket.display();
    match socket::has_listener(socket) {
        true if earlier.is_activated => Finding::ok("socket", format!("{path}, held by systemd")),
        true => {
            let says = format!("a process that is not an acpd daemon listens on {path}; clients would wait for it");
            Finding::fail("socket", says, format!("find it with `ss -xlp src {path}` and stop it"))
        }
        false if earlier.is_activated => {
            let says = format!("{path} is not the socket on which systemd listens");
            Finding::fail("socket", says, "systemctl --user restart acpd.socket")
        }
        false => Finding::ok("socket", format!("{path} (left behind by an earlier daemon; the next one replaces it)")),
    }
}

fn not_there(places: &Paths) -> Finding {
    let path = places.socket.display();
    match places.unused_runtime_folder() {
        Some(folder) => {
            let says = format!("{path} (does not exist yet), because XDG_RUNTIME_DIR is {}, which", folder.display());
            let why = if folder.is_dir() { "is not yours" } else { "does not exist" };
            Finding::warn("socket", format!("{says} {why}"), "it works as it is; logging in again creates the folder")
        }
        None => Finding::ok("socket", format!("{path} (does not exist yet)")),
    }
}

/// The state of the store, as found on the disk.
#[derive(Default)]
struct StoreFolder {
    /// Its size in bytes; None if there is no such folder.
    size: Option<u64>,
    /// The reason why the daemon cannot write to it, if there is one.
    obstacle: Option<Finding>,
}

impl StoreFolder {
    fn look(folder: &Path) -> Self {
        let is_there = fs::symlink_metadata(folder).is_ok();
        let obstacle = if is_there { state::usable("store", folder, true).err() } else { None };
        Self { size: size(folder), obstacle }
    }
}

fn check_store(places: &Paths, status: Option<&StatusCard>, found: StoreFolder, earlier: &EarlierFindings) -> Finding {
    let folder = places.history();
    let path = folder.display();
    let status = status.map(|status| &status.store);
    match (status, found.obstacle) {
        (Some(StoreStatus::Failing { reason }), _) => {
            let size = found.size.map(|size| format!(", {}", human(size))).unwrap_or_default();
            let says = format!("{path}{size}: the last write failed: {reason}");
            return Finding::fail("store", says, state::advice_for_store(reason, &places.state));
        }
        (_, Some(obstacle)) if earlier.is_writable => return obstacle,
        (_, _) => {}
    }
    let Some(size) = found.size else {
        return match status {
            _ if !earlier.is_writable => {
                Finding::fail("store", format!("{path} cannot be created"), "see `state` above")
            }
            Some(StoreStatus::Open { .. }) => {
                let says = format!("{path} was removed while the daemon ran, so prompts fail");
                Finding::fail("store", says, "put the folder back, or begin a new history: acpd ctl restart")
            }
            Some(StoreStatus::Opening | StoreStatus::Failing { .. }) | None => {
                Finding::ok("store", format!("{path} (does not exist yet)"))
            }
        };
    };
    let size = human(size);
    match status {
        _ if !earlier.is_writable => {
            let says = format!("{path}, {size}, can be read but not written: prompts fail");
            Finding::fail("store", says, "see `state` above")
        }
        Some(StoreStatus::Failing { .. }) | None => {
            Finding::ok("store", format!("{path}, {size} (only a running daemon can open it)"))
        }
        Some(StoreStatus::Opening) => Finding::ok("store", format!("{path}, {size}, is being opened")),
        Some(StoreStatus::Open { moved_aside: None }) => Finding::ok("store", format!("{path}, {size}, open")),
        Some(StoreStatus::Open { moved_aside: Some(old) }) => {
            let says = format!("{path}, {size}, open; one that could not be read is at {}", old.display());
            Finding::warn(
                "store",
                says,
                "everything readable was copied into the new store; keep the old one until you are sure that nothing is missing",
            )
        }
    }
}

/// Returns the total size of the files in a folder in bytes, or None if there is no such folder.
fn size(folder: &Path) -> Option<u64> {
    let entries = fs::read_dir(folder).ok()?;
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()).unwrap_or(0),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    Some(sizes.sum())
}
