//! What people put into prompts and what models answer with.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::link::{self, Label};

/// One block of a prompt, with whatever its sender attached to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    #[serde(flatten)]
    pub payload: Payload,
    #[serde(default, skip_serializing_if = "Extras::is_empty")]
    pub extras: Extras,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Payload {
    Text {
        text: String,
    },
    /// A pointer to something that the model may read if it needs to.
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
        /// Where the file is, as a model should name it. Known in conversations only; it follows from the address.
        #[serde(skip)]
        path: Option<PathBuf>,
    },
    /// The text of a resource, embedded in the prompt.
    TextResource {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        text: String,
    },
    /// The bytes of a resource in base64, embedded in the prompt.
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
    /// Sound in base64.
    Audio {
        data: String,
        mime: String,
    },
}

/// Annotations and metadata, carried through unread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extras {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// `_meta` of the resource inside an embedded resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_meta: Option<Value>,
}

impl Extras {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Payload::Text { text: text.into() }.into()
    }

    /// Roughly what it costs to hold in memory.
    pub fn weight(&self) -> usize {
        let extras = if self.extras.is_empty() { 0 } else { 256 };
        extras
            + match &self.payload {
                Payload::Text { text } => text.len(),
                Payload::Link { uri, name, .. } => uri.len() + name.len(),
                Payload::TextResource { uri, text, .. } => uri.len() + text.len(),
                Payload::BlobResource { uri, blob, .. } => uri.len() + blob.len(),
                Payload::Image { data, .. } | Payload::Audio { data, .. } => data.len(),
            }
    }

    /// The block as a conversation in this folder holds it: a link knows how the model should name its file.
    pub(crate) fn told_in(&self, cwd: &Path) -> Self {
        let mut told = self.clone();
        if let Payload::Link { uri, path, .. } = &mut told.payload {
            *path = link::told_path(uri, cwd);
        }
        told
    }

    /// The block as text for a model that can take nothing else.
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
            .told(),
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

impl From<Payload> for Content {
    fn from(payload: Payload) -> Self {
        Self { payload, extras: Extras::default() }
    }
}
