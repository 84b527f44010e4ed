//! Frames as server-sent events: `id:` is the frame's number on its connection, `data:` the
//! message. A comment is sent at once, so that the client knows that the stream is open, and
//! whenever the stream was silent for a while.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};

use crate::client::Subscription;
use crate::frame_buffer::Frame;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
const COMMENT: &[u8] = b": acpd\n\n";

pub(crate) fn response(subscription: Subscription) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        // Tells proxies not to buffer the events.
        .insert_header(("x-accel-buffering", "no"))
        .streaming(events(subscription))
}

fn events(subscription: Subscription) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let opening = stream::once(async { Ok(Bytes::from_static(COMMENT)) });
    let rest = stream::unfold(subscription, |mut subscription| async move {
        match tokio::time::timeout(KEEP_ALIVE, subscription.next()).await {
            Ok(None) => None,
            Ok(Some(frames)) => Some((Ok(written(&frames)), subscription)),
            Err(_) => Some((Ok(Bytes::from_static(COMMENT)), subscription)),
        }
    });
    futures_util::StreamExt::chain(opening, rest)
}

fn written(frames: &[Frame]) -> Bytes {
    let length = frames.iter().map(|frame| frame.message.len() + 40).sum();
    let mut text = BytesMut::with_capacity(length);
    for frame in frames {
        text.put_slice(format!("id: {}\n", frame.number).as_bytes());
        // Line breaks occur only between JSON tokens, and the reader restores them.
        for line in frame.message.split(|byte| *byte == b'\n') {
            text.put_slice(b"data: ");
            text.put_slice(line);
            text.put_u8(b'\n');
        }
        text.put_u8(b'\n');
    }
    text.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_number_and_its_lines() {
        let frames = [(7, "{\"a\":1}"), (9, "{\n}")];
        let frames = frames.map(|(number, message)| Frame { number, message: Bytes::from_static(message.as_bytes()) });
        assert_eq!(written(&frames), "id: 7\ndata: {\"a\":1}\n\nid: 9\ndata: {\ndata: }\n\n");
    }
}
