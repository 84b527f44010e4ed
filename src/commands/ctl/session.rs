//! `ctl session`: everything about one session that fits on a page. What it did is counted from its log.

use domain::card::{Activity, SessionDetails};
use domain::{Event, Usage};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use wire::method;

use super::table::{self, Sheet};
use super::tally::Tally;
use super::when::age;
use super::{Visit, permissions, state_style};
use crate::commands::consent::Consent;
use crate::commands::paint::Style;

/// Of the lines of a page, what stands before each.
const LABEL: usize = 13;

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    details: &'a SessionDetails,
    did: &'a Tally,
}

#[derive(Deserialize)]
struct Log {
    events: Vec<Box<RawValue>>,
    next: Option<u64>,
}

pub(super) async fn run(visit: &mut Visit, id: &str) -> anyhow::Result<()> {
    let session = visit.find(id).await?;
    let details: SessionDetails = visit.client.call(method::SESSION, json!({ "sessionId": session })).await?;
    let did = count(visit, &session).await?;
    visit.show(&Page { details: &details, did: &did }, || render(&details, &did, Sheet::stdout()));
    Ok(())
}

/// Reads the whole log. A session that never had a prompt has none yet.
async fn count(visit: &mut Visit, session: &str) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut from = Some(1);
    while let Some(number) = from {
        let page: Log = visit.client.call(method::EXPORT, json!({ "sessionId": session, "from": number })).await?;
        // An event of a newer daemon that we do not know is not counted.
        let known = page.events.iter().filter_map(|event| serde_json::from_str::<Event>(event.get()).ok());
        known.for_each(|event| tally.add(&event));
        from = page.next;
    }
    Ok(tally)
}

fn render(details: &SessionDetails, did: &Tally, sheet: Sheet) -> String {
    let card = &details.card;
    let mut page = Lines { sheet, text: String::new() };
    let title = card.title.as_deref().unwrap_or("(no title yet)");
    page.text.push_str(&sheet.paint.dress(Style::Bold, &table::plain(title)));
    page.text.push('\n');
    page.line("id", card.id.as_str());
    page.state(details);
    page.line("model", card.model.as_str());
    page.line("mode", &format!("{}, approval {}", card.mode.id(), card.approval.id()));
    for (label, root) in std::iter::once("folder").chain(std::iter::repeat("")).zip(&details.roots) {
        page.line(label, &root.display().to_string());
    }
    page.line("created", &format!("{} ago, last changed {} ago", age(card.created), age(card.updated)));
    page.line("attached", &or(&card.clients.join(", "), "nobody"));
    page.line("log", &format!("{} events, {} messages, {}", details.events, card.messages, did.turns()));
    page.line("tokens", &tokens(&card.usage, details.window_used));
    if let Some(cost) = &card.cost {
        page.line("cost", &format!("{:.4} {}", cost.amount, cost.currency));
    }
    for (label, command) in std::iter::once("background").chain(std::iter::repeat("")).zip(&card.background) {
        page.line(label, command);
    }
    page.wrapped("tools", &or(&did.tools(), "none used"));
    page.line("permissions", &did.permissions());
    for rule in permissions::rules(&details.permissions) {
        page.line("", &rule);
    }
    let whose = if details.own_environment { "its editor's" } else { "the daemon's own, until an editor comes" };
    page.line("environment", &format!("{} variables, {whose}; values are not shown", details.environment.len()));
    page.wrapped("", &details.environment.join(" "));
    for question in &card.questions {
        page.line("asks", &format!("{} ({})", question.title, question.id));
        let consent = Consent::of(question);
        let rest = format!("acpd ctl export {}", sheet.id(card.id.as_str()));
        for line in consent.lines(sheet.paint).into_iter().chain(consent.missing(&rest)) {
            page.text.push_str(&format!("{line}\n"));
        }
    }
    if !card.questions.is_empty() {
        page.line("", &format!("answer with `acpd ctl allow {}` or `deny`", sheet.id(card.id.as_str())));
    }
    page.text
}

struct Lines {
    sheet: Sheet,
    text: String,
}

impl Lines {
    fn state(&mut self, details: &SessionDetails) {
        let card = &details.card;
        let name = card.state.name();
        let mut text = self.sheet.paint.dress(state_style(name), name);
        if let (Activity::Running | Activity::Waiting, Some(since)) = (card.state, card.turn_started) {
            text.push_str(&format!(" for {}", age(since)));
        }
        if !card.doing.is_empty() {
            text.push_str(&format!(": {}", table::plain(&card.doing.join(", "))));
        }
        self.put("state", &text);
    }

    fn line(&mut self, label: &str, text: &str) {
        self.put(label, &table::plain(text));
    }

    /// Words over several lines where the terminal is narrow.
    fn wrapped(&mut self, label: &str, text: &str) {
        let width = self.sheet.width.map_or(usize::MAX, |width| width.saturating_sub(LABEL)).max(20);
        let mut line = String::new();
        let mut label = label;
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                self.line(label, &line);
                (label, line) = ("", String::new());
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            self.line(label, &line);
        }
    }

    fn put(&mut self, label: &str, text: &str) {
        self.text.push_str(&self.sheet.paint.dress(Style::Dim, &format!("{label:LABEL$}")));
        self.text.push_str(text);
        self.text.push('\n');
    }
}

fn tokens(usage: &Usage, window_used: u64) -> String {
    let mut text = format!("{} in, {} out", usage.input, usage.output);
    if usage.cached_read > 0 {
        text.push_str(&format!(", {} of them read from a cache", usage.cached_read));
    }
    if usage.thought > 0 {
        text.push_str(&format!(", {} for thinking", usage.thought));
    }
    if window_used > 0 {
        text.push_str(&format!("; the window holds {window_used}"));
    }
    text
}

fn or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}
