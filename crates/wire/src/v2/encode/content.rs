//! Encodes content blocks, tool calls, diffs and plans.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::tool::{Location, OutcomeKind, PlanStatus, Priority};
use domain::{CallId, Content, PlanEntry, ToolCard, ToolContent, ToolKind};
use serde_json::{Map, Value, json};
use similar::TextDiff;

use crate::v1;

/// The maximum size of both texts together, in bytes. Larger texts get no patch, because it would
/// take too long to compute.
const PATCHED: usize = 256 << 10;

/// How long the computation of one patch may take. After that, the rest is shown as replaced.
const PATCH_TIME: Duration = Duration::from_millis(50);

/// A path as text. Bytes that are not UTF-8 are replaced.
pub(crate) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// A content block of a message. Both versions write blocks alike.
pub(crate) fn block(content: &Content) -> Value {
    v1::encode::value(&v1::encode::content::block(content))
}

/// The fields of a call that is announced, or that the user is asked about.
pub(crate) fn pending_call(call: &CallId, card: &ToolCard) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("toolCallId".to_owned(), json!(call));
    fields.insert("title".to_owned(), json!(card.title));
    fields.insert("name".to_owned(), json!(card.tool));
    fields.insert("kind".to_owned(), json!(v1::encode::content::kind(card.kind)));
    fields.insert("status".to_owned(), json!("pending"));
    if !card.preview.is_empty() {
        fields.insert("content".to_owned(), tool_contents(&card.preview, card.kind).into());
    }
    if !card.locations.is_empty() {
        fields.insert("locations".to_owned(), card.locations.iter().map(location).collect());
    }
    if !card.input.is_null() {
        fields.insert("rawInput".to_owned(), card.input.clone());
    }
    fields
}

pub(crate) fn location(location: &Location) -> Value {
    match location.line {
        Some(line) => json!({ "path": path(&location.path), "line": line }),
        None => json!({ "path": path(&location.path) }),
    }
}

pub(crate) fn status(verdict: OutcomeKind) -> &'static str {
    match verdict {
        OutcomeKind::Completed => "completed",
        OutcomeKind::Cancelled => "cancelled",
        OutcomeKind::Failed | OutcomeKind::Denied | OutcomeKind::Interrupted => "failed",
    }
}

/// Encodes the content of a call. Clients of this version have no terminals, so terminals of
/// clients are omitted; their text is part of the content.
pub(crate) fn tool_contents(content: &[ToolContent], kind: ToolKind) -> Vec<Value> {
    content.iter().filter_map(|content| tool_content(content, kind)).collect()
}

pub(crate) fn tool_content(content: &ToolContent, kind: ToolKind) -> Option<Value> {
    Some(match content {
        ToolContent::Text { text } => text_content(text),
        ToolContent::Diff { path, old, new } => diff(path, old.as_deref(), new, kind),
        ToolContent::Image { data, mime } => {
            json!({ "type": "content", "content": { "type": "image", "data": data, "mimeType": mime } })
        }
        ToolContent::Block { block: shown } => json!({ "type": "content", "content": block(shown) }),
        ToolContent::Terminal { .. } => return None,
    })
}

pub(crate) fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

pub(crate) fn terminal_content(terminal: &CallId) -> Value {
    json!({ "type": "terminal", "terminalId": terminal })
}

fn diff(file: &Path, old: Option<&str>, new: &str, kind: ToolKind) -> Value {
    let operation = match old {
        None => "add",
        Some(_) if new.is_empty() && kind == ToolKind::Delete => "delete",
        Some(_) => "modify",
    };
    let file = path(file);
    let mut diff = json!({
        "type": "diff",
        "changes": [{ "operation": operation, "path": file, "fileType": "text" }],
    });
    if let Some(patch) = patch(&file, operation, old.unwrap_or_default(), new) {
        diff["patch"] = json!({ "format": "git_patch", "text": patch });
    }
    diff
}

/// The change as `git diff` writes it, or `None` if the texts are too long.
fn patch(file: &str, operation: &str, old: &str, new: &str) -> Option<String> {
    if old.len() + new.len() > PATCHED {
        return None;
    }
    let name = file.trim_start_matches('/');
    let (before, after) = (format!("a/{name}"), format!("b/{name}"));
    let (from, to, mode) = match operation {
        "add" => ("/dev/null", after.as_str(), "new file mode 100644\n"),
        "delete" => (before.as_str(), "/dev/null", "deleted file mode 100644\n"),
        _ => (before.as_str(), after.as_str(), ""),
    };
    let changes = TextDiff::configure().timeout(PATCH_TIME).diff_lines(old, new);
    let hunks = changes.unified_diff().context_radius(3).header(from, to).to_string();
    Some(format!("diff --git {before} {after}\n{mode}{hunks}"))
}

pub(crate) fn plan_entry(entry: &PlanEntry) -> Value {
    let priority = match entry.priority {
        Priority::High => "high",
        Priority::Medium => "medium",
        Priority::Low => "low",
    };
    let status = match entry.status {
        PlanStatus::Pending => "pending",
        PlanStatus::InProgress => "in_progress",
        PlanStatus::Completed => "completed",
    };
    json!({ "content": entry.content, "priority": priority, "status": status })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn an_edit_is_a_change_with_a_patch() {
        let edit = diff("/w/a.txt".as_ref(), Some("one\ntwo\n"), "one\n2\n", ToolKind::Edit);
        assert_eq!(edit["changes"], json!([{ "operation": "modify", "path": "/w/a.txt", "fileType": "text" }]));
        expect![[r#"
            diff --git a/w/a.txt b/w/a.txt
            --- a/w/a.txt
            +++ b/w/a.txt
            @@ -1,2 +1,2 @@
             one
            -two
            +2
        "#]]
        .assert_eq(edit["patch"]["text"].as_str().unwrap());
        let added = diff("/w/a".as_ref(), None, "x\n", ToolKind::Edit);
        assert_eq!(added["changes"][0]["operation"], "add");
        assert!(added["patch"]["text"].as_str().unwrap().contains("--- /dev/null\n+++ b/w/a\n"));
        let gone = diff("/w/a".as_ref(), Some("x\n"), "", ToolKind::Delete);
        assert_eq!(gone["changes"][0]["operation"], "delete");
        let emptied = diff("/w/a".as_ref(), Some("x\n"), "", ToolKind::Edit);
        assert_eq!(emptied["changes"][0]["operation"], "modify");
    }

    #[test]
    fn a_change_of_a_long_text_has_no_patch() {
        let long = "x\n".repeat(PATCHED / 2);
        let edit = diff("/w/a.txt".as_ref(), Some(&long), "y\n", ToolKind::Edit);
        assert_eq!(edit["changes"][0]["operation"], "modify");
        assert!(edit.get("patch").is_none());
    }
}
