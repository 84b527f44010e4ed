//! A real language model on this machine, SmolLM2, served by llama.cpp: a real tokenizer, a real
//! chat template and a real server. The tests assert nothing about the model's text, which is
//! seldom sensible.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Home, Lines, until};
use crate::installed::installed;

/// How an answer of the model ends.
#[derive(Clone, Copy)]
enum Length {
    /// After a few words.
    Brief,
    /// Only when the window is full.
    Endless,
}

/// A server of llama.cpp, and a home that has it as its only provider.
struct ModelHome {
    home: Home,
    /// Host and port.
    address: String,
    server: Child,
}

impl ModelHome {
    /// Starts a server that loads the model with this window.
    fn new(window: u32, length: Length) -> Self {
        let home = Home::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/llama_server.py");
        let length = match length {
            Length::Brief => "brief",
            Length::Endless => "endless",
        };
        let mut server = Command::new(installed("model/bin/python"))
            .arg(script)
            .args([&window.to_string(), length])
            // Threads that spin while they wait for each other would take the cores from other
            // tests.
            .env("OMP_WAIT_POLICY", "passive")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = Lines::of(server.stdout.take().unwrap()).find(|line| line.starts_with("http://"));
        home.configure(&format!("[models.providers.local]\nkind = \"openai\"\nbase_url = \"{line}/v1\"\n"));
        Self { home, address: line.trim_start_matches("http://").to_owned(), server }
    }

    /// A count that the server keeps.
    fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let value = page.lines().find_map(|line| line.strip_prefix(&format!("llamacpp:{name} ")));
        value.unwrap_or_else(|| panic!("{page}")).trim().parse().unwrap()
    }

    /// The tokens that the server has read from prompts, found in its cache, and generated.
    fn counts(&self) -> [u64; 3] {
        ["prompt_tokens_total", "prompt_tokens_cached_total", "tokens_predicted_total"].map(|name| self.metric(name))
    }

    /// Asks the model, which must answer, and returns what `ask` writes beside the answer.
    #[track_caller]
    fn ask(&self, args: &[&str]) -> String {
        let output = self.home.run(&[&["ask"], args].concat());
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{:?}: {notes}", output.status);
        assert!(!String::from_utf8(output.stdout).unwrap().trim().is_empty(), "no answer: {notes}");
        notes
    }

    /// The token counts of the only session.
    fn usage(&self) -> Value {
        let sessions = self.home.json(&["ctl", "sessions", "--all", "--json"]);
        let sessions = sessions["sessions"].as_array().unwrap();
        let [session] = sessions.as_slice() else { panic!("{sessions:?}") };
        let id = session["sessionId"].as_str().unwrap();
        self.home.json(&["ctl", "session", id, "--json"])["card"]["usage"].take()
    }
}

impl Drop for ModelHome {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn smollm2_answers_and_its_tokens_are_counted_as_its_server_counts_them() {
    let home = ModelHome::new(8_192, Length::Brief);
    let list = home.home.stdout(&["models", "list"]);
    let row = list.lines().find(|line| line.starts_with("local/smollm2 ")).unwrap_or_else(|| panic!("{list}"));
    assert!(row.contains(" 8,192 tokens") && !row.contains("guess"), "{list}");

    let tested = home.home.stdout(&["models", "test"]);
    let [read, cached, generated] = home.counts();
    let tokens = format!(" {} tokens in, {generated} out", read + cached);
    assert!(tested.starts_with("ok ") && tested.contains(&tokens), "{tested}, but the server counted{tokens}");

    home.ask(&["What is the capital of France?"]);
    let (first, before) = (home.usage(), home.counts());
    home.ask(&["--continue", "Name a colour."]);
    let (second, after) = (home.usage(), home.counts());

    let was = [read, cached, generated];
    for (usage, [read, cached, generated]) in [(&first, before), (&second, after)] {
        let [read, cached, generated] = [read - was[0], cached - was[1], generated - was[2]];
        assert!(read > 0 && generated > 0, "{usage}");
        let counted = json!([read + cached, cached, generated]);
        assert_eq!(json!([usage["input"], usage["cached_read"], usage["output"]]), counted);
    }
    // The second request begins like the first, which the server finds in its cache.
    let first_input = first["input"].as_u64().unwrap();
    assert!(after[1] - before[1] > first_input / 10 * 9, "{before:?} {after:?}");
}

#[test]
fn a_prompt_to_smollm2_is_cancelled_while_the_answer_streams() {
    let home = ModelHome::new(8_192, Length::Endless);
    let mut editor = home.home.bridge();
    let session = editor.open(&home.home.work());
    let turn = editor.start_prompt(&session, "Tell me a story.");
    editor.wait_for(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.answer(turn)["result"]["stopReason"], "cancelled");
    until("the server to stop generating", || (home.metric("requests_processing") == 0).then_some(()));
}

#[test]
fn a_conversation_beyond_the_window_of_smollm2_is_compacted() {
    let home = ModelHome::new(2_048, Length::Brief);
    let long = "These words fill the window. ".repeat(20);
    let notes = home.ask(&[&long]);
    assert!(!notes.contains("summary"), "{notes}");
    for _ in 0..2 {
        let notes = home.ask(&["--continue", &long]);
        assert!(notes.contains("older messages were replaced by a summary"), "{notes}");
    }
}

#[test]
fn a_window_too_small_for_any_prompt_is_an_error_with_sizes_and_advice() {
    let home = ModelHome::new(1_024, Length::Brief);
    let output = home.home.run(&["ask", "Hello"]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{notes}");
    assert!(notes.contains("the conversation does not fit into the model's window"), "{notes}");
    assert!(notes.contains("1024 tokens") && notes.contains("acpd's instructions and tools take about"), "{notes}");
}
