//! `ctl close`: cancels the running turn of a session and removes it from memory. The next load or
//! prompt brings it back.

use serde_json::json;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    daemon.control(method::CLOSE, json!({ "sessionId": session }), "closed").await
}
