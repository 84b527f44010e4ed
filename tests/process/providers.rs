//! The daemon with a provider's server: both dialects, network errors, a cancel, and TLS.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use expect_test::expect;
use serde_json::{Value, json};
use testkit::Transcript;
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};
use testkit::validation::{self, PICTURE, PROVIDERS, Provider};

use crate::harness::{Home, Peer, until};

const DIALECTS: [(Dialect, &str); 2] = [(Dialect::Anthropic, "anthropic"), (Dialect::Chat, "openai")];

/// A home whose only model is one of this server's. Waits between tries are short.
pub(crate) fn home(dialect: &str, server: &Server) -> Home {
    let home = Home::new();
    home.configure(&format!(
        "[models]\ndefault = \"fake/fake\"\n[models.local]\nprobe = false\n[models.retry]\nfirst_ms = 2\n\
         [models.providers.fake]\nkind = \"{dialect}\"\nbase_url = \"{}\"\nkey = {{ env = \"FAKE_KEY\" }}\n\
         [[models.providers.fake.models]]\nid = \"fake\"\nwindow = 100000\nthinks = true\n",
        server.address
    ));
    home
}

/// An editor with the key in its environment.
fn editor(home: &Home) -> Peer {
    let mut bridge = home.acpd(&["acp"]);
    bridge.env("FAKE_KEY", "sk-process-0123456789");
    Peer::spawn(bridge)
}

/// Returns what the editor received as a stable transcript: the chunks of a message are joined, and
/// parallel calls follow one another.
fn transcript(home: &Home, received: Vec<Value>) -> String {
    let mut joined: Vec<Value> = Vec::new();
    for message in received {
        let update = &message["params"]["update"];
        // How a call looks while it is written depends on how a dialect cuts its arguments.
        if update["kind"] == "other" && update["status"] == "pending" {
            continue;
        }
        match joined.last_mut() {
            Some(last) if is_next_piece(&last["params"]["update"], update) => {
                let text = &mut last["params"]["update"]["content"]["text"];
                *text = json!(format!("{}{}", text.as_str().unwrap(), update["content"]["text"].as_str().unwrap()));
            }
            Some(_) | None => joined.push(message),
        }
    }
    let mut titles: HashMap<String, String> = HashMap::new();
    for message in &joined {
        let update = &message["params"]["update"];
        if let (Some(call), Some(title)) = (update["toolCallId"].as_str(), update["title"].as_str()) {
            titles.entry(call.to_owned()).or_insert_with(|| title.to_owned());
        }
    }
    let title = |message: &Value| titles.get(message["params"]["update"]["toolCallId"].as_str()?).cloned();
    joined.chunk_by_mut(|a, b| title(a).is_some() && title(b).is_some()).for_each(|run| run.sort_by_key(title));
    let transcript = Transcript::default();
    joined.iter().for_each(|message| transcript.message("<", &message.to_string()));
    transcript.take().replace(home.path().to_str().unwrap(), "HOME")
}

fn is_next_piece(before: &Value, next: &Value) -> bool {
    let is_text = |update: &Value| update["content"]["type"] == "text" && update["messageId"].is_string();
    let same = |field: &str| before[field] == next[field];
    is_text(before) && is_text(next) && same("sessionUpdate") && same("messageId")
}

/// A thought, text, two parallel reads, an edit that asks first, and a final text.
fn the_conversation(dialect: Dialect, name: &str) -> String {
    let script = [
        ModelAnswer::rich_with("read_file", [json!({ "path": "ä.txt" }), json!({ "path": "b.txt" })]),
        ModelAnswer::new(vec![AnswerPart::Call(
            "edit_file",
            json!({ "path": "ä.txt", "old_text": "one", "new_text": "two" }),
        )]),
        ModelAnswer::text("Done: one is two now."),
    ];
    let server = Server::script(script.iter().map(|answer| Reply::stream(&[&answer.sse(dialect)])).collect());
    let home = home(name, &server);
    fs::write(home.work().join("ä.txt"), "one\n").unwrap();
    fs::write(home.work().join("b.txt"), "other\n").unwrap();
    let mut editor = editor(&home);
    let session = editor.open(&home.work());
    editor.received.clear();
    let prompt = editor.start_prompt(&session, "Make one two.");
    let question = editor.wait_for(|message| message["method"] == "session/request_permission");
    let asked = question["id"].clone();
    // Its number is the daemon's own.
    editor.received.push(json!({ "method": question["method"], "params": question["params"] }));
    editor.allow(&asked);
    let answer = editor.answer(prompt);
    editor.received.push(answer);
    assert_eq!(fs::read_to_string(home.work().join("ä.txt")).unwrap(), "two\n");
    assert_eq!(server.requests().len(), script.len());
    transcript(&home, std::mem::take(&mut editor.received))
}

#[test]
fn the_same_conversation_through_both_dialects_is_the_same_at_the_editor() {
    let [anthropic, openai] = DIALECTS.map(|(dialect, name)| the_conversation(dialect, name));
    assert_eq!(anthropic, openai);
    expect![[r##"
        < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        < update {"sessionUpdate":"session_info_update","title":"Make one two.","updatedAt":"T"}
        < update {"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Grübeln über €"},"messageId":"#1"}
        < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Both files 😀 of \"you\"."},"messageId":"#1"}
        < update {"sessionUpdate":"usage_update","used":150,"size":100000}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"pending","title":"Read b.txt","name":"read_file","locations":[{"path":"HOME/work/b.txt"}],"rawInput":{"path":"b.txt"}}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"     1\tother\n"}}],"rawOutput":{"bytes":6,"lines":1,"truncated":false,"unsaved":false,"text":"     1\tother\n"}}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"pending","title":"Read ä.txt","name":"read_file","locations":[{"path":"HOME/work/ä.txt"}],"rawInput":{"path":"ä.txt"}}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"in_progress"}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"     1\tone\n"}}],"rawOutput":{"bytes":4,"lines":1,"truncated":false,"unsaved":false,"text":"     1\tone\n"}}
        < update {"sessionUpdate":"usage_update","used":150,"size":100000}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"edit","status":"pending","title":"Edit ä.txt","name":"edit_file","content":[{"type":"diff","path":"HOME/work/ä.txt","oldText":"one\n","newText":"two\n"}],"locations":[{"path":"HOME/work/ä.txt","line":1}],"rawInput":{"path":"ä.txt","old_text":"one","new_text":"two"}}
        < session/request_permission {"sessionId":"#5","toolCall":{"toolCallId":"#4","kind":"edit","status":"pending","title":"Edit ä.txt","name":"edit_file","content":[{"type":"diff","path":"HOME/work/ä.txt","oldText":"one\n","newText":"two\n"}],"locations":[{"path":"HOME/work/ä.txt","line":1}],"rawInput":{"path":"ä.txt","old_text":"one","new_text":"two"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in HOME/work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in HOME/work","kind":"reject_always"}]}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"edit","status":"in_progress"}
        < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"edit","status":"completed","content":[{"type":"diff","path":"HOME/work/ä.txt","oldText":"one\n","newText":"two\n"}],"rawOutput":{"path":"HOME/work/ä.txt","added":1,"removed":1,"text":"Replaced 1 occurrence in ä.txt (+1 -1 lines).\n     1\ttwo"}}
        < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done: one is two now."},"messageId":"#6"}
        < update {"sessionUpdate":"usage_update","used":150,"size":100000}
        < 3 = {"stopReason":"end_turn","usage":{"totalTokens":450,"inputTokens":360,"outputTokens":90,"cachedReadTokens":300},"_meta":{"acpd":{"userMessageId":"#7"}}}
    "##]].assert_eq(&anthropic);
}

#[test]
fn a_prompt_is_answered_after_two_refusals_for_the_rate_limit() {
    for (dialect, name) in DIALECTS {
        let busy = Reply::json(429, &json!({ "error": { "type": "rate_limit_error", "message": "slow down" } }));
        let whole = Reply::stream(&[&ModelAnswer::text("Here I am.").sse(dialect)]);
        let server = Server::script(vec![busy.clone(), busy, whole]);
        let home = home(name, &server);
        let mut editor = editor(&home);
        let session = editor.open(&home.work());
        assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
        assert_eq!((editor.agent_text().as_str(), server.requests().len()), ("Here I am.", 3));
    }
}

#[test]
fn a_cancel_in_mid_stream_is_a_closed_connection_at_the_server() {
    for (dialect, name) in DIALECTS {
        let answer = ModelAnswer::text("half an answer").sse(dialect);
        let words = answer.windows(4).position(|window| window == b"half").unwrap();
        let end = words + answer[words..].windows(2).position(|window| window == b"\n\n").unwrap() + 2;
        let server = Server::script(vec![Reply::begun(&[&answer[..end]]).then(Action::UntilClosed)]);
        let home = home(name, &server);
        let mut editor = editor(&home);
        let session = editor.open(&home.work());
        let prompt = editor.start_prompt(&session, "hello");
        editor.wait_for(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        let begun = Instant::now();
        editor.notify("session/cancel", json!({ "sessionId": session }));
        until("the server to see a closed connection", || (server.closed() == 1).then_some(()));
        eprintln!("{name}: the server saw a closed connection {:?} after the editor's cancel", begun.elapsed());
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "cancelled");
    }
}

#[test]
fn a_provider_is_reached_over_tls_only_if_its_authority_is_trusted() {
    for (dialect, name) in DIALECTS {
        let (server, authority) =
            Server::secure(move |_, _| Reply::stream(&[&ModelAnswer::text("Safely.").sse(dialect)]));
        let home = home(name, &server);
        let pem = home.path().join("authority.pem");
        fs::write(&pem, authority).unwrap();
        let mut serve = home.acpd(&["serve"]);
        serve.env("SSL_CERT_FILE", &pem);
        let daemon = home.start(serve);
        let mut editor = editor(&home);
        let session = editor.open(&home.work());
        assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
        assert_eq!(editor.agent_text(), "Safely.");
        assert_eq!(server.requests().len(), 1);
        drop((editor, daemon));

        let _daemon = home.start(home.acpd(&["serve", "--set", "models.retry.tries=1"]));
        let mut editor = self::editor(&home);
        let session = editor.open(&home.work());
        let answer = editor.prompt(&session, "hello");
        assert_eq!(answer["error"]["message"], "fake: cannot be reached", "{answer}");
        let detail = answer["error"]["data"]["detail"].as_str().unwrap();
        assert!(detail.to_lowercase().contains("certificate"), "{detail}");
        assert_eq!(server.requests().len(), 1);
    }
}

/// The servers refuse requests as strictly as the providers do. The task has parallel calls, a
/// picture, and a break in the middle.
#[test]
fn the_program_does_a_task_of_five_steps_at_every_validating_server() {
    let mut ends = String::new();
    for Provider { name, kind, base, model, check, dialect, .. } in PROVIDERS {
        let server = validation::server(dialect, check);
        let home = home(kind, &server);
        let config = fs::read_to_string(home.path().join("home/.config/acpd/config.toml")).unwrap();
        let config = config.replace(&server.address, &format!("{}{base}", server.address));
        let config = config.replace("fake/fake", &format!("fake/{model}"));
        let config = config.replace("id = \"fake\"", &format!("id = \"{model}\"\nimages = true"));
        // Without a configured window, Ollama is asked for the default one, which its server
        // checks.
        home.configure(&config.replace("window = 100000\n", ""));
        for file in ["a", "b", "c", "d"] {
            fs::write(home.work().join(file), format!("this is {file}\n")).unwrap();
        }
        fs::write(home.work().join("picture.png"), validation::PICTURE_BYTES).unwrap();
        let mut editor = editor(&home);
        let session = editor.open(&home.work());
        let answer = editor.prompt(&session, "Do it.");
        let requests = server.requests();
        let reason = &answer["result"]["stopReason"];
        ends.push_str(&format!("{name}, {model}: {reason} after {} requests\n", requests.len()));
        assert!(editor.agent_text().ends_with("Done."), "{name}: {answer}: {}", editor.agent_text());
        assert!(requests.iter().any(|request| request.body.contains(&PICTURE[..40])), "{name} was shown no picture");
    }
    // Five steps, one of them twice. DeepSeek and Mistral refuse parts of requests.
    expect![[r#"
        anthropic, claude-sonnet-4-5: "end_turn" after 6 requests
        vertex, claude-sonnet-4-5: "end_turn" after 6 requests
        chat, some-model: "end_turn" after 6 requests
        azure, gpt-5.1: "end_turn" after 6 requests
        deepseek, deepseek-v4-pro: "end_turn" after 8 requests
        mistral, mistral-large-latest: "end_turn" after 7 requests
        openrouter, anthropic/claude-sonnet-4.5: "end_turn" after 6 requests
        openai, gpt-5.1: "end_turn" after 6 requests
        gemini, gemini-3-pro-preview: "end_turn" after 6 requests
        gemini-chat, gemini-3-pro-preview: "end_turn" after 6 requests
        ollama, qwen3:8b: "end_turn" after 6 requests
    "#]]
    .assert_eq(&ends);
}

#[test]
fn ctl_shows_the_cost_of_a_session() {
    let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("Hello").sse(Dialect::Chat)])]);
    let home = home("openai", &server);
    let prices = "price = { input = 10.0, output = 100.0, cached_read = 1.0 }\n";
    let config = fs::read_to_string(home.path().join("home/.config/acpd/config.toml")).unwrap();
    home.configure(&format!("{config}{prices}"));
    let mut editor = editor(&home);
    let session = editor.open(&home.work());
    editor.prompt(&session, "one");
    editor.prompt(&session, "two");
    let shown = home.json(&["ctl", "sessions", "--json"]);
    let card = &shown["sessions"][0];
    // Twice 20 tokens in, 100 from the cache and 30 out.
    assert_eq!((card["usage"]["input"].as_u64(), card["usage"]["output"].as_u64()), (Some(240), Some(60)), "{card}");
    assert_eq!(card["cost"]["currency"], "USD");
    assert!((card["cost"]["amount"].as_f64().unwrap() - 0.0066).abs() < 1e-9, "{card}");
    let text = home.stdout(&["ctl", "sessions"]);
    assert!(text.contains("TOKENS") && text.contains("300 (0.0066 USD)"), "{text}");
    let text = home.stdout(&["ctl", "session", &session]);
    assert!(text.contains("240 in, 60 out") && text.contains("0.0066 USD"), "{text}");
}
