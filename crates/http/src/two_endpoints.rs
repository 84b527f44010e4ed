//! The transport of two addresses: `POST /acp/rpc` takes a message and answers with a status alone, `GET /acp/sse` streams
//! what the agent says, and DELETE there leaves. All name the client by an id that it has chosen.
//!
//! Whichever comes first makes the client. Frames are kept until a stream that begins after them says that they arrived.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;

use crate::client::StartAt;
use crate::client_registry::{ClientKey, ClientRegistry};
use crate::posted_message::PostedMessage;
use crate::refusal::Refusal;
use crate::router::LaneName;
use crate::{Limits, last_event_id, sse};

/// Longer ids are of no use to anybody.
const LONGEST_ID: usize = 128;

#[derive(Deserialize)]
pub(crate) struct ClientQuery {
    client_id: Option<String>,
}

impl ClientQuery {
    fn key(self) -> Result<ClientKey, Refusal> {
        let is_fit =
            |id: &String| (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        let id = self.client_id.filter(is_fit);
        id.map(ClientKey::Sse).ok_or(Refusal::Bad(
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
) -> Result<HttpResponse, Refusal> {
    let key = named.into_inner().key()?;
    let message = PostedMessage::read(&request, payload, limits.frame).await?;
    let client = clients.into_inner().find_or_open(key)?;
    message.pass(&client, Refusal::Lost).await?;
    Ok(HttpResponse::Accepted().finish())
}

/// The client leaves, at once and not after a while.
pub(crate) async fn delete(
    named: web::Query<ClientQuery>,
    clients: web::Data<ClientRegistry>,
) -> Result<HttpResponse, Refusal> {
    let key = named.into_inner().key()?;
    let client = clients.find(&key).ok_or(Refusal::NoSuchConnection)?;
    clients.close(&key, &client);
    Ok(HttpResponse::Accepted().finish())
}

pub(crate) async fn stream(
    request: HttpRequest,
    named: web::Query<ClientQuery>,
    clients: web::Data<ClientRegistry>,
) -> Result<HttpResponse, Refusal> {
    let (clients, key) = (clients.into_inner(), named.into_inner().key()?);
    let seen = last_event_id(&request)?;
    // A client that has seen something of a daemon that knows nothing of it has lost what came after.
    let client = match (clients.find(&key), seen) {
        (Some(client), _) => client,
        (None, None | Some(0)) => clients.find_or_open(key.clone())?,
        (None, Some(_)) => return Err(Refusal::Lost),
    };
    match client.subscribe(LaneName::Connection, StartAt::After(seen.unwrap_or(0))) {
        Ok(subscription) => Ok(sse::response(subscription)),
        Err(_) => {
            // It can begin again under the same name.
            clients.close(&key, &client);
            Err(Refusal::Lost)
        }
    }
}
