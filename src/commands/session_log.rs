//! Reads the log of a session from the daemon, page by page.

use domain::Event;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use wire::method;

use crate::client::Client;

/// Some consecutive events of a log, as the daemon sent them.
#[derive(Deserialize)]
pub(super) struct LogPage {
    pub(super) events: Vec<Box<RawValue>>,
    /// The number of the first event of the next page, if there is one.
    pub(super) next: Option<u64>,
}

pub(super) async fn read_page(client: &mut Client, session: &str, from: u64) -> anyhow::Result<LogPage> {
    client.call(method::EXPORT, json!({ "sessionId": session, "from": from })).await
}

/// Calls `each` with every event of a session. Skips unknown events of a newer daemon.
pub(super) async fn for_each_event(
    client: &mut Client,
    session: &str,
    mut each: impl FnMut(Event),
) -> anyhow::Result<()> {
    let mut from = Some(1);
    while let Some(number) = from {
        let page = read_page(client, session, number).await?;
        page.events.iter().filter_map(|event| serde_json::from_str(event.get()).ok()).for_each(&mut each);
        from = page.next;
    }
    Ok(())
}
