//! `ctl delete`: removes a session and its history. This cannot be undone. There is no
//! confirmation, because the user has given the id.

use serde_json::json;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    daemon.control(method::DELETE, json!({ "sessionId": session }), "deleted").await
}
