//! Reads the plan that a model sends with `update_plan`. The reader is lenient, because models use
//! different words for the same status.

use serde_json::{Map, Value};

use crate::PlanEntry;
use crate::tool::{PlanStatus, Priority};

/// An example for the model when its plan cannot be read.
const EXAMPLE: &str = r#"send {"entries": [{"content": "Add a test", "status": "in_progress", "priority": "medium"}]}, with every entry of the plan; status is pending, in_progress or completed"#;

/// Reads the input of an `update_plan` call. The error explains to the model what to send instead.
pub fn read_plan(input: &Value) -> Result<Vec<PlanEntry>, String> {
    let entries = match input {
        Value::Array(entries) => entries,
        Value::Object(fields) => match first(fields, &["entries", "plan", "todos", "steps", "items", "tasks"]) {
            Some(Value::Array(entries)) => entries,
            // Some models send the list as a JSON text.
            Some(Value::String(text)) => match serde_json::from_str::<Value>(text) {
                Ok(list @ Value::Array(_)) => return read_plan(&list),
                Ok(_) | Err(_) => return Err(format!("`entries` must be a list; {EXAMPLE}")),
            },
            Some(_) => return Err(format!("`entries` must be a list; {EXAMPLE}")),
            None => return Err(format!("`entries` is missing; {EXAMPLE}")),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(format!("the plan must be an object; {EXAMPLE}"));
        }
    };
    entries.iter().enumerate().map(|(at, entry)| read_entry(at, entry)).collect()
}

fn read_entry(at: usize, entry: &Value) -> Result<PlanEntry, String> {
    let new = |content: &str| PlanEntry {
        content: content.to_owned(),
        priority: Priority::Medium,
        status: PlanStatus::Pending,
    };
    let fields = match entry {
        Value::String(content) if !content.trim().is_empty() => return Ok(new(content)),
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(format!("`entries[{at}]` must be an object; {EXAMPLE}"));
        }
    };
    let content = first(fields, &["content", "step", "text", "title", "task", "description", "name"]);
    let Some(content) = content.and_then(Value::as_str).filter(|content| !content.trim().is_empty()) else {
        return Err(format!("`entries[{at}].content` must be a text; {EXAMPLE}"));
    };
    let status = match first(fields, &["status", "state"]) {
        None => Status::Known(PlanStatus::Pending),
        Some(status) => read_status(status).ok_or_else(|| format!("`entries[{at}].status` is {status}; {EXAMPLE}"))?,
    };
    let priority = fields.get("priority").and_then(read_priority).unwrap_or(Priority::Medium);
    Ok(match status {
        Status::Known(status) => PlanEntry { priority, status, ..new(content) },
        Status::Nearest(status, word) => PlanEntry { priority, status, ..new(&format!("{content} ({word})")) },
    })
}

/// Returns the value of the first of these keys that exists.
fn first<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| fields.get(*name)).filter(|value| !value.is_null())
}

/// The protocol's equivalent of a word for a status; the protocol has only three statuses.
enum Status<'a> {
    Known(PlanStatus),
    /// The nearest status; the word itself is shown with the entry. An entry that failed or was
    /// given up counts as completed, because no work on it remains and it would otherwise stay open
    /// forever.
    Nearest(PlanStatus, &'a str),
}

fn read_status(status: &Value) -> Option<Status<'_>> {
    let word = match status {
        Value::Bool(true) => return Some(Status::Known(PlanStatus::Completed)),
        Value::Bool(false) => return Some(Status::Known(PlanStatus::Pending)),
        Value::String(word) => word,
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(match plain(word).as_str() {
        "pending" | "todo" | "open" | "new" | "planned" | "queued" | "waiting" | "notstarted" | "upcoming" | "" => {
            Status::Known(PlanStatus::Pending)
        }
        "inprogress" | "progress" | "active" | "current" | "doing" | "running" | "started" | "working" | "ongoing"
        | "wip" => Status::Known(PlanStatus::InProgress),
        "completed" | "complete" | "done" | "finished" | "success" | "succeeded" | "closed" | "ok" => {
            Status::Known(PlanStatus::Completed)
        }
        "failed" | "failure" | "error" | "cancelled" | "canceled" | "skipped" | "aborted" | "abandoned" => {
            Status::Nearest(PlanStatus::Completed, word)
        }
        "blocked" | "paused" | "onhold" | "deferred" | "postponed" => Status::Nearest(PlanStatus::Pending, word),
        _ => return None,
    })
}

/// Reads a priority, or returns None for an unknown one, which does not invalidate the plan.
fn read_priority(priority: &Value) -> Option<Priority> {
    Some(match plain(priority.as_str()?).as_str() {
        "high" | "highest" | "critical" | "urgent" | "important" => Priority::High,
        "low" | "lowest" | "minor" | "optional" => Priority::Low,
        _ => Priority::Medium,
    })
}

/// Normalises a word: `In-Progress`, `in_progress` and `in progress` become the same.
fn plain(word: &str) -> String {
    word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(word: Value) -> Result<PlanStatus, String> {
        read_plan(&json!({ "entries": [{ "content": "a", "status": word }] })).map(|entries| entries[0].status)
    }

    #[test]
    fn synonyms_of_a_status_are_understood() {
        for word in ["pending", "todo", "not_started", "blocked"] {
            assert_eq!(status(json!(word)), Ok(PlanStatus::Pending), "{word}");
        }
        for word in ["in_progress", "In Progress", "in-progress", "doing", "ACTIVE"] {
            assert_eq!(status(json!(word)), Ok(PlanStatus::InProgress), "{word}");
        }
        for word in ["completed", "done", "failed", "cancelled", "Skipped"] {
            assert_eq!(status(json!(word)), Ok(PlanStatus::Completed), "{word}");
        }
        let failed = read_plan(&json!({ "entries": [{ "content": "Build", "status": "failed" }] })).unwrap();
        assert_eq!(failed[0].content, "Build (failed)");
        assert_eq!(status(json!(true)), Ok(PlanStatus::Completed));
        assert_eq!(status(json!(null)), Ok(PlanStatus::Pending));
    }

    #[test]
    fn plans_of_other_shapes_are_understood() {
        let contents = |input: Value| -> Vec<String> {
            read_plan(&input).unwrap().into_iter().map(|entry| entry.content).collect()
        };
        assert_eq!(contents(json!({ "plan": [{ "step": "a", "status": "done" }, "b"] })), ["a", "b"]);
        assert_eq!(contents(json!({ "todos": [{ "content": "a", "priority": 7 }] })), ["a"]);
        assert_eq!(contents(json!([{ "title": "a" }])), ["a"]);
        assert_eq!(contents(json!({ "entries": "[\"a\", {\"content\": \"b\"}]" })), ["a", "b"]);
        assert_eq!(contents(json!({ "entries": [] })), Vec::<String>::new());
    }

    #[test]
    fn an_unreadable_plan_is_refused_with_the_expected_form() {
        for (input, why) in [
            (json!("nonsense"), "the plan must be an object; send {"),
            (json!({}), "`entries` is missing; send {"),
            (json!({ "entries": "nonsense" }), "`entries` must be a list; send {"),
            (json!({ "entries": [7] }), "`entries[0]` must be an object; send {"),
            (json!({ "entries": ["a", { "status": "done" }] }), "`entries[1].content` must be a text; send {"),
            (json!({ "entries": [{ "content": "a", "status": "odd" }] }), "`entries[0].status` is \"odd\"; send {"),
        ] {
            let error = read_plan(&input).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
