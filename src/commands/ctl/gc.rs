//! `ctl gc`: deletes old sessions, by age or by number. Without `--yes` it only lists them.

use std::path::Path;
use std::time::Duration;

use domain::Millis;
use domain::card::{ActivityCard, SessionCard};
use domain::text::count;
use serde_json::{Value, json};
use terminal::age;
use terminal::table::{Column, Table, Viewport};
use wire::method;

use super::DaemonClient;
use crate::cli::GcArgs;
use crate::commands::session_lookup;

/// The age of old sessions if the user names no limit.
const USUAL_AGE: Duration = Duration::from_secs(90 * 86_400);

pub(super) async fn run(daemon: &mut DaemonClient, args: &GcArgs, home: &Path) -> anyhow::Result<()> {
    daemon.introduce().await?;
    let live = session_lookup::in_memory(&mut daemon.client).await?;
    let stored = session_lookup::stored(&mut daemon.client, None).await?;
    let old = choose(&stored, &live, &Limits::of(args), Millis::now());
    if args.yes {
        for session in &old {
            let _: Value = daemon.client.call(method::DELETE, json!({ "sessionId": session["sessionId"] })).await?;
        }
    }
    let found = json!({ "removed": args.yes, "sessions": old, "kept": stored.len() - old.len() });
    daemon.show(&found, || render(&old, stored.len(), args.yes, home, Viewport::stdout()));
    Ok(())
}

/// Parses a duration such as `12h`, `30d` or `8w`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and one of h, d and w, as in 30d".to_owned();
    let (unit, letter) = match text.chars().last() {
        Some('h') => (3600, 'h'),
        Some('d') => (86_400, 'd'),
        Some('w') => (7 * 86_400, 'w'),
        _ => return Err(wrong()),
    };
    let count: u64 = text.strip_suffix(letter).unwrap_or_default().parse().map_err(|_| wrong())?;
    count.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

struct Limits {
    age: Option<Duration>,
    count: Option<usize>,
}

impl Limits {
    fn of(args: &GcArgs) -> Self {
        let usual = args.keep.is_none().then_some(USUAL_AGE);
        Self { age: args.older_than.or(usual), count: args.keep }
    }
}

/// Selects the unused stored sessions that exceed a limit. `stored` has the newest first. A session
/// whose time cannot be read exceeds no limit of age.
fn choose<'a>(stored: &'a [Value], live: &[SessionCard], limits: &Limits, now: Millis) -> Vec<&'a Value> {
    let in_use = |id: &Value| {
        let card = live.iter().find(|card| *id == card.id.as_str());
        card.is_some_and(|card| card.state != ActivityCard::Idle || !card.clients.is_empty())
    };
    let is_old = |session: &Value| {
        let updated = session["updatedAt"].as_str().and_then(Millis::from_rfc3339);
        let (Some(limit), Some(updated)) = (limits.age, updated) else { return false };
        u128::from(now.0.saturating_sub(updated.0)) > limit.as_millis()
    };
    let over = |(at, session): &(usize, &Value)| is_old(session) || limits.count.is_some_and(|count| *at >= count);
    stored
        .iter()
        .enumerate()
        .filter(over)
        .map(|(_, session)| session)
        .filter(|one| !in_use(&one["sessionId"]))
        .collect()
}

fn render(old: &[&Value], of: usize, removed: bool, home: &Path, viewport: Viewport) -> String {
    if old.is_empty() {
        return format!("nothing to delete; kept: {}", count(of, "session"));
    }
    let mut table = Table::new([
        Column::id("ID"),
        Column::fixed("UPDATED"),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD"),
    ]);
    for session in old {
        let [id, updated, title, cwd] =
            ["sessionId", "updatedAt", "title", "cwd"].map(|key| session[key].as_str().unwrap_or_default().to_owned());
        table.row([
            id,
            Millis::from_rfc3339(&updated).map(age::age).unwrap_or(updated),
            title,
            viewport.folder(Path::new(&cwd), home),
        ]);
    }
    let number = old.len();
    let end = if removed {
        format!("deleted {number} of {of} sessions")
    } else {
        format!("{number} of {of} sessions would be deleted; `--yes` deletes them")
    };
    format!("{}\n\n{end}", table.render(viewport))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(older_than: Option<&str>, keep: Option<usize>) -> String {
        let stored: Vec<Value> = ["2025-06-30", "2025-06-01", "2025-01-01", "not a day"]
            .iter()
            .zip(1..)
            .map(|(day, id)| json!({ "sessionId": id.to_string(), "updatedAt": format!("{day}T00:00:00Z") }))
            .collect();
        let gc = GcArgs { older_than: older_than.map(|text| age(text).unwrap()), keep, yes: false };
        let now = Millis::from_rfc3339("2025-07-01T00:00:00Z").unwrap();
        let old = choose(&stored, &[], &Limits::of(&gc), now);
        old.iter().filter_map(|session| session["sessionId"].as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sessions_go_by_age_by_number_or_by_either() {
        assert_eq!(ids(None, None), "3");
        assert_eq!(ids(Some("20d"), None), "2 3");
        assert_eq!(ids(None, Some(1)), "2 3 4");
        assert_eq!(ids(Some("12h"), Some(3)), "1 2 3 4");
    }

    #[test]
    fn an_age_has_a_unit() {
        assert_eq!(age("8w"), Ok(Duration::from_secs(56 * 86_400)));
        for wrong in ["", "d", "30", "-1d", "1dd", "99999999999999999999w", "3ä"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
