//! What the two kinds of POST share: a body that is one message, and passing it on.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use bytes::Bytes;

use super::body;
use super::client::Client;
use super::refusal::Refusal;
use super::routing::Seen;

/// Bigger messages are looked at on another thread.
const BIG: usize = 256 << 10;

/// How long a message waits for a client that leaves its answers unread.
const STUCK: Duration = Duration::from_secs(10);

/// One message of a client's, which is a JSON object.
pub(super) struct Said {
    body: Bytes,
    seen: Seen,
}

impl Said {
    pub(super) async fn read(request: &HttpRequest, payload: web::Payload, limit: usize) -> Result<Self, Refusal> {
        let body = body::read(request, payload, limit).await?;
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(Refusal::Batch);
        }
        let seen = if body.len() < BIG {
            Seen::of(&body)
        } else {
            let copy = body.clone();
            web::block(move || Seen::of(&copy)).await.unwrap_or(None)
        };
        Ok(Self { seen: seen.ok_or(Refusal::NotJson)?, body })
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Passes it on to the client's connection; `gone` is what to say if that has ended.
    pub(super) async fn pass(&self, client: &Client, gone: Refusal) -> Result<(), Refusal> {
        match tokio::time::timeout(STUCK, client.say(&self.body)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(gone),
            Err(_) => Err(Refusal::Stuck),
        }
    }
}
