//! `ctl session`: shows the details of one session on a page. Its statistics are counted from its
//! log.

use domain::card::SessionDetails;
use serde::Serialize;
use serde_json::json;
use terminal::session_page;
use terminal::session_stats::SessionStats;
use terminal::table::Viewport;
use wire::method;

use super::DaemonClient;
use crate::commands::session_log;

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    details: &'a SessionDetails,
    did: &'a SessionStats,
}

pub(super) async fn run(daemon: &mut DaemonClient, id: &str) -> anyhow::Result<()> {
    let session = daemon.find(id).await?;
    let details: SessionDetails = daemon.client.call(method::SESSION, json!({ "sessionId": session })).await?;
    let did = count(daemon, &session).await?;
    daemon.show(&Page { details: &details, did: &did }, || session_page::render(&details, &did, Viewport::stdout()));
    Ok(())
}

/// Reads the whole log and counts. A session without a prompt has no log yet.
async fn count(daemon: &mut DaemonClient, session: &str) -> anyhow::Result<SessionStats> {
    let mut stats = SessionStats::default();
    session_log::for_each_event(&mut daemon.client, session, |event| stats.add(&event)).await?;
    Ok(stats)
}
