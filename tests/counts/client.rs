//! A client on a pipe, which allocates little itself, and the counter of what is written to it.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

pub(crate) struct Client {
    writer: WriteHalf<DuplexStream>,
    reader: BufReader<ReadHalf<DuplexStream>>,
    line: Vec<u8>,
    sent: u64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    bytes: AtomicU64,
}

/// A writer that counts its writes.
pub(crate) struct Counted<W> {
    inner: W,
    counts: Arc<Counts>,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Counted<W> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
            self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl Client {
    /// Builds a client on one end of a pipe. Returns the daemon's writer to the other end, which
    /// counts.
    pub(crate) fn new<W>(pipe: DuplexStream, inner: W) -> (Self, Counted<W>) {
        let (reader, writer) = tokio::io::split(pipe);
        let counts = Arc::<Counts>::default();
        let reader = BufReader::with_capacity(64 << 10, reader);
        let client = Self { writer, reader, line: Vec::new(), sent: 0, counts: counts.clone() };
        (client, Counted { inner, counts })
    }

    /// Returns how many writes, and how many bytes, this client was sent so far.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.counts.writes.load(Ordering::Relaxed), self.counts.bytes.load(Ordering::Relaxed))
    }

    /// Sends a request and reads until its answer, which must be a result.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},", self.sent);
        loop {
            self.line.clear();
            self.reader.read_until(b'\n', &mut self.line).await.unwrap();
            assert!(!self.line.is_empty(), "the daemon hung up");
            if self.line.starts_with(start.as_bytes()) {
                let mut answer: Value = serde_json::from_slice(&self.line).unwrap();
                assert!(answer.get("result").is_some(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    pub(crate) async fn initialize(&mut self) {
        self.call("initialize", json!({ "protocolVersion": 1 })).await;
    }

    pub(crate) async fn open(&mut self, cwd: &Path) -> String {
        let opened = self.call("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await;
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Runs a turn to its end.
    pub(crate) async fn prompt(&mut self, session: &str) {
        let prompt = json!([{ "type": "text", "text": "talk" }]);
        let answer = self.call("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await;
        assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    }
}
