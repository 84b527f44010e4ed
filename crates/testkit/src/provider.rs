//! A fake provider: a tiny HTTP/1.1 server on a free port of 127.0.0.1, with or without TLS. It
//! reads one request per connection, plays back a reply, and records the requests and when each
//! client disconnects.
//!
//! It has its own thread and runtime. It therefore serves tests with and without a runtime, and
//! real time passes for it while a test's clock is paused. It knows nothing of models; `answers`
//! has their texts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl RecordedRequest {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// An action of the server after it has read a request. The connection closes after the last one.
#[derive(Clone, Debug)]
pub enum Action {
    Write(Vec<u8>),
    /// Writes the same bytes repeatedly, at most this many times, until the client disconnects.
    Flood(Vec<u8>, usize),
    Pause(Duration),
    /// Waits until the test sets the value.
    UntilOpen(watch::Receiver<bool>),
    /// Writes nothing more and waits until the client disconnects.
    UntilClosed,
}

#[derive(Clone, Debug, Default)]
pub struct Reply(pub Vec<Action>);

impl Reply {
    /// Builds a complete response.
    pub fn new(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        Self(vec![Action::Write(format!("{head}\r\n{body}").into_bytes())])
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, &[("content-type", "application/json")], &body.to_string())
    }

    /// Builds a stream in these pieces that ends properly.
    pub fn stream(pieces: &[&[u8]]) -> Self {
        Self::begun(pieces).then(Action::Write(b"0\r\n\r\n".to_vec()))
    }

    /// Builds a stream without an end. If nothing follows, it is cut off.
    pub fn begun(pieces: &[&[u8]]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let mut actions = vec![Action::Write(head.as_bytes().to_vec())];
        actions.extend(pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| Action::Write(chunk(piece))));
        Self(actions)
    }

    /// Builds a stream that ends with the connection, as old servers do it.
    pub fn unframed(bytes: &[u8]) -> Self {
        let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
        Self(vec![Action::Write([&head[..], bytes].concat())])
    }

    pub fn then(mut self, action: Action) -> Self {
        self.0.push(action);
        self
    }

    /// Appends all of another reply.
    pub fn then_all(mut self, next: Self) -> Self {
        self.0.extend(next.0);
        self
    }

    pub fn then_piece(self, piece: &[u8]) -> Self {
        self.then(Action::Write(chunk(piece)))
    }

    /// Appends the same piece many times, as a runaway server does.
    pub fn flood(self, piece: &[u8], times: usize) -> Self {
        self.then(Action::Flood(chunk(piece), times))
    }
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

type Responder = dyn Fn(&RecordedRequest, usize) -> Reply + Send + Sync;

/// A running server. It stops when it is dropped.
pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    closed: watch::Receiver<usize>,
    _end: oneshot::Sender<()>,
}

/// A certificate for 127.0.0.1, of an authority that only a test trusts.
pub struct TestCertificate {
    /// The authority's certificate as PEM.
    pub authority: String,
    pub certificate: rcgen::Certificate,
    pub key: rcgen::KeyPair,
}

impl TestCertificate {
    pub fn issue() -> Self {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = authority.self_signed(&authority_key).unwrap().pem();
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        Self { authority: pem, certificate, key }
    }
}

impl Server {
    /// Answers each request with the next reply, and every further one with the last.
    pub fn script(replies: Vec<Reply>) -> Self {
        Self::with(move |_, at| replies[at.min(replies.len() - 1)].clone())
    }

    /// Answers with what the function returns for the request and the number of requests before it.
    pub fn with(answer: impl Fn(&RecordedRequest, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(answer), None)
    }

    /// Starts the server with TLS, and returns the certificate of its authority as PEM.
    pub fn secure(answer: impl Fn(&RecordedRequest, usize) -> Reply + Send + Sync + 'static) -> (Self, String) {
        let TestCertificate { authority, certificate, key } = TestCertificate::issue();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        (Self::start(Arc::new(answer), Some(TlsAcceptor::from(Arc::new(config)))), authority)
    }

    /// Answers with the next reply that the test has queued, and with nothing if the queue is
    /// empty.
    pub fn queue() -> (Self, Arc<Mutex<VecDeque<Reply>>>) {
        let queue: Arc<Mutex<VecDeque<Reply>>> = Arc::default();
        let replies = queue.clone();
        let server = Self::with(move |_, _| replies.lock().unwrap().pop_front().unwrap_or_default());
        (server, queue)
    }

    fn start(answer: Arc<Responder>, tls: Option<TlsAcceptor>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
        let (went, closed) = watch::channel(0);
        let (end, ended) = oneshot::channel();
        let notes = seen.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, answer, tls, notes, went) => {}
                    _ = ended => {}
                }
            });
        });
        Self { address, seen, closed, _end: end }
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the number of clients that disconnected while the server waited for that.
    pub fn closed(&self) -> usize {
        *self.closed.borrow()
    }

    /// Waits until that many clients have disconnected.
    pub async fn until_closed(&self, count: usize) {
        self.closed.clone().wait_for(|closed| *closed >= count).await.unwrap();
    }
}

async fn accept(
    listener: std::net::TcpListener,
    answer: Arc<Responder>,
    tls: Option<TlsAcceptor>,
    notes: Arc<Mutex<Vec<RecordedRequest>>>,
    went: watch::Sender<usize>,
) {
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((socket, _)) = listener.accept().await {
        let (answer, tls, notes, went) = (answer.clone(), tls.clone(), notes.clone(), went.clone());
        tokio::spawn(async move {
            socket.set_nodelay(true)?;
            // A client that disconnects early ends its connection, which is often the point of a
            // test.
            match tls {
                Some(tls) => serve(tls.accept(socket).await?, &*answer, &notes, &went).await,
                None => serve(socket, &*answer, &notes, &went).await,
            }
        });
    }
}

async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: &Responder,
    notes: &Mutex<Vec<RecordedRequest>>,
    went: &watch::Sender<usize>,
) -> std::io::Result<()> {
    let request = read_request(&mut socket).await?;
    let reply = {
        let mut notes = notes.lock().unwrap();
        notes.push(request.clone());
        answer(&request, notes.len() - 1)
    };
    for action in reply.0 {
        match action {
            Action::Write(bytes) => {
                socket.write_all(&bytes).await?;
                socket.flush().await?;
                // This lets the client read the piece before the next one is written.
                tokio::task::yield_now().await;
            }
            Action::Flood(bytes, times) => {
                for _ in 0..times {
                    if socket.write_all(&bytes).await.is_err() {
                        went.send_modify(|count| *count += 1);
                        return Ok(());
                    }
                }
            }
            Action::Pause(pause) => tokio::time::sleep(pause).await,
            // A gate whose owner is gone is open.
            Action::UntilOpen(mut gate) => drop(gate.wait_for(|is_open| *is_open).await),
            Action::UntilClosed => {
                let mut rest = [0; 64];
                while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                went.send_modify(|count| *count += 1);
            }
        }
    }
    socket.shutdown().await
}

async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> std::io::Result<RecordedRequest> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if socket.read_buf(&mut body).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(RecordedRequest {
        method: first.next().unwrap_or_default().to_owned(),
        path: first.next().unwrap_or_default().to_owned(),
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
