//! Tracks what a turn is doing, for the row with the spinner: thinking, writing, or running a call,
//! and for how long. Also keeps the last lines of a running command's output. Pure: the caller
//! passes the time.

use std::time::{Duration, Instant};

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::age::span;
use crate::style::{Colors, Style};
use crate::table::{cut_end, one_line};

/// How many lines of a running command's output are shown.
const TAIL: usize = 4;

/// The largest width of a call's title.
const TITLE: usize = 40;

/// The end of the row, if there is room for it.
const HINT: &str = " · Ctrl-C cancels";

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How long each frame of the spinner is shown.
const FRAME: Duration = Duration::from_millis(100);

pub(crate) struct TurnProgress {
    begun: Instant,
    /// When the model began to think or write.
    since: Instant,
    writing: bool,
    calls: Vec<ProgressRow>,
}

struct ProgressRow {
    id: String,
    title: String,
    since: Instant,
    /// The last lines of its output so far.
    output: Vec<String>,
}

impl TurnProgress {
    pub(crate) fn new(now: Instant) -> Self {
        Self { begun: now, since: now, writing: false, calls: Vec::new() }
    }

    /// Records an update. `title` is the title of the call that the update is about, if any.
    pub(crate) fn update(&mut self, update: &Value, title: &str, now: Instant) {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.now_writing(true, now),
            "agent_thought_chunk" => self.now_writing(false, now),
            "tool_call" | "tool_call_update" => {
                let id = update["toolCallId"].as_str().unwrap_or_default();
                match update["status"].as_str() {
                    Some("in_progress") => self.begin(id, title, now),
                    Some("completed" | "failed") => {
                        self.calls.retain(|call| call.id != id);
                        self.now_writing(false, now);
                    }
                    _ => {}
                }
                self.take_output(id, update);
            }
            _ => {}
        }
    }

    fn now_writing(&mut self, writing: bool, now: Instant) {
        if self.writing != writing {
            (self.writing, self.since) = (writing, now);
        }
    }

    fn begin(&mut self, id: &str, title: &str, now: Instant) {
        if !self.calls.iter().any(|call| call.id == id) {
            let (id, title) = (id.to_owned(), one_line(title));
            self.calls.push(ProgressRow { id, title, since: now, output: Vec::new() });
        }
    }

    fn take_output(&mut self, id: &str, update: &Value) {
        let Some(call) = self.calls.iter_mut().find(|call| call.id == id) else { return };
        let content = update["content"].as_array().into_iter().flatten();
        let mut texts = content.filter_map(|content| content["content"]["text"].as_str());
        if let Some(text) = texts.next_back() {
            let lines: Vec<&str> = text.lines().collect();
            call.output = lines[lines.len().saturating_sub(TAIL)..].iter().map(|line| one_line(line)).collect();
        }
    }

    /// Returns the last lines of output of the newest call, and the row with the spinner. That row
    /// always contains the time; the title of a call is shortened to make room for it.
    pub(crate) fn rows(&self, now: Instant, width: usize, colors: Colors) -> Vec<String> {
        let output = self.calls.last().map(|call| call.output.as_slice()).unwrap_or_default();
        let mut rows: Vec<String> =
            output.iter().map(|line| colors.apply(Style::Dim, &format!("  │ {line}"))).collect();
        let elapsed = now.saturating_duration_since(self.begun);
        let frame = usize::try_from(elapsed.as_millis() / FRAME.as_millis()).unwrap_or(0) % FRAMES.len();
        let mut text = format!("{} {}", FRAMES[frame], self.describe(now, width.saturating_sub(2)));
        if text.width() + HINT.width() <= width {
            text.push_str(HINT);
        }
        rows.push(colors.apply(Style::Cyan, &text));
        rows
    }

    fn describe(&self, now: Instant, room: usize) -> String {
        let time = |since: Instant| span(now.saturating_duration_since(since).as_secs());
        let whole = time(self.begun);
        let running = |before: String, call: &ProgressRow| {
            let time = time(call.since);
            let room = room.saturating_sub(before.width() + 1 + time.width());
            format!("{before}{} {time}", cut_end(&call.title, room.min(TITLE)))
        };
        match self.calls.as_slice() {
            [] => {
                let what = if self.writing { "writing" } else { "thinking" };
                let (this, whole) = (time(self.since), whole);
                if this == whole { format!("{what} {this}") } else { format!("{what} {this}, {whole} in all") }
            }
            [call] => running("running ".to_owned(), call),
            [.., last] => running(format!("running {} calls, the last ", self.calls.len()), last),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str, status: &str, output: &str) -> Value {
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
            "content": [{ "type": "content", "content": { "type": "text", "text": output } }] })
    }

    #[test]
    fn the_status_line_shows_the_activity_and_its_duration() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut progress = TurnProgress::new(begun);
        let rows = |progress: &TurnProgress, seconds| progress.rows(after(seconds), 80, Colors::Off);
        assert_eq!(rows(&progress, 3), ["⠋ thinking 3s · Ctrl-C cancels"]);
        progress.update(&call("a", "in_progress", ""), "cargo test", after(4));
        progress.update(&call("a", "in_progress", "1\n2\n3\n4\n5\u{1b}[2J"), "cargo test", after(5));
        assert_eq!(
            rows(&progress, 16),
            ["  │ 2", "  │ 3", "  │ 4", "  │ 5\\u{1b}[2J", "⠋ running cargo test 12s · Ctrl-C cancels"]
        );
        progress.update(&call("b", "in_progress", ""), "ls", after(16));
        assert_eq!(rows(&progress, 17), ["⠋ running 2 calls, the last ls 1s · Ctrl-C cancels"]);
        progress.update(&call("b", "completed", ""), "", after(18));
        let narrow = |width| progress.rows(after(18), width, Colors::Off).pop().unwrap();
        assert_eq!(narrow(24), "⠋ running cargo test 14s");
        assert_eq!(narrow(18), "⠋ running car… 14s", "the time is not cut");
        for id in ["a", "b"] {
            progress.update(&call(id, "completed", ""), "", after(18));
        }
        progress.update(&json!({ "sessionUpdate": "agent_message_chunk" }), "", after(20));
        assert_eq!(rows(&progress, 90), ["⠋ writing 1m · Ctrl-C cancels"]);
    }
}
