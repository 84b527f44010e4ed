//! The daemon, its socket and its store, as they are seen from outside. Starts nothing: a socket that systemd holds is
//! connected to only if a daemon runs already.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use domain::card::StatusCard;
use domain::history::StoreStatus;
use serde_json::json;
use wire::ext::HelloResult;
use wire::method;

use super::finding::Finding;
use crate::client::Client;
use crate::paths::Places;
use crate::{launch, socket};

/// Left for the checks around the question itself.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn check(places: &Places) -> Vec<Finding> {
    let mut findings = vec![check_socket(places)];
    let status = match launch::running(places) {
        Some(pid) => match tokio::time::timeout(PATIENCE, ask(places)).await {
            Ok(Ok(status)) => Some(status),
            Ok(Err(error)) => {
                let says = format!("process {pid} does not talk to us: {error:#}");
                findings.push(Finding::fail("daemon", says, "see its log: acpd ctl logs"));
                None
            }
            Err(_) => {
                let says = format!("process {pid} does not answer within {} seconds", PATIENCE.as_secs());
                findings.push(Finding::fail("daemon", says, "see its log with `acpd ctl logs`; end it with `kill`"));
                None
            }
        },
        None => {
            findings.push(Finding::ok("daemon", "none runs; the first editor or `acpd ask` starts one"));
            None
        }
    };
    if let Some(status) = &status {
        findings.push(describe(status));
    }
    let store = places.history();
    // Counting a big store takes a moment, and the disk may be slow.
    let size = tokio::task::spawn_blocking(move || size(&store)).await.unwrap_or(None);
    findings.push(check_store(places, status.as_ref(), size));
    findings
}

async fn ask(places: &Places) -> anyhow::Result<StatusCard> {
    let mut client = Client::over(socket::connect(&places.socket)?)?;
    // A daemon of another home says so here.
    let _: HelloResult = client.call(method::HELLO, launch::introduction(places, None)).await?;
    client.call(method::STATUS, json!({})).await
}

fn describe(status: &StatusCard) -> Finding {
    let mine = env!("CARGO_PKG_VERSION");
    let StatusCard { version, pid, sessions, connections, .. } = status;
    // One of the connections is ours.
    let clients = connections.saturating_sub(1);
    let says = format!("process {pid}; sessions in memory: {sessions}, clients: {clients}");
    if version == mine {
        Finding::ok("daemon", format!("version {version}, {says}"))
    } else {
        let says = format!("version {version}, but this program is {mine}; {says}");
        Finding::warn("daemon", says, "run the installed version: acpd ctl restart")
    }
}

fn check_socket(places: &Places) -> Finding {
    let path = places.socket.display();
    let folder = places.socket_folder();
    match fs::metadata(folder) {
        Err(_) => return Finding::ok("socket", format!("{path} (not there yet)")),
        Ok(found) if found.uid() != rustix::process::getuid().as_raw() => {
            let says = format!("{} belongs to another user", folder.display());
            return Finding::fail("socket", says, "name another place with ACPD_SOCKET or --socket");
        }
        Ok(found) if found.mode() & 0o077 != 0 => {
            let says = format!("other users can enter {}", folder.display());
            return Finding::fail("socket", says, format!("chmod 700 {}", folder.display()));
        }
        Ok(_) => {}
    }
    match fs::symlink_metadata(&places.socket) {
        Err(_) => Finding::ok("socket", format!("{path} (not there yet)")),
        Ok(found) if !found.file_type().is_socket() => {
            Finding::fail("socket", format!("{path} is not a socket"), "move it out of the way")
        }
        Ok(found) if found.mode() & 0o077 != 0 => {
            Finding::fail("socket", format!("{path} is open to other users"), format!("chmod 600 {path}"))
        }
        Ok(_) => Finding::ok("socket", path.to_string()),
    }
}

fn check_store(places: &Places, status: Option<&StatusCard>, size: Option<u64>) -> Finding {
    let path = places.history();
    let path = path.display();
    let Some(size) = size else { return Finding::ok("store", format!("{path} (not there yet)")) };
    let size = human(size);
    match status.map(|status| &status.store) {
        None => Finding::ok("store", format!("{path}, {size} (only a running daemon can open it)")),
        Some(StoreStatus::Opening) => Finding::ok("store", format!("{path}, {size}, is being opened")),
        Some(StoreStatus::Open { moved_aside: None }) => Finding::ok("store", format!("{path}, {size}, open")),
        Some(StoreStatus::Open { moved_aside: Some(old) }) => {
            let says = format!("{path}, {size}, open; one that could not be read is at {}", old.display());
            Finding::warn("store", says, "what was readable was taken over; keep it until you miss nothing")
        }
        Some(StoreStatus::Failing { reason }) => {
            let says = format!("{path}, {size}: the last write failed: {reason}");
            Finding::fail("store", says, "make room on the disk; what waits is written then")
        }
    }
}

/// Bytes of all files below; None if there is no such folder.
fn size(folder: &Path) -> Option<u64> {
    let entries = fs::read_dir(folder).ok()?;
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()).unwrap_or(0),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    Some(sizes.sum())
}

fn human(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
