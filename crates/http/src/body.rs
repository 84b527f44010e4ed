//! Reads a request's body within limits of size and time.

use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use crate::refusal::Refusal;

/// How long the next piece of a body may take.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn read(request: &HttpRequest, mut body: web::Payload, limit: usize) -> Result<Bytes, Refusal> {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limit as u64) {
        return Err(Refusal::TooLong);
    }
    let mut whole = BytesMut::new();
    loop {
        match tokio::time::timeout(PATIENCE, body.next()).await {
            Err(_) => return Err(Refusal::TooSlow),
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Err(_))) => return Err(Refusal::Bad("the connection closed before the whole body arrived")),
            Ok(Some(Ok(piece))) if whole.len() + piece.len() > limit => return Err(Refusal::TooLong),
            Ok(Some(Ok(piece))) => whole.extend_from_slice(&piece),
        }
    }
}
