//! `ctl permissions`: shows what a session may do without asking, and what it may not do.

use domain::card::PermissionsCard;
use serde_json::json;
use terminal::permission_rules;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    let card: PermissionsCard = daemon.client.call(method::PERMISSIONS, json!({ "sessionId": session })).await?;
    daemon.show(&card, || {
        let settings = [format!("mode      {}", card.mode.id()), format!("approval  {}", card.approval.id())];
        settings.into_iter().chain(permission_rules(&card)).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}
