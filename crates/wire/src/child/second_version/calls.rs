//! The calls and terminals of a child of version 2.
//!
//! The content of a call can grow piece by piece, and a terminal in it is a reference to output
//! that arrives separately. In version 1 a report replaces the whole content. A growing content is
//! reported each time it has doubled, and with the next change of its call, so all reports of it
//! together are not much longer than the last one.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The most ids of announced calls that are remembered.
const ANNOUNCED: usize = 10_000;

/// The most open calls with content, the most terminals, and the most bytes that are kept of each.
const MAX_KEPT: usize = 200;
const MAX_BYTES_OF_EACH: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct Calls {
    announced: BTreeSet<String>,
    open: BTreeMap<String, Call>,
    terminals: BTreeMap<String, Terminal>,
}

/// An open call with content.
#[derive(Debug, Default)]
struct Call {
    /// The content, in version 2.
    content: Vec<Value>,
    locations: Vec<Value>,
    /// The size of the content now, and in the last report.
    size: usize,
    reported: usize,
}

#[derive(Debug, Default)]
struct Terminal {
    command: String,
    output: Vec<u8>,
    exit: Value,
}

impl Calls {
    /// Whether this call is known.
    pub(super) fn has(&self, call: &Value) -> bool {
        call["toolCallId"].as_str().is_some_and(|id| self.announced.contains(id))
    }

    /// Translates an update of a call. The first one announces it.
    pub(super) fn change(&mut self, mut update: Value) -> Option<Value> {
        let id = update["toolCallId"].as_str()?.to_owned();
        if self.announced.len() >= ANNOUNCED {
            self.announced.clear();
        }
        if self.announced.insert(id.clone()) {
            update["sessionUpdate"] = json!("tool_call");
            if !update["title"].is_string() {
                update["title"] = json!(update["name"].as_str().unwrap_or("tool"));
            }
        }
        let is_full = self.open.len() >= MAX_KEPT && !self.open.contains_key(&id);
        let mut call = if is_full { Call::default() } else { self.open.remove(&id).unwrap_or_default() };
        let content = update.get_mut("content").map(Value::take);
        let has_grown = content.is_none() && call.size > call.reported;
        if let Some(content) = content {
            call.content = content.as_array().cloned().unwrap_or_default();
            call.size = call.content.iter().map(size).sum();
        }
        if has_grown || update.get("content").is_some() {
            update["content"] = call.content.iter().map(|piece| self.translate_content(piece)).collect();
            call.reported = call.size;
        }
        add_locations(&mut call, &mut update);
        let is_over = matches!(update["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        translate_status(&mut update);
        if !is_over && !is_full {
            self.open.insert(id, call);
        }
        Some(update)
    }

    /// Adds a piece to the content of a call.
    pub(super) fn extend(&mut self, update: &Value) -> Option<Value> {
        let id = update["toolCallId"].as_str()?;
        let piece = &update["content"];
        let length = size(piece);
        if !self.open.contains_key(id) {
            let call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "content": [piece] });
            return self.change(call);
        }
        let call = self.open.get_mut(id).filter(|call| call.size + length <= MAX_BYTES_OF_EACH)?;
        call.content.push(piece.clone());
        call.size += length;
        self.report_if_doubled(id)
    }

    fn report_if_doubled(&mut self, id: &str) -> Option<Value> {
        self.open.get(id).filter(|call| call.size >= 2 * call.reported)?;
        self.change(unchanged(id))
    }

    /// Reports the contents that have grown since their last reports.
    pub(super) fn report_all(&mut self) -> Vec<Value> {
        let grown = self.open.iter().filter(|(_, call)| call.size > call.reported);
        let grown: Vec<String> = grown.map(|(id, _)| id.clone()).collect();
        grown.iter().filter_map(|id| self.change(unchanged(id))).collect()
    }

    pub(super) fn change_terminal(&mut self, update: &Value) -> Vec<Value> {
        let Some(id) = update["terminalId"].as_str() else { return Vec::new() };
        if self.terminals.len() >= MAX_KEPT && !self.terminals.contains_key(id) {
            self.terminals.pop_first();
        }
        let terminal = self.terminals.entry(id.to_owned()).or_default();
        if let Some(command) = update["command"].as_str() {
            terminal.command = domain::text::cut(command, MAX_BYTES_OF_EACH);
        }
        if let Some(output) = update.get("output") {
            terminal.output.clear();
            terminal.append(output["data"].as_str().unwrap_or_default());
        }
        if let Some(exit) = update.get("exitStatus") {
            terminal.exit = exit.clone();
        }
        let length = terminal.output.len();
        self.grow(id, length)
    }

    pub(super) fn extend_terminal(&mut self, update: &Value) -> Vec<Value> {
        let Some(id) = update["terminalId"].as_str() else { return Vec::new() };
        let Some(terminal) = self.terminals.get_mut(id) else { return Vec::new() };
        let data = update["data"].as_str().unwrap_or_default();
        terminal.append(data);
        self.grow(id, data.len())
    }

    /// Reports the calls that show a terminal, if it has ended or its output has doubled since the
    /// last report.
    fn grow(&mut self, terminal: &str, length: usize) -> Vec<Value> {
        let has_ended = self.terminals.get(terminal).is_some_and(|terminal| terminal.exit.is_object());
        let shows = |call: &Call| call.content.iter().any(|piece| piece["terminalId"] == terminal);
        let calls: Vec<String> = self.open.iter().filter(|(_, call)| shows(call)).map(|(id, _)| id.clone()).collect();
        let mut updates = Vec::new();
        for id in calls {
            if let Some(call) = self.open.get_mut(&id) {
                call.size += length.max(1);
            }
            updates.extend(if has_ended { self.change(unchanged(&id)) } else { self.report_if_doubled(&id) });
        }
        updates
    }

    /// Translates a piece of a call's content: a diff becomes its patch, and a terminal its command
    /// and output.
    fn translate_content(&self, content: &Value) -> Value {
        let text = match content["type"].as_str() {
            Some("diff") => match content["patch"]["text"].as_str() {
                Some(patch) => fenced("diff", patch),
                None => changed_paths(content),
            },
            Some("terminal") => {
                let terminal = content["terminalId"].as_str().and_then(|id| self.terminals.get(id));
                terminal.map(Terminal::show).unwrap_or_default()
            }
            Some(_) | None => return content.clone(),
        };
        json!({ "type": "content", "content": { "type": "text", "text": text } })
    }
}

impl Terminal {
    /// Adds output to the end, in base64, and keeps the newest part.
    fn append(&mut self, data: &str) {
        self.output.extend(STANDARD.decode(data).unwrap_or_default());
        let surplus = self.output.len().saturating_sub(MAX_BYTES_OF_EACH);
        self.output.drain(..surplus);
    }

    fn show(&self) -> String {
        let output = String::from_utf8_lossy(&self.output);
        let text = format!("$ {}\n{}", self.command, output.trim_end());
        let exit = match (self.exit["exitCode"].as_i64(), self.exit["signal"].as_str()) {
            (Some(0), _) | (None, None) => String::new(),
            (Some(code), _) => format!("\n\nexit status {code}"),
            (None, Some(signal)) => format!("\n\nended by {signal}"),
        };
        fenced("", text.trim_end()) + &exit
    }
}

/// An update of a call that changes nothing by itself.
fn unchanged(id: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id })
}

/// Adds the files of the diffs to the locations of a report, because rules about files are compared
/// with the locations.
fn add_locations(call: &mut Call, update: &mut Value) {
    if let Some(locations) = update.get("locations") {
        call.locations = locations.as_array().cloned().unwrap_or_default();
    } else if update.get("content").is_none() {
        return;
    }
    let changes = call.content.iter().filter_map(|piece| piece["changes"].as_array()).flatten();
    let paths = changes.flat_map(|change| [&change["oldPath"], &change["path"]]).filter(|path| path.is_string());
    let mut locations = call.locations.clone();
    for path in paths {
        if !locations.iter().any(|location| location["path"] == *path) {
            locations.push(json!({ "path": path }));
        }
    }
    if update.get("locations").is_some() || locations.len() > call.locations.len() {
        update["locations"] = json!(locations);
    }
}

/// Puts a text into a fence that is longer than any in it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

fn size(piece: &Value) -> usize {
    piece.to_string().len()
}

fn changed_paths(diff: &Value) -> String {
    let changes = diff["changes"].as_array().into_iter().flatten();
    let line = |change: &Value| Some(format!("{} {}", change["operation"].as_str()?, change["path"].as_str()?));
    changes.filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Replaces a status that version 1 does not have.
fn translate_status(call: &mut Value) {
    let status = match call["status"].as_str() {
        None if call.get("status").is_some() => "pending",
        None | Some("pending" | "in_progress" | "completed" | "failed") => return,
        Some("cancelled") => "failed",
        Some(_) => "in_progress",
    };
    call["status"] = json!(status);
}
