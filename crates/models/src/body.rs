//! The body of a request. A long one is encoded while it is sent and never is in memory whole,
//! unless the provider has refused a part of it: then it is changed first.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use domain::model::ModelRequest;
use futures_util::stream;
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, RequestBuilder};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::json::Json;
use crate::remote::Dialect;
use crate::service::Service;
use crate::spec::Spec;

/// The most bytes of a body that is encoded before it is sent and kept for another try. reqwest can
/// send it again by itself if a server closes an HTTP/2 connection without reading it.
const LONGEST_KEPT: usize = 256 << 10;

/// How many bytes of a long body are encoded at a time, and how many such frames wait to be sent.
/// Frames this small stay in the processor's cache, and the C library reuses their memory.
const FRAME: usize = 64 << 10;
const WAITING_FRAMES: usize = 4;

/// What a body is encoded from.
pub(crate) struct BodySource {
    pub(crate) dialect: Dialect,
    pub(crate) spec: Arc<Spec>,
    pub(crate) service: Arc<Service>,
    /// The address that the request goes to.
    pub(crate) base: String,
    pub(crate) request: ModelRequest,
}

impl BodySource {
    fn json(&self) -> Json<'_> {
        self.dialect.body(&self.spec, &self.service, &self.base, &self.request)
    }

    /// Builds the body as a value that can be changed.
    pub(crate) fn to_value(&self) -> Value {
        self.json().into()
    }

    /// Starts to encode the body off the caller's thread, because a conversation may be long. A
    /// long body occupies one of tokio's blocking threads until the server has read it or the
    /// request ends. Returns `None` if that thread panicked.
    pub(crate) async fn encode(self: Arc<Self>) -> Option<EncodedBody> {
        let (begin, begun) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let json = self.json();
            let length = json.encoded_len();
            if length <= LONGEST_KEPT {
                let _ = begin.send(EncodedBody::Whole(json.to_bytes()));
                return;
            }
            let (sender, frames) = mpsc::channel(WAITING_FRAMES);
            // Dropping the request drops the channel, which ends the encoding.
            if begin.send(EncodedBody::Frames { length, frames }).is_ok() {
                let _ = json.write_frames(FRAME, |frame| match sender.blocking_send(frame) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                });
            }
        });
        begun.await.ok()
    }
}

/// A body on its way to a provider.
#[derive(Debug)]
pub(crate) enum EncodedBody {
    Whole(Bytes),
    /// A long body in frames that have this many bytes together.
    Frames {
        length: usize,
        frames: mpsc::Receiver<Bytes>,
    },
}

impl EncodedBody {
    /// Adds the body to a request. Its length is sent in any case: many servers refuse a request
    /// without one.
    pub(crate) fn add_to(self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Whole(bytes) => request.body(bytes),
            Self::Frames { length, mut frames } => {
                let frames =
                    stream::poll_fn(move |cx| frames.poll_recv(cx).map(|frame| frame.map(Ok::<_, Infallible>)));
                request.header(CONTENT_LENGTH, length).body(Body::wrap_stream(frames))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Content;

    use super::*;
    use crate::config::ProviderKind;
    use crate::fixtures::{request, user};
    use crate::spec;

    fn source(bytes: usize) -> Arc<BodySource> {
        Arc::new(BodySource {
            dialect: Dialect::Chat,
            spec: Arc::new(spec::spec("p", "m")),
            service: Arc::new(Service::stub(ProviderKind::OpenAi)),
            base: "http://127.0.0.1:9".to_owned(),
            request: request(vec![user(vec![Content::text("\"".repeat(bytes / 2))])]),
        })
    }

    #[tokio::test]
    async fn a_short_body_is_encoded_whole_and_a_long_one_in_frames() {
        for (bytes, is_long) in [(10, false), (LONGEST_KEPT / 2, false), (LONGEST_KEPT, true), (5 << 20, true)] {
            let source = source(bytes);
            let expected = serde_json::to_vec(&source.to_value()).unwrap();
            match source.encode().await.unwrap() {
                EncodedBody::Whole(whole) => assert!(!is_long && whole == expected, "{bytes}"),
                EncodedBody::Frames { length, mut frames } => {
                    let mut all = Vec::new();
                    while let Some(frame) = frames.recv().await {
                        assert!(frame.len() <= FRAME, "{bytes}: {}", frame.len());
                        all.extend_from_slice(&frame);
                    }
                    assert!(is_long && all == expected, "{bytes}");
                    assert_eq!(length, expected.len());
                }
            }
        }
    }

    #[tokio::test]
    async fn encoding_ends_once_the_frames_are_dropped() {
        let source = source(5 << 20);
        let body = source.clone().encode().await.unwrap();
        assert!(Arc::strong_count(&source) > 1, "it waits until frames are taken");
        drop(body);
        while Arc::strong_count(&source) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
