//! `ctl connections`: lists the connected clients.

use domain::card::ConnectionCard;
use serde_json::json;
use terminal::age::age;
use terminal::table::{Column, Table, Viewport};
use wire::extension::ConnectionsResult;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient) -> anyhow::Result<()> {
    let found: ConnectionsResult = daemon.client.call(method::CONNECTIONS, json!({})).await?;
    daemon.show(&found, || render(&found.connections));
    Ok(())
}

fn render(connections: &[ConnectionCard]) -> String {
    let mut table = Table::new([
        Column::id("ID"),
        Column::keeping_start("CLIENT"),
        Column::fixed("VERSION").optional(4),
        Column::fixed("VIA").optional(2),
        Column::fixed("PID").optional(1),
        Column::fixed("SINCE"),
        Column::fixed("SESSIONS").optional(3),
        Column::fixed("UNREAD"),
    ]);
    for connection in connections {
        table.row([
            connection.id.to_string(),
            connection.client.name.clone(),
            connection.client.version.clone(),
            connection.transport.clone(),
            connection.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            age(connection.connected),
            connection.sessions.len().to_string(),
            connection.outbox.to_string(),
        ]);
    }
    table.render(Viewport::stdout())
}
