//! What the two kinds of POST share: a body that is one message, and passing it on.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use bytes::Bytes;
use wire::glance::{Glance, glance};

use super::body;
use super::client::Client;
use super::refusal::Refusal;

/// Bigger messages are looked at on another thread.
const BIG: usize = 256 << 10;

/// How long a message waits for a client that leaves its answers unread.
const STUCK: Duration = Duration::from_secs(10);

/// One message of a client's, which is a JSON object.
pub(super) struct Said(Bytes);

impl Said {
    pub(super) async fn read(request: &HttpRequest, payload: web::Payload, limit: usize) -> Result<Self, Refusal> {
        let body = body::read(request, payload, limit).await?;
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(Refusal::Batch);
        }
        let is_object = if body.len() < BIG {
            glance(&body).is_some()
        } else {
            let copy = body.clone();
            web::block(move || glance(&copy).is_some()).await.unwrap_or(false)
        };
        if is_object { Ok(Self(body)) } else { Err(Refusal::NotJson) }
    }

    pub(super) fn glance(&self) -> Glance<'_> {
        glance(&self.0).unwrap_or_default()
    }

    /// Passes it on to the client's connection; `gone` is what to say if that has ended.
    pub(super) async fn pass(self, client: &Client, gone: Refusal) -> Result<(), Refusal> {
        let mouth = client.mouth().ok_or(gone)?;
        match tokio::time::timeout(STUCK, mouth.say(&self.0)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(gone),
            Err(_) => Err(Refusal::Stuck),
        }
    }
}
