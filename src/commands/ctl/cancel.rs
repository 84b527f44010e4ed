//! `ctl cancel`: cancels the running turn of a session. The client that sent the prompt receives
//! the stop reason "cancelled".

use anyhow::bail;
use domain::card::ActivityCard;
use serde_json::json;
use wire::method;

use super::DaemonClient;
use crate::commands::session_lookup;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    let live =
        session_lookup::in_memory(&mut daemon.client).await?.into_iter().find(|card| card.id.as_str() == session);
    if live.is_none_or(|card| card.state == ActivityCard::Idle) {
        bail!("no turn is running in session {session}");
    }
    daemon.control(method::CANCEL, json!({ "sessionId": session }), "cancelled the running turn of").await
}
