//! How long a request with a long conversation takes until a server on this machine has read it.
//!
//! Run with `cargo bench -p acpd-models`. The floor is a thread that writes as many bytes from
//! memory.

#![allow(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use acpd_models::{KeyConfig, LocalConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal};
use domain::conversation::{Message, Part};
use domain::model::{Catalogue, ModelRequest, ToolUse};
use domain::{Content, Environment, MessageId, ModelId, ThoughtLevel};
use futures_util::StreamExt;

const TURNS: usize = 1_000;
const ROUNDS: usize = 21;

/// The bytes of an answer. A turn has as many of the user's and the model's messages together.
const ANSWER: usize = 10 << 10;

/// A stretch of source code. One byte of 18 needs an escape.
const CODE: &str = "    let name = fields.get(\"name\").ok_or_else(|| missing(\"name\"))?;\n\
    // A comment explains why, teaches a trick, or states an invariant, like this one here.\n";

/// Serves requests and reports when each of them was read and how many bytes its body has.
fn serve(listener: &TcpListener, read: &mpsc::Sender<(Instant, usize)>) {
    for connection in listener.incoming() {
        let (connection, read) = (connection.unwrap(), read.clone());
        thread::spawn(move || answer_all(connection, &read));
    }
}

fn answer_all(mut connection: TcpStream, read: &mpsc::Sender<(Instant, usize)>) -> Option<()> {
    connection.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    // Kept for all requests: a new buffer of 10 MB takes the kernel 4 ms, while the client waits.
    let mut body = Vec::new();
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
        read.send((Instant::now(), length)).unwrap();
        let events = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        write!(connection, "{head}content-length: {}\r\n\r\n{events}", events.len()).ok()?;
    }
}

fn conversation(answer: &str) -> Vec<Arc<Message>> {
    let user =
        |turn: usize| Message::User { id: MessageId::new(), content: vec![Content::text(format!("Question {turn}"))] };
    let turns = (0..TURNS).flat_map(|turn| {
        [user(turn), Message::Assistant { id: MessageId::new(), parts: vec![Part::Text(answer.to_owned())] }]
    });
    turns.chain([user(TURNS)]).map(Arc::new).collect()
}

/// Returns the best and the median time. Other programs only add time.
fn best_and_median(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:.1} ms at best, {:.1} ms median", times[0], times[times.len() / 2])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/v1", listener.local_addr()?);
    let (sender, read) = mpsc::channel();
    thread::spawn(move || serve(&listener, &sender));
    let provider = ProviderConfig {
        key: KeyConfig { env: Some("KEY".to_owned()), ..KeyConfig::default() },
        ..ProviderConfig::new(ProviderKind::OpenAi, &address)
    };
    let config = ModelsConfig {
        providers: [("p".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        ..ModelsConfig::default()
    };
    let providers = Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap();
    let model = providers.find(&ModelId::from("p/m")).unwrap();
    let environment: Arc<Environment> = Arc::new([("KEY".to_owned(), "k".to_owned())].into_iter().collect());
    let mut out = io::stdout();
    for (name, text) in [("letters", "x"), ("source code", CODE)] {
        let messages = conversation(&text.repeat(ANSWER / text.len()));
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            let request = ModelRequest {
                system: String::new(),
                messages: messages.clone(),
                tools: vec![],
                thought: ThoughtLevel::Off,
                environment: environment.clone(),
                cache_key: String::new(),
                tool_use: ToolUse::Allowed,
            };
            let begun = Instant::now();
            let answer: Vec<_> = model.respond(request).collect().await;
            let (at, length) = read.recv().unwrap();
            assert!(answer.iter().all(Result::is_ok), "{answer:?}");
            bytes = length;
            times.push((at - begun).as_secs_f64() * 1e3);
        }
        let floor = floor(&address, &read, bytes)?;
        let size = bytes as f64 / 1e6;
        writeln!(out, "{size:.1} MB of {name}: {}; floor: {floor}", best_and_median(times))?;
    }
    Ok(())
}

/// Measures writing this many bytes from memory until they are read.
fn floor(address: &str, read: &mpsc::Receiver<(Instant, usize)>, bytes: usize) -> io::Result<String> {
    let mut connection = TcpStream::connect(address.trim_start_matches("http://").trim_end_matches("/v1"))?;
    connection.set_nodelay(true)?;
    let body = vec![b'x'; bytes];
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        write!(connection, "POST / HTTP/1.1\r\ncontent-length: {bytes}\r\n\r\n")?;
        connection.write_all(&body)?;
        let (at, _) = read.recv().unwrap();
        times.push((at - begun).as_secs_f64() * 1e3);
        let mut answer = BufReader::new(&connection);
        let mut line = String::new();
        while line != "data: [DONE]\n" {
            line.clear();
            answer.read_line(&mut line)?;
        }
        answer.read_line(&mut line)?;
    }
    Ok(best_and_median(times))
}
