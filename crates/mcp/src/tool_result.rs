//! Turns the result of a server's tool into an outcome, limited like the output of every other
//! tool.

use domain::{Content, Outcome, Payload, ToolContent};
use process::Output;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::prompts::as_content;

/// The most bytes of base64 of all images of one call, because providers refuse more. Also the
/// limit for content that only users get.
const MAX_IMAGE_BYTES: usize = 5 << 20;

pub(crate) fn of(result: CallToolResult, limit: usize) -> Outcome {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let mut read = ResultReader { limit, ..ResultReader::default() };
    content.into_iter().for_each(|block| read.take(block));
    if let (true, Some(structured)) = (read.for_model.is_empty() && read.shown.is_empty(), &structured_content) {
        read.text(serde_json::to_string_pretty(structured).unwrap_or_default());
    }
    let text = limited(&read.for_model.join("\n"), limit);
    let said = match text.is_empty() {
        true if read.shown.is_empty() => "The tool returned nothing.".to_owned(),
        _ => text,
    };
    let outcome = if is_error == Some(true) { Outcome::failed(said.clone()) } else { Outcome::completed(said.clone()) };
    // Resources and audio are shown unchanged. Without them, users see the same text as the model.
    let has_blocks = read.shown.iter().any(|shown| matches!(shown, ToolContent::Block { .. }));
    let plain = if has_blocks { limited(&read.plain.join("\n"), limit) } else { said };
    let mut shown = Vec::new();
    if !plain.is_empty() || !has_blocks {
        shown.push(ToolContent::text(plain));
    }
    shown.extend(read.shown);
    outcome.showing(shown).with_raw(raw(structured_content, limit))
}

fn limited(text: &str, limit: usize) -> String {
    let mut output = Output::new(limit);
    output.push(text.as_bytes());
    output.text()
}

/// Returns structured content for programs, unless it is larger than what is stored of one call.
fn raw(structured: Option<Value>, limit: usize) -> Value {
    match structured {
        Some(structured) if structured.to_string().len() <= limit => json!({ "structuredContent": structured }),
        Some(_) | None => Value::Null,
    }
}

#[derive(Default)]
struct ResultReader {
    limit: usize,
    /// The texts for the model.
    for_model: Vec<String>,
    /// The texts for users: those of text blocks, and descriptions of blocks that are too large.
    plain: Vec<String>,
    /// Content for users besides the text.
    shown: Vec<ToolContent>,
    image_bytes: usize,
    block_bytes: usize,
}

impl ResultReader {
    fn take(&mut self, block: ContentBlock) {
        let content = as_content(block);
        match content.payload {
            Payload::Text { text } => self.text(text),
            Payload::Image { data, mime, .. } => self.image(data, mime),
            Payload::Audio { ref mime, .. } => {
                self.for_model.push(format!("[audio: {mime}]"));
                self.block(content);
            }
            Payload::Link { ref uri, ref name, ref title, ref description, .. } => {
                let about = description.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
                self.for_model.push(format!("[{}]({uri}){about}", title.as_ref().unwrap_or(name)));
                self.block(content);
            }
            Payload::TextResource { uri, mime, text } => {
                self.for_model.push(format!("<resource uri=\"{uri}\">\n{text}\n</resource>"));
                let text = limited(&text, self.limit);
                self.block(Payload::TextResource { uri, mime, text }.into());
            }
            Payload::BlobResource { uri, mime, blob } => {
                let kind = mime.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
                if kind.starts_with("image/") {
                    return self.image(blob, kind);
                }
                self.for_model.push(format!("[resource: {kind} {uri}]"));
                self.block(Payload::BlobResource { uri, mime, blob }.into());
            }
        }
    }

    fn text(&mut self, text: String) {
        self.plain.push(text.clone());
        self.for_model.push(text);
    }

    fn image(&mut self, data: String, mime: String) {
        self.image_bytes += data.len();
        if self.image_bytes > MAX_IMAGE_BYTES {
            self.text(format!("[image: {mime}, left out because it is too large]"));
        } else {
            self.shown.push(ToolContent::Image { data, mime });
        }
    }

    /// Adds a block for users. If it is too large, they get only what the model gets.
    fn block(&mut self, block: Content) {
        self.block_bytes += block.weight();
        if self.block_bytes > MAX_IMAGE_BYTES {
            self.plain.extend(self.for_model.last().cloned());
        } else {
            self.shown.push(ToolContent::Block { block: block.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::tool::OutcomeKind;

    use super::*;

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_kind_of_content_reaches_the_model() {
        let outcome = of(
            result(json!({ "content": [
                { "type": "text", "text": "one" },
                { "type": "image", "data": "aGk=", "mimeType": "image/png" },
                { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
                { "type": "resource_link", "uri": "demo://1", "name": "first", "description": "The first" },
                { "type": "resource", "resource": { "uri": "demo://2", "text": "two" } },
                { "type": "resource", "resource": { "uri": "demo://3", "blob": "aGk=", "mimeType": "application/zip" } },
                { "type": "resource", "resource": { "uri": "demo://4", "blob": "aGk=", "mimeType": "text/csv; charset=utf-8" } },
            ] })),
            1000,
        );
        let text = "one\n[audio: audio/wav]\n[first](demo://1): The first\n\
                    <resource uri=\"demo://2\">\ntwo\n</resource>\n[resource: application/zip demo://3]\n\
                    <resource uri=\"demo://4\">\nhi\n</resource>";
        assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, text));
        let shown = serde_json::to_value(&outcome.content).unwrap();
        assert_eq!(
            shown,
            json!([
                { "type": "text", "text": "one" },
                { "type": "image", "data": "aGk=", "mime": "image/png" },
                { "type": "block", "block": { "type": "audio", "data": "aGk=", "mime": "audio/wav" } },
                { "type": "block", "block": { "type": "link", "uri": "demo://1", "name": "first", "description": "The first" } },
                { "type": "block", "block": { "type": "text_resource", "uri": "demo://2", "text": "two" } },
                { "type": "block", "block": { "type": "blob_resource", "uri": "demo://3", "mime": "application/zip", "blob": "aGk=" } },
                { "type": "block", "block": { "type": "text_resource", "uri": "demo://4", "mime": "text/csv; charset=utf-8", "text": "hi" } },
            ])
        );
    }

    #[test]
    fn an_error_is_a_failure_and_structure_is_kept() {
        let outcome = of(result(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true })), 1000);
        assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Failed, "no"));
        let outcome = of(result(json!({ "content": [], "structuredContent": { "sum": 3 } })), 1000);
        assert_eq!(outcome.text, "{\n  \"sum\": 3\n}");
        assert_eq!(outcome.raw, json!({ "structuredContent": { "sum": 3 } }));
        assert_eq!(of(result(json!({ "content": [] })), 1000).text, "The tool returned nothing.");
    }

    #[test]
    fn a_long_result_is_cut_in_the_middle() {
        let outcome = of(result(json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] })), 1000);
        assert!(outcome.text.len() < 1200 && outcome.text.contains("bytes of output cut here"), "{}", outcome.text);
        let large = "A".repeat(MAX_IMAGE_BYTES + 1);
        let outcome =
            of(result(json!({ "content": [{ "type": "image", "data": large, "mimeType": "image/png" }] })), 1000);
        assert_eq!(outcome.text, "[image: image/png, left out because it is too large]");
        assert_eq!(outcome.content.len(), 1);
        let sound = json!({ "type": "audio", "data": "A".repeat(MAX_IMAGE_BYTES + 1), "mimeType": "audio/wav" });
        let outcome = of(result(json!({ "content": [sound] })), 1000);
        assert_eq!(outcome.content, [ToolContent::text("[audio: audio/wav]")]);
    }
}
