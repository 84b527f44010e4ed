//! The body of a POST, which is one message. It is passed on to the client's connection.

use std::time::Duration;

use actix_web::{HttpRequest, web};

use crate::Limits;
use crate::body::{self, Body};
use crate::client::HttpClient;
use crate::refusal::HttpRefusal;
use crate::router::MessageSummary;

/// Larger messages are scanned on another thread.
const BIG: usize = 256 << 10;

/// How long a message waits for a client that does not read its answers.
pub(crate) const UNREAD_DEADLINE: Duration = Duration::from_secs(10);

/// One message of a client, which is a JSON object.
pub(crate) struct PostedMessage {
    body: Body,
    summary: MessageSummary,
}

impl PostedMessage {
    pub(crate) async fn read(
        request: &HttpRequest,
        payload: web::Payload,
        limits: &Limits,
    ) -> Result<Self, HttpRefusal> {
        let body = body::read(request, payload, limits.frame, &limits.bodies).await?;
        if body.bytes.trim_ascii_start().starts_with(b"[") {
            return Err(HttpRefusal::Batch);
        }
        let summary = if body.bytes.len() < BIG {
            MessageSummary::of(&body.bytes)
        } else {
            let copy = body.bytes.clone();
            web::block(move || MessageSummary::of(&copy)).await.unwrap_or(None)
        };
        Ok(Self { summary: summary.ok_or(HttpRefusal::NotJson)?, body })
    }

    pub(crate) fn summary(&self) -> &MessageSummary {
        &self.summary
    }

    /// Sends the message to the client's connection. Returns `gone` if the connection has ended.
    pub(crate) async fn pass(&self, client: &HttpClient, gone: HttpRefusal) -> Result<(), HttpRefusal> {
        match tokio::time::timeout(UNREAD_DEADLINE, client.send(&self.body.bytes)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(gone),
            Err(_) => Err(HttpRefusal::Stuck),
        }
    }
}
