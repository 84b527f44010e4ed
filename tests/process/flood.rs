//! A provider that answers every request with the same stream of text, as fast as it is read.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;

use crate::harness::Home;

/// The answer to every request: this many pieces of this many bytes.
#[derive(Clone, Copy)]
pub(crate) struct Flood {
    pub(crate) pieces: usize,
    pub(crate) bytes: usize,
}

impl Flood {
    /// Starts the provider and makes its model the default of this home.
    pub(crate) fn start(self, home: &Home) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || self.answer(stream));
            }
        });
        let folder = home.path().join("home/.config/acpd");
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[models]\ndefault = \"flood/flood\"\n[models.local]\nprobe = false\n[models.providers.flood]\n\
             kind = \"openai\"\nbase_url = \"http://{address}/v1\"\n[[models.providers.flood.models]]\nid = \"flood\"\n\
             window = 100000000\n"
        );
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    fn answer(self, stream: TcpStream) -> std::io::Result<()> {
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
        let mut stream = std::io::BufWriter::new(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
        let piece = json!({ "choices": [{ "delta": { "content": "x".repeat(self.bytes) } }] });
        for _ in 0..self.pieces {
            write!(stream, "data: {piece}\n\n")?;
        }
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
        write!(stream, "data: {end}\n\ndata: [DONE]\n\n")?;
        stream.flush()
    }
}
