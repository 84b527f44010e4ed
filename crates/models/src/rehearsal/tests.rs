//! Whole conversations with the rehearsal model: its text, its calls, and how it handles their
//! outcomes.

use std::fmt::Write as _;
use std::sync::Arc;

use domain::conversation::{CallResult, Message};
use domain::tool::ToolSpec;
use domain::{CallId, Content, MessageId, Outcome, Payload};
use expect_test::{Expect, expect};
use serde_json::Value;

use super::*;

mod refusals;

const ALL: &str = "list_files read_file grep glob write_file edit_file bash update_plan";

/// A session around the model, with tools that answer from a function.
struct Stage<'a> {
    tools: &'a str,
    outcome: fn(&str, &Value) -> Outcome,
    messages: Vec<Arc<Message>>,
    transcript: String,
}

impl<'a> Stage<'a> {
    fn new(tools: &'a str, outcome: fn(&str, &Value) -> Outcome) -> Self {
        Self { tools, outcome, messages: Vec::new(), transcript: String::new() }
    }

    /// Plays one turn, up to the answer without calls.
    async fn prompt(&mut self, content: Vec<Content>) {
        self.messages.push(Arc::new(Message::User { id: MessageId::new(), content }));
        for _ in 0..20 {
            if !self.answer().await {
                return;
            }
        }
        panic!("the model does not come to an end:\n{}", self.transcript);
    }

    /// Plays one request and the outcomes of its calls. Returns whether there were any.
    async fn answer(&mut self) -> bool {
        let deltas: Vec<_> = Rehearsal::new().respond(self.request()).map(Result::unwrap).collect().await;
        let [said @ .., Delta::Usage(usage), Delta::Stopped(StopReason::EndTurn)] = &deltas[..] else {
            panic!("{deltas:?}");
        };
        assert!(usage.input > 0 && usage.output > 0);
        let mut parts = Vec::new();
        let mut notices = Vec::new();
        for delta in said {
            match delta {
                Delta::Notice(text) => notices.push(text.clone()),
                other => add(&mut parts, other.clone()),
            }
        }
        let mut results = Vec::new();
        for part in &parts {
            match part {
                Part::Thought(text) => writeln!(self.transcript, "(thought) {text}").unwrap(),
                Part::Seal(_) => unreachable!("a rehearsal seals nothing"),
                Part::Text(text) => writeln!(self.transcript, "{text}").unwrap(),
                Part::Call { tool, input, .. } if tool == UPDATE_PLAN => {
                    for entry in input["entries"].as_array().unwrap() {
                        let (status, content) = (entry["status"].as_str().unwrap(), entry["content"].as_str().unwrap());
                        writeln!(self.transcript, "> plan: {status}: {content}").unwrap();
                    }
                }
                Part::Call { tool, input, .. } => writeln!(self.transcript, "> {tool} {input}").unwrap(),
            }
            if let Part::Call { id, tool, input, .. } = part {
                assert!(self.tools.split(' ').any(|offered| offered == tool), "{tool} is not offered");
                let outcome = (self.outcome)(tool, input);
                let failed = outcome.verdict != domain::tool::OutcomeKind::Completed;
                results.push(CallResult { call: id.clone(), text: outcome.text, images: vec![], failed });
            }
        }
        notices.iter().for_each(|text| writeln!(self.transcript, "(notice) {text}").unwrap());
        self.messages.push(Arc::new(Message::Assistant { id: MessageId::new(), parts }));
        let called = !results.is_empty();
        if called {
            self.messages.push(Arc::new(Message::Results { results }));
        }
        called
    }

    fn request(&self) -> ModelRequest {
        let spec = |name: &str| {
            Arc::new(ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                schema: Value::Null,
                read_only: false,
            })
        };
        ModelRequest {
            system: "You are an agent.".to_owned(),
            messages: self.messages.clone(),
            tools: self.tools.split_whitespace().map(spec).collect(),
            thought: Default::default(),
            environment: Arc::default(),
            cache_key: String::new(),
            tool_use: domain::model::ToolUse::Allowed,
        }
    }
}

fn add(parts: &mut Vec<Part>, delta: Delta) {
    match (delta, parts.last_mut()) {
        (Delta::Text(piece), Some(Part::Text(text))) | (Delta::Thought(piece), Some(Part::Thought(text))) => {
            text.push_str(&piece);
        }
        (Delta::Text(text), _) => parts.push(Part::Text(text)),
        (Delta::Thought(text), _) => parts.push(Part::Thought(text)),
        (Delta::Call { tool, input, origin }, _) => parts.push(Part::Call { id: CallId::new(), tool, input, origin }),
        (
            Delta::CallBegun { .. }
            | Delta::CutCall { .. }
            | Delta::Abandoned
            | Delta::Seal(_)
            | Delta::DocumentsAsText { .. }
            | Delta::Notice(_)
            | Delta::Usage(_)
            | Delta::Stopped(_),
            _,
        ) => panic!("not at the end"),
    }
}

async fn play(prompt: &str, tools: &str, outcome: fn(&str, &Value) -> Outcome, expected: Expect) {
    let mut stage = Stage::new(tools, outcome);
    stage.prompt(vec![Content::text(prompt)]).await;
    expected.assert_eq(&stage.transcript);
}

fn works(tool: &str, input: &Value) -> Outcome {
    Outcome::completed(match tool {
        "list_files" => "Cargo.toml\nREADME.md\nsrc/",
        "read_file" if input["path"] == "code.md" => "```rust\nfn main() {}\n```",
        "read_file" => "     1\tHello\n     2\tthere\n",
        "grep" => "src/main.rs:3: // TODO",
        "bash" => "ok\n",
        _ => "Done.",
    })
}

#[tokio::test]
async fn the_files_of_the_folder_are_named() {
    play(
        "What files are in this folder?",
        ALL,
        works,
        expect![[r#"
            (thought) I understand one direction: List this folder.
            > plan: in_progress: List this folder
            > list_files {"path":"."}
            > plan: completed: List this folder
            In this folder:

            ```
            Cargo.toml
            README.md
            src/
            ```
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_prompt_that_is_not_understood_lists_the_folder_and_says_so() {
    play("Explain the architecture", ALL, works, expect![[r#"
        (thought) I find no direction in this that I can follow, so I look at the folder.
        I am not a language model and did not understand that, so I look at this folder.
        > plan: in_progress: Look at this folder
        > list_files {"path":"."}
        > plan: completed: Look at this folder
        In this folder:

        ```
        Cargo.toml
        README.md
        src/
        ```

        You can check your editor with me. Everything I do is real: tool calls, permission questions, diffs. Try:

        - `What files are in this folder?`
        - `read README.md`
        - `search for TODO in src`
        - `write hello.txt with Hello there`
        - `replace Hello with Goodbye in hello.txt`
        - `run ls -l`
        - several of them, one per line, or with `then` between them
        (notice) No language model is configured, so `rehearsal` answered, a small program that follows plain directions, and it did not understand this. To set up a model, run `acpd login`, or set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` in the environment of your editor or shell, or name a provider in `~/.config/acpd/config.toml`.
    "#]]).await;
}

#[tokio::test]
async fn an_empty_prompt_is_answered_too() {
    let mut stage = Stage::new("", works);
    stage.prompt(vec![]).await;
    let first = stage.transcript.lines().nth(1).unwrap();
    assert_eq!(first, "I look at this folder.");
}

#[tokio::test]
async fn several_directions_are_done_one_after_another() {
    play(
        "read a.txt then write b.txt with Hi; run cargo test",
        ALL,
        works,
        expect![[r#"
            (thought) I understand 3 directions:
            1. Read `a.txt`
            2. Write `b.txt`
            3. Run `cargo test`
            > plan: in_progress: Read `a.txt`
            > plan: pending: Write `b.txt`
            > plan: pending: Run `cargo test`
            > read_file {"path":"a.txt"}
            This is `a.txt`:

            ```
                 1	Hello
                 2	there
            ```
            > plan: completed: Read `a.txt`
            > plan: in_progress: Write `b.txt`
            > plan: pending: Run `cargo test`
            > write_file {"path":"b.txt","content":"Hi\n"}
            Wrote 1 line to `b.txt`.
            > plan: completed: Read `a.txt`
            > plan: completed: Write `b.txt`
            > plan: in_progress: Run `cargo test`
            > bash {"command":"cargo test"}
            > plan: completed: Read `a.txt`
            > plan: completed: Write `b.txt`
            > plan: completed: Run `cargo test`
            `cargo test` ended:

            ```
            ok
            ```
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_replacement_reads_before_it_edits() {
    play(
        "replace Hello with Goodbye in a.txt",
        ALL,
        works,
        expect![[r#"
            (thought) I understand one direction: Replace `Hello` with `Goodbye` in `a.txt`.
            > plan: in_progress: Replace `Hello` with `Goodbye` in `a.txt`
            > read_file {"path":"a.txt"}
            > edit_file {"path":"a.txt","edits":[{"old_text":"Hello","new_text":"Goodbye","replace_all":true}]}
            > plan: completed: Replace `Hello` with `Goodbye` in `a.txt`
            Replaced `Hello` with `Goodbye` in `a.txt`.
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn it_works_without_the_plan_tool() {
    play(
        "find TODO in src",
        "grep",
        works,
        expect![[r#"
            (thought) I understand one direction: Search for `TODO` in `src`.
            > grep {"pattern":"TODO","path":"src"}
            Searched for `TODO`:

            ```
            src/main.rs:3: // TODO
            ```
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_later_prompt_is_a_task_of_its_own() {
    let mut stage = Stage::new("read_file list_files", works);
    stage.prompt(vec![Content::text("read a.txt")]).await;
    stage.transcript.clear();
    stage.prompt(vec![Content::text("read code.md")]).await;
    expect![[r#"
        (thought) I understand one direction: Read `code.md`.
        > read_file {"path":"code.md"}
        This is `code.md`:

        ````
        ```rust
        fn main() {}
        ```
        ````
        (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
    "#]]
    .assert_eq(&stage.transcript);
}

#[tokio::test]
async fn attachments_are_named() {
    let mut stage = Stage::new("read_file", works);
    let link = Payload::Link {
        uri: "file:///w/a.txt".to_owned(),
        name: "a.txt".to_owned(),
        mime: None,
        title: None,
        description: None,
        size: None,
        path: None,
    };
    let blob = Payload::BlobResource { uri: "file:///w/b.bin".to_owned(), mime: None, blob: "AAAA".to_owned() };
    let text = Payload::TextResource { uri: "file:///w/c.txt".to_owned(), mime: None, text: "secret".to_owned() };
    let image = Payload::Image { data: "AAAA".to_owned(), mime: "image/png".to_owned(), uri: None };
    let audio = Payload::Audio { data: "AAAA".to_owned(), mime: "audio/wav".to_owned() };
    let blocks = [link, blob, text, image, audio].map(Content::from);
    stage.prompt([vec![Content::text("read")], blocks.to_vec()].concat()).await;
    expect![[r#"
        (thought) I understand 3 directions:
        1. Read `/w/a.txt`
        2. Read `/w/b.bin`
        3. Read `/w/c.txt`
        Your prompt came with: [file: /w/a.txt; not read yet, read_file reads it], [resource: application/octet-stream file:///w/b.bin], [resource: 6 bytes of text, file:///w/c.txt], [image: image/png], [audio: audio/wav].
        > read_file {"path":"/w/a.txt"}
        This is `/w/a.txt`:

        ```
             1	Hello
             2	there
        ```
        > read_file {"path":"/w/b.bin"}
        This is `/w/b.bin`:

        ```
             1	Hello
             2	there
        ```
        > read_file {"path":"/w/c.txt"}
        This is `/w/c.txt`:

        ```
             1	Hello
             2	there
        ```
        (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
    "#]].assert_eq(&stage.transcript);
}

#[tokio::test]
async fn a_long_result_is_truncated_with_a_note() {
    let long = |_: &str, _: &Value| Outcome::completed("ü line\n".repeat(1000));
    let mut stage = Stage::new("read_file", long);
    stage.prompt(vec![Content::text("read a.txt")]).await;
    assert!(stage.transcript.len() < 1500, "{}", stage.transcript);
    assert!(stage.transcript.contains("… and 940 more lines; the tool call shows them."), "{}", stage.transcript);
}

#[tokio::test]
async fn text_is_streamed_a_few_words_at_a_time() {
    let mut stage = Stage::new("", works);
    stage.messages.push(Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text("hello")] }));
    let deltas: Vec<_> = Rehearsal::new().respond(stage.request()).collect().await;
    assert!(deltas.len() > 20);
    for delta in deltas {
        if let Ok(Delta::Text(piece) | Delta::Thought(piece)) = delta {
            assert!(piece.split_whitespace().count() <= WORDS_PER_PIECE, "{piece:?}");
        }
    }
}

#[test]
fn pieces_together_are_the_text() {
    for text in ["", " ", "one", "a b c d e f ", "  ü\n\n\tö 🦀  ", "日本語"] {
        assert_eq!(pieces(text).collect::<String>(), text);
        assert!(pieces(text).all(|piece| !piece.is_empty()));
    }
}
