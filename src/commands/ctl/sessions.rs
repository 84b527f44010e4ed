//! `ctl sessions`: lists the sessions in memory with their activity and questions, or, with
//! `--all`, the stored ones.

use std::path::Path;

use serde_json::json;
use terminal::session_tables;
use terminal::table::Viewport;

use super::DaemonClient;
use crate::commands::session_lookup;

pub(super) async fn live(daemon: &mut DaemonClient, home: &Path) -> anyhow::Result<()> {
    let sessions = session_lookup::in_memory(&mut daemon.client).await?;
    daemon.show(&json!({ "sessions": sessions }), || session_tables::live(&sessions, home, Viewport::stdout()));
    Ok(())
}

pub(super) async fn stored(daemon: &mut DaemonClient, home: &Path) -> anyhow::Result<()> {
    daemon.introduce().await?;
    let sessions = session_lookup::stored(&mut daemon.client, None).await?;
    daemon.show(&json!({ "sessions": sessions }), || session_tables::stored(&sessions, home, Viewport::stdout()));
    Ok(())
}
