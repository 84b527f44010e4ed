//! `ctl restart`: has the daemon replace itself with the installed program, and waits until the new
//! daemon answers.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use domain::card::StatusCard;
use serde_json::json;
use wire::extension::RestartParams;
use wire::method;

use super::{DaemonClient, status};
use crate::client::Message;
use crate::paths::Paths;
use bridge::deadline::timeout;

/// How long the new daemon may take to answer once the old one has closed the connection.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How long the old daemon may take to close the connection. Running turns get half a minute.
const CLOSE_DEADLINE: Duration = Duration::from_secs(90);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(super) async fn run(mut daemon: DaemonClient, places: &Paths, now: bool) -> anyhow::Result<()> {
    let before = status::look(&mut daemon).await?;
    daemon.client.send(method::RESTART, RestartParams { now }).await?;
    // The daemon closes the connection when it exits, at the latest after its deadline for running
    // turns.
    let refused = async {
        while let Some(message) = daemon.client.next().await.unwrap_or(None) {
            if let Message::Reply { result: Err(error), .. } = message {
                return Some(error.message);
            }
        }
        None
    };
    match tokio::time::timeout(timeout(CLOSE_DEADLINE), refused).await {
        Ok(None) => {}
        Ok(Some(why)) => bail!("a daemon of version {} did not restart: {why}", before.version),
        Err(_) => {
            bail!("the daemon (process {}) has not released its lock; `acpd ctl stop --force` kills it", before.pid)
        }
    }
    let after = returned(places, daemon.json, &before).await?;
    let report = json!({ "before": before, "after": after });
    daemon.show(&report, || format!("restarted: process {}, version {}", after.pid, after.version));
    Ok(())
}

/// Waits for a daemon other than the previous one.
async fn returned(places: &Paths, json: bool, before: &StatusCard) -> anyhow::Result<StatusCard> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        let answer = match DaemonClient::begin(places, json) {
            Ok(mut daemon) => tokio::time::timeout(START_DEADLINE, status::look(&mut daemon)).await?,
            Err(error) => Err(error),
        };
        match answer {
            Ok(card) if (card.pid, card.started) != (before.pid, before.started) => return Ok(card),
            Ok(_) if Instant::now() > deadline => bail!("the daemon (process {}) has not restarted", before.pid),
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("no daemon answers after the restart");
            }
            Ok(_) | Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
