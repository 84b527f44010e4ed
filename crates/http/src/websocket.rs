//! The WebSocket upgrade on `/acp`: every text frame is one message, in both directions. Closing
//! the socket detaches the client.
//!
//! Reading and writing are two tasks, so that a client that does not read can still cancel.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, rt, web};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, Closed, ProtocolError, Session};
use uuid::Uuid;

use crate::client::{Client, StartAt, Subscription};
use crate::client_registry::{ClientKey, ClientRegistry};
use crate::refusal::Refusal;
use crate::router::LaneName;
use crate::streamable::{CONNECTION_ID, cookie};

/// The subprotocols that a client may request, besides its token.
const PROTOCOLS: [&str; 1] = ["acp"];

const PING: Duration = Duration::from_secs(20);
/// How long a client may be silent, pongs included.
const SILENCE: Duration = Duration::from_secs(60);

pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|upgrade| upgrade.to_str().ok()).unwrap_or_default();
    upgrade.split(',').any(|to| to.trim().eq_ignore_ascii_case("websocket"))
}

pub(crate) fn open(
    request: &HttpRequest,
    payload: web::Payload,
    clients: Arc<ClientRegistry>,
    limit: usize,
) -> Result<HttpResponse, actix_web::Error> {
    let (mut response, session, incoming) = actix_ws::handle_with_protocols(request, payload, &PROTOCOLS)?;
    let incoming = incoming.max_frame_size(limit).aggregate_continuations().max_continuation_size(limit);
    let id = Uuid::now_v7().to_string();
    let key = ClientKey::WebSocket(id.clone());
    let client = clients.find_or_open(key.clone())?;
    let outgoing = client.subscribe(LaneName::Connection, StartAt::Unsent).map_err(|_| Refusal::Lost)?;
    let headers = response.headers_mut();
    for (name, value) in [(CONNECTION_ID, id.clone()), (header::SET_COOKIE, cookie(&id))] {
        headers.insert(name, HeaderValue::try_from(value).map_err(actix_web::error::ErrorInternalServerError)?);
    }
    let heard = Rc::new(Cell::new(Instant::now()));
    let speaking = speak(outgoing, session.clone(), heard.clone());
    let spoken_to = client.clone();
    rt::spawn(async move {
        speaking.await;
        // It cannot be resumed, and the other task may be waiting for this client to read.
        spoken_to.end();
    });
    rt::spawn(async move {
        listen(&client, incoming, session, &heard).await;
        clients.close(&key, &client);
    });
    Ok(response)
}

/// Sends the agent's messages until there are no more or the client is gone.
async fn speak(mut outgoing: Subscription, mut session: Session, heard: Rc<Cell<Instant>>) {
    let mut beat = tokio::time::interval(PING);
    loop {
        let sent = tokio::select! {
            frames = outgoing.next() => match frames {
                None => break,
                Some(frames) => send(frames, &mut session).await,
            },
            _ = beat.tick() => match heard.get().elapsed() {
                silence if silence > SILENCE => break,
                _ => session.ping(b"").await,
            },
        };
        if sent.is_err() {
            return;
        }
    }
    // The client may have closed it already.
    let _ = session.close(Some(CloseReason::from(CloseCode::Away))).await;
}

async fn send(frames: Vec<crate::frame_buffer::Frame>, session: &mut Session) -> Result<(), Closed> {
    for frame in frames {
        let text = String::from_utf8_lossy(&frame.message).into_owned();
        session.text(text).await?;
    }
    Ok(())
}

/// Passes the client's messages on until the socket closes.
async fn listen(client: &Client, mut incoming: AggregatedMessageStream, mut session: Session, heard: &Cell<Instant>) {
    while let Some(message) = incoming.recv().await {
        heard.set(Instant::now());
        match message {
            Ok(AggregatedMessage::Text(text)) => {
                if !client.send(text.as_bytes()).await {
                    return;
                }
                // Sending may have had to wait, which does not count as the client's silence.
                heard.set(Instant::now());
            }
            Ok(AggregatedMessage::Ping(bytes)) => {
                if session.pong(&bytes).await.is_err() {
                    return;
                }
            }
            Ok(AggregatedMessage::Pong(_) | AggregatedMessage::Binary(_)) => {}
            Ok(AggregatedMessage::Close(_)) => return,
            Err(error) => {
                let code = match error {
                    ProtocolError::Overflow => CloseCode::Size,
                    _ => CloseCode::Protocol,
                };
                tracing::warn!(%error, "a WebSocket client broke the framing");
                let _ = session.close(Some(CloseReason::from(code))).await;
                return;
            }
        }
    }
}
