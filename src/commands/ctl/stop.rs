//! `ctl stop`: asks the daemon to end, and waits until it has: its lock is free then, or another daemon has it, because an
//! editor asked for something meanwhile.

use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::json;
use wire::method;

use super::{Visit, status};
use crate::client::Message;
use crate::launch::beside;
use crate::lock::{Attempt, Lock};
use crate::paths::Places;

/// How long the daemon may take to put everything away. It has its own, shorter deadline.
const DEADLINE: Duration = Duration::from_secs(20);

pub(super) async fn run(mut visit: Visit, places: &Places) -> anyhow::Result<()> {
    let stopping = status::look(&mut visit).await?.pid;
    // A daemon that ends at once may not get round to the answer.
    visit.client.send(method::STOP, json!({})).await?;
    while let Some(message) = visit.client.next().await.unwrap_or(None) {
        if let Message::Reply { result: Err(error), .. } = message {
            bail!("the daemon did not stop: {}", error.message);
        }
    }
    let deadline = Instant::now() + DEADLINE;
    let lock = beside(&places.socket, "lock");
    while let Attempt::Held(holder) = Lock::attempt(&lock)? {
        if holder.is_some_and(|pid| pid != stopping) {
            break;
        }
        if Instant::now() > deadline {
            let holder = holder.map_or_else(|| "the daemon".to_owned(), |pid| format!("the daemon (process {pid})"));
            bail!("{holder} still runs after {} seconds", DEADLINE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    visit.show(&json!({ "stopped": true }), || "stopped".to_owned());
    Ok(())
}
