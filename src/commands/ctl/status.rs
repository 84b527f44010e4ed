//! `ctl status`: shows the state of the daemon.

use domain::card::StatusCard;
use domain::history::StoreStatus;
use serde_json::json;
use terminal::age::age;
use terminal::table::one_line;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient) -> anyhow::Result<()> {
    let found = look(daemon).await?;
    daemon.show(&found, || render(&found));
    Ok(())
}

pub(super) async fn look(daemon: &mut DaemonClient) -> anyhow::Result<StatusCard> {
    daemon.client.call(method::STATUS, json!({})).await
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
        one_line(&version),
        card.pid,
        age(card.started),
        card.sessions,
        card.connections,
        one_line(&store),
        card.model,
    )
}
