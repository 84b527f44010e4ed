//! `ctl permissions`: what a session may do without asking, and what it may not.

use domain::card::PermissionsCard;
use serde_json::json;
use wire::method;

use super::Visit;

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    let card: PermissionsCard = visit.client.call(method::PERMISSIONS, json!({ "sessionId": session })).await?;
    visit.show(&card, || {
        let settings = [format!("mode      {}", card.mode.id()), format!("approval  {}", card.approval.id())];
        settings.into_iter().chain(rules(&card)).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

/// One line a rule, those of the session first.
pub(super) fn rules(card: &PermissionsCard) -> impl Iterator<Item = String> {
    let remembered = card.remembered.iter().map(|rule| {
        let verdict = if rule.allow { "allow" } else { "deny" };
        format!("{verdict:<9} {} (answered in this session)", rule.what)
    });
    let configured = [("allow", &card.rules.allow), ("ask", &card.rules.ask), ("deny", &card.rules.deny)];
    let configured = configured
        .into_iter()
        .flat_map(|(verdict, rules)| rules.iter().map(move |rule| format!("{verdict:<9} {rule} (configured)")));
    remembered.chain(configured)
}
