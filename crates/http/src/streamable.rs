//! The public draft "Streamable HTTP & WebSocket transport" on `/acp`: POST sends a message, GET
//! opens the stream of the connection or of a session, DELETE ends the connection.
//!
//! `initialize` creates the connection and is answered in the response; every other request is
//! answered on a stream. A stream that is opened again resumes after its `Last-Event-ID` or,
//! without one, with the first frame that was not sent yet.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{self, HeaderMap, HeaderName};
use actix_web::{HttpRequest, HttpResponse, web};
use domain::SessionId;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::method;

use crate::client::{HttpClient, StreamStart};
use crate::client_registry::{ClientKey, ClientRegistry};
use crate::posted_message::PostedMessage;
use crate::refusal::HttpRefusal;
use crate::router::{LaneName, session_scope};
use crate::{Limits, last_event_id, sse, websocket};

pub(crate) const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");
const SESSION_ID: HeaderName = HeaderName::from_static("acp-session-id");

/// How long `initialize` may take.
const INITIALIZE_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn post(
    request: HttpRequest,
    payload: web::Payload,
    clients: web::Data<ClientRegistry>,
    limits: web::Data<Limits>,
) -> Result<HttpResponse, HttpRefusal> {
    if !is_json(request.headers()) {
        return Err(HttpRefusal::ContentType);
    }
    let message = PostedMessage::read(&request, payload, &limits).await?;
    let clients = clients.into_inner();
    let Some(id) = named(request.headers(), &CONNECTION_ID)? else {
        return initialize(&clients, message).await;
    };
    let client = clients.find(&ClientKey::Http(id.to_owned())).ok_or(HttpRefusal::NoSuchConnection)?;
    check_session(request.headers(), &message)?;
    client.with_router(|router| router.track(message.summary()));
    let passed = message.pass(&client, HttpRefusal::NoSuchConnection).await;
    passed.inspect_err(|_| client.with_router(|router| router.forget(message.summary())))?;
    Ok(HttpResponse::Accepted().finish())
}

pub(crate) async fn get(
    request: HttpRequest,
    payload: web::Payload,
    clients: web::Data<ClientRegistry>,
    limits: web::Data<Limits>,
) -> Result<HttpResponse, actix_web::Error> {
    if websocket::is_upgrade(request.headers()) {
        return websocket::open(&request, payload, clients.into_inner(), &limits).await;
    }
    Ok(stream(&request, &clients).await?)
}

async fn stream(request: &HttpRequest, clients: &ClientRegistry) -> Result<HttpResponse, HttpRefusal> {
    if !accepts_events(request.headers()) {
        return Err(HttpRefusal::Accept);
    }
    let client = connection(request, clients)?;
    let lane = match named(request.headers(), &SESSION_ID)? {
        None => LaneName::Connection,
        Some(session) => {
            let known = client.with_router(|router| router.knows(session));
            // The stream of a session that exists may be opened before the session is loaded.
            if !known && !clients.runtime().session_exists(&SessionId::from(session)).await {
                return Err(HttpRefusal::NoSuchSession);
            }
            LaneName::Session(session.to_owned())
        }
    };
    let begin = last_event_id(request)?.map_or(StreamStart::Unsent, StreamStart::After);
    let subscription = client.subscribe(lane, begin).map_err(|_| HttpRefusal::Lost)?;
    Ok(sse::response(subscription))
}

pub(crate) async fn delete(
    request: HttpRequest,
    clients: web::Data<ClientRegistry>,
) -> Result<HttpResponse, HttpRefusal> {
    let client = connection(&request, &clients)?;
    if let Some(id) = named(request.headers(), &CONNECTION_ID)? {
        clients.close(&ClientKey::Http(id.to_owned()), &client);
    }
    Ok(HttpResponse::Accepted().finish())
}

/// Creates a connection for an `initialize`, and returns its answer in the response.
async fn initialize(clients: &Arc<ClientRegistry>, message: PostedMessage) -> Result<HttpResponse, HttpRefusal> {
    let summary = message.summary();
    if summary.method.as_deref() != Some(method::INITIALIZE) || summary.id.is_none() {
        return Err(HttpRefusal::Bad(
            "the header Acp-Connection-Id is missing; the response to initialize has its value",
        ));
    }
    let id = Uuid::now_v7().to_string();
    let key = ClientKey::Http(id.clone());
    let client = clients.find_or_open(key.clone())?;
    let answer = async {
        // The connection sends nothing before this answer.
        let mut answers = client.subscribe(LaneName::Connection, StreamStart::Unsent).map_err(|_| HttpRefusal::Lost)?;
        message.pass(&client, HttpRefusal::ShuttingDown).await?;
        let answer =
            tokio::time::timeout(INITIALIZE_DEADLINE, answers.next_one()).await.map_err(|_| HttpRefusal::NoAnswer)?;
        answer.ok_or(HttpRefusal::ShuttingDown)
    };
    let answer = answer.await.inspect_err(|_| clients.close(&key, &client))?;
    let mut answer: Value = serde_json::from_slice(&answer.message).map_err(|_| HttpRefusal::NoAnswer)?;
    let mut response = HttpResponse::Ok();
    match answer.get_mut("result").and_then(Value::as_object_mut) {
        Some(result) => {
            result.insert("connectionId".to_owned(), json!(id));
            response.insert_header((header::SET_COOKIE, cookie(&id))).insert_header((CONNECTION_ID, id));
        }
        // Nothing was initialized, so there is no connection to keep.
        None => clients.close(&key, &client),
    }
    Ok(response.json(answer))
}

/// A cookie with which a load balancer can send a client's requests to the same daemon. acpd does
/// not read it.
pub(crate) fn cookie(id: &str) -> String {
    format!("acp_connection={id}; Path=/acp; HttpOnly; SameSite=Strict")
}

fn connection(request: &HttpRequest, clients: &ClientRegistry) -> Result<Arc<HttpClient>, HttpRefusal> {
    let id =
        named(request.headers(), &CONNECTION_ID)?.ok_or(HttpRefusal::Bad("the header Acp-Connection-Id is missing"))?;
    clients.find(&ClientKey::Http(id.to_owned())).ok_or(HttpRefusal::NoSuchConnection)
}

/// Checks that a message about a session names the same session in its header.
fn check_session(headers: &HeaderMap, message: &PostedMessage) -> Result<(), HttpRefusal> {
    let in_header = named(headers, &SESSION_ID)?;
    match (session_scope(message.summary()), in_header) {
        (Some(_), None) => Err(HttpRefusal::Bad("a message about a session needs the header Acp-Session-Id")),
        (Some(body), Some(header)) if body != header => {
            Err(HttpRefusal::Bad("the header Acp-Session-Id and the sessionId of the message differ"))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

fn named<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HttpRefusal> {
    let value =
        headers.get(name).map(|value| value.to_str().map_err(|_| HttpRefusal::Bad("a header is not plain text")));
    value.transpose()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).filter_map(|accepted| accepted.to_str().ok());
    let mut kinds = accepted.flat_map(|accepted| accepted.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}
