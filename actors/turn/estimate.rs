//! Estimates the tokens of a request and its answer when the provider does not report them: a
//! quarter of the bytes of all text, a few for every message and tool, and a fixed number for every
//! picture, sound or file. A PDF that is sent as text counts as text once that is known. The
//! estimate is only accurate enough to see the window fill up. Pure.

use std::sync::Arc;

use domain::conversation::{CallResult, Message};
use domain::model::{Delta, ModelRequest};
use domain::tool::ToolSpec;
use domain::{Content, Payload, Usage};

const BYTES_PER_TOKEN: usize = 4;

/// The overhead of a message or a tool: roles, field names, and start and end markers.
const AROUND: u64 = 8;

/// The cost of a picture or a page of common size at the large providers, regardless of its size in
/// bytes.
const MEDIUM: u64 = 1_600;

/// The estimated size of one request and its answer.
#[derive(Default)]
pub(super) struct Tally {
    /// The estimated number of tokens in the request.
    pub(super) sent: u64,
    /// The number of bytes in the answer so far.
    pub(super) received: usize,
    /// Whether the provider has reported its own count.
    pub(super) is_counted: bool,
}

impl Tally {
    pub(super) fn guess(&self) -> Usage {
        Usage { input: self.sent, output: tokens(self.received), ..Usage::default() }
    }

    /// Counts the text of PDFs instead of the fixed number for each.
    pub(super) fn count_text(&mut self, documents: u32, bytes: usize) {
        self.sent = self.sent.saturating_sub(u64::from(documents) * MEDIUM) + tokens(bytes);
    }
}

pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

pub(super) fn request(request: &ModelRequest) -> u64 {
    tokens(request.system.len()) + conversation(&request.messages, &request.tools)
}

pub(super) fn conversation(messages: &[Arc<Message>], tools: &[ToolSpec]) -> u64 {
    let tools = tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len());
    let tools = tools.map(|bytes| tokens(bytes) + AROUND).sum::<u64>();
    tools + messages.iter().map(|one| message(one) + AROUND).sum::<u64>()
}

pub(super) fn message(message: &Message) -> u64 {
    match message {
        Message::User { content, .. } => content.iter().map(block).sum(),
        Message::Assistant { .. } => tokens(message.weight()),
        Message::Results { results } => results.iter().map(result).sum(),
    }
}

pub(super) fn result(result: &CallResult) -> u64 {
    tokens(result.text.len()) + result.images.iter().map(block).sum::<u64>()
}

fn block(content: &Content) -> u64 {
    match &content.payload {
        Payload::Image { .. } | Payload::Audio { .. } | Payload::BlobResource { .. } => MEDIUM,
        Payload::Text { .. } | Payload::Link { .. } | Payload::TextResource { .. } => tokens(content.weight()),
    }
}

/// The number of bytes that one delta adds to the answer.
pub(super) fn weight(delta: &Delta) -> usize {
    match delta {
        Delta::Text(text) | Delta::Thought(text) => text.len(),
        Delta::Seal(seal) => seal.to_string().len(),
        Delta::Call { tool, input, .. } => tool.len() + input.to_string().len(),
        Delta::CallBegun { .. }
        | Delta::CutCall { .. }
        | Delta::Abandoned
        | Delta::Usage(_)
        | Delta::DocumentsAsText { .. }
        | Delta::Notice(_)
        | Delta::Stopped(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use domain::{Environment, MessageId, ThoughtLevel};
    use serde_json::json;

    use super::*;

    #[test]
    fn text_counts_by_its_bytes_and_a_picture_by_itself() {
        let picture =
            || Content::from(Payload::Image { data: "A".repeat(400_000), mime: "image/png".into(), uri: None });
        let asked = Message::User { id: MessageId::new(), content: vec![Content::text("x".repeat(400)), picture()] };
        let result = CallResult { call: "c".into(), text: "é".repeat(100), images: vec![picture()], failed: false };
        let results = Message::Results { results: vec![result] };
        assert_eq!((message(&asked), message(&results)), (100 + MEDIUM, 50 + MEDIUM));
        let request = request(&ModelRequest {
            system: "s".repeat(40),
            messages: vec![Arc::new(asked)],
            tools: vec![ToolSpec { name: "t".into(), description: "does".into(), schema: json!({}), read_only: true }],
            thought: ThoughtLevel::Off,
            environment: Arc::new(Environment::default()),
        });
        assert_eq!(request, 10 + (2 + AROUND) + (100 + MEDIUM + AROUND));
    }

    #[test]
    fn a_pdf_that_is_sent_as_text_counts_by_its_text() {
        let pdf = Payload::BlobResource { uri: "a.pdf".into(), mime: Some("application/pdf".into()), blob: "A".into() };
        let asked = Message::User { id: MessageId::new(), content: vec![Content::from(pdf)] };
        let mut tally = Tally { sent: message(&asked), ..Tally::default() };
        assert_eq!(tally.guess().input, MEDIUM);
        tally.count_text(1, 40_000);
        assert_eq!(tally.guess().input, 10_000);
    }
}
