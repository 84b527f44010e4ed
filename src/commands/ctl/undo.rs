//! `ctl undo`: restores the files that a session's last turn changed, or reapplies the changes.

use domain::card::UndoCard;
use serde_json::json;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str, redo: bool) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    let params = json!({ "sessionId": session, "redo": redo });
    let done: UndoCard = daemon.client.call(method::UNDO, params).await?;
    daemon.show(&done, || {
        if done.files.is_empty() {
            return "there is nothing to put back".to_owned();
        }
        let lines = done.files.iter().map(|file| match &file.left {
            None => format!("put back {}", file.path.display()),
            Some(why) => format!("left {}: {why}", file.path.display()),
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}
