//! `ctl cancel`: ends what a session does now. Who sent the prompt hears that it was cancelled.

use serde_json::json;
use wire::method;

use super::Visit;

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    visit.steer(method::CANCEL, json!({ "sessionId": session }), "cancelled what runs in").await
}
