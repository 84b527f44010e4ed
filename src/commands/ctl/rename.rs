//! `ctl rename`: gives a session another title, which every attached editor is told.

use serde_json::json;
use wire::method;

use super::Visit;

pub(super) async fn run(visit: &mut Visit, id: &str, title: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    visit.steer(method::RENAME, json!({ "sessionId": session, "title": title }), "renamed").await
}
