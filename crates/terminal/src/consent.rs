//! Formats a permission question as text: the whole command, every argument, the diff, the task. If
//! something is missing, a line reports it. Pure; knows neither keys nor answers.

use domain::card::{OpenQuestion, Proposal};
use domain::tool::Location;
use domain::{ToolContent, ToolKind, escape};
use serde_json::Value;

use crate::diff;
use crate::fold::folded;
use crate::style::{Colors, Style};

/// The prefix of each line of text that comes from outside.
const MARGIN: &str = "  │ ";

/// A permission question or an inquiry, ready to be shown.
pub struct Consent {
    pub title: String,
    /// What an "always" answer allows.
    always: Option<String>,
    proposal: Option<Proposal>,
    /// Whether this is an inquiry, which asks for no permission: nothing runs, and the arguments
    /// are the question.
    pub is_inquiry: bool,
}

impl Consent {
    /// Reads a question from the daemon's list of open questions.
    pub fn of(question: &OpenQuestion) -> Self {
        Self {
            title: question.title.clone(),
            always: question.always.clone(),
            proposal: question.proposal.clone(),
            is_inquiry: question.inquiry.is_some(),
        }
    }

    /// Reads a question from the parameters of a permission request.
    pub fn read(params: &Value) -> Self {
        let call = &params["toolCall"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let content = call["content"].as_array().into_iter().flatten();
        let location = |found: &Value| {
            let line = found["line"].as_u64().and_then(|line| line.try_into().ok());
            Location { path: text(&found["path"]).into(), line }
        };
        let proposal = Proposal {
            tool: text(&call["name"]),
            kind: serde_json::from_value(call["kind"].clone()).unwrap_or(ToolKind::Other),
            locations: call["locations"].as_array().into_iter().flatten().map(location).collect(),
            input: call["rawInput"].clone(),
            preview: content.filter_map(shown).collect(),
            cut: 0,
        };
        let options = params["options"].as_array().into_iter().flatten();
        let always = options.filter(|option| option["kind"] == "allow_always");
        let always = always.filter_map(|option| option["name"].as_str()?.strip_prefix("Always allow ")).next();
        let title = call["title"].as_str().unwrap_or("a tool").to_owned();
        let is_inquiry = params["_meta"]["acpd"]["inquiry"].is_object();
        Self { title, always: always.map(str::to_owned), proposal: Some(proposal), is_inquiry }
    }

    /// The number of bytes that the daemon omitted.
    pub fn cut(&self) -> usize {
        self.proposal.as_ref().map_or(0, |proposal| proposal.cut)
    }

    /// Whether the lines show everything that would be done.
    pub fn is_whole(&self) -> bool {
        self.proposal.is_some() && self.cut() == 0
    }

    /// The title on one line.
    pub fn title(&self) -> String {
        escape::line(&self.title).into_owned()
    }

    /// The lines below the title. Invisible characters are written out.
    pub fn lines(&self, colors: Colors) -> Vec<String> {
        let Some(proposal) = &self.proposal else {
            return vec![
                colors.apply(Style::Red, "  this daemon is an older version and does not report what would be done"),
            ];
        };
        let mut lines = Vec::new();
        let mut has_diff = false;
        for content in &proposal.preview {
            match content {
                ToolContent::Text { text } => lines.extend(indented(text)),
                ToolContent::Diff { path, old, new } => {
                    has_diff = true;
                    let path = escape::line(&path.display().to_string()).into_owned();
                    lines.push(colors.apply(Style::Bold, &format!("  {path}")));
                    let changes = diff::render(old.as_deref().unwrap_or_default(), new, usize::MAX, colors);
                    lines.extend(changes.lines().map(str::to_owned));
                }
                ToolContent::Image { mime, .. } => lines.push(format!("  an image ({})", escape::line(mime))),
                ToolContent::Block { block } => lines.extend(indented(&block.as_text())),
                ToolContent::Terminal { .. } => {}
            }
        }
        if let Some(arguments) = proposal.arguments().filter(|_| !self.is_inquiry) {
            let tool = escape::line(&proposal.tool).into_owned();
            let head = if lines.is_empty() { format!("  {tool} with") } else { "  and".to_owned() };
            lines.push(colors.apply(Style::Dim, &head));
            // JSON has its own escapes for invisible characters.
            let text = serde_json::to_string_pretty(&arguments).unwrap_or_default();
            lines.extend(escape::json(&text).lines().map(|line| format!("{MARGIN}{line}")));
        }
        for Location { path, line } in proposal.locations.iter().filter(|_| !has_diff) {
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            lines.push(format!("  in {}{line}", escape::line(&path.display().to_string())));
        }
        if let Some(always) = &self.always {
            lines.push(colors.apply(Style::Dim, &format!("  \"always\" would allow {}", escape::line(always))));
        }
        lines
    }

    /// The lines below the title, folded into rows of this width. A row that continues a line
    /// begins with `┊`. Without a width, lines stay as they are.
    pub fn rows(&self, width: Option<usize>, colors: Colors) -> Vec<String> {
        let lines = self.lines(colors);
        match width {
            Some(width) => lines.iter().flat_map(|line| folded(line, width)).collect(),
            None => lines,
        }
    }

    /// Returns a line that reports the missing bytes and the subcommand that shows them, if any are
    /// missing.
    pub fn missing(&self, command: &str) -> Option<String> {
        let cut = self.cut();
        (cut > 0).then(|| format!("  … cut, {cut} more bytes: see `{command}`"))
    }
}

fn indented(text: &str) -> Vec<String> {
    escape::text(text).lines().map(|line| format!("{MARGIN}{line}")).collect()
}

/// Converts content from the protocol's form to the domain's.
fn shown(content: &Value) -> Option<ToolContent> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match content["type"].as_str()? {
        "content" => match text(&content["content"]["text"]) {
            Some(text) => Some(ToolContent::Text { text }),
            None => Some(ToolContent::text(format!("({})", content["content"]["type"].as_str().unwrap_or("content")))),
        },
        "diff" => Some(ToolContent::Diff {
            path: text(&content["path"])?.into(),
            old: text(&content["oldText"]),
            new: text(&content["newText"])?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn asked(call: Value) -> String {
        let params = json!({ "toolCall": call, "options": [{ "kind": "allow_always", "name": "Always allow bash" }] });
        Consent::read(&params).lines(Colors::Off).join("\n")
    }

    #[test]
    fn everything_that_would_be_done_is_shown() {
        let text = |text: &str| json!({ "type": "content", "content": { "type": "text", "text": text } });
        let commands = asked(json!({
            "title": "ls …", "name": "bash", "kind": "execute", "content": [text("ls\ntouch \u{202e}X")],
            "rawInput": { "command": "ls\ntouch \u{202e}X", "timeout_ms": 5 },
        }));
        let called = asked(json!({
            "title": "files: write", "name": "mcp__files__write", "kind": "other",
            "rawInput": { "mode": { "force": true }, "path": "/etc/passwd", "text": "a\nb\u{200b}" },
        }));
        let delegated = asked(json!({
            "title": "Delegate: look", "name": "agent", "kind": "execute",
            "content": [text("look\nand then rm"), text("The sub-agent may use all tools.")],
            "rawInput": { "task": "look\nand then rm", "tools": "all" },
        }));
        let edited = asked(json!({
            "title": "Edit a", "name": "edit_file", "kind": "edit",
            "content": [{ "type": "diff", "path": "/w/a", "oldText": "x\ny\n", "newText": "x\nz \n" }],
            "rawInput": { "path": "a", "old": "y", "new": "z" }, "locations": [{ "path": "/w/a", "line": 2 }],
        }));
        let fetched = asked(json!({
            "title": "Fetch", "name": "web_fetch", "kind": "fetch", "rawInput": { "url": "https://x.example/?q=1" },
        }));
        expect![[r#"
              │ ls
              │ touch \u{202e}X
              and
              │ {
              │   "timeout_ms": 5
              │ }
              "always" would allow bash
            ---
              mcp__files__write with
              │ {
              │   "mode": {
              │     "force": true
              │   },
              │   "path": "/etc/passwd",
              │   "text": "a\nb\u200b"
              │ }
              "always" would allow bash
            ---
              │ look
              │ and then rm
              │ The sub-agent may use all tools.
              and
              │ {
              │   "tools": "all"
              │ }
              "always" would allow bash
            ---
              /w/a
                 1  x
                 2 -y
                 2 +z 
              "always" would allow bash
            ---
              web_fetch with
              │ {
              │   "url": "https://x.example/?q=1"
              │ }
              "always" would allow bash"#]]
        .assert_eq(&[commands, called, delegated, edited, fetched].join("\n---\n"));
    }

    #[test]
    fn missing_bytes_are_reported() {
        let question = json!({ "id": "q", "call": "c", "title": "Run", "proposal": { "tool": "bash", "kind": "execute",
            "preview": [{ "type": "text", "text": "ls" }], "cut": 77 } });
        let consent = Consent::of(&serde_json::from_value(question).unwrap());
        assert!(!consent.is_whole());
        assert_eq!(consent.missing("acpd ctl session s").unwrap(), "  … cut, 77 more bytes: see `acpd ctl session s`");
        let older = json!({ "id": "q", "call": "c", "title": "Run" });
        assert!(!Consent::of(&serde_json::from_value(older).unwrap()).is_whole());
    }
}
