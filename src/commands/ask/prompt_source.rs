//! Where the prompt comes from, and the context that goes with it.

use std::io::{self, IsTerminal, Read};

use anyhow::{Context, bail};
use serde_json::{Value, json};

pub(super) enum PromptSource {
    /// The blocks of one prompt.
    Once(Vec<Value>),
    /// A conversation at the terminal.
    Terminal,
}

impl PromptSource {
    /// Chooses the source: a text with stdin as its context, stdin alone, or a conversation.
    pub(super) fn choose(words: &[String]) -> anyhow::Result<Self> {
        let words = words.join(" ");
        if io::stdin().is_terminal() {
            return Ok(if words.trim().is_empty() { Self::Terminal } else { Self::Once(vec![text(&words)]) });
        }
        let mut given = Vec::new();
        io::stdin().read_to_end(&mut given).context("cannot read stdin")?;
        let given = String::from_utf8_lossy(&given);
        match (words.trim().is_empty(), given.trim().is_empty()) {
            (true, true) => bail!("there is no prompt; give a text, or write it to stdin"),
            (true, false) => Ok(Self::Once(vec![text(&given)])),
            (false, true) => Ok(Self::Once(vec![text(&words)])),
            (false, false) => Ok(Self::Once(vec![context(&given), text(&words)])),
        }
    }
}

pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn context(text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": "file:///dev/stdin", "mimeType": "text/plain", "text": text } })
}
