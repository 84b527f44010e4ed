//! Draws `ctl top`: a line about the daemon, the sessions, the selected session with its question,
//! and a line with the keys.

use domain::card::{ActivityCard, SessionCard};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table, TableState};
use unicode_width::UnicodeWidthStr;

use super::state::{Snapshot, TopState};
use crate::age::{age, span};
use crate::consent::Consent;
use crate::fold::folded;
use crate::style::Colors;
use crate::table::{cut_end, one_line};
use crate::text_flow::wrapped;

/// The smallest number of rows for the selected session.
const DETAILS: u16 = 7;

/// Below this height, only the list of sessions is shown.
const LOW: u16 = 16;

const KEYS: &str = " ↑↓ move  ⏎ open  v view  a allow  d deny  c cancel  / filter  ? help  q quit";
/// The keys while the selected session asks something that has choices.
const ASKED_KEYS: &str = " ↑↓ move  ⏎ open  v view  1-9 choose  d decline  c cancel  / filter  ? help";
/// A shorter form of `KEYS` for a narrow terminal.
const FEW_KEYS: &str = " ⏎ open  v a d c  / filter  ? help  q";
const READING_KEYS: &str = " ↑↓ space scroll  a allow  d deny  q back";
const CHOOSING_KEYS: &str = " ↑↓ space scroll  1-9 choose  d decline  q back";

/// All keys, for the help page.
const HELP: [(&str, &str); 12] = [
    ("↑ ↓ k j", "select a session"),
    ("Home End g G", "select the first or the last one"),
    ("⏎ o", "follow the session until Ctrl-C"),
    ("v", "read its question on the whole screen"),
    ("a", "allow what was completely shown; open the question otherwise"),
    ("d", "deny it"),
    ("1 to 9", "choose an answer to what the agent asks"),
    ("c c", "cancel its turn; the key must be pressed twice"),
    ("/", "show only sessions with a text in title, folder, model or id"),
    ("s", "sort by state, last change, cost or folder"),
    ("r", "refresh now"),
    ("q Esc Ctrl-C", "leave; Esc first ends a filter"),
];

/// The width of the keys on the help page.
const HELP_KEYS: usize = 13;

/// The smallest width of the column with the folders.
const FOLDER: u16 = 6;

/// From this width on, there is room for tokens, clients and tools.
const WIDE: u16 = 120;

/// The most columns for the text of the filter beside the keys.
const FILTER: usize = 20;

/// Below this width, there is room only for id, state and title.
const NARROW: u16 = 60;

pub fn draw(frame: &mut Frame<'_>, state: &mut TopState, colors: Colors) {
    let view = View { colors };
    state.whole = None;
    if state.pager.is_some() {
        return view.read(frame, state);
    }
    if state.help {
        return view.help(frame, state);
    }
    let (height, width) = (frame.area().height, frame.area().width);
    let about = view.about(state, width);
    let wanted = u16::try_from(about.len() + 1).unwrap_or(u16::MAX);
    // A question may take half of the screen.
    let details = if height >= LOW { wanted.clamp(DETAILS, (height / 2).max(DETAILS)) } else { 0 };
    let parts = [Constraint::Length(1), Constraint::Min(2), Constraint::Length(details), Constraint::Length(1)];
    let [head, list, below, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(view.head(state), head);
    view.list(frame, state, list);
    if details > 0 {
        view.details(frame, state, about, below);
    }
    frame.render_widget(view.foot(state, width), foot);
}

struct View {
    colors: Colors,
}

impl View {
    fn colour(&self, colour: Color) -> Style {
        if self.colors == Colors::On { Style::new().fg(colour) } else { Style::new() }
    }

    fn activity(&self, activity: ActivityCard) -> Style {
        match activity {
            ActivityCard::Running => self.colour(Color::Green),
            ActivityCard::Waiting => self.colour(Color::Yellow).add_modifier(Modifier::BOLD),
            ActivityCard::Idle => Style::new().add_modifier(Modifier::DIM),
        }
    }

    fn head(&self, state: &TopState) -> Paragraph<'static> {
        let text = state.snapshot.as_ref().map_or_else(|| " acpd".to_owned(), heading);
        Paragraph::new(text).style(Style::new().add_modifier(Modifier::REVERSED))
    }

    fn list(&self, frame: &mut Frame<'_>, state: &TopState, area: Rect) {
        if state.sessions().is_empty() {
            let text = match &state.snapshot {
                Some(snapshot) if snapshot.sessions.is_empty() => " no sessions in memory",
                Some(_) => " no session fits the filter",
                None => "",
            };
            frame.render_widget(Paragraph::new(format!("\n{text}")), area);
            return;
        }
        let (wide, narrow) = (area.width >= WIDE, area.width < NARROW);
        let mut columns = vec![("ID", Constraint::Length(12)), ("STATE", Constraint::Length(7))];
        if !narrow {
            columns.extend([("TURN", Constraint::Length(4)), ("COST", Constraint::Length(6))]);
        }
        if wide {
            let more = [("TOKENS", Constraint::Length(6)), ("CLIENTS", Constraint::Max(14))];
            columns.extend(more);
        }
        if !narrow {
            columns.push(("FOLDER", Constraint::Length(folder_width(state.sessions(), area.width))));
        }
        if wide {
            columns.push(("TOOLS", Constraint::Fill(2)));
        }
        columns.push(("TITLE", Constraint::Fill(3)));
        let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
        let widths = columns.iter().map(|(_, width)| *width);
        let rows = state.sessions().iter().map(|card| self.row(card, wide, narrow));
        let table = Table::new(rows, widths)
            .header(Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .highlight_symbol("")
            .column_spacing(2);
        let mut state = TableState::default().with_selected(Some(state.row));
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn row(&self, card: &SessionCard, wide: bool, narrow: bool) -> Row<'static> {
        let id = card.id.as_str();
        let short = id.get(id.len().saturating_sub(12)..).unwrap_or(id).to_owned();
        let mut cells = vec![Span::raw(short), Span::styled(card.state.name(), self.activity(card.state))];
        if !narrow {
            cells.push(Span::raw(card.turn_started.map(age).unwrap_or_default()));
            let cost = card.cost.as_ref().map(|cost| format!("{:.2}", cost.amount));
            cells.push(Span::raw(cost.unwrap_or_default()));
        }
        if wide {
            cells.push(Span::raw(short_number(card.usage.total())));
            cells.push(Span::raw(one_line(&card.clients.join(", "))));
        }
        if !narrow {
            cells.push(Span::raw(one_line(&folder_name(card))));
        }
        if wide {
            cells.push(Span::raw(one_line(&card.doing.join(", "))));
        }
        cells.push(Span::raw(one_line(card.title.as_deref().unwrap_or_default())));
        Row::new(cells)
    }

    /// Draws the help page.
    fn help(&self, frame: &mut Frame<'_>, state: &TopState) {
        let parts = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
        let [head, text, foot] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(self.head(state), head);
        let width = usize::from(text.width);
        let lines = HELP.iter().flat_map(|(keys, about)| {
            let rows = wrapped(about, width.saturating_sub(HELP_KEYS + 2));
            let rows: Vec<String> = rows.lines().map(str::to_owned).collect();
            let keys = std::iter::once(*keys).chain(std::iter::repeat(""));
            keys.zip(rows).map(|(keys, row)| Line::from(format!(" {keys:<HELP_KEYS$} {row}"))).collect::<Vec<_>>()
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), text);
        frame.render_widget(self.message_or_keys(state, " any key goes back".to_owned()), foot);
    }

    /// Returns the rows about the selected session, each no wider than the screen.
    fn about(&self, state: &TopState, width: u16) -> Vec<Line<'static>> {
        let Some(card) = state.selected() else { return Vec::new() };
        let cost = card.cost.as_ref().map(|cost| format!("  {:.2} {}", cost.amount, cost.currency)).unwrap_or_default();
        let mut lines = vec![
            Line::from(format!(" {}", one_line(&card.cwd.display().to_string()))),
            Line::from(format!(
                " {}, {}, approval {}  {} messages  {} in, {} out{cost}",
                card.model,
                card.mode.id(),
                card.approval.id(),
                card.messages,
                short_number(card.usage.input),
                short_number(card.usage.output),
            )),
        ];
        lines.extend(card.doing.iter().map(|title| Line::from(format!(" runs: {}", one_line(title)))));
        if let Some(question) = card.questions.first() {
            let more = match card.questions.len() {
                1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            let text = format!(" asks: {}{more}", one_line(&question.title));
            lines.push(Line::styled(text, self.activity(ActivityCard::Waiting)));
            let width = usize::from(width).max(1);
            let consent = Consent::of(question);
            let rows =
                consent.lines(Colors::Off).into_iter().chain(consent.missing(&format!("acpd ctl session {}", card.id)));
            lines.extend(rows.flat_map(|line| folded(&line, width)).map(Line::from));
        }
        lines
    }

    /// Draws the details, and records whether the whole question was shown. Only then can one key
    /// allow it.
    fn details(&self, frame: &mut Frame<'_>, state: &mut TopState, mut lines: Vec<Line<'static>>, area: Rect) {
        let room = usize::from(area.height.saturating_sub(1));
        let fits = lines.len() <= room;
        if !fits {
            let missing = lines.len() + 1 - room;
            lines.truncate(room.saturating_sub(1));
            let text = format!(" … {missing} more rows: press v to read all of it");
            lines.push(Line::styled(text, self.activity(ActivityCard::Waiting)));
        }
        let Some(card) = state.selected() else { return };
        let whole = card.questions.first().filter(|question| fits && Consent::of(question).is_whole());
        let whole = whole.map(|question| question.id.clone());
        let title = one_line(card.title.as_deref().unwrap_or("(no title yet)"));
        let title = cut_end(&title, usize::from(area.width).saturating_sub(4));
        let block = Block::new().borders(Borders::TOP).title(format!(" {title} "));
        frame.render_widget(Paragraph::new(lines).block(block), area);
        state.whole = whole;
    }

    /// Draws a question that fills the screen.
    fn read(&self, frame: &mut Frame<'_>, state: &mut TopState) {
        let parts = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
        let [head, text, foot] = Layout::vertical(parts).areas(frame.area());
        let Some(pager) = &mut state.pager else { return };
        let rows = pager.rows(text.width, text.height);
        let title = format!(" asks: {}", pager.title);
        let left = pager.left();
        frame.render_widget(Paragraph::new(title).style(Style::new().add_modifier(Modifier::REVERSED)), head);
        frame.render_widget(Paragraph::new(rows.into_iter().map(Line::from).collect::<Vec<_>>()), text);
        let keys = if pager.inquiry.is_some() { CHOOSING_KEYS } else { READING_KEYS };
        let keys = if left > 0 { format!("{keys}  ({left} more rows)") } else { keys.to_owned() };
        frame.render_widget(self.message_or_keys(state, keys), foot);
    }

    fn foot(&self, state: &TopState, width: u16) -> Paragraph<'static> {
        if state.filtering {
            let text = format!(" filter: {}█  ⏎ keep it, Esc show all", one_line(&state.filter));
            return Paragraph::new(text).style(Style::new().add_modifier(Modifier::BOLD));
        }
        let filter = match state.filter.as_str() {
            "" => String::new(),
            filter => format!(" filter: {} (Esc shows all) ", cut_end(&one_line(filter), FILTER)),
        };
        let room = usize::from(width).saturating_sub(filter.width());
        let is_asked = state.selected().and_then(|card| card.questions.first()?.inquiry.as_ref()).is_some();
        let all = if is_asked { ASKED_KEYS } else { KEYS };
        let keys = if room < all.width() { FEW_KEYS } else { all };
        self.message_or_keys(state, format!("{filter}{keys}"))
    }

    /// Returns a line with a problem, the result of the last key, or the keys.
    fn message_or_keys(&self, state: &TopState, keys: String) -> Paragraph<'static> {
        if let Some(trouble) = &state.trouble {
            let text = format!(" {}; trying again", one_line(trouble));
            return Paragraph::new(text).style(self.colour(Color::Red).add_modifier(Modifier::BOLD));
        }
        match &state.message {
            Some(message) => {
                Paragraph::new(format!(" {}", one_line(message))).style(Style::new().add_modifier(Modifier::BOLD))
            }
            None => Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)),
        }
    }
}

/// Returns the width of the longest name of a folder, but at most a quarter of the screen.
fn folder_width(cards: &[SessionCard], screen: u16) -> u16 {
    let longest = cards.iter().map(|card| one_line(&folder_name(card)).width()).max().unwrap_or(0);
    u16::try_from(longest).unwrap_or(u16::MAX).min(screen / 4).max(FOLDER)
}

/// Returns the last component of a session's folder, and the name of its worktree.
fn folder_name(card: &SessionCard) -> String {
    let name = card.cwd.file_name();
    let name = name.map_or_else(|| card.cwd.display().to_string(), |name| name.to_string_lossy().into_owned());
    match &card.worktree {
        Some(worktree) => format!("{name} ({})", worktree.name),
        None => name,
    }
}

fn heading(snapshot: &Snapshot) -> String {
    let count = |state: ActivityCard| snapshot.sessions.iter().filter(|card| card.state == state).count();
    let memory = snapshot.memory.map(|bytes| format!("{} MB", bytes / 1_000_000)).unwrap_or_default();
    let up = domain::Millis::now().0.saturating_sub(snapshot.status.started.0) / 1000;
    format!(
        " acpd {}  up {}  {memory}  {}, {} running, {} waiting  {}",
        snapshot.status.version,
        span(up),
        counted(snapshot.sessions.len(), "session"),
        count(ActivityCard::Running),
        count(ActivityCard::Waiting),
        counted(snapshot.status.connections, "client"),
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Formats a number in at most six characters, such as `12k` or `3.4M`.
fn short_number(number: u64) -> String {
    const MILLION: u64 = 1_000_000;
    const BILLION: u64 = 1_000 * MILLION;
    let with_tenths = |unit: u64| format!("{}.{}", number / unit, number / (unit / 10) % 10);
    match number {
        0..10_000 => number.to_string(),
        10_000..MILLION => format!("{}k", number / 1000),
        MILLION..BILLION => format!("{}M", with_tenths(MILLION)),
        BILLION..10_000_000_000 => format!("{}G", with_tenths(BILLION)),
        _ => format!("{}G", (number / BILLION).min(99_999)),
    }
}

#[cfg(test)]
mod tests {
    use domain::card::StatusCard;
    use expect_test::expect;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_fit_their_column() {
        let shown =
            [0, 9_999, 10_000, 999_999, 1_000_000, 999_999_999, 1_000_000_000, 12_345_678_901].map(short_number);
        assert_eq!(shown, ["0", "9999", "10k", "999k", "1.0M", "999.9M", "1.0G", "12G"]);
        assert_eq!(short_number(u64::MAX).len(), 6);
    }

    fn snapshot(cards: serde_json::Value) -> Snapshot {
        let now = domain::Millis::now().0;
        let status = json!({ "version": "0.1.0", "pid": 1, "started": now, "sessions": 2, "connections": 3,
            "store": { "state": "open" }, "model": "rehearsal" });
        let status: StatusCard = serde_json::from_value(status).unwrap();
        Snapshot { status, memory: Some(23_456_000), sessions: serde_json::from_value(cards).unwrap() }
    }

    fn card(id: &str, state: &str, title: &str) -> serde_json::Value {
        json!({ "id": format!("0197c0de-0000-7000-8000-{id}"), "title": title, "cwd": "/home/me/project", "state": state,
            "clients": ["Zed"], "model": "rehearsal", "mode": "full", "approval": "ask", "messages": 4,
            "created": 0, "updated": 0, "usage": { "input": 12_345, "output": 678 }, "questions": [] })
    }

    fn drawn(state: &mut TopState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, Colors::On)).unwrap();
        let lines = terminal.backend().to_string();
        let bare = lines.lines().map(|line| line.trim_matches('"').trim_end());
        bare.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_usual_terminal_has_room_for_all_of_it() {
        let mut asking = card("0123456789ab", "waiting", "Mend the parser\u{1b}[2J and test it, whatever that takes");
        asking["questions"] = json!([{ "id": "q", "call": "c", "title": "Run `cargo test`", "proposal": { "tool": "bash",
            "kind": "execute", "preview": [{ "type": "text", "text": "cargo test\nrm -rf /" }] } }]);
        let mut running = card("ba9876543210", "running", "Say what is here");
        running["doing"] = json!(["Read src/main.rs"]);
        let mut state = TopState::default();
        state.replace(snapshot(json!([asking, running])));
        expect![[r#"
             acpd 0.1.0  up 0s  23 MB  2 sessions, 1 running, 1 waiting  3 clients
            ID            STATE    TURN  COST    FOLDER   TITLE
            0123456789ab  waiting                project  Mend the parser\u{1b}[2J and test
            ba9876543210  running                project  Say what is here












             Mend the parser\u{1b}[2J and test it, whatever that takes ─────────────────────
             /home/me/project
             rehearsal, full, approval ask  4 messages  12k in, 678 out
             asks: Run `cargo test`
              │ cargo test
              │ rm -rf /

             ↑↓ move  ⏎ open  v view  a allow  d deny  c cancel  / filter  ? help  q quit"#]]
        .assert_eq(&drawn(&mut state, 80, 24));
    }

    #[test]
    fn a_small_terminal_shows_the_list_and_the_keys() {
        let mut state = TopState::default();
        state.replace(snapshot(json!([card("0123456789ab", "idle", "One"), card("ba9876543210", "idle", "Two")])));
        state.move_by(1);
        state.trouble = Some("the daemon is not responding".to_owned());
        expect![[r#"
             acpd 0.1.0  up 0s  23 MB  2 sessions, 0
            ID            STATE    TITLE
            0123456789ab  idle     One
            ba9876543210  idle     Two

             the daemon is not responding; trying ag"#]]
        .assert_eq(&drawn(&mut state, 40, 6));
        state.trouble = None;
        assert!(drawn(&mut state, 40, 6).ends_with("\n ⏎ open  v a d c  / filter  ? help  q"));
        state.help = true;
        let page = drawn(&mut state, 40, 24);
        assert!(
            page.contains(" a             allow what was completely\n               shown; open the question\n"),
            "{page}"
        );
        state.help = false;
        // Nothing is drawn outside the screen at any size.
        for (width, height) in [(1, 1), (3, 2), (20, 16), (200, 60)] {
            drawn(&mut state, width, height);
        }
    }

    #[test]
    fn a_filter_and_an_order_choose_what_is_shown() {
        let cards = json!([card("0123456789ab", "idle", "One"), card("ba9876543210", "running", "Two")]);
        let mut state = TopState::default();
        state.replace(snapshot(cards.clone()));
        let titles =
            |state: &TopState| state.sessions().iter().filter_map(|card| card.title.clone()).collect::<Vec<_>>();
        assert_eq!(titles(&state), ["Two", "One"], "what runs comes first");
        state.filter = "ONE".to_owned();
        state.choose();
        assert_eq!(titles(&state), ["One"]);
        let page = drawn(&mut state, 80, 24);
        assert!(page.ends_with("\n filter: ONE (Esc shows all)  ⏎ open  v a d c  / filter  ? help  q"), "{page}");
        state.filter = "none of them".to_owned();
        state.replace(snapshot(cards));
        assert!(state.selected().is_none() && drawn(&mut state, 80, 24).contains("no session fits the filter"));
        state.help = true;
        let page = drawn(&mut state, 80, 24);
        assert!(page.contains("the key must be pressed twice") && page.contains("any key goes back"), "{page}");
    }

    #[test]
    fn the_keys_fit_what_the_selected_session_asks() {
        let mut asking = card("0123456789ab", "waiting", "One");
        let inquiry = json!({ "text": "Which?", "free_text": false, "purpose": "answer",
            "choices": [{ "id": "choice_1", "label": "Red" }] });
        asking["questions"] = json!([{ "id": "q", "call": "c", "title": "Ask: Which?", "inquiry": inquiry }]);
        let mut state = TopState::default();
        state.replace(snapshot(json!([asking])));
        let page = drawn(&mut state, 80, 24);
        assert!(page.ends_with("1-9 choose  d decline  c cancel  / filter  ? help"), "{page}");
    }

    #[test]
    fn the_selection_stays_with_its_session() {
        let (one, two) = (card("0123456789ab", "idle", "One"), card("ba9876543210", "idle", "Two"));
        let mut state = TopState::default();
        state.replace(snapshot(json!([one, two])));
        state.move_by(isize::MAX);
        assert_eq!(state.row, 1);
        state.replace(snapshot(json!([two, one])));
        assert_eq!(state.selected().unwrap().title.as_deref(), Some("Two"));
        state.replace(snapshot(json!([])));
        assert_eq!((state.row, state.selected().is_none()), (0, true));
    }
}
