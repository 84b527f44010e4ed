//! `ctl rename`: changes the title of a session, which is sent to every attached editor.

use serde_json::json;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str, title: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    daemon.control(method::RENAME, json!({ "sessionId": session, "title": title }), "renamed").await
}
