//! `ctl session`: shows the details of one session on a page. Its statistics are counted from its
//! log.

use domain::Event;
use domain::card::SessionDetails;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use terminal::session_page;
use terminal::session_stats::SessionStats;
use terminal::table::Viewport;
use wire::method;

use super::DaemonClient;

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    details: &'a SessionDetails,
    did: &'a SessionStats,
}

#[derive(Deserialize)]
struct Log {
    events: Vec<Box<RawValue>>,
    next: Option<u64>,
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
    let mut from = Some(1);
    while let Some(number) = from {
        let page: Log = daemon.client.call(method::EXPORT, json!({ "sessionId": session, "from": number })).await?;
        // Unknown events of a newer daemon are not counted.
        let known = page.events.iter().filter_map(|event| serde_json::from_str::<Event>(event.get()).ok());
        known.for_each(|event| stats.add(&event));
        from = page.next;
    }
    Ok(stats)
}
