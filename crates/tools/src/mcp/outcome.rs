//! What a tool of a server gave, as models and people get it: limited like the output of any other tool.

use domain::{Outcome, ToolContent};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use crate::bash::Output;

/// Base64 of all images of one call; beyond this providers refuse them.
const MOST_IMAGES: usize = 5 << 20;

pub(super) fn of(result: CallToolResult, limit: usize) -> Outcome {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let mut read = Read::default();
    content.into_iter().for_each(|block| read.take(block));
    if let (true, Some(structured)) = (read.texts.is_empty() && read.images.is_empty(), &structured_content) {
        read.texts.push(serde_json::to_string_pretty(structured).unwrap_or_default());
    }
    let mut output = Output::new(limit);
    output.push(read.texts.join("\n").as_bytes());
    let text = output.text();
    let said = match text.is_empty() {
        true if read.images.is_empty() => "The tool gave nothing.".to_owned(),
        _ => text,
    };
    let outcome = if is_error == Some(true) { Outcome::failed(said.clone()) } else { Outcome::completed(said.clone()) };
    let mut shown = vec![ToolContent::text(said)];
    shown.extend(read.images);
    outcome.showing(shown).with_raw(raw(structured_content, limit))
}

/// Facts for programs, unless they are beyond what is kept of one call.
fn raw(structured: Option<Value>, limit: usize) -> Value {
    match structured {
        Some(structured) if structured.to_string().len() <= limit => json!({ "structuredContent": structured }),
        Some(_) | None => Value::Null,
    }
}

#[derive(Default)]
struct Read {
    texts: Vec<String>,
    images: Vec<ToolContent>,
    image_bytes: usize,
}

impl Read {
    fn take(&mut self, block: ContentBlock) {
        let text = match block {
            ContentBlock::Text(text) => text.text,
            ContentBlock::Image(image) => return self.image(image.data, image.mime_type),
            ContentBlock::Audio(audio) => format!("[audio: {}]", audio.mime_type),
            ContentBlock::ResourceLink(link) => {
                let about = link.description.map(|about| format!(": {about}")).unwrap_or_default();
                format!("[{}]({}){about}", link.title.unwrap_or(link.name), link.uri)
            }
            ContentBlock::Resource(resource) => return self.resource(resource.resource),
            _ => "[content that acpd does not know]".to_owned(),
        };
        self.texts.push(text);
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.texts.push(format!("<resource uri=\"{uri}\">\n{text}\n</resource>"));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                if mime.starts_with("image/") {
                    return self.image(blob, mime);
                }
                self.texts.push(format!("[resource: {mime} {uri}]"));
            }
            _ => self.texts.push("[a resource of a kind that acpd does not know]".to_owned()),
        }
    }

    fn image(&mut self, data: String, mime: String) {
        self.image_bytes += data.len();
        if self.image_bytes > MOST_IMAGES {
            self.texts.push(format!("[image: {mime}, left out because it is too large]"));
        } else {
            self.images.push(ToolContent::Image { data, mime });
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
    fn every_kind_of_content_is_told() {
        let outcome = of(
            result(json!({ "content": [
                { "type": "text", "text": "one" },
                { "type": "image", "data": "aGk=", "mimeType": "image/png" },
                { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
                { "type": "resource_link", "uri": "demo://1", "name": "first", "description": "The first" },
                { "type": "resource", "resource": { "uri": "demo://2", "text": "two" } },
                { "type": "resource", "resource": { "uri": "demo://3", "blob": "aGk=", "mimeType": "application/zip" } },
            ] })),
            1000,
        );
        let text = "one\n[audio: audio/wav]\n[first](demo://1): The first\n\
                    <resource uri=\"demo://2\">\ntwo\n</resource>\n[resource: application/zip demo://3]";
        assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, text));
        let image = ToolContent::Image { data: "aGk=".to_owned(), mime: "image/png".to_owned() };
        assert_eq!(outcome.content, [ToolContent::text(text), image]);
    }

    #[test]
    fn an_error_is_a_failure_and_structure_is_kept() {
        let outcome = of(result(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true })), 1000);
        assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Failed, "no"));
        let outcome = of(result(json!({ "content": [], "structuredContent": { "sum": 3 } })), 1000);
        assert_eq!(outcome.text, "{\n  \"sum\": 3\n}");
        assert_eq!(outcome.raw, json!({ "structuredContent": { "sum": 3 } }));
        assert_eq!(of(result(json!({ "content": [] })), 1000).text, "The tool gave nothing.");
    }

    #[test]
    fn what_is_long_is_cut_in_the_middle() {
        let outcome = of(result(json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] })), 1000);
        assert!(outcome.text.len() < 1200 && outcome.text.contains("bytes of output cut here"), "{}", outcome.text);
        let large = "A".repeat(MOST_IMAGES + 1);
        let outcome =
            of(result(json!({ "content": [{ "type": "image", "data": large, "mimeType": "image/png" }] })), 1000);
        assert_eq!(outcome.text, "[image: image/png, left out because it is too large]");
        assert_eq!(outcome.content.len(), 1);
    }
}
