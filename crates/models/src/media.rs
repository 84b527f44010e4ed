//! Classifies the content of a prompt by what a model can accept. Knows no dialect.

use std::borrow::Cow;
use std::sync::Arc;

use domain::conversation::Message;
use domain::model::ModelInfo;
use domain::{Content, Payload};
use serde_json::{Value, json};

/// The most images in one request. Providers limit the number, and every image is billed again with
/// each request.
const MAX_IMAGES: usize = 20;

/// Replaces an image that the provider refused.
pub(crate) const NOT_TAKEN: &str = "[an image that this model does not take]";

const LEFT_OUT: &str = "[image left out: only the newest 20 images of a conversation are sent]";

/// Replaces every image except the newest ones with a marker.
pub(crate) fn keep_newest_images(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut room = MAX_IMAGES;
    let mut kept: Vec<Arc<Message>> =
        messages.iter().rev().map(|message| without_old_images(message, &mut room)).collect();
    kept.reverse();
    kept
}

fn without_old_images(message: &Arc<Message>, room: &mut usize) -> Arc<Message> {
    let mut message = message.clone();
    let is_over = |blocks: &[Content], room: &mut usize| {
        let images = blocks.iter().filter(|block| is_image(block)).count();
        let is_over = images > *room;
        if !is_over {
            *room -= images;
        }
        is_over
    };
    match &*message {
        Message::User { content, .. } if is_over(content, room) => {
            if let Message::User { content, .. } = Arc::make_mut(&mut message) {
                leave_out(content, room);
            }
        }
        Message::Results { results } if results.iter().any(|result| !result.images.is_empty()) => {
            if let Message::Results { results } = Arc::make_mut(&mut message) {
                results.iter_mut().rev().for_each(|result| leave_out(&mut result.images, room));
            }
        }
        Message::User { .. } | Message::Results { .. } | Message::Assistant { .. } => {}
    }
    message
}

/// Replaces images with markers, except the last ones for which there is room.
fn leave_out(blocks: &mut [Content], room: &mut usize) {
    for block in blocks.iter_mut().rev().filter(|block| is_image(block)) {
        match room.checked_sub(1) {
            Some(left) => *room = left,
            None => *block = Content::text(LEFT_OUT),
        }
    }
}

fn is_image(block: &Content) -> bool {
    match &block.payload {
        Payload::Image { .. } => true,
        Payload::BlobResource { mime: Some(mime), .. } => mime.starts_with("image/"),
        Payload::BlobResource { mime: None, .. }
        | Payload::Text { .. }
        | Payload::Link { .. }
        | Payload::TextResource { .. }
        | Payload::Audio { .. } => false,
    }
}

/// One block of a prompt, in a form that a model may accept.
#[derive(Debug, PartialEq)]
pub(crate) enum MediaKind<'a> {
    /// Text, or a marker for content that this model cannot accept.
    Text(Cow<'a, str>),
    Image {
        mime: &'a str,
        data: &'a str,
    },
    Pdf {
        data: &'a str,
    },
    /// Audio as `wav` or `mp3`.
    Audio {
        format: &'static str,
        data: &'a str,
    },
}

pub(crate) fn classify<'a>(content: &'a Content, info: &ModelInfo) -> MediaKind<'a> {
    let medium = match &content.payload {
        Payload::Image { data, mime, .. } if info.images => image(mime, data),
        // `conversion` has left only the PDFs that the model reads.
        Payload::BlobResource { mime, blob, .. } if is_pdf(mime.as_deref(), blob) && info.images => {
            Some(MediaKind::Pdf { data: blob })
        }
        Payload::BlobResource { mime: Some(mime), blob, .. } if info.images => image(mime, blob),
        Payload::Audio { data, mime } if info.audio => {
            audio_format(mime).filter(|_| !data.is_empty()).map(|format| MediaKind::Audio { format, data })
        }
        Payload::Text { .. }
        | Payload::Link { .. }
        | Payload::TextResource { .. }
        | Payload::BlobResource { .. }
        | Payload::Image { .. }
        | Payload::Audio { .. } => None,
    };
    medium.unwrap_or_else(|| MediaKind::Text(as_text(content)))
}

/// Returns the content as text, without a copy if it is plain text.
fn as_text(content: &Content) -> Cow<'_, str> {
    match &content.payload {
        Payload::Text { text } => text.into(),
        Payload::Link { .. }
        | Payload::TextResource { .. }
        | Payload::BlobResource { .. }
        | Payload::Image { .. }
        | Payload::Audio { .. } => content.as_text().into(),
    }
}

/// Returns an image of a type that every provider accepts. The first bytes decide about the type,
/// because editors mislabel images and a wrong label fails the whole request.
fn image<'a>(mime: &'a str, data: &'a str) -> Option<MediaKind<'a>> {
    const SIGNS: [(&str, &str); 4] =
        [("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp")];
    let seen = SIGNS.iter().find(|(sign, _)| data.starts_with(sign)).map(|(_, mime)| *mime);
    let mime = seen.or_else(|| SIGNS.iter().map(|(_, known)| *known).find(|known| *known == mime))?;
    (!data.is_empty()).then_some(MediaKind::Image { mime, data })
}

/// Returns whether a resource is a PDF, by its type or, if the client gave no specific type, by its
/// first bytes.
pub(crate) fn is_pdf(mime: Option<&str>, blob: &str) -> bool {
    match mime {
        Some("application/pdf" | "application/x-pdf") => true,
        None | Some("application/octet-stream") => blob.starts_with("JVBERi0"),
        Some(_) => false,
    }
}

fn audio_format(mime: &str) -> Option<&'static str> {
    match mime {
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => Some("wav"),
        "audio/mp3" | "audio/mpeg" => Some("mp3"),
        _ => None,
    }
}

/// Returns whether a provider complains that it does not accept images.
pub(crate) fn is_about_images(refusal: &str) -> bool {
    let refusal = refusal.to_ascii_lowercase();
    let names_them = ["image", "vision", "multimodal", "mmproj"].iter().any(|word| refusal.contains(word));
    let refuses = [
        "not support",
        "unsupported",
        "only supported",
        "does not accept",
        "no endpoints",
        "not a multimodal",
        "not enabled",
        "unknown variant",
        "at most 0",
    ];
    names_them && refuses.iter().any(|sign| refusal.contains(sign))
}

/// Replaces every part of this type in the messages of a body with text. Returns whether there was
/// one.
pub(crate) fn replace_blocks(body: &mut Value, kind: &str) -> bool {
    let is_block = |value: &Value| value["type"] == kind;
    match body {
        Value::Object(fields) => fields.values_mut().fold(false, |is_changed, value| {
            if is_block(value) {
                *value = json!({ "type": "text", "text": NOT_TAKEN });
                return true;
            }
            replace_blocks(value, kind) || is_changed
        }),
        Value::Array(items) => items.iter_mut().fold(false, |is_changed, value| {
            if is_block(value) {
                *value = json!({ "type": "text", "text": NOT_TAKEN });
                return true;
            }
            replace_blocks(value, kind) || is_changed
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    fn info(images: bool, audio: bool) -> ModelInfo {
        ModelInfo { images, audio, ..spec::spec("p", "m").info }
    }

    #[test]
    fn unsupported_content_becomes_a_marker() {
        let picture =
            Content::from(Payload::Image { data: "iVBORw0KGgoAA".into(), mime: "image/jpg".into(), uri: None });
        assert_eq!(classify(&picture, &info(false, false)), MediaKind::Text("[image: image/jpg]".into()));
        assert_eq!(
            classify(&picture, &info(true, false)),
            MediaKind::Image { mime: "image/png", data: "iVBORw0KGgoAA" }
        );
        let drawing = Content::from(Payload::Image { data: "PHN2Zz4".into(), mime: "image/svg+xml".into(), uri: None });
        assert_eq!(classify(&drawing, &info(true, false)), MediaKind::Text("[image: image/svg+xml]".into()));
        let sound = Content::from(Payload::Audio { data: "UklG".into(), mime: "audio/wav".into() });
        assert_eq!(classify(&sound, &info(true, false)), MediaKind::Text("[audio: audio/wav]".into()));
        assert_eq!(classify(&sound, &info(true, true)), MediaKind::Audio { format: "wav", data: "UklG" });
    }

    #[test]
    fn only_the_newest_twenty_images_are_sent() {
        let picture =
            || Content::from(Payload::Image { data: "iVBORw0KGgoAA".into(), mime: "image/png".into(), uri: None });
        let user = |images: usize| {
            let content = std::iter::once(Content::text("see")).chain((0..images).map(|_| picture())).collect();
            Arc::new(Message::User { id: domain::MessageId::new(), content })
        };
        let result = domain::conversation::CallResult {
            call: "1".into(),
            text: "shown".into(),
            images: vec![picture(), picture()],
            failed: false,
        };
        let results = Arc::new(Message::Results { results: vec![result] });
        let images = |messages: &[Arc<Message>]| -> Vec<usize> {
            let blocks = messages.iter().map(|message| match &**message {
                Message::User { content, .. } => content.iter().filter(|block| is_image(block)).count(),
                Message::Results { results } => results[0].images.iter().filter(|block| is_image(block)).count(),
                Message::Assistant { .. } => 0,
            });
            blocks.collect()
        };
        let few = [user(3), results.clone(), user(15)];
        assert_eq!(images(&keep_newest_images(&few)), [3, 2, 15]);
        let many = [user(3), results.clone(), user(4), results, user(15)];
        let kept = keep_newest_images(&many);
        assert_eq!(images(&kept), [0, 0, 3, 2, 15]);
        let Message::User { content, .. } = &*kept[2] else { panic!("a user's message") };
        assert_eq!(content[1].as_text(), LEFT_OUT);
    }

    #[test]
    fn an_embedded_picture_or_pdf_is_sent_as_one() {
        let blob = |mime: &str| {
            Content::from(Payload::BlobResource {
                uri: "file:///x".into(),
                mime: Some(mime.into()),
                blob: "AAAA".into(),
            })
        };
        assert_eq!(
            classify(&blob("image/gif"), &info(true, false)),
            MediaKind::Image { mime: "image/gif", data: "AAAA" }
        );
        assert_eq!(classify(&blob("application/pdf"), &info(true, false)), MediaKind::Pdf { data: "AAAA" });
        assert_eq!(
            classify(&blob("application/zip"), &info(true, false)),
            MediaKind::Text("[resource: application/zip file:///x]".into())
        );
    }
}
