//! Tests of what all dialects have in common.

use std::collections::VecDeque;

use domain::Content;
use domain::conversation::{Message, Part};
use domain::model::CallOrigin;
use serde_json::json;

use super::*;
use crate::config::ProviderKind;
use crate::fixtures::{agent, read_file, request, results, user};
use crate::spec;

const ALL: [Dialect; 6] =
    [Dialect::Anthropic, Dialect::Vertex, Dialect::Chat, Dialect::Responses, Dialect::Gemini, Dialect::Ollama];

/// Returns the events of an answer with two calls, each cut in two where the API cuts calls.
///
/// The shapes are those of the SDKs: anthropic 2.9.0 and openai 3.51.0 (`types`), google-genai
/// 3.3.0 (`types.py`) and ollama fb3076099 (`api/types.go`), compared in November 2026.
fn calls(dialect: Dialect) -> Vec<Value> {
    let arguments = |path: &str| [r#"{"path":"#.to_owned(), format!("\"{path}\"}}")];
    let inputs = [("a", arguments("a.txt")), ("b", arguments("b.txt"))].into_iter().enumerate();
    let mut events = Vec::new();
    for (at, (id, [first, second])) in inputs {
        let whole: Value = serde_json::from_str(&format!("{first}{second}")).unwrap();
        match dialect {
            Dialect::Anthropic | Dialect::Vertex => {
                let block = json!({ "type": "tool_use", "id": id, "name": "read_file", "input": {} });
                events.push(json!({ "type": "content_block_start", "index": at, "content_block": block }));
                for piece in [first, second] {
                    let delta = json!({ "type": "input_json_delta", "partial_json": piece });
                    events.push(json!({ "type": "content_block_delta", "index": at, "delta": delta }));
                }
                events.push(json!({ "type": "content_block_stop", "index": at }));
            }
            Dialect::Chat => {
                let begun = json!({ "index": at, "id": id, "function": { "name": "read_file", "arguments": first } });
                let rest = json!({ "index": at, "function": { "arguments": second } });
                for call in [begun, rest] {
                    events.push(json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }));
                }
            }
            Dialect::Responses => {
                let item = |arguments: &str| json!({ "type": "function_call", "call_id": id, "name": "read_file", "arguments": arguments });
                events.push(json!({ "type": "response.output_item.added", "output_index": at, "item": item("") }));
                let whole = format!("{first}{second}");
                for piece in [first, second] {
                    let name = "response.function_call_arguments.delta";
                    events.push(json!({ "type": name, "output_index": at, "delta": piece }));
                }
                events.push(json!({ "type": "response.output_item.done", "output_index": at, "item": item(&whole) }));
            }
            Dialect::Gemini => {
                let part = json!({ "functionCall": { "id": id, "name": "read_file", "args": whole } });
                events.push(json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] }));
            }
            Dialect::Ollama => {
                let call = json!({ "id": id, "function": { "index": at, "name": "read_file", "arguments": whole } });
                events.push(
                    json!({ "message": { "role": "assistant", "content": "", "tool_calls": [call] }, "done": false }),
                );
            }
        }
    }
    events
}

#[test]
fn a_call_is_announced_with_the_event_that_begins_it_and_again_with_its_title() {
    let begun = |place: usize, detail: Option<&str>| Delta::CallBegun {
        place,
        tool: "read_file".to_owned(),
        detail: detail.map(str::to_owned),
    };
    for dialect in ALL {
        let mut fold = dialect.fold("p");
        let mut announced = Vec::new();
        for event in calls(dialect) {
            let mut deltas = VecDeque::new();
            fold.take(&event.to_string(), &mut deltas).unwrap();
            announced.push(Vec::from(deltas));
        }
        let is_in_pieces = match dialect {
            Dialect::Anthropic | Dialect::Vertex | Dialect::Chat | Dialect::Responses => true,
            Dialect::Gemini | Dialect::Ollama => false,
        };
        let first = if is_in_pieces { begun(0, None) } else { begun(0, Some("a.txt")) };
        assert_eq!(announced[0], [first], "{dialect:?}");
        let all: Vec<Delta> = announced.into_iter().flatten().collect();
        let expected = match is_in_pieces {
            true => vec![begun(0, None), begun(0, Some("a.txt")), begun(1, None), begun(1, Some("b.txt"))],
            false => vec![begun(0, Some("a.txt")), begun(1, Some("b.txt"))],
        };
        assert_eq!(all, expected, "{dialect:?}");
    }
}

/// One turn with a tool loop, and a seal of each kind that the dialect sends back.
fn turn(dialect: Dialect, number: usize) -> Vec<Message> {
    let seal = match dialect {
        Dialect::Anthropic | Dialect::Vertex => json!({ "provider": "p", "signature": "s" }),
        Dialect::Chat => json!({ "provider": "p", "reasoning_field": "reasoning_content" }),
        Dialect::Ollama => json!({ "provider": "p" }),
        Dialect::Responses => {
            json!({ "provider": "p", "reasoning": [{ "type": "reasoning", "encrypted_content": "s" }] })
        }
        Dialect::Gemini => json!({ "provider": "p", "thoughtSignature": "s", "textBytes": 0 }),
    };
    let call = |id: String| {
        let origin = CallOrigin { provider: "p".to_owned(), id: id.clone(), extra: Value::Null };
        Part::Call {
            id: id.as_str().into(),
            tool: "read_file".to_owned(),
            input: json!({ "path": id }),
            origin: Some(origin),
        }
    };
    let (one, two) = (format!("{number}a"), format!("{number}b"));
    vec![
        user(vec![Content::text(format!("question {number}"))]),
        agent(vec![
            Part::Thought("hm".to_owned()),
            Part::Seal(seal),
            Part::Text("I look.".to_owned()),
            call(one.clone()),
            call(two.clone()),
        ]),
        results(&[(&two, "second", false), (&one, "first", true)]),
        agent(vec![Part::Text(format!("answer {number}"))]),
    ]
}

#[test]
fn the_beginning_of_requests_is_the_same_to_the_byte_across_turns() {
    for dialect in ALL {
        // Marks for the cache move on with the conversation.
        let service = Service { prompt_caching: false, ..Service::stub(ProviderKind::OpenAi) };
        let spec = spec::spec("p", "claude-sonnet-5");
        let field = match dialect {
            Dialect::Anthropic | Dialect::Vertex | Dialect::Chat | Dialect::Ollama => "messages",
            Dialect::Responses => "input",
            Dialect::Gemini => "contents",
        };
        let turns: Vec<Message> = (0..3).flat_map(|number| turn(dialect, number)).collect();
        let mut before: Option<(Value, String)> = None;
        // Each request of a turn, and the one that begins the next: after a question, and after
        // outcomes.
        let ends = turns.iter().enumerate().filter(|(_, message)| !matches!(message, Message::Assistant { .. }));
        for (end, _) in ends {
            let request = ModelRequest { tools: vec![read_file().into()], ..request(turns[..=end].to_vec()) };
            let mut body = Value::from(dialect.body(&spec, &service, "http://127.0.0.1:9", &request));
            let list = body[field].take().to_string();
            let list = list.strip_suffix(']').unwrap().to_owned();
            if let Some((rest, beginning)) = &before {
                assert_eq!(body, *rest, "{dialect:?}");
                // In Anthropic's and Gemini's API, what the user says after an outcome joins its
                // message.
                assert!(list.starts_with(beginning), "{dialect:?}:\n{beginning}\n{list}");
            }
            before = Some((body, list));
        }
    }
}

/// A conversation may have many megabytes, so each dialect writes it into the body without a copy.
/// The bytes are those of `serde_json`.
#[test]
fn no_dialect_copies_the_texts_of_a_conversation() {
    let long = |what: &str| format!("{what} with \"quotes\"\n").repeat(1_000);
    for dialect in ALL {
        let mut messages = turn(dialect, 0);
        let parts =
            vec![Part::Thought(long("thought")), Part::Text(long("text")), crate::fixtures::call("c", "t", json!({}))];
        messages.extend([user(vec![Content::text(long("question"))]), agent(parts)]);
        messages.push(results(&[("c", &long("outcome"), false)]));
        let tool =
            domain::tool::ToolSpec { description: long("tool"), schema: json!({ "a": long("schema") }), ..read_file() };
        let request = ModelRequest { system: long("system"), tools: vec![tool.into()], ..request(messages) };
        let (spec, service) = (spec::spec("p", "claude-sonnet-5"), Service::stub(ProviderKind::OpenAi));
        let body = dialect.body(&spec, &service, "http://127.0.0.1:9", &request);
        let (len, copied) = (body.to_bytes().len(), body.copied());
        assert!(len > 90_000, "{dialect:?}: {len} bytes hold the texts");
        assert!(copied < 1_000, "{dialect:?}: {copied} bytes were copied");
        assert_eq!(body.to_bytes(), serde_json::to_vec(&Value::from(body)).unwrap(), "{dialect:?}");
    }
}
