//! The transport to a server that is a program: one message per line on its standard input and
//! output.
//!
//! A line that is not a message is skipped, because many programs print something on their output.
//! A line that is longer than any message, or too many skipped lines in a row, ends the connection.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use crate::bounded_transport::DisconnectReason;
use crate::lenient::{self, ReadError};
use crate::server_log::ServerLog;

/// The longest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The most bytes of the buffer that are kept between messages.
const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// The most consecutive lines that are not messages.
const MAX_BAD_LINES: usize = 200;

pub(crate) struct StdioTransport {
    /// None once it is closed. Shared, because the next message may be sent while another is still
    /// being written.
    stdin: Arc<Mutex<Option<pipe::Sender>>>,
    stdout: pipe::Receiver,
    coming: Vec<u8>,
    /// How many bytes of the buffer have been returned as lines.
    done: usize,
    /// The position up to which no further line break was found.
    searched: usize,
    nonsense: usize,
    log: Arc<ServerLog>,
    disconnect: DisconnectReason,
}

impl StdioTransport {
    pub(crate) fn new(
        stdin: pipe::Sender,
        stdout: pipe::Receiver,
        log: Arc<ServerLog>,
        disconnect: DisconnectReason,
    ) -> Self {
        let stdin = Arc::new(Mutex::new(Some(stdin)));
        Self { stdin, stdout, coming: Vec::new(), done: 0, searched: 0, nonsense: 0, log, disconnect }
    }

    /// Returns the next whole line, if there is one.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.coming[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.searched = self.coming.len();
            return None;
        };
        let end = self.searched + end;
        let line = self.coming[self.done..end].to_vec();
        self.done = end + 1;
        self.searched = self.done;
        Some(line)
    }

    /// Removes the returned lines from the buffer. Called once for many lines, because the rest has
    /// to be moved.
    fn forget(&mut self) {
        self.coming.drain(..self.done);
        self.searched -= self.done;
        self.done = 0;
        // The space of a large message is not kept for the next ones.
        if self.coming.len() < KEPT_BUFFER_BYTES {
            self.coming.shrink_to(KEPT_BUFFER_BYTES);
        }
    }

    fn read(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let line = line.trim_ascii();
        if line.is_empty() {
            self.nonsense += 1;
            return None;
        }
        match lenient::read(line) {
            Ok((message, left_out)) => {
                self.nonsense = 0;
                self.log.leave_out(left_out);
                Some(message)
            }
            Err(ReadError::TooManyValues(error)) => {
                self.disconnect.because(error.to_string());
                None
            }
            Err(error) => {
                self.nonsense += 1;
                let shown = String::from_utf8_lossy(&line[..line.len().min(100)]);
                self.log.note(&format!("[no message: {error}] {shown}"));
                None
            }
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let stdin = self.stdin.clone();
        // The message is serialized now, because the line takes less memory than the message.
        let line = serde_json::to_vec(&message);
        async move {
            let mut line = line?;
            line.push(b'\n');
            match stdin.lock().await.as_mut() {
                Some(stdin) => stdin.write_all(&line).await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Cancel safe.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            while let Some(line) = self.line() {
                if let Some(message) = self.read(&line) {
                    return Some(message);
                }
                if self.nonsense > MAX_BAD_LINES {
                    self.disconnect.because("it writes only lines that are not messages");
                }
                if self.disconnect.reason().is_some() {
                    return None;
                }
            }
            self.forget();
            if self.coming.len() > MAX_MESSAGE_BYTES {
                self.disconnect.because(format!("it wrote a line of more than {} MiB", MAX_MESSAGE_BYTES >> 20));
                return None;
            }
            self.coming.reserve(64 * 1024);
            match self.stdout.read_buf(&mut self.coming).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A message that is being written holds the lock; in that case the pipe closes after the
        // last one.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            stdin.take();
        }
        Ok(())
    }
}
