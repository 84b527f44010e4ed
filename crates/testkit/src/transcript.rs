//! The transcript: every message, with its sender, in order. Ids that differ from run to run become
//! `#1`, `#2`, ... in the order in which they appear, and times become `T`, so a transcript is the
//! same every time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Clone, Default)]
pub struct Transcript(Arc<Mutex<TranscriptState>>);

#[derive(Default)]
struct TranscriptState {
    lines: Vec<String>,
    ids: Vec<String>,
}

impl Transcript {
    pub fn note(&self, line: impl Into<String>) {
        let mut pages = self.0.lock().unwrap();
        let line = pages.rename(line.into());
        pages.lines.push(line);
    }

    /// Records a JSON-RPC message in short form. Its id is shown as it was written.
    pub fn message(&self, from_to: &str, message: &str) {
        let said = match serde_json::from_str::<BTreeMap<String, &RawValue>>(message) {
            Ok(fields) => {
                brief(fields.get("id").map(|id| id.get()), &serde_json::from_str(message).unwrap_or_default())
            }
            Err(_) => message.to_owned(),
        };
        self.note(format!("{from_to} {said}"));
    }

    /// Returns all lines since the last call.
    pub fn take(&self) -> String {
        let mut text = String::new();
        for line in self.0.lock().unwrap().lines.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

fn brief(id: Option<&str>, message: &Value) -> String {
    let params = &message["params"];
    match (message["method"].as_str(), id) {
        (Some("session/update"), None) => format!("update {}", without_meta(&params["update"])),
        (Some(method), None) => format!("{method} {params}"),
        (Some(method), Some(id)) => format!("{id} {method} {params}"),
        (None, id) => {
            let id = id.unwrap_or("null");
            match message.get("error") {
                Some(error) => format!("{id} error {error}"),
                None => format!("{id} = {}", shorten(&message["result"])),
            }
        }
    }
}

/// Shortens a result. A session's options are the same in every response (one test shows them
/// whole), and a process id differs in each. The tests about repeated or implied fields show those.
fn shorten(result: &Value) -> Value {
    let mut result = result.clone();
    for menu in ["modes", "models", "configOptions", "pid"] {
        if let Some(offered) = result.get_mut(menu) {
            *offered = Value::from("...");
        }
    }
    if let Some(fields) = result.as_object_mut() {
        // The id is also in `_meta`.
        fields.remove("userMessageId");
        let is_answer_to_load = fields.get("_meta").is_some_and(|meta| meta["acpd"]["messages"].is_u64());
        if let Some(acpd) = fields.get_mut("_meta").and_then(|meta| meta["acpd"].as_object_mut())
            && is_answer_to_load
        {
            acpd.retain(|key, _| key != "messages" && key != "sessionId");
            if acpd.is_empty() {
                fields.remove("_meta");
            }
        }
    }
    result
}

/// Shortens an update: removes `_meta`, keeps only the current value of each option, and replaces
/// the list of slash commands, which `/help` shows.
fn without_meta(update: &Value) -> Value {
    let mut update = update.clone();
    if let Some(fields) = update.as_object_mut() {
        fields.remove("_meta");
    }
    if let Some(commands) = update.get_mut("availableCommands") {
        *commands = Value::from("...");
    }
    if let Some(Value::Array(options)) = update.get_mut("configOptions") {
        for option in options {
            *option = Value::from(format!("{}={}", show(&option["id"]), show(&option["currentValue"])));
        }
    }
    update
}

fn show(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl TranscriptState {
    fn rename(&mut self, line: String) -> String {
        let mut out = String::new();
        let mut rest = line.as_str();
        while let Some((before, id, after)) = find_uuid(rest) {
            out.push_str(before);
            let at = self.ids.iter().position(|known| known == id).unwrap_or_else(|| {
                self.ids.push(id.to_owned());
                self.ids.len() - 1
            });
            out.push_str(&format!("#{}", at + 1));
            rest = after;
        }
        out.push_str(rest);
        without_times(&out)
    }
}

/// Replaces every time such as `2026-01-02T03:04:05.678Z` by `T`.
fn without_times(line: &str) -> String {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd.dddZ";
    let is_time = |text: &str| {
        text.bytes().zip(SHAPE).all(|(byte, shape)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == *shape })
    };
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = (0..rest.len()).find(|at| rest.get(*at..at + SHAPE.len()).is_some_and(is_time)) {
        out.push_str(&rest[..at]);
        out.push('T');
        rest = &rest[at + SHAPE.len()..];
    }
    out.push_str(rest);
    out
}

const UUID: usize = 36;

fn find_uuid(text: &str) -> Option<(&str, &str, &str)> {
    let at = (0..text.len().saturating_sub(UUID - 1)).find(|at| text.get(*at..at + UUID).is_some_and(is_uuid))?;
    Some((&text[..at], &text[at..at + UUID], &text[at + UUID..]))
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
