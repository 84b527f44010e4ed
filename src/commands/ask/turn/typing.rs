//! Handles what the user types during a turn: a separate line, which joins the turn when it is
//! sent.
//!
//! No input is lost: a line that the daemon refuses, or that is unfinished when the turn ends,
//! becomes the beginning of the next prompt. If a question arrives meanwhile, no key answers it
//! before the line is sent or set aside, because the next letter of a word must not allow anything.

use serde_json::{Value, json};
use terminal::table::one_line;
use wire::method;
use wire::rpc::Id;

use super::{SentPrompt, Waiting};
use crate::commands::ask::keys::Key;
use crate::commands::ask::{Conversation, GOODBYES, attachments};

/// Applies a key to the line. Enter changes nothing.
pub(super) fn edit(line: &mut String, key: Key) {
    match key {
        Key::Letter(letter) | Key::Pasted(letter) => line.push(letter),
        Key::NewLine => line.push('\n'),
        Key::Backspace => drop(line.pop()),
        Key::EraseLine => line.clear(),
        Key::EraseWord => {
            let kept = line.trim_end().rfind(char::is_whitespace).map_or(0, |space| space + 1);
            line.truncate(kept);
        }
        Key::Enter | Key::Up | Key::Down | Key::Escape => {}
    }
}

impl Conversation {
    pub(in crate::commands::ask) async fn send_prompt(&mut self, prompt: Vec<Value>) -> anyhow::Result<Id> {
        for word in attachments::missing(&prompt) {
            self.output.remark(&format!("`{}` names no file and is sent as text", one_line(&word)))?;
        }
        let meta = json!({ "acpd": { "whenBusy": "steer" } });
        let params = json!({ "sessionId": self.session, "prompt": prompt, "_meta": meta });
        self.client.send(method::SESSION_PROMPT, params).await
    }

    pub(super) async fn type_ahead(&mut self, key: Key, waiting: &mut Waiting) -> anyhow::Result<()> {
        match key {
            Key::Enter => {
                let line = std::mem::take(&mut self.draft);
                self.send_typed(line.trim(), waiting).await?;
            }
            key => edit(&mut self.draft, key),
        }
        self.output.typing(&self.draft)
    }

    /// Handles a key that came too late for the turn. In a conversation, Enter makes the line the
    /// next prompt.
    pub(super) fn type_after_turn(&mut self, key: Key) {
        if key == Key::Enter && self.conversing {
            self.queued.push_back(std::mem::take(&mut self.draft));
        } else {
            edit(&mut self.draft, key);
        }
    }

    /// Sends a line to the running turn. In a conversation, a slash command waits for the end of
    /// the turn.
    async fn send_typed(&mut self, line: &str, waiting: &mut Waiting) -> anyhow::Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        if self.conversing && (line.starts_with('/') || GOODBYES.contains(&line)) {
            self.queued.push_back(line.to_owned());
            return self.output.remark(&format!("after this turn: {line}"));
        }
        let blocks = match attachments::blocks(line) {
            Ok(blocks) => blocks,
            Err(error) => return self.keep_typed(line, &error),
        };
        let id = self.send_prompt(blocks).await?;
        waiting.prompts.push(SentPrompt { id, typed: Some(line.to_owned()) });
        self.output.prompt(line)
    }

    /// Keeps a line that the daemon did not accept, as the beginning of the next prompt.
    pub(super) fn keep_typed(&mut self, text: &str, error: &anyhow::Error) -> anyhow::Result<()> {
        self.draft = if self.draft.is_empty() { text.to_owned() } else { format!("{text}\n{}", self.draft) };
        self.output.trouble(&format!("not sent: {error}"))?;
        self.output.typing(&self.draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_at_its_end() {
        let mut line = "one two".to_owned();
        edit(&mut line, Key::Backspace);
        edit(&mut line, Key::EraseWord);
        assert_eq!(line, "one ");
        edit(&mut line, Key::Letter('ä'));
        edit(&mut line, Key::NewLine);
        edit(&mut line, Key::Enter);
        assert_eq!(line, "one ä\n");
        edit(&mut line, Key::EraseLine);
        assert_eq!(line, "");
    }
}
