//! `ctl cancel`: ends what a session does now. Who sent the prompt hears that it was cancelled.

use anyhow::bail;
use domain::card::Activity;
use serde_json::json;
use wire::method;

use super::Visit;
use crate::commands::which;

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    let live = which::in_memory(&mut visit.client).await?.into_iter().find(|card| card.id.as_str() == session);
    if live.is_none_or(|card| card.state == Activity::Idle) {
        bail!("nothing runs in session {session}");
    }
    visit.steer(method::CANCEL, json!({ "sessionId": session }), "cancelled what runs in").await
}
