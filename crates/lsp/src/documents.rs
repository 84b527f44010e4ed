//! The files that are open in a server, with the text that the server has of each.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::messages;

/// The most files that are open in a server. Beyond that, the least recently used one is closed.
const MAX_OPEN: usize = 64;

#[derive(Default)]
pub(crate) struct Documents {
    /// Ordered by last use, the most recent one at the end.
    open: Vec<Document>,
}

struct Document {
    path: PathBuf,
    version: i32,
    text: String,
}

impl Documents {
    /// Records a new text of a file and returns the messages that bring the server up to date.
    pub(crate) fn set(&mut self, path: &Path, language: &str, text: &str) -> Vec<Value> {
        let known = self.open.iter().position(|document| document.path == path);
        let Some(at) = known else {
            let mut messages = Vec::new();
            if self.open.len() == MAX_OPEN {
                messages.push(messages::closed(&self.open.remove(0).path));
            }
            self.open.push(Document { path: path.to_owned(), version: 1, text: text.to_owned() });
            messages.push(messages::opened(path, language, text));
            return messages;
        };
        let mut document = self.open.remove(at);
        let mut messages = Vec::new();
        if document.text != text {
            document.version += 1;
            text.clone_into(&mut document.text);
            messages.push(messages::changed(path, document.version, text));
        }
        self.open.push(document);
        messages
    }

    /// Returns whether the server has exactly this text of the file.
    pub(crate) fn has(&self, path: &Path, text: &str) -> bool {
        self.open.iter().any(|document| document.path == path && document.text == text)
    }

    /// Returns the version number of the text that the server has.
    pub(crate) fn version(&self, path: &Path) -> Option<i32> {
        self.open.iter().find(|document| document.path == path).map(|document| document.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_opened_once_and_changed_only_if_its_text_differs() {
        let mut documents = Documents::default();
        let mut methods = |path: &str, text: &str| -> Vec<String> {
            let messages = documents.set(Path::new(path), "x", text);
            messages.iter().map(|message| message["method"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(methods("/a", "1"), ["textDocument/didOpen"]);
        assert!(methods("/a", "1").is_empty());
        assert_eq!(methods("/a", "2"), ["textDocument/didChange"]);
        for other in 0..MAX_OPEN - 1 {
            methods(&format!("/other/{other}"), "");
        }
        assert_eq!(methods("/b", ""), ["textDocument/didClose", "textDocument/didOpen"]);
        assert_eq!(methods("/a", "2"), ["textDocument/didClose", "textDocument/didOpen"]);
        assert!(documents.has(Path::new("/a"), "2"));
        assert_eq!(documents.version(Path::new("/a")), Some(1));
    }
}
