//! `ctl permissions`: what a session may do without asking, and what it may not.

use domain::card::PermissionsCard;
use serde_json::json;
use wire::method;

use super::{Visit, which};

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = which::find(visit, id).await?;
    let card: PermissionsCard = visit.client.call(method::PERMISSIONS, json!({ "sessionId": session })).await?;
    visit.show(&card, || {
        let mut lines = vec![format!("mode      {}", card.mode.id()), format!("approval  {}", card.approval.id())];
        lines.extend(card.remembered.iter().map(|rule| {
            let verdict = if rule.allow { "allow" } else { "deny" };
            format!("{verdict:<9} {} (answered in this session)", rule.what)
        }));
        for (verdict, rules) in [("allow", &card.rules.allow), ("ask", &card.rules.ask), ("deny", &card.rules.deny)] {
            lines.extend(rules.iter().map(|rule| format!("{verdict:<9} {rule} (configured)")));
        }
        lines.join("\n")
    });
    Ok(())
}
