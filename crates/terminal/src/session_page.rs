//! Formats the details of one session as a page.

use domain::Usage;
use domain::card::{ActivityCard, SessionDetails};

use crate::age::age;
use crate::consent::Consent;
use crate::permission_rules;
use crate::session_stats::SessionStats;
use crate::style::Style;
use crate::table::{Viewport, one_line, state_style};

/// The width of the labels before each line.
const LABEL: usize = 13;

pub fn render(details: &SessionDetails, stats: &SessionStats, viewport: Viewport) -> String {
    let card = &details.card;
    let mut page = Page { viewport, text: String::new() };
    let title = card.title.as_deref().unwrap_or("(no title yet)");
    page.text.push_str(&viewport.colors.apply(Style::Bold, &one_line(title)));
    page.text.push('\n');
    page.line("id", card.id.as_str());
    page.state(details);
    if let Some(agent) = &card.agent {
        page.line("agent", agent);
    }
    page.line("model", card.model.as_str());
    page.wrapped("mode", &format!("{}, approval {}", card.mode.id(), card.approval.id()));
    for (label, root) in std::iter::once("folder").chain(std::iter::repeat("")).zip(&details.roots) {
        page.line(label, &root.display().to_string());
    }
    if let Some(worktree) = &card.worktree {
        let repository = worktree.repository.display();
        page.line("worktree", &format!("{}, branch {}, of {repository}", worktree.name, worktree.branch));
    }
    page.wrapped("created", &format!("{} ago, last changed {} ago", age(card.created), age(card.updated)));
    page.line("attached", &or(&card.clients.join(", "), "none"));
    page.wrapped("log", &format!("{} events, {} messages, {}", details.events, card.messages, stats.turns()));
    page.wrapped("tokens", &tokens(&card.usage, details.window_used));
    if let Some(cost) = &card.cost {
        page.line("cost", &format!("{:.4} {}", cost.amount, cost.currency));
    }
    for (label, command) in std::iter::once("background").chain(std::iter::repeat("")).zip(&card.background) {
        page.line(label, command);
    }
    page.wrapped("tools", &or(&stats.tools(), "none used"));
    page.wrapped("permissions", &stats.permissions());
    for rule in permission_rules(&details.permissions) {
        page.line("", &rule);
    }
    let whose =
        if details.own_environment { "its editor's" } else { "the daemon's own, until an editor opens the session" };
    page.wrapped("environment", &format!("{} variables, {whose}; values are not shown", details.environment.len()));
    page.wrapped("", &details.environment.join(" "));
    for question in &card.questions {
        page.wrapped("asks", &format!("{} ({})", question.title, question.id));
        let consent = Consent::of(question);
        let rest = format!("acpd ctl export {}", viewport.id(card.id.as_str()));
        for line in consent.rows(viewport.width, viewport.colors).into_iter().chain(consent.missing(&rest)) {
            page.text.push_str(&format!("{line}\n"));
        }
    }
    if !card.questions.is_empty() {
        let id = viewport.id(card.id.as_str());
        let is_inquiry = card.questions.iter().any(|question| question.inquiry.is_some());
        let how =
            if is_inquiry { format!("answer {id} --choice 1` or `--text`") } else { format!("allow {id}` or `deny`") };
        page.wrapped("", &format!("answer with `acpd ctl {how}"));
    }
    page.text
}

struct Page {
    viewport: Viewport,
    text: String,
}

impl Page {
    fn state(&mut self, details: &SessionDetails) {
        let card = &details.card;
        let name = card.state.name();
        let mut text = self.viewport.colors.apply(state_style(name), name);
        if let (ActivityCard::Running | ActivityCard::Waiting, Some(since)) = (card.state, card.turn_started) {
            text.push_str(&format!(" for {}", age(since)));
        }
        if !card.doing.is_empty() {
            text.push_str(&format!(": {}", one_line(&card.doing.join(", "))));
        }
        self.put("state", &text);
    }

    fn line(&mut self, label: &str, text: &str) {
        self.put(label, &one_line(text));
    }

    /// Adds text after a label, wrapped at the width of the terminal.
    fn wrapped(&mut self, label: &str, text: &str) {
        let width = self.viewport.width.map_or(usize::MAX, |width| width.saturating_sub(LABEL)).max(20);
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
        self.text.push_str(&self.viewport.colors.apply(Style::Dim, &format!("{label:LABEL$}")));
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::style::Colors;

    #[test]
    fn a_narrow_terminal_gets_rows_that_fit() {
        let title = "touch one two three four five six seven";
        let details = json!({
            "card": { "id": "0197c0de-0000-7000-8000-0123456789ab", "title": title, "cwd": "/w", "state": "idle",
                "clients": [], "model": "rehearsal", "mode": "full", "approval": "ask", "messages": 4, "created": 0,
                "updated": 0, "usage": { "input": 12_345, "output": 678 },
                "questions": [{ "id": "q", "call": "c", "title": title }] },
            "events": 26, "roots": ["/w"], "windowUsed": 12_345, "environment": [], "ownEnvironment": true,
            "permissions": { "mode": "full", "approval": "ask", "remembered": [],
                "rules": { "allow": [], "ask": [], "deny": [] } },
        });
        let details = serde_json::from_value(details).unwrap();
        let page = render(&details, &SessionStats::default(), Viewport { width: Some(40), colors: Colors::Off });
        let rows: Vec<&str> = page.lines().skip(2).collect();
        assert!(rows.iter().all(|row| row.width() <= 40), "{page}");
        assert!(page.contains("asks         touch one two three four\n             five six seven (q)\n"), "{page}");
    }
}
