//! `ctl search`: finds prompts and answers in the history.

use domain::Millis;
use serde_json::json;
use terminal::age::age;
use terminal::table::{Column, Table, Viewport};

use super::DaemonClient;
use crate::cli::SearchArgs;
use crate::commands::history_search;

pub(super) async fn run(daemon: &mut DaemonClient, args: &SearchArgs) -> anyhow::Result<()> {
    daemon.introduce().await?;
    let hits = history_search::search(&mut daemon.client, &args.text.join(" "), args.limit).await?;
    daemon.show(&json!({ "found": hits }), || {
        if hits.is_empty() {
            return "nothing found".to_owned();
        }
        let viewport = Viewport::stdout();
        let mut table = Table::new([
            Column::id("SESSION"),
            Column::fixed("UPDATED"),
            Column::fixed("BY"),
            Column::keeping_start("TEXT"),
        ]);
        for hit in &hits {
            let updated = match viewport.width {
                Some(_) => Millis::from_rfc3339(&hit.updated_at).map(age).unwrap_or_else(|| hit.updated_at.clone()),
                None => hit.updated_at.clone(),
            };
            table.row([hit.session_id.clone(), updated, hit.who.to_owned(), hit.text.clone()]);
        }
        table.render(viewport)
    });
    Ok(())
}
