//! Transports to remote servers: streamable HTTP, and the older one with an event stream (SSE).

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::lenient;
use crate::limited_http::{LimitedHttpClient, RequestKind};
use crate::responses;

/// The largest event, in bytes.
pub(crate) const LARGEST_EVENT: usize = 16 << 20;

/// The most messages that may wait to be read.
const MAX_WAITING_MESSAGES: usize = 64;

const MAX_REDIRECTS: usize = 5;

/// The reason why a remote server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    #[error("`{0}` is not a valid header name, or its value is invalid")]
    Header(String),
    #[error("the address is not a URL: {0}")]
    Address(String),
    #[error("the server names an endpoint on another host, {0}, which would receive the configured headers")]
    Endpoint(String),
    #[error("the stream of events ended before it named an endpoint")]
    NoEndpoint,
    #[error("{0}")]
    Stream(String),
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error(transparent)]
    Network(#[from] network::NetworkError),
    #[error("the server answered {0}")]
    Status(reqwest::StatusCode),
}

/// Returns the innermost cause of an error, because the outer layers only say that something
/// failed. Omits the address, which may contain a key.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    loop {
        let http = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        error = match (http, error.source()) {
            (Some(StreamableHttpError::Client(inner)), _) => inner,
            (_, Some(source)) => source,
            (_, None) => break,
        };
    }
    let mut text = error.to_string();
    if let Some(url) = error.downcast_ref::<reqwest::Error>().and_then(reqwest::Error::url) {
        text = text.replace(&format!(" for url ({url})"), "").replace(url.as_str(), "its address");
    }
    domain::text::cut(&text, 300)
}

/// Builds a client. It follows redirects only within one host, because headers may contain keys.
pub(crate) async fn client() -> Result<Client, RemoteError> {
    build(redirect::Policy::custom(|attempt| {
        let from = attempt.previous().last();
        let same = from.is_some_and(|from| from.origin() == attempt.url().origin());
        if same && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    }))
    .await
}

/// Builds a client that follows no redirects.
pub(crate) async fn client_without_redirects() -> Result<Client, RemoteError> {
    build(redirect::Policy::none()).await
}

async fn build(redirects: redirect::Policy) -> Result<Client, RemoteError> {
    let network = network::current().await;
    let build = move || {
        network::prepare_tls();
        let builder = Client::builder().user_agent(concat!("acpd/", env!("CARGO_PKG_VERSION"))).redirect(redirects);
        let builder = match &network {
            Some(network) => network.apply(builder)?,
            None => builder,
        };
        Ok(builder.build()?)
    };
    // Building the client reads the system's certificates, which blocks.
    tokio::task::spawn_blocking(build).await.expect("building a client does not panic")
}

fn headers(pairs: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, RemoteError> {
    let read = |(name, value): &(String, String)| {
        let bad = || RemoteError::Header(name.clone());
        let header = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| bad())?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    pairs.iter().map(read).collect()
}

pub(crate) fn http(
    client: LimitedHttpClient,
    url: &str,
    pairs: &[(String, String)],
) -> Result<StreamableHttpClientTransport<LimitedHttpClient>, RemoteError> {
    Url::parse(url).map_err(|error| RemoteError::Address(error.to_string()))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.custom_headers = headers(pairs)?;
    config.max_sse_event_size = LARGEST_EVENT;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The older transport: an event stream brings the server's messages, and ours are posted to the
/// address in its first event.
pub(crate) struct SseTransport {
    client: LimitedHttpClient,
    endpoint: Url,
    headers: HeaderMap,
    coming: mpsc::Receiver<ServerJsonRpcMessage>,
    reading: JoinHandle<()>,
}

impl SseTransport {
    pub(crate) async fn connect(
        client: LimitedHttpClient,
        url: &str,
        pairs: &[(String, String)],
    ) -> Result<Self, RemoteError> {
        let log = client.log.clone();
        let address = Url::parse(url).map_err(|error| RemoteError::Address(error.to_string()))?;
        let custom = headers(pairs)?;
        let headers: HeaderMap = custom.clone().into_iter().collect();
        let events = client
            .get_stream_with_max_sse_event_size(url.into(), None, None, None, custom, LARGEST_EVENT)
            .await
            .map_err(|error| RemoteError::Stream(innermost(&error)))?;
        let mut events = Box::pin(events);
        let endpoint = loop {
            match events.next().await {
                Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                    break event.data.unwrap_or_default();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(RemoteError::Stream(innermost(&error))),
                None => return Err(RemoteError::NoEndpoint),
            }
        };
        let endpoint = address.join(endpoint.trim()).map_err(|error| RemoteError::Address(error.to_string()))?;
        if endpoint.origin() != address.origin() {
            return Err(RemoteError::Endpoint(endpoint.origin().ascii_serialization()));
        }
        let (tell, coming) = mpsc::channel(MAX_WAITING_MESSAGES);
        let reading = tokio::spawn(async move {
            let mut messages = pin!(events.filter_map(|event| async move {
                let event = event.ok()?;
                let is_message = event.event.as_deref().is_none_or(|name| name == "message");
                let data = event.data.filter(|_| is_message)?;
                Some(lenient::read(data.as_bytes()))
            }));
            while let Some(message) = messages.next().await {
                match message {
                    Ok((message, left_out)) => {
                        log.leave_out(left_out);
                        if tell.send(message).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => tracing::debug!(%error, "an event is not a message"),
                }
            }
        });
        Ok(Self { client, endpoint, headers, coming, reading })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = RemoteError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), RemoteError>> + Send + 'static {
        let (client, endpoint, headers) = (self.client.clone(), self.endpoint.clone(), self.headers.clone());
        async move {
            let post = |token: Option<String>| {
                let request = client.client.post(endpoint.clone()).headers(headers.clone()).json(&message);
                let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
                async move {
                    let response = request.send().await.map_err(reqwest::Error::without_url)?;
                    responses::authorized(response.status(), response.headers())?;
                    Ok::<_, StreamableHttpError<reqwest::Error>>(response.status())
                }
            };
            match client.with_token(None, RequestKind::of(&message), post).await {
                Ok(status) if status.is_success() => Ok(()),
                Ok(status) => Err(RemoteError::Status(status)),
                Err(error) => Err(RemoteError::Stream(innermost(&error))),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.coming.recv().await
    }

    async fn close(&mut self) -> Result<(), RemoteError> {
        self.reading.abort();
        Ok(())
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bounded_transport::DisconnectReason;
    use crate::hidden::SentSecrets;
    use crate::login::Bearer;
    use crate::refusals::Refusals;

    fn limited(client: Client, bearer: Option<Bearer>) -> LimitedHttpClient {
        let disconnect = DisconnectReason::default();
        let refusals = Refusals::default();
        LimitedHttpClient { client, log: Arc::default(), disconnect, bearer, sent: SentSecrets::default(), refusals }
    }

    /// Answers one request and returns it.
    async fn answer_once(listener: tokio::net::TcpListener, answer: String) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    }

    #[tokio::test]
    async fn a_redirect_with_a_token_stays_within_one_origin() {
        let [first, second] = [0, 0].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let [first, second] = [first, second].map(|listener| {
            listener.set_nonblocking(true).unwrap();
            tokio::net::TcpListener::from_std(listener).unwrap()
        });
        let [from, to] = [&first, &second].map(|listener| listener.local_addr().unwrap());
        let answer = format!("HTTP/1.1 307 X\r\nlocation: http://{to}/mcp\r\ncontent-length: 0\r\n\r\n");
        let answered = tokio::spawn(answer_once(first, answer));
        let client = client().await.unwrap();
        let response = client.post(format!("http://{from}/mcp")).bearer_auth("t0ken").send().await.unwrap();
        assert_eq!(response.status(), 307);
        assert!(answered.await.unwrap().contains("Bearer t0ken"));
        assert!(futures_util::FutureExt::now_or_never(second.accept()).is_none(), "nobody went there");
    }

    #[tokio::test]
    async fn a_token_is_renewed_between_messages_of_the_older_transport() {
        use crate::login::tests::{reply, serve, stored};
        let (address, requests) = serve(|request| {
            let has = |token: &str| request.contains(&format!("authorization: Bearer {token}\r\n"));
            match request.split(' ').nth(1) {
                Some("/sse") if has("old") => "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
                                               event: endpoint\ndata: /post\n\n"
                    .to_owned(),
                Some("/post") if has("new") => reply(202, ""),
                Some("/token") => reply(200, r#"{"access_token":"new","token_type":"bearer"}"#),
                _ => reply(401, ""),
            }
        })
        .await;
        let home = tempfile::tempdir().unwrap();
        let bearer = Some(stored(home.path(), &address, "/sse", "old"));
        let client = client().await.unwrap();
        let limited = limited(client, bearer);
        let mut transport = SseTransport::connect(limited, &format!("{address}/sse"), &[]).await.unwrap();
        let ping = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        transport.send(serde_json::from_value(ping).unwrap()).await.unwrap();
        let paths: Vec<String> = {
            let requests = requests.lock().unwrap();
            requests.iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect()
        };
        assert_eq!(paths, ["/sse", "/post", "/token", "/post"]);
    }

    #[tokio::test]
    async fn an_error_does_not_reveal_a_key_in_a_url() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
            let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        });
        let url = format!("http://{address}/sse?key=t0p");
        let client = client().await.unwrap();
        let limited = limited(client, None);
        let Err(error) = SseTransport::connect(limited, &url, &[]).await else { panic!("it is not there") };
        let text = error.to_string();
        assert!(text.contains("404") && !text.contains("t0p"), "{text}");
    }
}
