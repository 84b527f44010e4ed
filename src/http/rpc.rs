//! The transport of two addresses: `POST /acp/rpc` takes a message and answers with a status alone, `GET /acp/sse` streams
//! what the agent says, and DELETE there leaves. All name the client by an id that it has chosen.
//!
//! Whichever comes first makes the client. Frames are kept until a stream that begins after them says that they arrived.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;

use super::client::Begin;
use super::clients::{Clients, Key};
use super::post::Said;
use super::refusal::Refusal;
use super::routing::LaneName;
use super::{Limits, last_event_id, sse};

/// Longer ids are of no use to anybody.
const LONGEST_ID: usize = 128;

#[derive(Deserialize)]
pub(super) struct Named {
    client_id: Option<String>,
}

impl Named {
    fn key(self) -> Result<Key, Refusal> {
        let is_fit =
            |id: &String| (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        let id = self.client_id.filter(is_fit);
        id.map(Key::Sse)
            .ok_or(Refusal::Bad("the address must name the client: ?client_id=ID, up to 128 plain characters"))
    }
}

pub(super) async fn post(
    request: HttpRequest,
    named: web::Query<Named>,
    payload: web::Payload,
    clients: web::Data<Clients>,
    limits: web::Data<Limits>,
) -> Result<HttpResponse, Refusal> {
    let key = named.into_inner().key()?;
    let said = Said::read(&request, payload, limits.frame).await?;
    let client = clients.into_inner().find_or_open(key)?;
    said.pass(&client, Refusal::Lost).await?;
    Ok(HttpResponse::Accepted().finish())
}

/// The client leaves, at once and not after a while.
pub(super) async fn delete(named: web::Query<Named>, clients: web::Data<Clients>) -> Result<HttpResponse, Refusal> {
    let key = named.into_inner().key()?;
    let client = clients.find(&key).ok_or(Refusal::NoSuchConnection)?;
    clients.close(&key, &client);
    Ok(HttpResponse::Accepted().finish())
}

pub(super) async fn stream(
    request: HttpRequest,
    named: web::Query<Named>,
    clients: web::Data<Clients>,
) -> Result<HttpResponse, Refusal> {
    let (clients, key) = (clients.into_inner(), named.into_inner().key()?);
    let seen = last_event_id(&request)?;
    // A client that has seen something of a daemon that knows nothing of it has lost what came after.
    let client = match (clients.find(&key), seen) {
        (Some(client), _) => client,
        (None, None | Some(0)) => clients.find_or_open(key.clone())?,
        (None, Some(_)) => return Err(Refusal::Lost),
    };
    match client.subscribe(LaneName::Connection, Begin::After(seen.unwrap_or(0))) {
        Ok(subscription) => Ok(sse::response(subscription)),
        Err(_) => {
            // It can begin again under the same name.
            clients.close(&key, &client);
            Err(Refusal::Lost)
        }
    }
}
