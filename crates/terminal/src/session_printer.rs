//! What `ask` and `ctl tail` show: the answer on stdout, and on stderr, shortly, what the agent does on the way.
//!
//! A terminal gets Markdown as it is meant, and what cannot be seen is written out. A pipe gets the text as it is.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde_json::Value;

use crate::consent::Consent;
use crate::diff;
use crate::markdown::Markdown;
use crate::style::{Colors, Style, terminal_width, visible_text};

/// Lines of a diff, or of a failure, at most.
const SHOWN_LINES: usize = 16;

/// Lines of a command's output: the last ones, where it says how it went.
const OUTPUT_LINES: usize = 6;

/// Lines of a question that are shown at once. Nobody reads more without a pause.
const QUESTION_LINES: usize = 400;

pub struct SessionPrinter {
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    colors: Colors,
    /// Of the answer that is being written, where it is painted.
    markdown: Option<Markdown>,
    /// The message that was written last; another begins on a line of its own.
    message: String,
    /// The kinds of open calls, by their ids.
    calls: HashMap<String, String>,
    /// What a permission question has shown already is not shown again when it is done.
    previewed: HashMap<String, String>,
    position: LinePosition,
}

/// What was written last, so that each kind starts on a line of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    LineStart,
    Answer,
    Thought,
    Keys,
}

impl SessionPrinter {
    pub fn new() -> Self {
        Self {
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            colors: Colors::stderr(),
            markdown: (Colors::stdout() == Colors::On).then(Markdown::default),
            message: String::new(),
            calls: HashMap::new(),
            previewed: HashMap::new(),
            position: LinePosition::LineStart,
        }
    }

    /// One update of the session.
    pub fn update(&mut self, update: &Value) -> io::Result<()> {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message_chunk" => self.prompt(text_of(&update["content"])),
            "agent_message_chunk" => self.answer(text_of(&update["content"]), text(&update["messageId"])),
            "agent_thought_chunk" => self.thought(text_of(&update["content"])),
            "tool_call" => self.tool(update),
            "tool_call_update" => self.tool_changed(update),
            "plan" => self.plan(update),
            "notice" => self.line(Style::Dim, text(&update["title"])),
            "compaction_update" if update["status"] == "completed" => {
                self.line(Style::Dim, "older messages were replaced by a summary")
            }
            _ => Ok(()),
        }
    }

    /// What somebody asked, which only those see who did not.
    fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.leave(LinePosition::LineStart)?;
        self.aside(Style::Bold, &format!("> {}\n", text.trim_end()))
    }

    fn answer(&mut self, text: &str, message: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.message != message {
            self.leave(LinePosition::LineStart)?;
            self.message = message.to_owned();
        }
        self.leave(LinePosition::Answer)?;
        let mut stdout = io::stdout().lock();
        match &mut self.markdown {
            Some(markdown) => stdout.write_all(markdown.push(&visible_text(text), terminal_width()).as_bytes())?,
            None if self.stdout_is_terminal => stdout.write_all(visible_text(text).as_bytes())?,
            None => stdout.write_all(text.as_bytes())?,
        }
        stdout.flush()?;
        self.position = if text.ends_with('\n') { LinePosition::LineStart } else { LinePosition::Answer };
        Ok(())
    }

    /// A piece of an answer, on stderr.
    pub fn answer_aside(&mut self, update: &Value) -> io::Result<()> {
        let text = text_of(&update["content"]);
        self.leave(LinePosition::Thought)?;
        self.aside(Style::Plain, text)?;
        self.position = if text.ends_with('\n') { LinePosition::LineStart } else { LinePosition::Thought };
        Ok(())
    }

    fn thought(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.leave(LinePosition::Thought)?;
        self.aside(Style::Dim, text)?;
        self.position = if text.ends_with('\n') { LinePosition::LineStart } else { LinePosition::Thought };
        Ok(())
    }

    fn tool(&mut self, call: &Value) -> io::Result<()> {
        let (id, kind) = (text(&call["toolCallId"]), text(&call["kind"]));
        self.calls.insert(id.to_owned(), kind.to_owned());
        let title = call["title"].as_str().unwrap_or("a tool");
        self.line(Style::Cyan, &format!("● {}", title.trim_end()))?;
        // A call that is replayed is over already.
        self.tool_changed(call)
    }

    fn tool_changed(&mut self, update: &Value) -> io::Result<()> {
        let status = update["status"].as_str();
        if !matches!(status, Some("completed" | "failed")) {
            return Ok(());
        }
        let id = text(&update["toolCallId"]);
        let kind = self.calls.remove(id).unwrap_or_default();
        let previewed = self.previewed.remove(id);
        if status == Some("failed") {
            let said = texts(update).next().unwrap_or("failed");
            let said = if kind == "execute" { last_lines(said, OUTPUT_LINES) } else { first_lines(said, SHOWN_LINES) };
            return self.line(Style::Red, &indented(&said, "  ✗ ", "    "));
        }
        let diffs = self.diffs(update);
        if previewed.as_deref() != Some(&diffs) {
            self.raw(&diffs)?;
        }
        if kind == "execute" {
            for said in texts(update).filter(|said| !said.trim().is_empty()) {
                self.line(Style::Dim, &indented(&last_lines(said, OUTPUT_LINES), "  │ ", "  │ "))?;
            }
        }
        Ok(())
    }

    fn plan(&mut self, update: &Value) -> io::Result<()> {
        for entry in update["entries"].as_array().into_iter().flatten() {
            let (mark, style) = match entry["status"].as_str() {
                Some("completed") => ("✓", Style::Dim),
                Some("in_progress") => ("▸", Style::Bold),
                _ => ("○", Style::Plain),
            };
            self.line(style, &format!("  {mark} {}", text(&entry["content"])))?;
        }
        Ok(())
    }

    /// What the agent wants to be allowed to do: all of it, or its first lines. Returns how many lines are left.
    pub fn question(&mut self, params: &Value, consent: &Consent) -> io::Result<usize> {
        self.line(Style::Yellow, &format!("? Allow: {}", consent.title()))?;
        let call = &params["toolCall"];
        self.previewed.insert(text(&call["toolCallId"]).to_owned(), self.diffs(call));
        self.question_from(consent, 0)
    }

    /// The lines of a question from this one on. Returns how many are left.
    pub fn question_from(&mut self, consent: &Consent, from: usize) -> io::Result<usize> {
        let lines = consent.lines(self.colors);
        let rest = lines.get(from..).unwrap_or_default();
        let shown = &rest[..rest.len().min(QUESTION_LINES)];
        self.raw(&shown.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        Ok(rest.len() - shown.len())
    }

    /// Shows the word that is held back because more of it may come. It goes on where it was.
    pub fn pause(&mut self) -> io::Result<()> {
        if let (LinePosition::Answer, Some(markdown)) = (self.position, &mut self.markdown) {
            let mut stdout = io::stdout().lock();
            stdout.write_all(markdown.pause().as_bytes())?;
            stdout.flush()?;
        }
        Ok(())
    }

    /// The keys that may be pressed now; what is decided follows on the same line.
    pub fn keys(&mut self, keys: &str) -> io::Result<()> {
        self.leave(LinePosition::LineStart)?;
        self.aside(Style::Bold, &format!("  {keys} "))?;
        self.position = LinePosition::Keys;
        Ok(())
    }

    /// What was decided.
    pub fn decided(&mut self, what: &str) -> io::Result<()> {
        self.aside(Style::Plain, &format!("{what}\n"))?;
        self.position = LinePosition::LineStart;
        Ok(())
    }

    /// A line about what goes on.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        self.line(Style::Dim, text)
    }

    /// A line about what went wrong.
    pub fn trouble(&mut self, text: &str) -> io::Result<()> {
        self.line(Style::Red, text)
    }

    /// Somebody pressed Ctrl-C, which a terminal shows where the cursor was.
    pub fn interrupted(&mut self) -> io::Result<()> {
        self.leave(LinePosition::LineStart)?;
        self.aside(Style::Plain, if self.stderr_is_terminal { "\n" } else { "" })
    }

    pub fn end(&mut self) -> io::Result<()> {
        self.leave(LinePosition::LineStart)
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

    /// Text from elsewhere as the terminal may get it.
    fn safe(&self, text: &str) -> String {
        if self.stderr_is_terminal { visible_text(text) } else { text.to_owned() }
    }

    /// Ends the line that something else has begun.
    fn leave(&mut self, next: LinePosition) -> io::Result<()> {
        if self.position == next && next != LinePosition::Keys {
            return Ok(());
        }
        // An answer may have ended with its line and hold back a mark nevertheless.
        if next != LinePosition::Answer
            && let Some(markdown) = &mut self.markdown
        {
            io::stdout().lock().write_all(markdown.finish().as_bytes())?;
        }
        match self.position {
            LinePosition::LineStart => {}
            LinePosition::Answer => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(b"\n")?;
                stdout.flush()?;
            }
            LinePosition::Thought | LinePosition::Keys => io::stderr().lock().write_all(b"\n")?,
        }
        self.position = LinePosition::LineStart;
        Ok(())
    }

    fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.leave(LinePosition::LineStart)?;
        self.aside(style, &format!("{text}\n"))
    }

    fn aside(&self, style: Style, text: &str) -> io::Result<()> {
        let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
        let mut stderr = io::stderr().lock();
        write!(stderr, "{}{end}", self.colors.apply(style, &self.safe(text)))
    }

    /// Whole lines that are made for the terminal already.
    fn raw(&mut self, lines: &str) -> io::Result<()> {
        self.leave(LinePosition::LineStart)?;
        io::stderr().lock().write_all(lines.as_bytes())
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

/// A path below the current folder without that.
fn from_here(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(path);
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

fn indented(text: &str, first: &str, then: &str) -> String {
    let lines = text.lines().zip(std::iter::once(first).chain(std::iter::repeat(then)));
    lines.map(|(line, indent)| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

fn first_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n… {more} more lines", lines[..most].join("\n")),
    }
}

fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("… {more} more lines\n{}", lines[more..].join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!(first_lines("1\n2\n3", 2), "1\n2\n… 1 more lines");
        assert_eq!(last_lines("1\n2\n3", 2), "… 1 more lines\n2\n3");
        assert_eq!(indented("a\nb", "x ", "y "), "x a\ny b");
    }
}
