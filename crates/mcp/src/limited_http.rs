//! An HTTP client for the MCP library that limits the size of every response. The library's own
//! client reads a JSON body of any size. Event streams are also parsed leniently.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;

use domain::text::cut;
use futures_util::stream::{BoxStream, StreamExt};
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::bounded_transport::DisconnectReason;
use crate::hidden::SentSecrets;
use crate::lenient::{self, ReadError};
use crate::login::{Bearer, Demand, Renewal};
use crate::refusals::{self, Refusal, Refusals};
use crate::remote::LARGEST_EVENT;
use crate::responses::{Failure, JSON, LARGEST_REFUSAL, authorized, body, content_type, refusal, refusal_of};
use crate::server_log::ServerLog;

const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";

type Events = BoxStream<'static, Result<Sse, SseError>>;

#[derive(Clone)]
pub(crate) struct LimitedHttpClient {
    pub(crate) client: Client,
    pub(crate) log: Arc<ServerLog>,
    pub(crate) disconnect: DisconnectReason,
    /// The token of the user's login to this server; None if the server must not get one.
    pub(crate) bearer: Option<Bearer>,
    /// What the server must not bring into the log or the history.
    pub(crate) sent: SentSecrets,
    /// Where calls find out why the server refused them.
    pub(crate) refusals: Refusals,
}

/// A request, as far as a refusal of it is concerned.
pub(crate) enum RequestKind {
    /// The request is part of connecting. If the server demands a login for it, it cannot be used
    /// without one.
    Setup,
    /// The request uses what the server offers, or listens to its messages. The id is set if the
    /// request is a call.
    Use(Option<RequestId>),
}

impl RequestKind {
    pub(crate) fn of(message: &ClientJsonRpcMessage) -> Self {
        if refusals::is_use(message) { Self::Use(refusals::call(message)) } else { Self::Setup }
    }
}

impl StreamableHttpClient for LimitedHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, LARGEST_EVENT).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.with_token(token, RequestKind::of(&message), |token| {
            self.post(uri.clone(), message.clone(), session.clone(), token, headers.clone(), largest)
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.with_token(token, RequestKind::Use(None), |token| {
            self.client.delete_session(uri.clone(), session.clone(), token, headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failure> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, LARGEST_EVENT).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<Events, Failure> {
        let client = &self.client;
        self.sent.remember_headers(headers.values());
        let events = self.with_token(token, RequestKind::Use(None), |token| {
            let (uri, session, last_event) = (uri.clone(), session.clone(), last_event.clone());
            client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers.clone(), largest)
        });
        Ok(self.leniently(events.await?))
    }
}

impl LimitedHttpClient {
    /// Makes a call with the token of the user's login, if there is one. If the server refuses the
    /// token, the call is made once more with a renewed one. Errors do not contain what the server
    /// was sent.
    pub(crate) async fn with_token<T, F>(
        &self,
        token: Option<String>,
        kind: RequestKind,
        call: impl Fn(Option<String>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let call = |token: Option<String>| {
            token.iter().for_each(|token| self.sent.remember_token(token));
            call(token)
        };
        self.with_login(token, &kind, call).await.map_err(|error| {
            if let (RequestKind::Use(Some(id)), Some(refusal)) = (kind, refusal_of(&error)) {
                self.refusals.note(id, refusal);
            }
            self.scrubbed(error)
        })
    }

    fn scrubbed(&self, error: Failure) -> Failure {
        match error {
            StreamableHttpError::UnexpectedServerResponse(text) => {
                StreamableHttpError::UnexpectedServerResponse(self.sent.scrub(&text).into())
            }
            StreamableHttpError::UnexpectedContentType(kind) => {
                StreamableHttpError::UnexpectedContentType(kind.map(|kind| self.sent.scrub(&kind)))
            }
            StreamableHttpError::InsufficientScope(error) => {
                let challenge = self.sent.scrub(&error.www_authenticate_header);
                StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, error.required_scope))
            }
            other => other,
        }
    }

    async fn with_login<T, F>(
        &self,
        token: Option<String>,
        kind: &RequestKind,
        call: impl Fn(Option<String>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let Some(bearer) = &self.bearer else { return call(token).await };
        let token = bearer.token().await;
        let refused = match call(token.clone()).await {
            Err(StreamableHttpError::AuthRequired(refused)) => refused,
            result => {
                if let Err(StreamableHttpError::InsufficientScope(error)) = &result
                    && let Some(demand) = Demand::more_rights(&error.www_authenticate_header)
                {
                    bearer.set_demand(Some(demand));
                }
                return result;
            }
        };
        let renewal = match &token {
            Some(token) => bearer.renewed(token).await,
            None => Renewal::NeedsLogin,
        };
        let result = match renewal {
            Renewal::Token(token) => call(Some(token)).await,
            Renewal::NeedsLogin => Err(StreamableHttpError::AuthRequired(refused)),
            Renewal::Failed(reason) => return Err(StreamableHttpError::UnexpectedServerResponse(reason.into())),
        };
        if let Err(StreamableHttpError::AuthRequired(error)) = &result {
            bearer.set_demand(Some(Demand::login(&error.www_authenticate_header)));
            // A server that was reached without a login may still offer something without one.
            if token.is_some() || matches!(kind, RequestKind::Setup) {
                self.disconnect.because("it needs a login");
            }
        }
        result
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.sent.remember_headers(headers.values());
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            if [ACCEPT.as_str(), SESSION, "last-event-id"].contains(&name.as_str()) {
                return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        let in_session = session.is_some();
        if let Some(session) = session {
            request = request.header(SESSION, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        let status = response.status();
        authorized(status, response.headers())?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            let refused = refusal(response, &message, in_session, &self.sent).await;
            // A proxy that gave up waiting also answers 408.
            let is_final = status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT;
            if let (true, Some(call), Err(error)) = (is_final, refusals::call(&message), &refused) {
                self.refusals.note(call, Refusal::Status(error.to_string()));
            }
            return refused;
        }
        let wants_answer = matches!(message, JsonRpcMessage::Request(_));
        // Some servers respond like this where the protocol requires 202.
        if response.content_length() == Some(0) && !wants_answer {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let new_session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match content_type(response.headers()) {
            Some(kind) if kind.starts_with(EVENTS) => {
                Ok(StreamableHttpPostResponse::Sse(self.events(response, largest), new_session))
            }
            Some(kind) if kind.starts_with(JSON) => {
                self.plain_answer(response, largest, new_session, wants_answer).await
            }
            kind => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    /// Reads a response that is one JSON body.
    async fn plain_answer(
        &self,
        response: Response,
        largest: usize,
        session: Option<String>,
        wants_answer: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let Some(mut body) = body(response, largest).await? else {
            let reason = format!("it sent an answer of more than {} MiB", largest >> 20);
            self.disconnect.because(reason.clone());
            return Err(StreamableHttpError::UnexpectedServerResponse(reason.into()));
        };
        if let Some(scrubbed) = std::str::from_utf8(&body).ok().and_then(|body| self.sent.scrubbed_message(body)) {
            body = scrubbed.into_bytes();
        }
        match lenient::read(&body) {
            Ok((mut answer, left_out)) => {
                self.log.leave_out(left_out);
                if let JsonRpcMessage::Error(error) = &mut answer {
                    self.sent.scrub_error(&mut error.error);
                }
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            Err(_) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => {
                if let ReadError::TooManyValues(error) = &error {
                    self.disconnect.because(error.to_string());
                }
                let text = self.sent.scrub(&String::from_utf8_lossy(&body[..body.len().min(LARGEST_REFUSAL)]));
                let error = self.sent.scrub(&error.to_string());
                let reason = format!("its answer is not a message ({error}): {}", cut(&text, 200));
                Err(StreamableHttpError::UnexpectedServerResponse(reason.into()))
            }
        }
    }

    /// Returns the events of a response. An event that is too large ends the stream, and the server
    /// is disconnected.
    fn events(&self, response: Response, largest: usize) -> Events {
        let disconnect = self.disconnect.clone();
        let mut size = Some(EventSize::default());
        let limited = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(io::Error::other)?;
            if size.as_mut().is_some_and(|size| size.add(&chunk) <= largest) {
                return Ok(chunk);
            }
            size = None;
            disconnect.because(format!("it sent an event of more than {} MiB", largest >> 20));
            Err(io::Error::other("the event is too large"))
        });
        self.leniently(SseStream::from_bytes_stream(limited).boxed())
    }

    fn leniently(&self, events: Events) -> Events {
        let (log, sent, disconnect) = (self.log.clone(), self.sent.clone(), self.disconnect.clone());
        let read = move |event: Result<Sse, SseError>| {
            let mut event = event?;
            if let Some(scrubbed) = event.data.as_deref().and_then(|data| sent.scrubbed_message(data)) {
                event.data = Some(scrubbed);
            }
            match event.data.as_deref().map(lenient::mended) {
                Some(Ok(Some((mended, left_out)))) => {
                    event.data = Some(mended);
                    log.leave_out(left_out);
                }
                Some(Err(error)) => {
                    disconnect.because(error.to_string());
                    event.data = None;
                }
                Some(Ok(None)) | None => {}
            }
            if let Some(error) = event.data.as_deref().and_then(|data| sent.scrubbed_error(data)) {
                event.data = Some(error);
            }
            Ok(event)
        };
        events.map(read).boxed()
    }
}

/// The size of the event that is being read. An empty line ends an event.
#[derive(Default)]
struct EventSize {
    event: usize,
    line: usize,
    /// Whether the last byte was a carriage return. A line feed after it belongs to the same line
    /// break.
    returned: bool,
}

impl EventSize {
    /// Counts more bytes. Returns the size of the largest event that they belong to.
    fn add(&mut self, bytes: &[u8]) -> usize {
        let mut largest = 0;
        for byte in bytes {
            self.event += 1;
            largest = largest.max(self.event);
            match byte {
                b'\n' if self.returned => {}
                b'\n' | b'\r' => {
                    if self.line == 0 {
                        self.event = 0;
                    }
                    self.line = 0;
                }
                _ => self.line += 1,
            }
            self.returned = *byte == b'\r';
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_event_counts_from_the_last_empty_line() {
        let mut size = EventSize::default();
        assert_eq!(size.add(b"data: a\r\n"), 9);
        assert_eq!(size.add(b"\r\ndata: b\n"), 10);
        assert_eq!(size.add(b"\n"), 11 - 1);
        assert_eq!(size.add(b"data: abc"), 9);
        assert_eq!(size.add(b"def"), 12);
    }

    #[tokio::test]
    async fn a_plain_answer_without_end_is_not_read_to_the_end() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, head).await.unwrap();
            let mut written = 0_usize;
            while tokio::io::AsyncWriteExt::write_all(&mut stream, &[b' '; 64 << 10]).await.is_ok() {
                written += 64 << 10;
            }
            written
        });
        let disconnect = DisconnectReason::default();
        let client = LimitedHttpClient {
            client: crate::remote::client().await.unwrap(),
            log: Arc::default(),
            disconnect: disconnect.clone(),
            bearer: None,
            sent: SentSecrets::default(),
            refusals: Refusals::default(),
        };
        let ping = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let message = serde_json::from_value(ping).unwrap();
        let answer = client.post_message(format!("http://{address}/").into(), message, None, None, HashMap::new());
        let Err(error) = answer.await else { panic!("it has no end") };
        assert!(error.to_string().contains("more than 16 MiB"), "{error}");
        assert_eq!(disconnect.reason().unwrap(), "it sent an answer of more than 16 MiB");
        assert!(server.await.unwrap() < 64 << 20);
    }

    #[tokio::test]
    async fn a_server_that_repeats_the_header_does_not_reveal_the_token() {
        use crate::login::tests::{serve, stored};
        let (address, _) = serve(|request| {
            let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"what is t0ken-12?"}}"#;
            let result =
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"t0ken-12 or dDBrZW4tMTI"}]}}"#;
            let (status, kind, body) = match request.split(' ').nth(1) {
                Some("/text") => (400, "text/plain", "not Bearer t0ken-12".to_owned()),
                Some("/refused") => (400, JSON, error.to_owned()),
                Some("/error") => (200, JSON, error.to_owned()),
                Some("/event") => (200, EVENTS, format!("data: {error}\n\n")),
                Some("/result") => (200, JSON, result.to_owned()),
                Some("/result-event") => (200, EVENTS, format!("data: {result}\n\n")),
                _ => (200, JSON, format!("{}t0ken-12", " ".repeat(190))),
            };
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n{body}")
        })
        .await;
        let home = tempfile::tempdir().unwrap();
        let client = LimitedHttpClient {
            client: crate::remote::client().await.unwrap(),
            log: Arc::default(),
            disconnect: DisconnectReason::default(),
            bearer: None,
            sent: SentSecrets::default(),
            refusals: Refusals::default(),
        };
        for path in ["/text", "/refused", "/error", "/event", "/result", "/result-event", "/other"] {
            let bearer = stored(home.path(), &address, path, "t0ken-12");
            let client = LimitedHttpClient { bearer: Some(bearer), ..client.clone() };
            let ping = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
            let message = serde_json::from_value(ping).unwrap();
            let shown =
                match client.post_message(format!("{address}{path}").into(), message, None, None, HashMap::new()).await
                {
                    Ok(StreamableHttpPostResponse::Sse(mut events, _)) => {
                        events.next().await.unwrap().unwrap().data.unwrap()
                    }
                    Ok(answer) => format!("{answer:?}"),
                    Err(error) => error.to_string(),
                };
            assert!(shown.contains("[hidden]") && !shown.contains("t0ken"), "{path}: {shown}");
            assert!(!shown.contains("dDBr"), "{path}: {shown}");
        }
    }
}
