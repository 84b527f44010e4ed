//! Decodes the content blocks of a prompt, in the protocol's form and in those of older dialects.

use domain::{Content, ContentMetadata, Payload};
use serde_json::{Map, Value};

use crate::rpc::RpcError;

/// The media type of a block that names none.
const UNKNOWN_MIME: &str = "application/octet-stream";

/// Why a block was refused: the field inside it, and the reason.
type BlockError = (&'static str, &'static str);

pub(crate) fn read(prompt: Option<Value>) -> Result<Vec<Content>, RpcError> {
    let Some(prompt) = prompt else { return Err(RpcError::invalid_params("prompt", "Required")) };
    let Value::Array(blocks) = prompt else {
        return Err(RpcError::invalid_params("prompt", "Must be a list of content blocks"));
    };
    if blocks.is_empty() {
        return Err(RpcError::invalid_params("prompt", "Must not be empty"));
    }
    let read = blocks.into_iter().enumerate().map(|(at, block)| {
        let Value::Object(fields) = block else {
            return Err(RpcError::invalid_params(&format!("prompt[{at}]"), "Must be an object"));
        };
        Block(fields)
            .into_content()
            .map_err(|(field, why)| RpcError::invalid_params(&format!("prompt[{at}].{field}"), why))
    });
    read.collect()
}

/// Decodes one block; `None` if it cannot be read.
pub(crate) fn block(block: Value) -> Option<Content> {
    let Value::Object(fields) = block else { return None };
    Block(fields).into_content().ok()
}

struct Block(Map<String, Value>);

impl Block {
    fn into_content(mut self) -> Result<Content, BlockError> {
        let kind = self.text("type").ok_or(("type", "Required"))?;
        let mut metadata = ContentMetadata {
            annotations: self.object("annotations"),
            meta: self.object("_meta"),
            ..ContentMetadata::default()
        };
        let payload = match kind.as_str() {
            "text" => Payload::Text { text: self.text("text").ok_or(("text", "Required"))? },
            "resource_link" => self.into_link()?,
            "resource" => {
                let (payload, resource_meta) = self.into_resource()?;
                metadata.resource_meta = resource_meta;
                payload
            }
            "image" => self.into_image()?,
            "audio" => self.into_audio()?,
            "tool_use" => self.into_tool_use(),
            "tool_result" => self.into_tool_result(),
            _ => return Err(("type", "Unknown type of content")),
        };
        Ok(Content { payload, metadata })
    }

    fn into_link(mut self) -> Result<Payload, BlockError> {
        let uri = self.text("uri").ok_or(("uri", "Required"))?;
        Ok(Payload::Link {
            name: self.text("name").filter(|name| !name.is_empty()).unwrap_or_else(|| last_part(&uri)),
            uri,
            mime: self.text("mimeType"),
            title: self.text("title"),
            description: self.text("description"),
            size: self.0.get("size").and_then(Value::as_i64),
            path: None,
        })
    }

    fn into_resource(mut self) -> Result<(Payload, Option<Value>), BlockError> {
        let Some(Value::Object(resource)) = self.0.remove("resource") else {
            return Err(("resource", "Must be an object"));
        };
        let mut resource = Block(resource).unwrapped();
        let meta = resource.object("_meta");
        let uri = resource.text("uri").ok_or(("resource.uri", "Required"))?;
        let mime = resource.text("mimeType");
        let payload = match (resource.text("text"), resource.text("blob")) {
            (Some(text), _) => Payload::TextResource { uri, mime, text },
            (None, Some(blob)) => Payload::BlobResource { uri, mime, blob },
            (None, None) => return Err(("resource", "Must have text or blob")),
        };
        Ok((payload, meta))
    }

    /// Unwraps the contents that one dialect puts one level deeper, under `text` or `blob`.
    fn unwrapped(mut self) -> Self {
        for key in ["text", "blob"] {
            if let Some(Value::Object(_)) = self.0.get(key)
                && let Some(Value::Object(inner)) = self.0.remove(key)
            {
                return Self(inner);
            }
        }
        self
    }

    fn into_image(mut self) -> Result<Payload, BlockError> {
        let mime = self.either("mimeType", "imageMime");
        let uri = self.either("uri", "imageUrl");
        match (self.either("data", "imageData"), uri) {
            (Some(data), uri) => {
                Ok(Payload::Image { data, mime: mime.unwrap_or_else(|| UNKNOWN_MIME.to_owned()), uri })
            }
            (None, Some(uri)) => Ok(link_to(uri, mime)),
            (None, None) => Err(("data", "Required")),
        }
    }

    fn into_audio(mut self) -> Result<Payload, BlockError> {
        let mime = self.either("mimeType", "audioMime");
        match (self.either("data", "audioData"), self.text("audioUrl")) {
            (Some(data), _) => Ok(Payload::Audio { data, mime: mime.unwrap_or_else(|| UNKNOWN_MIME.to_owned()) }),
            (None, Some(uri)) => Ok(link_to(uri, mime)),
            (None, None) => Err(("data", "Required")),
        }
    }

    /// A tool call of another conversation, which one dialect sends as a block. It becomes text.
    fn into_tool_use(mut self) -> Payload {
        let name = self.text("name").unwrap_or_else(|| "a tool".to_owned());
        let input =
            self.0.remove("input").filter(|input| !input.is_null()).unwrap_or_else(|| Value::Object(Map::new()));
        Payload::Text { text: format!("[tool call: {name} {input}]") }
    }

    /// The result of such a call, which is a text or a list of blocks. It becomes text, too.
    fn into_tool_result(mut self) -> Payload {
        let failed = self.0.remove("is_error").or_else(|| self.0.remove("isError")) == Some(Value::Bool(true));
        let contents = self.0.remove("content").or_else(|| self.0.remove("text")).unwrap_or_default();
        let heading = if failed { "tool result, failed" } else { "tool result" };
        Payload::Text { text: format!("[{heading}]\n{}", plain_text(contents)) }
    }

    fn either(&mut self, name: &str, other: &str) -> Option<String> {
        self.text(name).or_else(|| self.text(other))
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn object(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(Value::is_object)
    }
}

/// The text of a tool result. Anything that is not text is replaced by the name of its type.
fn plain_text(contents: Value) -> String {
    match contents {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Array(blocks) => blocks.into_iter().map(plain_text).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => {
            let mut block = Block(fields);
            match (block.text("text"), block.0.remove("content")) {
                (Some(text), _) => text,
                (None, Some(inner)) => plain_text(inner),
                (None, None) => format!("[{}]", block.text("type").unwrap_or_else(|| "no text".to_owned())),
            }
        }
        Value::Bool(_) | Value::Number(_) => contents.to_string(),
    }
}

/// A link to media that are referenced by URI and not included.
fn link_to(uri: String, mime: Option<String>) -> Payload {
    Payload::Link { name: last_part(&uri), uri, mime, title: None, description: None, size: None, path: None }
}

/// The last segment of a URI's path, or the whole URI if it has none.
fn last_part(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or(uri).trim_end_matches('/');
    match path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => uri.to_owned(),
    }
}
