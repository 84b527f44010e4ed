//! The final limit on the output of every call: longer text is cut in the middle, with a note.
//!
//! Tools limit their output themselves, each in its own way. This catches what they miscount: bytes
//! that become longer when they are made readable, or a single match that spans a whole file.

use std::sync::Arc;

use domain::tool::{Job, ToolHost};
use domain::{Outcome, ToolCard, ToolContent};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// Room for the notes that tools add to the output that they have counted.
const ROOM_FOR_NOTES: usize = 1024;

/// The limit for what users see. They may see more of a change to a large file than the model gets.
const SHOWN: usize = 65 * 1024;

/// A job whose output is limited.
pub(crate) struct LimitedJob {
    job: Box<dyn Job>,
    limit: usize,
}

impl LimitedJob {
    pub(crate) fn new(job: Box<dyn Job>, limit: usize) -> Self {
        Self { job, limit }
    }
}

impl Job for LimitedJob {
    fn card(&self) -> &ToolCard {
        self.job.card()
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        let Self { job, limit } = *self;
        Box::pin(async move { hold(job.run(host).await, limit) })
    }
}

fn hold(mut outcome: Outcome, limit: usize) -> Outcome {
    let cut = shorten(&mut outcome.text, limit + ROOM_FOR_NOTES);
    if let (true, Value::Object(facts)) = (cut, &mut outcome.raw) {
        facts.insert("truncated".to_owned(), Value::Bool(true));
    }
    for content in &mut outcome.content {
        if let ToolContent::Text { text } = content {
            shorten(text, limit.max(SHOWN) + ROOM_FOR_NOTES);
        }
    }
    outcome
}

/// Cuts the middle of a text that is longer than `limit`. Keeps a quarter at the beginning, as for
/// the output of a command.
fn shorten(text: &mut String, limit: usize) -> bool {
    if text.len() <= limit {
        return false;
    }
    let room = limit.saturating_sub(64);
    let head = text.floor_char_boundary(room / 4);
    let tail = text.ceil_char_boundary(text.len() - (room - room / 4));
    let note = format!("\n\n[{} bytes cut here]\n\n", tail - head);
    text.replace_range(head..tail, &note);
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_beyond_the_limit_is_cut_in_the_middle_with_a_note() {
        let long = format!("first{}last", "é".repeat(10_000));
        let outcome = Outcome::completed(long).with_raw(json!({"truncated": false}));
        let held = hold(outcome, 2000);
        assert!(held.text.len() <= 2000 + ROOM_FOR_NOTES, "{}", held.text.len());
        assert!(
            held.text.starts_with("first") && held.text.ends_with("last") && held.text.contains(" bytes cut here]")
        );
        assert_eq!(held.raw, json!({"truncated": true}));
        let short = Outcome::completed("x".repeat(2000)).with_raw(json!({"truncated": false}));
        assert_eq!(hold(short.clone(), 2000), short);
    }
}
