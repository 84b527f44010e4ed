//! Estimates the tokens of a request and its answer when the provider does not report them: a
//! quarter of the bytes of all text, a few for every message and tool, and a fixed number for every
//! picture, sound or file. A PDF counts by its pages, whose number is estimated from its size, and
//! as text once it is known to be sent as text. The estimate is only accurate enough to see the
//! window fill up. Pure.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use domain::conversation::{CallResult, Message};
use domain::model::{Delta, ModelRequest};
use domain::tool::ToolSpec;
use domain::{Content, Payload, Usage};
use serde_json::Value;

const BYTES_PER_TOKEN: usize = 4;

/// The overhead of a message or a tool: roles, field names, and start and end markers.
const OVERHEAD_TOKENS: u64 = 8;

/// The cost of a picture or a page of common size at the large providers, regardless of its size in
/// bytes.
const MEDIA_TOKENS: u64 = 1_600;

/// The assumed bytes of a PDF per page: more than a page of text has, and less than a scanned one.
/// The pages cannot be counted without reading the whole file.
const PDF_PAGE: usize = 50_000;

/// The most pages that providers read.
const MAX_PAGES: usize = 100;

/// The estimated size of one request and its answer.
#[derive(Default)]
pub(super) struct RequestEstimate {
    /// The estimated number of tokens in the request.
    pub(super) sent: u64,
    /// The number of bytes in the answer so far.
    pub(super) received: usize,
    /// Whether the provider has reported its own count.
    pub(super) is_counted: bool,
    /// The estimated number of tokens of each PDF in the request, which are in `sent`, too.
    pdfs: Vec<u64>,
}

impl RequestEstimate {
    /// Estimates a request to a model with this window.
    pub(super) fn of(request: &ModelRequest, window: u64) -> Self {
        let content = request.messages.iter().flat_map(|message| match &**message {
            Message::User { content, .. } => content.as_slice(),
            Message::Assistant { .. } | Message::Results { .. } => &[],
        });
        let pdfs = content.filter_map(|content| pdf(content, window)).collect();
        let sent = tokens(request.system.len()) + conversation(&request.messages, &request.tools, window);
        Self { sent, pdfs, ..Self::default() }
    }

    /// Continues with the same request, of which nothing was received.
    pub(super) fn again(&mut self) -> Self {
        Self { sent: self.sent, pdfs: std::mem::take(&mut self.pdfs), ..Self::default() }
    }

    pub(super) fn guess(&self) -> Usage {
        Usage { input: self.sent, output: tokens(self.received), ..Usage::default() }
    }

    /// Counts the text of PDFs instead of their pages. A model gets the text of all PDFs, or only
    /// of the largest.
    pub(super) fn count_text(&mut self, documents: u32, bytes: usize) {
        self.pdfs.sort_unstable_by(|one, other| other.cmp(one));
        let as_text = self.pdfs.len().min(usize::try_from(documents).unwrap_or(usize::MAX));
        let pages: u64 = self.pdfs.drain(..as_text).sum();
        self.sent = self.sent.saturating_sub(pages) + tokens(bytes);
    }
}

pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

pub(super) fn conversation(messages: &[Arc<Message>], tools: &[Arc<ToolSpec>], window: u64) -> u64 {
    let tools = tools.iter().map(|tool| tool.name.len() + tool.description.len() + json_bytes(&tool.schema));
    let tools = tools.map(|bytes| tokens(bytes) + OVERHEAD_TOKENS).sum::<u64>();
    tools + messages.iter().map(|one| message(one, window) + OVERHEAD_TOKENS).sum::<u64>()
}

/// Returns the length of a value as JSON.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);

    impl fmt::Write for Count {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }

    let mut count = Count(0);
    // Counting cannot fail.
    let _ = write!(count, "{value}");
    count.0
}

fn message(message: &Message, window: u64) -> u64 {
    match message {
        Message::User { content, .. } => content.iter().map(|content| block(content, window)).sum(),
        Message::Assistant { .. } => tokens(message.weight()),
        Message::Results { results } => results.iter().map(result).sum(),
    }
}

pub(super) fn result(result: &CallResult) -> u64 {
    tokens(result.text.len()) + result.images.iter().map(|image| block(image, 0)).sum::<u64>()
}

/// Estimates the tokens of a PDF; None if the content is something else. It takes at most a quarter
/// of the window (0 if that is not known), because that is the most of its text that is sent.
fn pdf(content: &Content, window: u64) -> Option<u64> {
    let Payload::BlobResource { mime, blob, .. } = &content.payload else { return None };
    let is_pdf = match mime.as_deref() {
        Some("application/pdf" | "application/x-pdf") => true,
        // The first bytes of every PDF, in base64.
        None | Some("application/octet-stream") => blob.starts_with("JVBERi0"),
        Some(_) => false,
    };
    if !is_pdf {
        return None;
    }
    // Four characters of base64 are three bytes.
    let pages = (blob.len() / 4 * 3).div_ceil(PDF_PAGE).clamp(1, MAX_PAGES);
    let most = if window == 0 { u64::MAX } else { (window / 4).max(MEDIA_TOKENS) };
    Some((pages as u64 * MEDIA_TOKENS).min(most))
}

fn block(content: &Content, window: u64) -> u64 {
    if let Some(tokens) = pdf(content, window) {
        return tokens;
    }
    match &content.payload {
        Payload::Image { .. } | Payload::Audio { .. } | Payload::BlobResource { .. } => MEDIA_TOKENS,
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
    fn text_is_estimated_by_its_bytes_and_a_picture_at_a_fixed_number() {
        let picture =
            || Content::from(Payload::Image { data: "A".repeat(400_000), mime: "image/png".into(), uri: None });
        let asked = Message::User { id: MessageId::new(), content: vec![Content::text("x".repeat(400)), picture()] };
        let result = CallResult { call: "c".into(), text: "é".repeat(100), images: vec![picture()], failed: false };
        let results = Message::Results { results: vec![result] };
        assert_eq!((message(&asked, 0), message(&results, 0)), (100 + MEDIA_TOKENS, 50 + MEDIA_TOKENS));
        let tool = ToolSpec { name: "t".into(), description: "does".into(), schema: json!({}), read_only: true };
        let request = ModelRequest {
            system: "s".repeat(40),
            messages: vec![Arc::new(asked)],
            tools: vec![Arc::new(tool)],
            thought: ThoughtLevel::Off,
            environment: Arc::new(Environment::default()),
            cache_key: String::new(),
            tool_use: domain::model::ToolUse::Allowed,
        };
        assert_eq!(
            RequestEstimate::of(&request, 0).sent,
            10 + (2 + OVERHEAD_TOKENS) + (100 + MEDIA_TOKENS + OVERHEAD_TOKENS)
        );
    }

    fn with_pdfs(sizes: &[usize]) -> ModelRequest {
        let pdf = |bytes: &usize| {
            let (uri, mime) = ("a.pdf".into(), Some("application/pdf".into()));
            Content::from(Payload::BlobResource { uri, mime, blob: "A".repeat(bytes / 3 * 4) })
        };
        let asked = Message::User { id: MessageId::new(), content: sizes.iter().map(pdf).collect() };
        ModelRequest {
            system: String::new(),
            messages: vec![Arc::new(asked)],
            tools: vec![],
            thought: ThoughtLevel::Off,
            environment: Arc::new(Environment::default()),
            cache_key: String::new(),
            tool_use: domain::model::ToolUse::Allowed,
        }
    }

    #[test]
    fn a_pdf_counts_by_its_size_before_it_is_sent() {
        let sent = |bytes: usize, window: u64| RequestEstimate::of(&with_pdfs(&[bytes]), window).sent - OVERHEAD_TOKENS;
        assert_eq!(sent(3, 0), MEDIA_TOKENS);
        assert_eq!(sent(900_000, 0), 18 * MEDIA_TOKENS);
        assert_eq!(sent(60_000_000, 0), 100 * MEDIA_TOKENS, "providers read no more pages");
        assert_eq!(sent(900_000, 32_768), 8_192, "no more of its text is sent");
    }

    #[test]
    fn a_pdf_that_is_sent_as_text_counts_by_its_text() {
        let mut estimate = RequestEstimate::of(&with_pdfs(&[3, 900_000]), 0);
        assert_eq!(estimate.guess().input, 19 * MEDIA_TOKENS + OVERHEAD_TOKENS);
        let mut large = estimate.again();
        large.count_text(1, 40_000);
        assert_eq!(large.guess().input, MEDIA_TOKENS + 10_000 + OVERHEAD_TOKENS, "the larger one is text");
        let mut both = RequestEstimate::of(&with_pdfs(&[3, 900_000]), 0);
        both.count_text(2, 40_000);
        assert_eq!(both.guess().input, 10_000 + OVERHEAD_TOKENS);
    }
}
