//! `ctl status`: how the daemon is.

use domain::card::StatusCard;
use domain::history::StoreStatus;
use serde_json::json;
use wire::method;

use super::when::age;
use super::{Visit, table};

pub(super) async fn run(visit: &mut Visit) -> anyhow::Result<()> {
    let found = look(visit).await?;
    visit.show(&found, || render(&found));
    Ok(())
}

pub(super) async fn look(visit: &mut Visit) -> anyhow::Result<StatusCard> {
    visit.client.call(method::STATUS, json!({})).await
}

fn render(card: &StatusCard) -> String {
    let store = match &card.store {
        StoreStatus::Opening => "opening".to_owned(),
        StoreStatus::Open { moved_aside: None } => "open".to_owned(),
        StoreStatus::Open { moved_aside: Some(path) } => {
            format!("open; a store that could not be read was moved to {}", path.display())
        }
        StoreStatus::Failing { reason } => format!("failing: {reason}"),
    };
    let mine = env!("CARGO_PKG_VERSION");
    let version = if card.version == mine {
        card.version.clone()
    } else {
        format!("{}; this program is {mine}, and `acpd ctl restart` starts the installed one", card.version)
    };
    format!(
        "version      {}\npid          {}\nup           {}\nsessions     {}\nconnections  {}\nstore        {}\nmodel        {}",
        table::plain(&version),
        card.pid,
        age(card.started),
        card.sessions,
        card.connections,
        table::plain(&store),
        card.model,
    )
}
