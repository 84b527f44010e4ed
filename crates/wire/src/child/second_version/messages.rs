//! The messages of a child of version 2, which can replace their text.
//!
//! Text in the log of a session cannot be taken back. A text that continues what was there before
//! is reported as its new part, and any other one as a further message.

use std::collections::BTreeMap;

use domain::MessageId;
use serde_json::{Value, json};

/// The most bytes of text that are kept to compare them with replacements.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// The text of the messages since the last prompt, by their ids. None if it is too long to be kept.
#[derive(Debug, Default)]
pub(super) struct Messages {
    texts: BTreeMap<String, Option<String>>,
    size: usize,
}

impl Messages {
    pub(super) fn forget(&mut self) {
        self.texts.clear();
        self.size = 0;
    }

    /// Adds the text of a chunk to its message.
    pub(super) fn extend(&mut self, chunk: &Value) {
        if let Some(message) = chunk["messageId"].as_str() {
            self.append(message, chunk["content"]["text"].as_str().unwrap_or_default());
        }
    }

    fn append(&mut self, message: &str, text: &str) {
        self.size += text.len();
        let kept = self.texts.entry(message.to_owned()).or_insert_with(|| Some(String::new()));
        match kept {
            Some(before) if self.size <= MAX_KEPT_BYTES => before.push_str(text),
            Some(_) | None => *kept = None,
        }
    }

    /// Replaces the content of a message, and returns what is new of it as chunks.
    pub(super) fn replace(&mut self, kind: &str, update: &Value) -> Vec<Value> {
        let (Some(message), Some(blocks)) = (update["messageId"].as_str(), update["content"].as_array()) else {
            return Vec::new();
        };
        let chunk = |message: &str, content: &Value| json!({ "sessionUpdate": format!("{kind}_chunk"), "messageId": message, "content": content });
        let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let before = match self.texts.get(message) {
            None => {
                self.append(message, &text);
                return blocks.iter().map(|block| chunk(message, block)).collect();
            }
            Some(None) => return Vec::new(),
            Some(Some(before)) => before,
        };
        let (to, new) = match text.strip_prefix(before.as_str()) {
            Some(new) => (message.to_owned(), new),
            None => {
                self.texts.insert(message.to_owned(), Some(String::new()));
                (MessageId::new().to_string(), text.as_str())
            }
        };
        self.append(message, new);
        if new.is_empty() { Vec::new() } else { vec![chunk(&to, &json!({ "type": "text", "text": new }))] }
    }
}
