//! Prints a session for `ask` and `ctl tail`: the answer on stdout, everything else in short form
//! on stderr.
//!
//! On a terminal it renders Markdown and writes invisible characters out. In a pipe the text stays
//! as it is.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde_json::Value;

use crate::consent::Consent;
use crate::diff;
use crate::markdown::Markdown;
use crate::style::{Colors, Style, terminal_width, visible_text};

/// The greatest number of lines of a diff or a failure.
const SHOWN_LINES: usize = 16;

/// The number of lines shown of a command's output: the last ones, which show how it went.
const OUTPUT_LINES: usize = 6;

/// The number of lines of a question that are shown at a time.
const QUESTION_LINES: usize = 400;

pub struct SessionPrinter {
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    colors: Colors,
    /// Renders the current answer, if stdout has colours.
    markdown: Option<Markdown>,
    /// The id of the last message; another message starts on a new line.
    message: String,
    /// The kinds of open calls, by their ids.
    calls: HashMap<String, String>,
    /// Diffs that a permission question has shown, so that they are not shown again when the call
    /// ends.
    previewed: HashMap<String, String>,
    position: LinePosition,
}

/// What was written last. Each kind of output starts on a new line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    LineStart,
    Answer,
    Thought,
    Keys,
}

impl SessionPrinter {
    /// A printer for this process's stdout and stderr.
    pub fn stdio() -> Self {
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

    /// Prints one update of the session.
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

    /// Prints a prompt that another client sent.
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

    /// Prints a piece of an answer on stderr.
    pub fn answer_aside(&mut self, update: &Value) -> io::Result<()> {
        let (text, message) = (text_of(&update["content"]), text(&update["messageId"]));
        if self.message != message {
            self.leave(LinePosition::LineStart)?;
            self.message = message.to_owned();
        }
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
        // A replayed call has ended already.
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

    /// Shows a permission question, or its first lines. Returns how many lines are left.
    pub fn question(&mut self, params: &Value, consent: &Consent) -> io::Result<usize> {
        self.line(Style::Yellow, &format!("? Allow: {}", consent.title()))?;
        let call = &params["toolCall"];
        self.previewed.insert(text(&call["toolCallId"]).to_owned(), self.diffs(call));
        self.question_from(consent, 0)
    }

    /// Shows the lines of a question from this one on. Returns how many are left.
    pub fn question_from(&mut self, consent: &Consent, from: usize) -> io::Result<usize> {
        let lines = consent.lines(self.colors);
        let rest = lines.get(from..).unwrap_or_default();
        let shown = &rest[..rest.len().min(QUESTION_LINES)];
        self.raw(&shown.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        Ok(rest.len() - shown.len())
    }

    /// Shows the word that is held back because more of it may come.
    pub fn pause(&mut self) -> io::Result<()> {
        if let (LinePosition::Answer, Some(markdown)) = (self.position, &mut self.markdown) {
            let mut stdout = io::stdout().lock();
            stdout.write_all(markdown.pause().as_bytes())?;
            stdout.flush()?;
        }
        Ok(())
    }

    /// Prints the keys that can be pressed now; the decision follows on the same line.
    pub fn keys(&mut self, keys: &str) -> io::Result<()> {
        self.leave(LinePosition::LineStart)?;
        self.aside(Style::Bold, &format!("  {keys} "))?;
        self.position = LinePosition::Keys;
        Ok(())
    }

    /// Prints the decision.
    pub fn decided(&mut self, what: &str) -> io::Result<()> {
        self.aside(Style::Plain, &format!("{what}\n"))?;
        self.position = LinePosition::LineStart;
        Ok(())
    }

    /// Prints a line of information.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        self.line(Style::Dim, text)
    }

    /// Prints a line about a problem.
    pub fn trouble(&mut self, text: &str) -> io::Result<()> {
        self.line(Style::Red, text)
    }

    /// Starts a new line after Ctrl-C, which the terminal has echoed.
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

    /// Foreign text in a form that is safe to print.
    fn safe(&self, text: &str) -> String {
        if self.stderr_is_terminal { visible_text(text) } else { text.to_owned() }
    }

    /// Ends the current line if other output starts now.
    fn leave(&mut self, next: LinePosition) -> io::Result<()> {
        if self.position == next && next != LinePosition::Keys {
            return Ok(());
        }
        // The renderer may hold back a mark even at the end of a line.
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

    /// Prints whole lines that are already formatted.
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

/// A path relative to the current folder, if it is inside.
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
