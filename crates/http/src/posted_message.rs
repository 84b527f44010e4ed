//! The body of a POST: one message, and passing it on to the client's connection.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use bytes::Bytes;

use super::body;
use crate::client::Client;
use crate::refusal::Refusal;
use crate::router::MessageSummary;

/// Larger messages are scanned on another thread.
const BIG: usize = 256 << 10;

/// How long a message waits for a client that does not read its answers.
const STUCK: Duration = Duration::from_secs(10);

/// One message of a client, which is a JSON object.
pub(crate) struct PostedMessage {
    body: Bytes,
    summary: MessageSummary,
}

impl PostedMessage {
    pub(crate) async fn read(request: &HttpRequest, payload: web::Payload, limit: usize) -> Result<Self, Refusal> {
        let body = body::read(request, payload, limit).await?;
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(Refusal::Batch);
        }
        let summary = if body.len() < BIG {
            MessageSummary::of(&body)
        } else {
            let copy = body.clone();
            web::block(move || MessageSummary::of(&copy)).await.unwrap_or(None)
        };
        Ok(Self { summary: summary.ok_or(Refusal::NotJson)?, body })
    }

    pub(crate) fn summary(&self) -> &MessageSummary {
        &self.summary
    }

    /// Sends it to the client's connection. Returns `gone` if that has ended.
    pub(crate) async fn pass(&self, client: &Client, gone: Refusal) -> Result<(), Refusal> {
        match tokio::time::timeout(STUCK, client.send(&self.body)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(gone),
            Err(_) => Err(Refusal::Stuck),
        }
    }
}
