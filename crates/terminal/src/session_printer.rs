//! Prints a session for `ask` and `ctl tail`: the answer on stdout, everything else in short form
//! on stderr.
//!
//! On a terminal it renders Markdown, escapes invisible characters, and keeps a live area at the
//! bottom with the unfinished answer, the progress and the input. In a pipe the text stays
//! unchanged.

mod held;
mod questions;
mod thoughts;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::Value;

use self::held::HeldLines;
use self::thoughts::Thoughts;
use crate::answer_text::AnswerText;
use crate::diff;
use crate::excerpt::{first_lines, indented, last_lines};
use crate::picker::Picker;
use crate::progress::TurnProgress;
use crate::screen::{Screen, Stream};
use crate::status_line::StatusLine;
use crate::style::{Colors, Style, readable_text, visible_text};
use crate::table::end_of;
use crate::text_flow::wrapped;

/// The most lines that are shown of a diff or a failure.
const SHOWN_LINES: usize = 16;

/// How many of the last lines of a command's output are shown; they tell how it went.
const OUTPUT_LINES: usize = 6;

/// The most lines of a diff that the user asked for.
const LONG_DIFF: usize = 1000;

/// The most rows of a list to choose from.
const LIST: usize = 16;

/// The width of the mark before an entry of a plan.
const PLAN_INDENT: usize = 4;

/// The width of the mark before a prompt.
const PROMPT_INDENT: usize = 2;

/// The width of the mark before a failure.
const FAILURE_INDENT: usize = 4;

/// The mark before the user's input during a turn.
const INPUT: &str = "» ";

/// The mark at a line end in the user's input during a turn.
const LINE_END: &str = " ⏎ ";

pub struct SessionPrinter {
    screen: Screen,
    colors: Colors,
    answer: AnswerText,
    thoughts: Thoughts,
    /// The id of the last message; another message starts on a new line.
    message: String,
    /// The open calls, by their ids.
    calls: HashMap<String, PrintedCall>,
    /// Diffs that a permission question has shown, so that they are not shown again when the call
    /// ends.
    previewed: HashMap<String, String>,
    position: Position,
    held: HeldLines,
    /// The keys that the user can press now.
    keys: Vec<String>,
    progress: Option<TurnProgress>,
    status: Option<StatusLine>,
    /// What the user has typed during the turn.
    input: String,
    /// Rows that replace all others, such as a list to choose from.
    overlay: Option<Vec<String>>,
}

struct PrintedCall {
    kind: String,
    title: String,
    /// Whether the title of the call was printed.
    announced: bool,
}

/// The kind of output that was written last. Each kind starts on a new line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    LineStart,
    Answer,
    Thought,
    Keys,
}

impl SessionPrinter {
    /// Creates a printer for this process's stdout and stderr.
    pub fn stdio() -> Self {
        let screen = Screen::stdio();
        let answer = if screen.is_live() && screen.stdout_is_terminal {
            AnswerText::on_terminal(Colors::stdout())
        } else {
            AnswerText::Raw { open: false }
        };
        Self {
            screen,
            colors: Colors::stderr(),
            answer,
            thoughts: Thoughts::default(),
            message: String::new(),
            calls: HashMap::new(),
            previewed: HashMap::new(),
            position: Position::LineStart,
            held: HeldLines::default(),
            keys: Vec::new(),
            progress: None,
            status: None,
            input: String::new(),
            overlay: None,
        }
    }

    /// Whether there is a live area.
    pub fn is_live(&self) -> bool {
        self.screen.is_live()
    }

    /// Shows the status in the live area from now on.
    pub fn set_status(&mut self, status: StatusLine) {
        self.status = Some(status);
    }

    pub fn status_mut(&mut self) -> Option<&mut StatusLine> {
        self.status.as_mut()
    }

    /// Shows a list to choose from in the live area, or removes it if `picker` is None.
    pub fn overlay(&mut self, picker: Option<&Picker>) -> io::Result<()> {
        let (_, height) = self.screen.size();
        self.overlay = picker.map(|picker| picker.rows(self.width(), height.saturating_sub(1).min(LIST), self.colors));
        self.tick()
    }

    /// Prints what has changed in a file.
    pub fn diff(&mut self, path: &Path, old: &str, new: &str) -> io::Result<()> {
        let path = self.safe(&from_here(&path.display().to_string()));
        let head = self.colors.apply(Style::Bold, &format!("  {path}"));
        let lines = diff::render(old, new, LONG_DIFF, self.colors);
        self.raw(&self.marked(&format!("{head}\n{lines}\n")))
    }

    /// Starts a turn: its progress is shown until `end`.
    pub fn begin_turn(&mut self) -> io::Result<()> {
        self.progress = Some(TurnProgress::new(Instant::now()));
        self.tick()
    }

    /// Shows what the user has typed during a turn.
    pub fn typing(&mut self, text: &str) -> io::Result<()> {
        text.clone_into(&mut self.input);
        self.tick()
    }

    /// Redraws the live area, because time has passed or the size of the terminal may have changed.
    pub fn tick(&mut self) -> io::Result<()> {
        let rows = self.rows();
        self.screen.redraw(rows)
    }

    /// Forgets what is drawn whenever the flag is set. The handler of SIGCONT sets it, because a
    /// shell has written to the terminal meanwhile.
    pub fn forget_when(&mut self, resumed: Arc<AtomicBool>) {
        self.screen.resumed = resumed;
    }

    /// Prints one update of the session.
    pub fn update(&mut self, update: &Value) -> io::Result<()> {
        if let Some(status) = &mut self.status {
            status.update(update);
        }
        self.learn(update);
        if let Some(progress) = &mut self.progress {
            let call = self.calls.get(text(&update["toolCallId"]));
            progress.update(update, call.map_or("a tool", |call| &call.title), Instant::now());
        }
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message_chunk" => self.prompt(text_of(&update["content"])),
            "agent_message_chunk" => self.answer(text_of(&update["content"]), text(&update["messageId"])),
            "agent_thought_chunk" => self.thought(text_of(&update["content"])),
            "tool_call" | "tool_call_update" => self.tool(update),
            "plan" => self.plan(update),
            "notice" => self.prose(Style::Dim, text(&update["title"])),
            "compaction_update" if update["status"] == "completed" => {
                self.line(Style::Dim, "older messages were replaced by a summary")
            }
            _ => self.tick(),
        }
    }

    /// Remembers the kind and the title of a call. A later update may have a better title.
    fn learn(&mut self, update: &Value) {
        let Some(id) = update["toolCallId"].as_str() else { return };
        let new = || PrintedCall { kind: String::new(), title: "a tool".to_owned(), announced: false };
        let call = self.calls.entry(id.to_owned()).or_insert_with(new);
        if let Some(kind) = update["kind"].as_str() {
            kind.clone_into(&mut call.kind);
        }
        if let Some(title) = update["title"].as_str() {
            title.trim_end().clone_into(&mut call.title);
        }
    }

    /// Prints a prompt that another client sent.
    fn prompt(&mut self, text: &str) -> io::Result<()> {
        let text = self.prose_rows(text.trim_end(), PROMPT_INDENT);
        self.line(Style::Bold, &format!("> {text}"))
    }

    /// Prints a prompt that the user typed during a turn.
    pub fn typed_prompt(&mut self, text: &str) -> io::Result<()> {
        let text = self.prose_rows(text.trim_end(), PROMPT_INDENT);
        self.between_messages(Style::Bold, format!("> {text}"))
    }

    fn answer(&mut self, text: &str, message: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.message != message {
            self.leave(Position::LineStart)?;
            self.message = message.to_owned();
        }
        self.leave(Position::Answer)?;
        let text = if self.screen.stdout_is_terminal { readable_text(text) } else { text.to_owned() };
        self.position = Position::Answer;
        let finished = self.answer.push(&text, self.width());
        self.write(Stream::Stdout, &finished)
    }

    /// Prints a piece of an answer on stderr.
    pub fn answer_aside(&mut self, update: &Value) -> io::Result<()> {
        let (text, message) = (text_of(&update["content"]), text(&update["messageId"]));
        if self.message != message {
            self.leave(Position::LineStart)?;
            self.message = message.to_owned();
        }
        self.leave(Position::Thought)?;
        self.thought_in(Style::Plain, text)
    }

    /// Prints the title of a call when it starts, and its outcome when it ends.
    fn tool(&mut self, update: &Value) -> io::Result<()> {
        let status = update["status"].as_str();
        let id = text(&update["toolCallId"]);
        if matches!(status, Some("in_progress" | "completed" | "failed")) {
            self.announce(id)?;
        }
        if !matches!(status, Some("completed" | "failed")) {
            return self.tick();
        }
        let kind = self.calls.remove(id).map(|call| call.kind).unwrap_or_default();
        let previewed = self.previewed.remove(id);
        if status == Some("failed") {
            let said = texts(update).next().unwrap_or("failed");
            let said = match kind.as_str() {
                "execute" => self.safe(&last_lines(said, OUTPUT_LINES)),
                _ => self.rows_of(&self.safe(&first_lines(said, SHOWN_LINES)), FAILURE_INDENT),
            };
            return self.line(Style::Red, &self.marked(&indented(&said, "  ✗ ", "    ")));
        }
        let diffs = self.diffs(update);
        if previewed.as_deref() != Some(&diffs) {
            self.raw(&self.marked(&diffs))?;
        }
        if kind == "execute" {
            for said in texts(update).filter(|said| !said.trim().is_empty()) {
                let said = indented(&self.safe(&last_lines(said, OUTPUT_LINES)), "  │ ", "  │ ");
                self.line(Style::Dim, &self.marked(&said))?;
            }
        }
        Ok(())
    }

    fn announce(&mut self, id: &str) -> io::Result<()> {
        let Some(call) = self.calls.get_mut(id).filter(|call| !call.announced) else { return Ok(()) };
        call.announced = true;
        let title = format!("● {}", call.title);
        self.title(Style::Cyan, &title)
    }

    fn plan(&mut self, update: &Value) -> io::Result<()> {
        for entry in update["entries"].as_array().into_iter().flatten() {
            let (mark, style) = match entry["status"].as_str() {
                Some("completed") => ("✓", Style::Dim),
                Some("in_progress") => ("▸", Style::Bold),
                _ => ("○", Style::Plain),
            };
            let content = self.prose_rows(text(&entry["content"]), PLAN_INDENT);
            self.line(style, &format!("  {mark} {content}"))?;
        }
        Ok(())
    }

    /// Prints a line of information.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        self.prose(Style::Dim, text)
    }

    /// Prints a line about a problem.
    pub fn trouble(&mut self, text: &str) -> io::Result<()> {
        self.prose(Style::Red, text)
    }

    /// Prints the status line above the next prompt.
    pub fn show_status(&mut self) -> io::Result<()> {
        match &self.status {
            Some(status) if self.screen.is_live() => {
                let text = status.render(self.width());
                self.line(Style::Dim, &text)
            }
            _ => Ok(()),
        }
    }

    /// Starts a new line after a Ctrl-C that the terminal has echoed.
    pub fn interrupted(&mut self) -> io::Result<()> {
        self.leave(Position::LineStart)?;
        let echoed = self.screen.stderr_is_terminal && !self.screen.is_live();
        self.aside(Style::Plain, if echoed { "\n" } else { "" })
    }

    /// Ends the turn: writes the remaining text and removes the live area.
    pub fn end(&mut self) -> io::Result<()> {
        self.progress = None;
        self.leave(Position::LineStart)?;
        self.screen.redraw(Vec::new())
    }

    fn width(&self) -> usize {
        self.screen.size().0.saturating_sub(1).max(1)
    }

    /// Returns the rows of the live area, no more than fit on the screen.
    fn rows(&self) -> Vec<String> {
        if !self.screen.is_live() {
            return Vec::new();
        }
        if let Some(overlay) = &self.overlay {
            return overlay.clone();
        }
        let width = self.width();
        let room = width.saturating_sub(INPUT.chars().count() + 1);
        // Pasted text may have several lines, but the input has one row.
        let input = visible_text(&self.input.replace('\n', LINE_END));
        let input = (!input.is_empty()).then(|| format!("{INPUT}{}", end_of(&input, room)));
        if !self.keys.is_empty() {
            let mut rows: Vec<String> = input.into_iter().chain(self.key_rows()).collect();
            rows.truncate(self.screen.size().1.saturating_sub(1).max(1));
            return rows;
        }
        let mut below = self.held_rows(width);
        if let Some(progress) = &self.progress {
            below.extend(progress.rows(Instant::now(), self.width(), self.colors));
            let status = self.status.as_ref().map(|status| status.render(width));
            below.extend(status.map(|status| self.colors.apply(Style::Dim, &status)));
            below.extend(input);
        }
        let mut rows = self.answer.open(width);
        rows.extend(self.thoughts.rows(width, self.colors));
        let room = self.screen.size().1.saturating_sub(below.len() + 2);
        rows.drain(..rows.len().saturating_sub(room));
        rows.extend(below);
        // Rows that have left the screen could not be erased.
        rows.drain(..rows.len().saturating_sub(self.screen.size().1.saturating_sub(1).max(1)));
        rows
    }

    fn diffs(&self, call: &Value) -> String {
        let mut shown = String::new();
        let content = call["content"].as_array().into_iter().flatten();
        for diff in content.filter(|content| content["type"] == "diff") {
            let path = format!("  {}", self.safe(&from_here(text(&diff["path"]))));
            shown.push_str(&self.colors.apply(Style::Bold, &path));
            shown.push('\n');
            let lines = diff::render(text(&diff["oldText"]), text(&diff["newText"]), SHOWN_LINES, self.colors);
            if !lines.is_empty() {
                shown.push_str(&lines);
                shown.push('\n');
            }
        }
        shown
    }

    fn safe(&self, text: &str) -> String {
        if self.screen.stderr_is_terminal { visible_text(text) } else { text.to_owned() }
    }

    /// Ends the current output if another kind of output starts now.
    fn leave(&mut self, next: Position) -> io::Result<()> {
        if self.position == next && next != Position::Keys {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.position, Position::LineStart);
        match before {
            Position::LineStart => Ok(()),
            Position::Answer => {
                let rest = self.answer.finish(self.width());
                self.write(Stream::Stdout, &rest)?;
                self.print_held()
            }
            Position::Thought if self.screen.is_live() && self.screen.stderr_is_terminal => {
                let lines = self.thoughts.finish(self.width(), self.colors);
                self.write(Stream::Stderr, &lines)?;
                self.print_held()
            }
            Position::Keys if self.screen.is_live() => {
                self.keys.clear();
                self.tick()
            }
            Position::Thought | Position::Keys => {
                self.write(Stream::Stderr, "\n")?;
                self.print_held()
            }
        }
    }

    fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.leave(Position::LineStart)?;
        self.aside(style, &format!("{text}\n"))
    }

    /// Prints prose, wrapped between words on a terminal, as soon as no message is being written.
    fn prose(&mut self, style: Style, text: &str) -> io::Result<()> {
        let text = self.prose_rows(text, 0);
        self.between_messages(style, text)
    }

    /// Wraps prose between words on a terminal, and indents all rows but the first.
    fn prose_rows(&self, text: &str, indent: usize) -> String {
        let rows = self.rows_of(text, indent);
        if self.screen.is_live() { rows.replace('\n', &format!("\n{}", " ".repeat(indent))) } else { rows }
    }

    /// Wraps prose between words on a terminal, with room for an indent.
    fn rows_of(&self, text: &str, indent: usize) -> String {
        match self.screen.is_live() {
            true => wrapped(&self.safe(text), self.width().saturating_sub(indent).max(1)),
            false => text.to_owned(),
        }
    }

    fn aside(&mut self, style: Style, text: &str) -> io::Result<()> {
        let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
        let text = format!("{}{end}", self.colors.apply(style, &self.safe(text)));
        self.write(Stream::Stderr, &text)
    }

    /// Prints whole lines that are already formatted.
    fn raw(&mut self, lines: &str) -> io::Result<()> {
        self.leave(Position::LineStart)?;
        self.write(Stream::Stderr, lines)
    }

    fn write(&mut self, to: Stream, text: &str) -> io::Result<()> {
        let rows = self.rows();
        if text.is_empty() { self.screen.redraw(rows) } else { self.screen.write(to, text, rows) }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn text_of(content: &Value) -> &str {
    text(&content["text"])
}

fn texts(update: &Value) -> impl Iterator<Item = &str> {
    let content = update["content"].as_array().into_iter().flatten();
    content.filter(|content| content["type"] == "content").map(|content| text_of(&content["content"]))
}

/// Returns a path relative to the current folder if it is inside that folder.
fn from_here(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(path);
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}
