//! Real providers at a real server behind a session: what users see of retries and broken answers,
//! what the model sees of pictures, and windows that fill up.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use expect_test::expect;
use models::{
    KeyConfig, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal, RetryPolicy,
};
use serde_json::{Value, json};
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};
use testkit::{Editor, Scene};
use tools::Registry;

/// A provider `fake` with one model `m`.
fn provider(kind: ProviderKind, server: &Server, model: ModelConfig) -> Arc<Providers> {
    let provider = ProviderConfig {
        key: KeyConfig::default(),
        models: vec![ModelConfig { id: "m".to_owned(), ..model }],
        ..ProviderConfig::new(kind, &server.address)
    };
    let config = ModelsConfig {
        default: Some("fake/m".to_owned()),
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        retry: RetryPolicy { first_ms: 1, notice_ms: 10, ..RetryPolicy::default() },
        ..ModelsConfig::default()
    };
    Arc::new(Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap())
}

async fn scene(kind: ProviderKind, server: &Server, model: ModelConfig) -> (Scene, Editor, String) {
    let models = provider(kind, server, model);
    let scene = Scene::adjusted(|ports| ports.models = models);
    let (zed, session) = scene.editor_with_session("zed").await;
    (scene, zed, session)
}

/// The API that a server of this kind speaks in these tests.
fn dialect(kind: ProviderKind) -> Dialect {
    if kind == ProviderKind::Anthropic { Dialect::Anthropic } else { Dialect::Chat }
}

/// The answer up to the end of the event with its first words.
fn beginning(answer: &ModelAnswer, kind: ProviderKind) -> Vec<u8> {
    let bytes = answer.sse(dialect(kind));
    let words = bytes.windows(4).position(|window| window == b"half").unwrap();
    let end = words + bytes[words..].windows(2).position(|window| window == b"\n\n").unwrap() + 2;
    bytes[..end].to_vec()
}

#[actix::test]
async fn only_a_long_retry_is_reported() {
    let short = Reply::json(500, &json!({ "error": { "message": "oh" } }));
    let long = Reply::new(429, &[("retry-after", "0.05")], "{}");
    let answer = Reply::stream(&[&ModelAnswer::text("Hello").sse(Dialect::Chat)]);
    let server = Server::script(vec![short, long, answer]);
    let (scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"fake: too many requests (429); trying again now (try 3 of 6)"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#3"}
        zed    < update {"sessionUpdate":"usage_update","used":150,"size":32768}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":150,"inputTokens":120,"outputTokens":30,"cachedReadTokens":100},"_meta":{"acpd":{"userMessageId":"#4"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_interrupted_response_is_requested_again_and_its_half_is_never_resent() {
    for kind in [ProviderKind::Anthropic, ProviderKind::OpenAi] {
        let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "too much" } });
        let broken = [beginning(&ModelAnswer::text("half an answer"), kind), format!("data: {error}\n\n").into_bytes()];
        let broken = Reply::stream(&[&broken[0], &broken[1]]);
        let whole = |text: &'static str| Reply::stream(&[&ModelAnswer::text(text).sse(dialect(kind))]);
        let server = Server::script(vec![broken, whole("All of it."), whole("The rest.")]);
        let (scene, mut zed, session) = scene(kind, &server, ModelConfig::default()).await;
        let prompt = zed.prompt(&session, "hi").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
        assert_eq!(server.requests().len(), 2);
        let shown = scene.transcript.take();
        // Users have seen the first half, and are informed of what became of it.
        assert!(shown.contains("\"text\":\"half an\""), "{shown}");
        assert!(shown.contains("fake: the answer was cut off: overloaded (529); trying again"), "{shown}");
        let prompt = zed.prompt(&session, "go on").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
        let request = server.requests()[2].json();
        let roles: Vec<&str> =
            request["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(
            roles.into_iter().filter(|role| *role != "system").collect::<Vec<_>>(),
            ["user", "assistant", "user"]
        );
        assert!(request.to_string().contains("All of it.") && !request.to_string().contains("half an"), "{request}");
    }
}

/// A provider `fake` that lists its models, and a session with the default model.
async fn undecided(server: &Server) -> (Scene, Editor, String) {
    let provider = ProviderConfig::new(ProviderKind::OpenAi, &server.address);
    let config = ModelsConfig {
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        retry: RetryPolicy { first_ms: 1, ..RetryPolicy::default() },
        ..ModelsConfig::default()
    };
    let models = Arc::new(Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap());
    let scene = Scene::adjusted(|ports| ports.models = models);
    let mut zed = scene.editor("zed").await;
    let session = zed.new_session().await;
    (scene, zed, session)
}

fn listed(ids: &[&str]) -> Reply {
    Reply::json(200, &json!({ "data": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() }))
}

#[actix::test]
async fn the_first_session_of_a_fresh_daemon_has_an_available_model() {
    let server = Server::with(|seen, _| match seen.method.as_str() {
        "GET" => Reply(vec![Action::Pause(Duration::from_millis(100))]).then_all(listed(&["scripted"])),
        _ => Reply::stream(&[&ModelAnswer::text("Hello").sse(Dialect::Chat)]),
    });
    let (scene, mut zed, session) = undecided(&server).await;
    let created = serde_json::to_value(&scene.history.events(&session)[0]).unwrap();
    assert_eq!(created["model"], "fake/scripted");
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert_eq!(server.requests().last().unwrap().json()["model"], "scripted");
}

#[actix::test]
async fn a_late_model_list_corrects_the_model_and_updates_the_client() {
    let server = Server::with(|seen, _| match seen.method.as_str() {
        "GET" => Reply(vec![Action::Pause(Duration::from_millis(3_500))]).then_all(listed(&["scripted"])),
        _ => Reply::stream(&[&ModelAnswer::text("Hello").sse(Dialect::Chat)]),
    });
    let (scene, mut zed, session) = undecided(&server).await;
    let created = serde_json::to_value(&scene.history.events(&session)[0]).unwrap();
    assert_eq!(created["model"], "rehearsal");
    let update = zed.until(|message| message["params"]["update"]["sessionUpdate"] == "config_option_update").await;
    assert!(update.to_string().contains("\"currentValue\":\"fake/scripted\""), "{update}");
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert_eq!(server.requests().last().unwrap().json()["model"], "scripted");
}

#[actix::test]
async fn an_unchosen_model_that_the_server_rejects_is_replaced_by_a_listed_one() {
    let server = Server::with(|seen, _| match (seen.method.as_str(), seen.body.contains("\"gone\"")) {
        ("GET", _) => listed(&["gone", "there"]),
        (_, true) => Reply::json(404, &json!({ "error": { "code": "model_not_found", "message": "no model gone" } })),
        (_, false) => Reply::stream(&[&ModelAnswer::text("Hello").sse(Dialect::Chat)]),
    });
    let (scene, mut zed, session) = undecided(&server).await;
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let shown = scene.transcript.take();
    let notice = "The provider does not know the model `fake/gone`; `fake/there` answers in its place.";
    assert!(shown.contains(notice) && shown.contains("config_option_update"), "{shown}");
    // A model that the user chose is not replaced, and the user gets the error.
    zed.call("session/set_config_option", json!({ "sessionId": session, "configId": "model", "value": "fake/gone" }))
        .await;
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["error"]["message"], "fake: no such model (404)");
}

#[actix::test]
async fn the_substitute_for_a_broken_provider_is_reported() {
    let server = Server::script(vec![Reply::json(500, &json!({ "error": { "message": "down" } }))]);
    let (scene, mut zed, session) = undecided(&server).await;
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let shown = scene.transcript.take();
    assert!(shown.contains("fake: the provider failed (500)"), "{shown}");
    assert!(shown.contains("so `rehearsal` answers, which is no language model"), "{shown}");
}

#[actix::test]
async fn a_call_cut_off_by_the_output_limit_is_requested_again_twice() {
    let chunk = |delta: Value, reason: Value| {
        format!("data: {}\n\n", json!({ "choices": [{ "delta": delta, "finish_reason": reason }] }))
    };
    let call = json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "write_file", "arguments": "{\"pa" } }] });
    let cut = format!("{}{}data: [DONE]\n\n", chunk(call, Value::Null), chunk(json!({}), json!("length")));
    let cut = Reply::stream(&[cut.as_bytes()]);
    let whole = Reply::stream(&[&ModelAnswer::text("Done.").sse(Dialect::Chat)]);
    for (script, requests, reason) in
        [(vec![cut.clone(), whole], 2, "end_turn"), (vec![cut.clone(), cut.clone(), cut], 3, "max_tokens")]
    {
        let server = Server::script(script);
        let (scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
        let prompt = zed.prompt(&session, "write").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], reason);
        assert_eq!(server.requests().len(), requests);
        assert!(server.requests()[1].body.contains("was cut off at the output limit of your answer"));
        assert!(scene.transcript.take().contains("Write in smaller parts."));
    }
}

/// Writes the calls of an answer in chat completions, with their arguments as they are, up to the
/// output limit.
fn cut_at_limit(calls: &[(&str, &str)]) -> Reply {
    let mut text = String::new();
    for (index, (tool, arguments)) in calls.iter().enumerate() {
        let call = json!({ "index": index, "id": format!("c{index}"),
            "function": { "name": tool, "arguments": arguments } });
        let chunk = json!({ "choices": [{ "delta": { "tool_calls": [call] }, "finish_reason": null }] });
        text.push_str(&format!("data: {chunk}\n\n"));
    }
    let last = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] });
    text.push_str(&format!("data: {last}\n\ndata: [DONE]\n\n"));
    Reply::stream(&[text.as_bytes()])
}

#[actix::test]
async fn complete_calls_before_an_output_limit_run_and_only_the_cut_one_is_refused() {
    let whole = Reply::stream(&[&ModelAnswer::text("Done.").sse(Dialect::Chat)]);
    let (look, cut) = (("update_plan", "{\"entries\":[]}"), ("write_file", "{\"pa"));
    let both = cut_at_limit(&[look, cut]);
    for (script, nudges, reason) in [
        (vec![cut_at_limit(&[look]), whole.clone()], 0, "end_turn"),
        (vec![both.clone(), whole], 1, "end_turn"),
        // After the second reminder the calls still run, and the turn ends.
        (vec![both.clone(), both.clone(), both], 2, "max_tokens"),
    ] {
        let requests = script.len();
        let server = Server::script(script);
        let (scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
        let prompt = zed.prompt(&session, "write").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], reason);
        assert_eq!(server.requests().len(), requests);
        let told = server.requests()[1].json();
        let messages = told["messages"].as_array().unwrap();
        let outcome = messages.iter().find(|message| message["role"] == "tool").unwrap();
        assert_eq!(
            (outcome["tool_call_id"].as_str(), outcome["content"].as_str()),
            (Some("c0"), Some("The plan is updated."))
        );
        let events = serde_json::to_string(&scene.history.events(&session)).unwrap();
        let planned = events.matches("\"event\":\"planned\"").count();
        assert_eq!(planned, if reason == "max_tokens" { 3 } else { 1 }, "{events}");
        let shown = scene.transcript.take();
        assert_eq!(shown.matches("was cut off at the output limit").count(), nudges, "{shown}");
    }
}

#[actix::test]
async fn a_turn_can_be_cancelled_during_a_long_wait_for_a_retry() {
    let server = Server::script(vec![Reply::new(429, &[("retry-after", "50")], "{}")]);
    let (_scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.until(|message| message.to_string().contains("too many requests (429); trying again in ")).await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
    assert_eq!(server.requests().len(), 1);
}

#[actix::test]
async fn an_abandoned_answer_is_shown_after_a_load_and_not_sent_to_the_model() {
    for kind in [ProviderKind::Anthropic, ProviderKind::OpenAi] {
        let half = Reply::begun(&[&beginning(&ModelAnswer::text("half an answer"), kind)]);
        let whole = Reply::stream(&[&ModelAnswer::text("All of it.").sse(dialect(kind))]);
        let server = Server::script(vec![half, whole]);
        let (scene, mut zed, session) = scene(kind, &server, ModelConfig::default()).await;
        let prompt = zed.prompt(&session, "hi").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
        zed.call("session/close", json!({ "sessionId": session })).await;
        scene.transcript.take();
        let mut other = scene.editor("other").await;
        other.call("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
        let shown = scene.transcript.take();
        assert!(shown.contains("half an") && shown.contains("All of it."), "{kind:?} {shown}");
        let prompt = other.prompt(&session, "and now?").await;
        assert_eq!(other.answer(prompt).await["result"]["stopReason"], "end_turn");
        let told = server.requests().pop().unwrap().body;
        assert!(told.contains("All of it.") && !told.contains("half an"), "{kind:?} {told}");
    }
}

#[actix::test]
async fn a_list_that_fails_after_the_first_prompt_is_named_in_the_running_session() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let server = Server::with(move |_, _| {
        let down = Reply::json(500, &json!({ "error": { "message": "down" } }));
        Reply(vec![Action::UntilOpen(gate.clone())]).then_all(down)
    });
    let (scene, mut zed, session) = undecided(&server).await;
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let shown = scene.transcript.take();
    assert!(shown.contains("its list of models has not arrived yet") && !shown.contains("(500)"), "{shown}");
    open.send_replace(true);
    zed.until(|message| message.to_string().contains("fake: the provider failed (500)")).await;
    scene.transcript.take();
    // It is named once.
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert!(!scene.transcript.take().contains("(500)"));
}

#[actix::test]
async fn an_empty_answer_gets_one_nudge() {
    let empty = Reply::stream(&[&ModelAnswer::new(vec![AnswerPart::thought("hm")]).sse(Dialect::Chat)]);
    let server = Server::script(vec![empty]);
    let (_scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
    let prompt = zed.prompt(&session, "hi").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert_eq!(server.requests().len(), 2);
    assert!(server.requests()[1].body.contains("Your answer was empty."));
}

#[actix::test]
async fn thoughts_that_fill_the_whole_answer_get_one_nudge() {
    let thought = json!({ "choices": [{ "delta": { "reasoning_content": "hm" }, "finish_reason": null }] });
    let last = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] });
    let cut = format!("data: {thought}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    let cut = Reply::stream(&[cut.as_bytes()]);
    let whole = Reply::stream(&[&ModelAnswer::text("Done.").sse(Dialect::Chat)]);
    for (script, reason) in [(vec![cut.clone(), whole], "end_turn"), (vec![cut.clone(), cut], "max_tokens")] {
        let server = Server::script(script);
        let (_scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
        let prompt = zed.prompt(&session, "hi").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], reason);
        assert_eq!(server.requests().len(), 2);
        assert!(server.requests()[1].body.contains("reached its output limit before you said anything"));
    }
}

/// One pixel.
const PICTURE: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

#[actix::test]
async fn tool_images_reach_vision_models_and_become_markers_for_others() {
    for (kind, sees) in [
        (ProviderKind::Anthropic, true),
        (ProviderKind::OpenAi, true),
        (ProviderKind::Anthropic, false),
        (ProviderKind::OpenAi, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("dot.gif"), PICTURE).unwrap();
        let look = ModelAnswer::new(vec![AnswerPart::Call("read_file", json!({ "path": "dot.gif" }))]);
        let script = [look, ModelAnswer::text("A dot.")];
        let server = Server::script(script.iter().map(|answer| Reply::stream(&[&answer.sse(dialect(kind))])).collect());
        let models = provider(kind, &server, ModelConfig { images: Some(sees), ..ModelConfig::default() });
        let scene = Scene::adjusted(|ports| {
            ports.models = models;
            ports.toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
        });
        let mut zed = scene.editor("zed").await;
        let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
        let prompt = zed.prompt(opened["result"]["sessionId"].as_str().unwrap(), "look").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
        let request = server.requests()[1].json();
        let picture = match kind {
            ProviderKind::Anthropic => &request["messages"][2]["content"][0]["content"][1]["source"]["data"],
            _ => &request["messages"][4]["content"][0]["image_url"]["url"],
        };
        assert_eq!(picture.as_str().is_some_and(|data| data.contains("R0lGODlh")), sees, "{kind:?} {request}");
        assert!(request.to_string().contains("[image: image/gif]") || sees, "{kind:?} {request}");
    }
}

/// A server that refuses every request larger than its window, counting four bytes of the request
/// per token.
struct Windowed {
    server: Server,
    /// The numbers of refused requests for an answer and for a summary.
    refused: Arc<[AtomicUsize; 2]>,
}

/// Starts the server. Once the window is nearly full, its size changes to `later`, as if the server
/// now had another model.
fn windowed(kind: ProviderKind, window: usize, later: usize, counts: bool) -> Windowed {
    let refused: Arc<[AtomicUsize; 2]> = Arc::default();
    let (notes, limit) = (refused.clone(), AtomicUsize::new(window));
    let server = Server::with(move |seen, at| {
        let is_summary = seen.body.contains("Summarise the conversation so far");
        let tokens = seen.body.len() / 4;
        if at > 150 && tokens > window * 3 / 4 {
            limit.store(later, Ordering::Relaxed);
        }
        let window = count(&limit);
        if tokens > window {
            notes[usize::from(is_summary)].fetch_add(1, Ordering::Relaxed);
            let message = format!("prompt is too long: {tokens} tokens > {window} maximum");
            return Reply::json(400, &json!({ "error": { "type": "invalid_request_error", "message": message } }));
        }
        let text = if is_summary { format!("They counted; this is summary {at}.") } else { format!("Answer {at}.") };
        let answer = ModelAnswer::text(text);
        let usage = domain::Usage { input: tokens as u64, output: 5, ..domain::Usage::default() };
        let answer = if counts { ModelAnswer { usage, ..answer } } else { answer.uncounted() };
        Reply::stream(&[&answer.sse(dialect(kind))])
    });
    Windowed { server, refused }
}

/// Runs three hundred turns, each of which must end well. Returns the number of summaries shown to
/// the user.
async fn three_hundred_turns(kind: ProviderKind, at: &Windowed, window: u64) -> usize {
    let (scene, mut zed, session) =
        scene(kind, &at.server, ModelConfig { window: Some(window), ..ModelConfig::default() }).await;
    let mut summaries = 0;
    for turn in 1..=300 {
        let prompt = zed.prompt(&session, &format!("This is turn {turn}; {}", "please count on. ".repeat(6))).await;
        let answer = zed.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "turn {turn}: {answer}");
        let transcript = scene.transcript.take();
        assert!(transcript.contains("usage_update"), "turn {turn}: {transcript}");
        summaries += transcript.matches("Older messages were replaced by a summary.").count();
    }
    let last = at.server.requests().last().unwrap().body.clone();
    assert!(last.contains("This is turn 300") && last.contains("They counted; this is summary"), "{last}");
    summaries
}

fn count(number: &AtomicUsize) -> usize {
    number.load(Ordering::Relaxed)
}

#[actix::test]
async fn three_hundred_turns_fit_a_small_window_without_token_counts() {
    let at = windowed(ProviderKind::OpenAi, 2_000, 2_000, false);
    let summaries = three_hundred_turns(ProviderKind::OpenAi, &at, 2_000).await;
    assert!(summaries >= 5, "{summaries} summaries");
    // The daemon sees the window fill up, so no request has to be refused first.
    assert_eq!(at.refused.each_ref().map(count), [0, 0]);
}

#[actix::test]
async fn three_hundred_turns_fit_a_window_smaller_than_declared() {
    let at = windowed(ProviderKind::Anthropic, 2_400, 600, true);
    let summaries = three_hundred_turns(ProviderKind::Anthropic, &at, 100_000).await;
    let [answers, shorter] = at.refused.each_ref().map(count);
    assert!(summaries >= 5 && answers == summaries, "{summaries} summaries, {answers} refused answers");
    assert!(shorter > 0, "a summary that does not fit is asked for again with less to read");
}

#[actix::test]
async fn missing_token_counts_are_estimated_and_marked_as_such() {
    let server =
        Server::script(vec![Reply::stream(&[&ModelAnswer::text("Hello there").uncounted().sse(Dialect::Chat)])]);
    let (scene, mut zed, session) = scene(ProviderKind::OpenAi, &server, ModelConfig::default()).await;
    let prompt = zed.prompt(&session, "hi").await;
    let answer = zed.answer(prompt).await;
    assert_eq!(answer["result"]["usage"]["outputTokens"], 3, "a quarter of the bytes: {answer}");
    let input = answer["result"]["usage"]["inputTokens"].as_u64().unwrap();
    assert!((10..500).contains(&input), "{input}");
    let events = scene.history.events(&session);
    let used = events.iter().map(|event| serde_json::to_value(event).unwrap()).find(|event| event["event"] == "used");
    assert_eq!(used.as_ref().map(|used| &used["estimated"]), Some(&Value::Bool(true)), "{used:?}");
}
