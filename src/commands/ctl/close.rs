//! `ctl close`: cancels what a session does and takes it out of memory. It comes back with the next load or prompt.

use serde_json::json;
use wire::method;

use super::Visit;

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    visit.steer(method::CLOSE, json!({ "sessionId": session }), "closed").await
}
