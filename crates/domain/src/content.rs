//! The content of prompts and answers.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource_link::{self, Label};

/// One block of a prompt, with the annotations and metadata that its sender attached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    #[serde(flatten)]
    pub payload: Payload,
    #[serde(default, rename = "extras", skip_serializing_if = "ContentMetadata::is_empty")]
    pub metadata: ContentMetadata,
}

/// What a block contains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Payload {
    Text {
        text: String,
    },
    /// A link to something that the model may read if it needs to.
    Link {
        uri: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<i64>,
        /// The file's path as the model should name it. It is set in conversations only, where it
        /// is derived from `uri`.
        #[serde(skip)]
        path: Option<PathBuf>,
    },
    /// The text of a resource that is embedded in the prompt.
    TextResource {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        text: String,
    },
    /// The bytes, in base64, of a resource that is embedded in the prompt.
    BlobResource {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        blob: String,
    },
    /// An image in base64.
    Image {
        data: String,
        mime: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    },
    /// Audio in base64.
    Audio {
        data: String,
        mime: String,
    },
}

/// Annotations and metadata, which are passed through without being interpreted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContentMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// `_meta` of the resource inside an embedded resource block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_meta: Option<Value>,
}

impl ContentMetadata {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Payload::Text { text: text.into() }.into()
    }

    /// Estimates how many bytes the block takes in memory.
    pub fn weight(&self) -> usize {
        let metadata = if self.metadata.is_empty() { 0 } else { 256 };
        metadata
            + match &self.payload {
                Payload::Text { text } => text.len(),
                Payload::Link { uri, name, .. } => uri.len() + name.len(),
                Payload::TextResource { uri, text, .. } => uri.len() + text.len(),
                Payload::BlobResource { uri, blob, .. } => uri.len() + blob.len(),
                Payload::Image { data, .. } | Payload::Audio { data, .. } => data.len(),
            }
    }

    /// Returns the block as a conversation in this folder holds it: a link gets the path that the
    /// model should use, and text that came as base64 is decoded.
    pub(crate) fn for_model_in(&self, cwd: &Path) -> Self {
        let mut block = self.clone();
        match &mut block.payload {
            Payload::Link { uri, path, .. } => *path = resource_link::path_for_model(uri, cwd),
            Payload::BlobResource { uri, mime, blob } => {
                if let Some(text) = text_in(mime.as_deref(), blob) {
                    block.payload = Payload::TextResource { uri: uri.clone(), mime: mime.clone(), text };
                }
            }
            Payload::Text { .. } | Payload::TextResource { .. } | Payload::Image { .. } | Payload::Audio { .. } => {}
        }
        block
    }

    /// Renders the block as text for a model that accepts nothing else.
    pub fn as_text(&self) -> String {
        match &self.payload {
            Payload::Text { text } => text.clone(),
            Payload::Link { uri, name, mime, title, description, size, path } => Label {
                uri,
                name,
                mime: mime.as_deref(),
                title: title.as_deref(),
                description: description.as_deref(),
                size: *size,
                path: path.as_deref(),
            }
            .describe(),
            Payload::TextResource { uri, text, .. } => {
                format!("<resource uri=\"{uri}\">\n{text}\n</resource>")
            }
            Payload::BlobResource { uri, mime, .. } => {
                let mime = mime.as_deref().unwrap_or("application/octet-stream");
                format!("[resource: {mime} {uri}]")
            }
            Payload::Image { mime, .. } => format!("[image: {mime}]"),
            Payload::Audio { mime, .. } => format!("[audio: {mime}]"),
        }
    }
}

/// Decodes the bytes of a resource if its media type says that they are text, or if it has no type
/// and the bytes look like text.
fn text_in(mime: Option<&str>, blob: &str) -> Option<String> {
    if !mime.is_none_or(is_text) {
        return None;
    }
    // Some clients leave out the padding, and some break lines.
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let letters: String = blob.split_ascii_whitespace().collect();
    let text = String::from_utf8(LENIENT.decode(letters).ok()?).ok()?;
    let is_odd = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}');
    (mime.is_some() || !text.contains(is_odd)).then_some(text)
}

/// Whether a media type is text to a model. Parameters such as the charset are ignored; bytes that
/// are not UTF-8 are rejected later.
fn is_text(mime: &str) -> bool {
    const TEXTS: [&str; 17] = [
        "json",
        "ld+json",
        "x-ndjson",
        "jsonl",
        "xml",
        "yaml",
        "x-yaml",
        "toml",
        "javascript",
        "ecmascript",
        "typescript",
        "x-javascript",
        "x-sh",
        "x-shellscript",
        "sql",
        "graphql",
        "x-httpd-php",
    ];
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("text", _)) => true,
        Some(("application", kind)) => TEXTS.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml"),
        Some(("image", kind)) => kind == "svg+xml",
        Some(_) | None => false,
    }
}

impl From<Payload> for Content {
    fn from(payload: Payload) -> Self {
        Self { payload, metadata: ContentMetadata::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes bytes of this type to the model.
    fn shown(mime: Option<&str>, blob: &str) -> String {
        let resource =
            Payload::BlobResource { uri: "file:///x".into(), mime: mime.map(str::to_owned), blob: blob.to_owned() };
        Content::from(resource).for_model_in(Path::new("/work")).as_text()
    }

    #[test]
    fn text_sent_as_bytes_is_shown_as_text() {
        let hello = "<resource uri=\"file:///x\">\nhello\n</resource>";
        for mime in ["text/plain", "TEXT/x-rust; charset=utf-8", "application/json", "application/vnd.api+json"] {
            assert_eq!(shown(Some(mime), "aGVsbG8="), hello, "{mime}");
        }
        assert_eq!(shown(Some("text/plain"), "aGVs\nbG8"), hello, "without padding, over two lines");
        assert_eq!(shown(None, "aGVsbG8="), hello);
    }

    #[test]
    fn binary_content_becomes_a_marker() {
        assert_eq!(shown(Some("application/zip"), "aGVsbG8="), "[resource: application/zip file:///x]");
        assert_eq!(shown(Some("text/plain"), "/w=="), "[resource: text/plain file:///x]");
        assert_eq!(shown(Some("text/plain"), "!!"), "[resource: text/plain file:///x]");
        assert_eq!(shown(None, "AAAA"), "[resource: application/octet-stream file:///x]");
    }
}
