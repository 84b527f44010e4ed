//! What `ask` and `ctl tail` show: the answer on stdout, and on stderr, shortly, what the agent does on the way.
//!
//! Text from the agent is shown without control characters where a terminal would obey them.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

use std::io::{self, IsTerminal, Write};

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Lines of a diff, or of a tool's output, at most.
const SHOWN_LINES: usize = 12;

const DIM: &str = "\u{1b}[2m";
const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

pub(super) struct Screen {
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    at: Place,
}

/// What was written last, so that each kind starts on a line of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    Answer,
    Thought,
}

impl Screen {
    pub(super) fn new() -> Self {
        let (stdout_is_terminal, stderr_is_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self { stdout_is_terminal, stderr_is_terminal, at: Place::LineStart }
    }

    /// One update of the session.
    pub(super) fn update(&mut self, update: &Value) -> io::Result<()> {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message_chunk" => self.prompt(text_of(&update["content"])),
            "agent_message_chunk" => self.answer(text_of(&update["content"])),
            "agent_thought_chunk" => self.thought(text_of(&update["content"])),
            "tool_call" => self.tool(update),
            "tool_call_update" => self.tool_ended(update),
            "plan" => self.plan(update),
            _ => Ok(()),
        }
    }

    /// What somebody asked, which only those see who did not.
    fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.leave(Place::LineStart)?;
        self.aside(BOLD, &format!("> {}\n", text.trim_end()))
    }

    fn answer(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.leave(Place::Answer)?;
        let mut stdout = io::stdout().lock();
        if self.stdout_is_terminal {
            stdout.write_all(harmless(text).as_bytes())?;
        } else {
            stdout.write_all(text.as_bytes())?;
        }
        stdout.flush()?;
        self.at = if text.ends_with('\n') { Place::LineStart } else { Place::Answer };
        Ok(())
    }

    fn thought(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.leave(Place::Thought)?;
        self.aside(DIM, text)?;
        self.at = if text.ends_with('\n') { Place::LineStart } else { Place::Thought };
        Ok(())
    }

    fn tool(&mut self, call: &Value) -> io::Result<()> {
        self.remark(call["title"].as_str().unwrap_or("a tool"))
    }

    fn tool_ended(&mut self, update: &Value) -> io::Result<()> {
        match update["status"].as_str() {
            Some("completed") => self.diffs(update),
            Some("failed") => {
                let said = texts(update).next().unwrap_or("failed");
                self.remark(&format!("  {}", first_lines(said)))
            }
            _ => Ok(()),
        }
    }

    fn plan(&mut self, update: &Value) -> io::Result<()> {
        for entry in update["entries"].as_array().into_iter().flatten() {
            let mark = match entry["status"].as_str() {
                Some("completed") => "x",
                Some("in_progress") => ">",
                _ => " ",
            };
            self.remark(&format!("[{mark}] {}", entry["content"].as_str().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// What the agent wants to be allowed to do.
    pub(super) fn question(&mut self, params: &Value) -> io::Result<()> {
        let call = &params["toolCall"];
        self.leave(Place::LineStart)?;
        self.aside(BOLD, &format!("permission: {}\n", call["title"].as_str().unwrap_or("a tool")))?;
        self.diffs(call)
    }

    pub(super) fn choices(&mut self, keys: &str) -> io::Result<()> {
        self.leave(Place::LineStart)?;
        self.aside("", &format!("{keys} > "))
    }

    /// Where the next prompt is typed.
    pub(super) fn invite(&mut self) -> io::Result<()> {
        self.leave(Place::LineStart)?;
        self.aside(BOLD, "> ")
    }

    /// A line about what goes on.
    pub(super) fn remark(&mut self, text: &str) -> io::Result<()> {
        self.leave(Place::LineStart)?;
        self.aside(DIM, &format!("{text}\n"))
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.leave(Place::LineStart)
    }

    fn diffs(&mut self, call: &Value) -> io::Result<()> {
        let content = call["content"].as_array().into_iter().flatten();
        for diff in content.filter(|content| content["type"] == "diff") {
            let (old, new) =
                (diff["oldText"].as_str().unwrap_or_default(), diff["newText"].as_str().unwrap_or_default());
            self.remark(&format!("  {}", diff["path"].as_str().unwrap_or_default()))?;
            self.remark(&changes(old, new))?;
        }
        Ok(())
    }

    /// Ends the line that something else has begun.
    fn leave(&mut self, next: Place) -> io::Result<()> {
        if self.at == next || self.at == Place::LineStart {
            return Ok(());
        }
        match self.at {
            Place::Answer => io::stdout().lock().write_all(b"\n")?,
            Place::Thought | Place::LineStart => io::stderr().lock().write_all(b"\n")?,
        }
        self.at = Place::LineStart;
        Ok(())
    }

    fn aside(&self, style: &str, text: &str) -> io::Result<()> {
        let mut stderr = io::stderr().lock();
        if self.stderr_is_terminal {
            write!(stderr, "{style}{}{PLAIN}", harmless(text))
        } else {
            stderr.write_all(text.as_bytes())
        }
    }
}

fn text_of(content: &Value) -> &str {
    content["text"].as_str().unwrap_or_default()
}

fn texts(update: &Value) -> impl Iterator<Item = &str> {
    let content = update["content"].as_array().into_iter().flatten();
    content.filter(|content| content["type"] == "content").map(|content| text_of(&content["content"]))
}

/// The lines that differ, and how many there are in all if not all are shown.
fn changes(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let lines: Vec<String> = changed.map(|change| format!("  {}{}", change.tag(), change.value().trim_end())).collect();
    first_lines(&lines.join("\n"))
}

fn first_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(SHOWN_LINES) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n  ... {more} more lines", lines[..SHOWN_LINES].join("\n")),
    }
}

/// Without characters that a terminal would obey, line ends and tabs aside.
fn harmless(text: &str) -> String {
    let obeyed = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    text.chars().map(|character| if obeyed(character) { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_behind_the_users_back() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\n\tc"), "a\u{fffd}[2Jb\u{fffd}\n\tc");
    }

    #[test]
    fn a_diff_shows_what_changed_and_only_so_much_of_it() {
        assert_eq!(changes("same\nold\n", "same\nnew\n"), "  -old\n  +new");
        let long: String = (0..20).map(|line| format!("{line}\n")).collect();
        assert!(changes("", &long).ends_with("  +11\n  ... 8 more lines"));
    }
}
