//! `ctl close`: cancels what a session does and takes it out of memory. It comes back with the next load or prompt.

use serde_json::json;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    daemon.steer(method::CLOSE, json!({ "sessionId": session }), "closed").await
}
