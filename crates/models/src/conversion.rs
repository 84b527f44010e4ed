//! Prepares the images and PDFs of a conversation for one model: only the newest images, each
//! within the provider's limits, and PDFs as text for a model that does not read them.
//!
//! The conversions run in helper processes (`attachments`). Their results are kept, because the
//! next requests contain the same conversation. The same input always gives the same bytes.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use attachments::{Converter, ImageLimit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::conversation::Message;
use domain::{Content, Payload};

use crate::media::{self, is_pdf};
use crate::remote::Dialect;
use crate::spec::Spec;

/// The most bytes of results that are kept. The oldest ones are dropped first.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// The largest PDF that is sent as a file, in bytes of base64. A larger one is sent as text.
/// Providers limit a request to 20 MB or more.
const LARGEST_PDF: usize = 14 << 20;

/// The most bytes of a PDF's text. It is also limited to a quarter of the model's window.
const LONGEST_TEXT: u64 = 256 << 10;

/// The limits of a model for images and PDFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// None if the model sees no images. Markers then replace them.
    image: Option<ImageLimit>,
    documents: bool,
    /// The most bytes of the text of one PDF.
    text: usize,
}

impl Accepted {
    pub(crate) fn by(spec: &Spec, dialect: Dialect) -> Self {
        Self {
            image: spec.info.images.then_some(spec.image),
            documents: spec.documents && spec.info.images && dialect.has_documents(),
            // A byte per token is a quarter of the window, at four bytes per token.
            text: usize::try_from(spec.info.window.min(LONGEST_TEXT)).unwrap_or(usize::MAX),
        }
    }
}

/// A conversation as a model can accept it.
#[derive(Debug, PartialEq)]
pub(crate) struct ConvertedMessages {
    pub(crate) messages: Vec<Arc<Message>>,
    /// The number of PDFs that became text.
    pub(crate) documents: u32,
    /// The bytes of their text.
    pub(crate) text: usize,
}

impl ConvertedMessages {
    fn unconverted(messages: Vec<Arc<Message>>) -> Self {
        Self { messages, documents: 0, text: 0 }
    }
}

/// A conversion, identified by the bytes and what they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConversionKey {
    hash: u64,
    length: usize,
    wanted: ConversionTarget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ConversionTarget {
    Image(ImageLimit),
    Text,
}

/// The result of a conversion.
#[derive(Debug)]
enum Converted {
    Image {
        mime: &'static str,
        data: String,
    },
    Text(String),
    /// The reason why the file could not be converted.
    Failed(String),
}

impl Converted {
    fn weight(&self) -> usize {
        match self {
            Self::Image { data, .. } => data.len(),
            Self::Text(text) | Self::Failed(text) => text.len(),
        }
    }
}

#[derive(Debug, Default)]
struct ConversionCache {
    results: HashMap<ConversionKey, Arc<Converted>>,
    order: VecDeque<ConversionKey>,
    bytes: usize,
}

/// The conversions for all providers.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    /// The helper. Without one nothing is converted.
    converter: OnceLock<Converter>,
    kept: Mutex<ConversionCache>,
    /// Hashes files. Its random keys prevent files that were made to collide.
    hasher: RandomState,
}

impl Conversions {
    /// Sets the helper, once.
    pub(crate) fn set_converter(&self, converter: Converter) {
        // A second call changes nothing: the helper is the running program.
        let _ = self.converter.set(converter);
    }

    /// Returns the messages as the model can accept them. None if a thread of the runtime panicked.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        messages: &[Arc<Message>],
        accepted: Accepted,
    ) -> Option<ConvertedMessages> {
        let has_files = messages.iter().any(|message| has_files(message));
        let messages = messages.to_vec();
        // Most conversations have no files. The request then need not wait for another thread.
        if !has_files {
            return Some(ConvertedMessages::unconverted(messages));
        }
        let Some(converter) = self.converter.get() else {
            return off_thread(move || ConvertedMessages::unconverted(media::keep_newest_images(&messages))).await;
        };
        let this = self.clone();
        let found = move || {
            let messages = media::keep_newest_images(&messages);
            let keys: Vec<ConversionKey> =
                messages.iter().flat_map(|message| blocks(message)).filter_map(|b| this.key(b, accepted)).collect();
            (messages, keys)
        };
        let (messages, keys) = off_thread(found).await?;
        let messages = Arc::new(messages);
        let mut results: HashMap<ConversionKey, Arc<Converted>> = HashMap::new();
        for key in keys {
            if results.contains_key(&key) {
                continue;
            }
            let result = match self.find(&key) {
                Some(result) => result,
                None => self.convert(converter, key, messages.clone(), accepted).await?,
            };
            results.insert(key, result);
        }
        if results.is_empty() {
            return Some(ConvertedMessages::unconverted(Arc::unwrap_or_clone(messages)));
        }
        let this = self.clone();
        off_thread(move || this.replace_all(&messages, accepted, &results)).await
    }

    /// Runs the conversion of the first block that needs it, and keeps the result.
    async fn convert(
        self: &Arc<Self>,
        converter: &Converter,
        key: ConversionKey,
        messages: Arc<Vec<Arc<Message>>>,
        accepted: Accepted,
    ) -> Option<Arc<Converted>> {
        let this = self.clone();
        let read = move || {
            let blocks = messages.iter().flat_map(|message| blocks(message));
            let block = blocks.into_iter().find(|block| this.key(block, accepted) == Some(key));
            block.and_then(data).and_then(decode)
        };
        let bytes = off_thread(read).await?.unwrap_or_default();
        let converted = match key.wanted {
            ConversionTarget::Image(limit) => match converter.scale(&bytes, limit).await {
                Ok(file) => off_thread(move || image(&file)).await?,
                Err(error) => Converted::Failed(error.to_string()),
            },
            ConversionTarget::Text => match converter.pdf_to_text(&bytes).await {
                Ok(text) if text.is_empty() => Converted::Failed("its pages have no text".to_owned()),
                Ok(text) => Converted::Text(text),
                Err(error) => Converted::Failed(error.to_string()),
            },
        };
        let converted = Arc::new(converted);
        self.keep(key, converted.clone());
        Some(converted)
    }

    fn find(&self, key: &ConversionKey) -> Option<Arc<Converted>> {
        self.lock().results.get(key).cloned()
    }

    fn keep(&self, key: ConversionKey, converted: Arc<Converted>) {
        let mut kept = self.lock();
        kept.bytes += converted.weight();
        kept.order.push_back(key);
        if let Some(before) = kept.results.insert(key, converted) {
            kept.bytes -= before.weight();
        }
        while kept.bytes > MAX_KEPT_BYTES
            && let Some(oldest) = kept.order.pop_front()
        {
            let weight = kept.results.remove(&oldest).map_or(0, |result| result.weight());
            kept.bytes -= weight;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ConversionCache> {
        // Every operation leaves the map consistent, so a panic elsewhere does no harm.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the conversion that a block needs, if it needs one.
    fn key(&self, content: &Content, accepted: Accepted) -> Option<ConversionKey> {
        let data = data(content)?;
        let wanted = match &content.payload {
            Payload::BlobResource { mime, blob, .. } if is_pdf(mime.as_deref(), blob) => {
                let is_read = accepted.documents && blob.len() <= LARGEST_PDF;
                (!is_read).then_some(ConversionTarget::Text)?
            }
            Payload::BlobResource { .. } | Payload::Image { .. } => {
                let limit = accepted.image?;
                let bytes = decode(data)?;
                let image = attachments::read_header(&bytes)?;
                (!limit.admits(bytes.len(), image.pixels)).then_some(ConversionTarget::Image(limit))?
            }
            Payload::Text { .. } | Payload::Link { .. } | Payload::TextResource { .. } | Payload::Audio { .. } => {
                return None;
            }
        };
        Some(ConversionKey { hash: self.hasher.hash_one(data), length: data.len(), wanted })
    }

    fn replace_all(
        &self,
        messages: &[Arc<Message>],
        accepted: Accepted,
        results: &HashMap<ConversionKey, Arc<Converted>>,
    ) -> ConvertedMessages {
        let replaced = messages.iter().map(|message| self.replace(message, accepted, results));
        let mut prepared = ConvertedMessages::unconverted(replaced.collect());
        for key in messages.iter().flat_map(|message| blocks(message)).filter_map(|block| self.key(block, accepted)) {
            if key.wanted == ConversionTarget::Text {
                prepared.documents += 1;
                let converted = results.get(&key).map_or(0, |converted| converted.weight());
                prepared.text += converted.min(accepted.text);
            }
        }
        prepared
    }

    fn replace(
        &self,
        message: &Arc<Message>,
        accepted: Accepted,
        results: &HashMap<ConversionKey, Arc<Converted>>,
    ) -> Arc<Message> {
        let is_changed = |block: &Content| self.key(block, accepted).is_some();
        if !blocks(message).into_iter().any(is_changed) {
            return message.clone();
        }
        let mut message = message.clone();
        let change = |block: &mut Content| {
            if let Some(converted) = self.key(block, accepted).and_then(|key| results.get(&key)) {
                block.payload = payload(&block.payload, converted, accepted.text);
            }
        };
        match Arc::make_mut(&mut message) {
            Message::User { content, .. } => content.iter_mut().for_each(change),
            Message::Results { results } => {
                results.iter_mut().flat_map(|result| &mut result.images).for_each(change);
            }
            Message::Assistant { .. } => {}
        }
        message
    }
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Returns the blocks of a message that may hold files.
fn blocks(message: &Message) -> Vec<&Content> {
    match message {
        Message::User { content, .. } => content.iter().collect(),
        Message::Results { results } => results.iter().flat_map(|result| &result.images).collect(),
        Message::Assistant { .. } => Vec::new(),
    }
}

/// Returns whether a message has a file that may be left out or converted.
fn has_files(message: &Message) -> bool {
    match message {
        Message::User { content, .. } => content.iter().any(|block| data(block).is_some()),
        Message::Results { results } => results.iter().any(|result| !result.images.is_empty()),
        Message::Assistant { .. } => false,
    }
}

/// Returns the base64 of a file that may need a conversion.
fn data(content: &Content) -> Option<&str> {
    match &content.payload {
        Payload::Image { data, .. } => Some(data),
        Payload::BlobResource { blob, .. } => Some(blob),
        Payload::Text { .. } | Payload::Link { .. } | Payload::TextResource { .. } | Payload::Audio { .. } => None,
    }
}

fn decode(data: &str) -> Option<Vec<u8>> {
    match STANDARD.decode(data) {
        Ok(bytes) => Some(bytes),
        // Some clients break the base64 into lines.
        Err(_) => STANDARD.decode(data.split_ascii_whitespace().collect::<String>()).ok(),
    }
}

fn image(file: &[u8]) -> Converted {
    match attachments::read_header(file) {
        Some(image) => Converted::Image { mime: image.mime, data: STANDARD.encode(file) },
        None => Converted::Failed("it could not be scaled".to_owned()),
    }
}

/// Builds the content that replaces a file.
fn payload(before: &Payload, converted: &Converted, longest: usize) -> Payload {
    let uri = match before {
        Payload::Image { uri, .. } => uri.clone(),
        Payload::BlobResource { uri, .. } => Some(uri.clone()),
        Payload::Text { .. } | Payload::Link { .. } | Payload::TextResource { .. } | Payload::Audio { .. } => None,
    };
    match converted {
        Converted::Image { mime, data } => Payload::Image { data: data.clone(), mime: (*mime).to_owned(), uri },
        Converted::Text(text) => Payload::TextResource {
            uri: uri.unwrap_or_default(),
            mime: Some("application/pdf".to_owned()),
            text: shortened(text, longest),
        },
        Converted::Failed(why) => {
            let what = if matches!(before, Payload::Image { .. }) { "image" } else { "file" };
            let uri = uri.map(|uri| format!(" {uri}")).unwrap_or_default();
            Payload::Text { text: format!("[{what}{uri} left out: {why}]") }
        }
    }
}

fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let cut = text.floor_char_boundary(longest);
    format!("{}\n[cut here: {} more bytes of text]", &text[..cut], text.len() - cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::user;
    use crate::spec;

    fn pdf(uri: &str) -> Content {
        let blob = STANDARD.encode(b"%PDF-1.4 and so on");
        Content::from(Payload::BlobResource { uri: uri.into(), mime: Some("application/pdf".into()), blob })
    }

    #[test]
    fn a_pdf_is_converted_unless_model_and_api_read_it() {
        let conversions = Conversions::default();
        let claude = spec::spec("p", "claude-sonnet-5");
        let own = spec::spec("p", "my-own");
        for (spec, dialect, is_converted) in [
            (&claude, Dialect::Anthropic, false),
            (&claude, Dialect::Vertex, false),
            (&claude, Dialect::Chat, true),
            (&own, Dialect::Anthropic, true),
            (&own, Dialect::Ollama, true),
        ] {
            let key = conversions.key(&pdf("file:///a.pdf"), Accepted::by(spec, dialect));
            assert_eq!(key.map(|key| key.wanted), is_converted.then_some(ConversionTarget::Text), "{dialect:?}");
        }
    }

    #[test]
    fn an_image_is_converted_only_for_a_model_that_sees_it_and_only_beyond_the_limit() {
        let conversions = Conversions::default();
        // The header of a PNG of this size, and its end.
        let png = |width: u32, height: u32| {
            let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
            file.extend(width.to_be_bytes().into_iter().chain(height.to_be_bytes()));
            file.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
            file.extend(b"\0\0\0\0IEND\xaeB`\x82");
            Content::from(Payload::Image { data: STANDARD.encode(file), mime: "image/png".into(), uri: None })
        };
        let sees = Accepted::by(&spec::spec("p", "claude-sonnet-5"), Dialect::Anthropic);
        let is_blind = Accepted::by(&spec::spec("p", "my-own"), Dialect::Anthropic);
        assert!(conversions.key(&png(2_001, 10), sees).is_some());
        assert_eq!(conversions.key(&png(2_000, 2_000), sees), None);
        assert_eq!(conversions.key(&png(9_000, 10), is_blind), None);
        assert_eq!(conversions.key(&Content::text("hi"), sees), None);
    }

    #[test]
    fn results_take_the_place_of_their_files() {
        let conversions = Conversions::default();
        let accepted = Accepted { image: None, documents: false, text: 8 };
        let message = Arc::new(user(vec![Content::text("see"), pdf("file:///a.pdf")]));
        let key = conversions.key(&pdf(""), accepted).unwrap();
        let replaced = |converted: Converted| {
            let message = conversions.replace(&message, accepted, &[(key, Arc::new(converted))].into());
            blocks(&message).iter().map(|block| block.as_text()).collect::<Vec<_>>().join("|")
        };
        let text = "see|<resource uri=\"file:///a.pdf\">\n[page 1]\n[cut here: 7 more bytes of text]\n</resource>";
        assert_eq!(replaced(Converted::Text("[page 1]\nsecret".into())), text);
        assert_eq!(replaced(Converted::Failed("no".into())), "see|[file file:///a.pdf left out: no]");
        let results = [(key, Arc::new(Converted::Text("[page 1]\nsecret".into())))].into();
        let prepared = conversions.replace_all(&[message.clone(), message], accepted, &results);
        assert_eq!((prepared.messages.len(), prepared.documents, prepared.text), (2, 2, 16));
    }

    #[test]
    fn only_so_many_bytes_of_results_are_kept() {
        let conversions = Conversions::default();
        let key = |hash: u64| ConversionKey { hash, length: 1, wanted: ConversionTarget::Text };
        for hash in 0..5 {
            conversions.keep(key(hash), Arc::new(Converted::Text("x".repeat(MAX_KEPT_BYTES / 3))));
        }
        let kept: Vec<u64> = (0..5).filter(|hash| conversions.find(&key(*hash)).is_some()).collect();
        assert_eq!(kept, [2, 3, 4]);
    }
}
