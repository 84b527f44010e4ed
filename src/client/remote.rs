//! Connects to a daemon over HTTP: sends messages as POST requests and receives an event stream.
//!
//! The client sees a pipe of lines, like a socket. The connection runs on its own thread. A stream
//! that breaks is reopened after the last event that arrived. When the client drops the pipe, a
//! DELETE request ends the connection.

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use wire::frame::{Decoder, Framing, encode};
use wire::rpc::{self, Id, RpcError};

const PIPE: usize = 64 << 10;
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// How long one message may take to be accepted.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(60);
/// How long the request that ends the connection may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// After this long without data a stream counts as broken, because the daemon sends comments to
/// keep it alive.
const SILENCE_DEADLINE: Duration = Duration::from_secs(60);
/// How many times in a row to reopen a stream that breaks at once, and the pause between two
/// attempts.
const MAX_RETRIES: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The thread behind the pipe. Dropping this waits until the connection has ended.
pub(super) struct Remote(Option<JoinHandle<()>>);

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // If the thread panicked, its message is already printed.
            let _ = thread.join();
        }
    }
}

/// Connects, and returns when the daemon has accepted or refused the connection.
pub(super) async fn open(address: &str, token: &str) -> anyhow::Result<(DuplexStream, Remote)> {
    let daemon = Daemon::at(address, token)?;
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (ready, is_ready) = oneshot::channel();
    let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error.into()))),
        };
        runtime.block_on(daemon.serve(theirs, ready));
    })?;
    let remote = Remote(Some(thread));
    is_ready.await.context("the HTTP client ended unexpectedly")??;
    Ok((ours, remote))
}

struct Daemon {
    http: reqwest::Client,
    post_url: Url,
    stream_url: Url,
}

impl Daemon {
    fn at(address: &str, token: &str) -> anyhow::Result<Self> {
        let base =
            Url::parse(address).with_context(|| format!("{address} is not an address such as https://host:7341"))?;
        let local = is_local(&base);
        match base.scheme() {
            "https" => {}
            "http" => ensure!(local, "{address} is on another machine, and http would expose the token; use https"),
            other => bail!("{address}: the address must begin with http or https, not {other}"),
        }
        let client = uuid::Uuid::now_v7().to_string();
        let place = |path: &str| -> anyhow::Result<Url> {
            let mut place = base.join(path)?;
            place.query_pairs_mut().append_pair("client_id", &client);
            Ok(place)
        };
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .context("the token has characters that an HTTP header cannot hold")?;
        bearer.set_sensitive(true);
        // This fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_DEADLINE);
        // A daemon on this machine is reached without a proxy and without certificates.
        let http = if local && base.scheme() == "http" { http.no_proxy().tls_certs_only([]) } else { http };
        Ok(Self { http: http.build()?, post_url: place("/acp/rpc")?, stream_url: place("/acp/sse")? })
    }

    async fn serve(&self, pipe: DuplexStream, ready: oneshot::Sender<anyhow::Result<()>>) {
        let (reader, mut writer) = tokio::io::split(pipe);
        let stream = match self.stream(None).await {
            Ok(stream) => stream,
            Err(error) => return drop(ready.send(Err(error))),
        };
        // The caller of `open` waits for this.
        let _ = ready.send(Ok(()));
        let failed = tokio::select! {
            sent = self.send_all(reader) => sent.err(),
            received = self.receive_all(stream, &mut writer) => received.err(),
        };
        if let Some(error) = failed {
            let failure = rpc::failure(&Id::null(), &RpcError::retry(format!("{error:#}")));
            let _ = writer.write_all(&encode(Framing::Lines, &failure)).await;
        }
        let _ = self.http.delete(self.stream_url.clone()).timeout(CLOSE_DEADLINE).send().await;
    }

    /// Sends every line from the client, one after the other.
    async fn send_all(&self, mut reader: ReadHalf<DuplexStream>) -> anyhow::Result<()> {
        let mut lines = Decoder::new(usize::MAX);
        loop {
            while let Some(line) = lines.next() {
                let post = self.http.post(self.post_url.clone()).timeout(ACCEPT_DEADLINE).body(line?);
                let answer = post.header("content-type", "application/json").send().await.map_err(plain)?;
                accepted(answer).await?;
            }
            if reader.read_buf(lines.buffer()).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn receive_all(&self, mut response: Response, writer: &mut WriteHalf<DuplexStream>) -> anyhow::Result<()> {
        let mut last = None;
        let mut tries = 0;
        loop {
            let mut events = pin!(SseStream::from_bytes_stream(bytes_of(response)));
            while let Some(Ok(Sse { id, data, .. })) = events.next().await {
                tries = 0;
                last = id.and_then(|id| id.parse().ok()).or(last);
                let Some(data) = data else { continue };
                if writer.write_all(&encode(Framing::Lines, data.as_bytes())).await.is_err() {
                    return Ok(());
                }
            }
            response = loop {
                ensure!(tries < MAX_RETRIES, "the daemon's event stream broke {MAX_RETRIES} times in a row");
                tries += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
                match self.stream(last).await {
                    Ok(stream) => break stream,
                    Err(error) if tries >= MAX_RETRIES || error.is::<RefusedByDaemon>() => return Err(error),
                    Err(_) => {}
                }
            };
        }
    }

    async fn stream(&self, after: Option<u64>) -> anyhow::Result<Response> {
        let get = self.http.get(self.stream_url.clone());
        let get = after.into_iter().fold(get, |get, after| get.header("last-event-id", after));
        accepted(get.send().await.map_err(plain)?).await
    }
}

/// The bytes of a response, until it ends, breaks or is silent for too long.
fn bytes_of(response: Response) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(response, |mut response| async move {
        match tokio::time::timeout(SILENCE_DEADLINE, response.chunk()).await {
            Ok(Ok(Some(bytes))) => Some((Ok(bytes), response)),
            Ok(Ok(None) | Err(_)) | Err(_) => None,
        }
    })
}

/// The daemon refused the request.
#[derive(Debug)]
struct RefusedByDaemon(String);

impl std::fmt::Display for RefusedByDaemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedByDaemon {}

async fn accepted(answer: Response) -> anyhow::Result<Response> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let body: Value = answer.json().await.unwrap_or_else(|_| json!({}));
    let why = body["message"].as_str().unwrap_or("it gave no reason");
    let hint = match status {
        StatusCode::UNAUTHORIZED => "; give its file with --token-file, or the token itself as ACPD_TOKEN",
        _ => "",
    };
    Err(RefusedByDaemon(format!("the daemon refused ({}): {why}{hint}", status.as_u16())).into())
}

/// Converts an error and removes the address, which contains a random client id.
fn plain(error: reqwest::Error) -> anyhow::Error {
    anyhow::Error::new(error.without_url()).context("cannot reach the daemon")
}

fn is_local(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_this_machine_or_over_tls_and_nowhere_else() {
        for (address, good) in [
            ("http://127.0.0.1:7341", true),
            ("http://localhost:7341/", true),
            ("http://[::1]:7341", true),
            ("https://acpd.example", true),
            ("http://acpd.example", false),
            ("http://127.0.0.1.example:1", false),
            ("ftp://127.0.0.1", false),
            ("127.0.0.1:7341", false),
        ] {
            assert_eq!(Daemon::at(address, "0123456789abcdef").is_ok(), good, "{address}");
        }
    }
}
