//! Diagnostics of a file, and which of them are new after a change.

use std::collections::HashMap;
use std::path::Path;

use domain::text::cut;
use gen_lsp_types::{Code, Diagnostic, DiagnosticSeverity, Message};
use serde::Deserialize;
use serde_json::Value;

/// The most findings that are kept per file.
const MAX_FINDINGS_PER_FILE: usize = 500;

/// The longest message, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

/// A problem at one position of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in UTF-16 code units.
    pub column: u32,
    pub severity: Severity,
    pub message: String,
    /// The server's name or number for this kind of problem.
    pub code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    Hint,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "hint",
        }
    }
}

impl Finding {
    /// Reads a list of diagnostics, errors first. Skips malformed entries and those beyond
    /// `MAX_FINDINGS_PER_FILE`.
    pub(crate) fn read_all(list: &Value) -> Vec<Finding> {
        let entries = list.as_array().map(Vec::as_slice).unwrap_or_default();
        let read = |entry: &Value| Diagnostic::deserialize(entry).ok().map(Finding::from);
        let mut findings: Vec<Finding> = entries.iter().take(4 * MAX_FINDINGS_PER_FILE).filter_map(read).collect();
        findings.sort_by_key(|finding| (finding.severity, finding.line, finding.column));
        findings.truncate(MAX_FINDINGS_PER_FILE);
        findings
    }

    /// Returns the finding as one line of text for the model.
    pub fn describe(&self, shown: &str) -> String {
        let Self { line, column, severity, message, code } = self;
        let code = code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
        format!("{shown}:{line}:{column}: {}: {message}{code}", severity.name())
    }
}

impl From<Diagnostic> for Finding {
    fn from(diagnostic: Diagnostic) -> Self {
        let message = match diagnostic.message {
            Message::String(text) => text,
            Message::MarkupContent(markup) => markup.value,
        };
        let code = diagnostic.code.map(|code| match code {
            Code::Int(number) => number.to_string(),
            Code::String(text) => text,
        });
        Self {
            line: diagnostic.range.start.line.saturating_add(1),
            column: diagnostic.range.start.character.saturating_add(1),
            severity: match diagnostic.severity {
                // The severity is optional, and the protocol lets the client choose one; we choose
                // error.
                Some(DiagnosticSeverity::Error) | None => Severity::Error,
                Some(DiagnosticSeverity::Warning) => Severity::Warning,
                Some(_) => Severity::Hint,
            },
            message: one_line(&message),
            code: code.map(|code| one_line(&code)),
        }
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    cut(&line, MAX_MESSAGE_CHARS)
}

/// Returns the errors that were not there before. Compares messages and codes but not positions,
/// because an edit moves the lines that follow it.
pub(crate) fn new_errors(before: &[Finding], after: &[Finding]) -> Vec<Finding> {
    let mut known: HashMap<(&str, Option<&str>), usize> = HashMap::new();
    for finding in before {
        *known.entry((&finding.message, finding.code.as_deref())).or_default() += 1;
    }
    let mut new = Vec::new();
    for finding in after.iter().filter(|finding| finding.severity == Severity::Error) {
        match known.get_mut(&(finding.message.as_str(), finding.code.as_deref())) {
            Some(left @ 1..) => *left -= 1,
            Some(0) | None => new.push(finding.clone()),
        }
    }
    new
}

/// Returns a path for the model: relative to the folder, if it is inside.
pub(crate) fn shown(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(line: u32, message: &str) -> Value {
        let place = json!({"line": line, "character": 4});
        json!({"range": {"start": place, "end": place}, "message": message, "severity": 1, "code": "E1"})
    }

    #[test]
    fn an_error_that_only_moved_is_not_new_and_a_second_one_of_its_kind_is() {
        let before = Finding::read_all(&json!([at(3, "no x"), at(9, "no y")]));
        let after = Finding::read_all(&json!([at(7, "no x"), at(8, "no x"), at(13, "no y")]));
        let new: Vec<_> = new_errors(&before, &after).iter().map(|new| new.describe("a.py")).collect();
        assert_eq!(new, ["a.py:9:5: error: no x [E1]"]);
    }

    #[test]
    fn malformed_entries_hide_no_others_and_warnings_are_not_errors() {
        let mut warning = at(1, "unused\n  import \u{1b}[31m");
        warning["severity"] = json!(2);
        let list = json!([{"message": 5}, null, at(2, "no x"), warning]);
        let found = Finding::read_all(&list);
        let lines: Vec<_> = found.iter().map(|found| found.describe("a.py")).collect();
        assert_eq!(lines, ["a.py:3:5: error: no x [E1]", "a.py:2:5: warning: unused import [31m [E1]"]);
        assert_eq!(new_errors(&[], &found).len(), 1);
        assert!(Finding::read_all(&json!("rubbish")).is_empty());
    }

    #[test]
    fn the_number_and_length_of_findings_are_bounded() {
        let many: Vec<_> = (0..5000).map(|line| at(line, &"x".repeat(5000))).collect();
        let found = Finding::read_all(&json!(many));
        assert_eq!(found.len(), MAX_FINDINGS_PER_FILE);
        assert!(found[0].message.len() < MAX_MESSAGE_CHARS + 10);
    }
}
