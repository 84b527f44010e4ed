//! A provider that answers every request with the same stream of text, as fast as it is read.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde_json::json;

/// The answer to every request: this many pieces of this many bytes.
#[derive(Clone, Copy)]
pub(crate) struct Flood {
    pub(crate) pieces: usize,
    pub(crate) bytes: usize,
}

impl Flood {
    /// Starts the provider and makes its model the default of the user with this home folder.
    pub(crate) fn start(self, home: &Path) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Written once, because a test of this process counts allocations.
        let response: Arc<[u8]> = self.response().into();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let response = response.clone();
                thread::spawn(move || answer(stream, &response));
            }
        });
        let folder = home.join(".config/acpd");
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[models]\ndefault = \"flood/flood\"\n[models.local]\nprobe = false\n[models.providers.flood]\n\
             kind = \"openai\"\nbase_url = \"http://{address}/v1\"\n[[models.providers.flood.models]]\nid = \"flood\"\n\
             window = 100000000\n"
        );
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    fn response(self) -> Vec<u8> {
        let mut response = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".to_vec();
        let piece = json!({ "choices": [{ "delta": { "content": "x".repeat(self.bytes) } }] });
        let piece = format!("data: {piece}\n\n");
        response.extend(piece.bytes().cycle().take(piece.len() * self.pieces));
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
        response.extend(format!("data: {end}\n\ndata: [DONE]\n\n").bytes());
        response
    }
}

/// Reads one request and writes the response.
fn answer(mut stream: TcpStream, response: &[u8]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    stream.write_all(response)
}
