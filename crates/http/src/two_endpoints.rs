//! The transport with two endpoints: `POST /acp/rpc` sends a message and returns only a status,
//! `GET /acp/sse` streams the agent's messages, and DELETE on the latter ends the client. Each
//! request names the client by an id of its choice.
//!
//! The first request creates the client. Frames are kept until a stream that starts after them
//! acknowledges them.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;

use crate::client::StreamStart;
use crate::client_registry::{ClientKey, ClientRegistry};
use crate::posted_message::PostedMessage;
use crate::refusal::HttpRefusal;
use crate::router::LaneName;
use crate::{Limits, last_event_id, sse};

/// The maximum length of a client's id.
const LONGEST_ID: usize = 128;

#[derive(Deserialize)]
pub(crate) struct ClientQuery {
    client_id: Option<String>,
}

impl ClientQuery {
    fn key(self) -> Result<ClientKey, HttpRefusal> {
        let is_fit =
            |id: &String| (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        let id = self.client_id.filter(is_fit);
        id.map(ClientKey::Sse).ok_or(HttpRefusal::Bad(
            "the address must name the client: ?client_id=ID, with up to 128 letters, digits or signs",
        ))
    }
}

pub(crate) async fn post(
    request: HttpRequest,
    named: web::Query<ClientQuery>,
    payload: web::Payload,
    clients: web::Data<ClientRegistry>,
    limits: web::Data<Limits>,
) -> Result<HttpResponse, HttpRefusal> {
    let key = named.into_inner().key()?;
    let message = PostedMessage::read(&request, payload, &limits).await?;
    let client = clients.into_inner().find_or_open(key)?;
    message.pass(&client, HttpRefusal::Lost).await?;
    Ok(HttpResponse::Accepted().finish())
}

/// Ends the client immediately.
pub(crate) async fn delete(
    named: web::Query<ClientQuery>,
    clients: web::Data<ClientRegistry>,
) -> Result<HttpResponse, HttpRefusal> {
    let key = named.into_inner().key()?;
    let client = clients.find(&key).ok_or(HttpRefusal::NoSuchConnection)?;
    clients.close(&key, &client);
    Ok(HttpResponse::Accepted().finish())
}

pub(crate) async fn stream(
    request: HttpRequest,
    named: web::Query<ClientQuery>,
    clients: web::Data<ClientRegistry>,
) -> Result<HttpResponse, HttpRefusal> {
    let (clients, key) = (clients.into_inner(), named.into_inner().key()?);
    let seen = last_event_id(&request)?;
    // If this daemon does not know a client that names a last event, the events after it are lost.
    let client = match (clients.find(&key), seen) {
        (Some(client), _) => client,
        (None, None | Some(0)) => clients.find_or_open(key.clone())?,
        (None, Some(_)) => return Err(HttpRefusal::Lost),
    };
    match client.subscribe(LaneName::Connection, StreamStart::After(seen.unwrap_or(0))) {
        Ok(subscription) => Ok(sse::response(subscription)),
        Err(_) => {
            // The client can start again with the same id.
            clients.close(&key, &client);
            Err(HttpRefusal::Lost)
        }
    }
}
