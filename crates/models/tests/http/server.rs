//! A tiny HTTP/1.1 server on a free port of 127.0.0.1: reads one request a connection, plays back a reply, and notes
//! what it was asked and when its client went away. It knows nothing of models.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What the server does after it has read a request; then it closes the connection.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Write(Vec<u8>),
    Pause(Duration),
    /// Writes nothing more and waits until the client goes away.
    UntilClosed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Reply(pub(crate) Vec<Act>);

impl Reply {
    /// A whole answer.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        Self(vec![Act::Write(format!("{head}\r\n{body}").into_bytes())])
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, &[("content-type", "application/json")], &body.to_string())
    }

    /// A stream that ends as HTTP says, in these pieces.
    pub(crate) fn stream(pieces: &[&[u8]]) -> Self {
        Self::begun(pieces).then(Act::Write(b"0\r\n\r\n".to_vec()))
    }

    /// A stream that has not ended; if nothing follows, it is cut.
    pub(crate) fn begun(pieces: &[&[u8]]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let mut acts = vec![Act::Write(head.as_bytes().to_vec())];
        acts.extend(pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| Act::Write(chunk(piece))));
        Self(acts)
    }

    /// A stream whose end is the end of the connection, as old servers do it.
    pub(crate) fn unframed(bytes: &[u8]) -> Self {
        let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
        Self(vec![Act::Write([&head[..], bytes].concat())])
    }

    pub(crate) fn then(mut self, act: Act) -> Self {
        self.0.push(act);
        self
    }

    pub(crate) fn then_piece(self, piece: &[u8]) -> Self {
        self.then(Act::Write(chunk(piece)))
    }
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

pub(crate) struct Server {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    closed: watch::Receiver<usize>,
}

impl Server {
    /// Answers each request with the next of the replies, and every further one with the last.
    pub(crate) async fn script(replies: Vec<Reply>) -> Self {
        Self::with(move |_, at| replies[at.min(replies.len() - 1)].clone()).await
    }

    /// Answers as the function says, which hears how many requests came before.
    pub(crate) async fn with(answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (went, closed) = watch::channel(0);
        let (answer, notes) = (Arc::new(answer), seen.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (answer, notes, went) = (answer.clone(), notes.clone(), went.clone());
                tokio::spawn(async move {
                    // A client that goes away early ends its connection, and that is often the point of a test.
                    let _ = serve(socket, &*answer, &notes, &went).await;
                });
            }
        });
        Self { address, seen, closed }
    }

    /// Answers with whatever the test has put into the queue by then, and with nothing if it is empty.
    pub(crate) async fn queue() -> (Self, Arc<Mutex<VecDeque<Reply>>>) {
        let queue: Arc<Mutex<VecDeque<Reply>>> = Arc::default();
        let replies = queue.clone();
        let server = Self::with(move |_, _| replies.lock().unwrap().pop_front().unwrap_or_default()).await;
        (server, queue)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Resolves when this many clients went away while the server waited for it.
    pub(crate) async fn until_closed(&self, count: usize) {
        self.closed.clone().wait_for(|closed| *closed >= count).await.unwrap();
    }
}

async fn serve(
    mut socket: TcpStream,
    answer: &(dyn Fn(&Seen, usize) -> Reply + Send + Sync),
    notes: &Mutex<Vec<Seen>>,
    went: &watch::Sender<usize>,
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let request = read_request(&mut socket).await?;
    let reply = {
        let mut notes = notes.lock().unwrap();
        notes.push(request.clone());
        answer(&request, notes.len() - 1)
    };
    for act in reply.0 {
        match act {
            Act::Write(bytes) => {
                socket.write_all(&bytes).await?;
                socket.flush().await?;
                // Lets the client read this piece before the next one is there.
                tokio::task::yield_now().await;
            }
            Act::Pause(pause) => tokio::time::sleep(pause).await,
            Act::UntilClosed => {
                let mut rest = [0; 64];
                while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                went.send_modify(|count| *count += 1);
            }
        }
    }
    socket.shutdown().await
}

async fn read_request(socket: &mut TcpStream) -> std::io::Result<Seen> {
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
    Ok(Seen {
        method: first.next().unwrap_or_default().to_owned(),
        path: first.next().unwrap_or_default().to_owned(),
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
