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

use crate::Limits;
use crate::client::{HttpClient, StreamStart, Subscription};
use crate::client_registry::{ClientKey, ClientRegistry};
use crate::meter::BodyMeter;
use crate::posted_message::UNREAD_DEADLINE;
use crate::refusal::HttpRefusal;
use crate::router::LaneName;
use crate::streamable::{CONNECTION_ID, cookie};

/// The subprotocols that a client may request, besides its token.
const PROTOCOLS: [&str; 1] = ["acp"];

const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long a client may be silent, pongs included.
const SILENCE_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|upgrade| upgrade.to_str().ok()).unwrap_or_default();
    upgrade.split(',').any(|to| to.trim().eq_ignore_ascii_case("websocket"))
}

pub(crate) async fn open(
    request: &HttpRequest,
    payload: web::Payload,
    clients: Arc<ClientRegistry>,
    limits: &Limits,
) -> Result<HttpResponse, actix_web::Error> {
    let (meter, limit) = (BodyMeter::new(&limits.bodies), limits.frame);
    let payload = meter.metered(request, payload).await?;
    let (mut response, session, incoming) = actix_ws::handle_with_protocols(request, payload, &PROTOCOLS)?;
    let incoming = incoming.max_frame_size(limit).aggregate_continuations().max_continuation_size(limit);
    let id = Uuid::now_v7().to_string();
    let key = ClientKey::WebSocket(id.clone());
    let client = clients.find_or_open(key.clone())?;
    let outgoing = client.subscribe(LaneName::Connection, StreamStart::Unsent).map_err(|_| HttpRefusal::Lost)?;
    let headers = response.headers_mut();
    for (name, value) in [(CONNECTION_ID, id.clone()), (header::SET_COOKIE, cookie(&id))] {
        headers.insert(name, HeaderValue::try_from(value).map_err(actix_web::error::ErrorInternalServerError)?);
    }
    let last_received = Rc::new(LastReceived::new());
    let writing = write_messages(outgoing, session.clone(), last_received.clone());
    let spoken_to = client.clone();
    rt::spawn(async move {
        writing.await;
        // The client cannot be resumed, and the other task may be waiting for it to read.
        spoken_to.end();
    });
    rt::spawn(async move {
        read_messages(&client, incoming, &meter, session, &last_received).await;
        clients.close(&key, &client);
    });
    Ok(response)
}

/// When the client was last read from. The time in which it is not read does not count as its
/// silence.
struct LastReceived(Cell<Option<Instant>>);

impl LastReceived {
    fn new() -> Self {
        Self(Cell::new(Some(Instant::now())))
    }

    /// How long the client has been silent. Zero while it is not read.
    fn silence(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Counts no silence until the guard is dropped.
    fn pause(&self) -> Paused<'_> {
        self.0.set(None);
        Paused(self)
    }
}

/// Restarts the measurement of a client's silence when it is dropped.
struct Paused<'a>(&'a LastReceived);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.0.set(Some(Instant::now()));
    }
}

/// Sends the agent's messages until there are no more or the client is gone.
async fn write_messages(mut outgoing: Subscription, mut session: Session, last_received: Rc<LastReceived>) {
    let mut beat = tokio::time::interval(PING_INTERVAL);
    loop {
        let sent = tokio::select! {
            frames = outgoing.next() => match frames {
                None => break,
                Some(frames) => send(frames, &mut session).await,
            },
            _ = beat.tick() => match last_received.silence() {
                silence if silence > SILENCE_DEADLINE => break,
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
async fn read_messages(
    client: &HttpClient,
    mut incoming: AggregatedMessageStream,
    meter: &BodyMeter,
    mut session: Session,
    last_received: &LastReceived,
) {
    while let Some(message) = incoming.recv().await {
        // Nothing is read while the message is passed on, however long that takes.
        let _passing_on = last_received.pause();
        match message {
            Ok(AggregatedMessage::Text(text)) => {
                let sent = match meter.message_ends() {
                    None => client.send(text.as_bytes()).await,
                    // A message that holds a part of the shared budget must not wait forever.
                    Some(_held) => {
                        tokio::time::timeout(UNREAD_DEADLINE, client.send(text.as_bytes())).await.unwrap_or_default()
                    }
                };
                if !sent {
                    return;
                }
            }
            Ok(AggregatedMessage::Ping(bytes)) => {
                if session.pong(&bytes).await.is_err() {
                    return;
                }
            }
            Ok(AggregatedMessage::Binary(_)) => drop(meter.message_ends()),
            Ok(AggregatedMessage::Pong(_)) => {}
            Ok(AggregatedMessage::Close(_)) => return,
            Err(error) => {
                let code = match error {
                    ProtocolError::Overflow => CloseCode::Size,
                    _ if meter.is_refused() => CloseCode::Again,
                    _ => CloseCode::Protocol,
                };
                tracing::warn!(%error, "a WebSocket client broke the framing");
                let _ = session.close(Some(CloseReason::from(code))).await;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_not_silent_while_its_message_waits_to_be_passed_on() {
        let long_ago = Instant::now().checked_sub(2 * SILENCE_DEADLINE).unwrap();
        let last_received = LastReceived(Cell::new(Some(long_ago)));
        assert!(last_received.silence() > SILENCE_DEADLINE);
        let passing_on = last_received.pause();
        assert_eq!(last_received.silence(), Duration::ZERO);
        drop(passing_on);
        assert!(last_received.silence() < SILENCE_DEADLINE, "it counts from the end of the wait");
    }
}
