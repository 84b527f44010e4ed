//! `ctl delete`: removes a session and its history. There is no way back, and no question: the id was given.

use serde_json::json;
use wire::method;

use super::Visit;

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    visit.steer(method::DELETE, json!({ "sessionId": session }), "deleted").await
}
