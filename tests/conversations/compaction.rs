//! A window that fills up in the middle of a turn: what is cleared, what is summarised, what the
//! next request still contains, and how the model finds the rest again.

use std::fs;
use std::sync::Arc;

use domain::{Approval, Usage};
use expect_test::expect;
use models::{KeyConfig, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};
use testkit::{Editor, Scene, Step};
use tools::Registry;

/// A model with a window of 100,000 tokens that gives these answers, and a session with real tools,
/// in which nothing is asked about.
async fn play(answers: &[ModelAnswer], folder: &TempDir) -> (Server, Scene, Editor, String) {
    let replies = answers.iter().map(|answer| Reply::stream(&[&answer.sse(Dialect::Anthropic)])).collect();
    let server = Server::script(replies);
    let provider = ProviderConfig {
        key: KeyConfig::default(),
        models: vec![ModelConfig { id: "m".to_owned(), window: Some(100_000), ..ModelConfig::default() }],
        ..ProviderConfig::new(ProviderKind::Anthropic, &server.address)
    };
    let config = ModelsConfig {
        default: Some("fake/m".to_owned()),
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        ..ModelsConfig::default()
    };
    let models = Arc::new(Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap());
    let scene = Scene::adjusted(|ports| {
        ports.models = models;
        ports.toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
        ports.settings.approval = Approval::Never;
    });
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    (server, scene, zed, session)
}

fn call(tool: &'static str, input: Value) -> AnswerPart {
    AnswerPart::Call(tool, input)
}

/// The same answer from a model whose window holds this many tokens after it.
fn filling(parts: Vec<AnswerPart>, tokens: u64) -> ModelAnswer {
    ModelAnswer { usage: Usage { input: tokens, output: 10, ..Usage::default() }, ..ModelAnswer::new(parts) }
}

/// The messages of a request, one line per block.
fn messages_of(body: &Value) -> String {
    let mut lines = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        for block in message["content"].as_array().unwrap() {
            let text = block["text"].as_str().map(str::to_owned);
            let used = || block["name"].as_str().map(|name| format!("{name} {}", block["input"]));
            let result = || block["content"].as_str().map(str::to_owned);
            let role = message["role"].as_str().unwrap();
            lines.push(format!("{role}: {}", text.or_else(used).or_else(result).unwrap_or_default()));
        }
    }
    lines.join("\n")
}

#[actix::test]
async fn after_a_compaction_in_the_middle_of_a_turn_the_model_still_has_prompt_plan_and_handles() {
    let plan = json!({ "entries": [{ "content": "Start the server", "status": "completed" },
        { "content": "Fix the port", "status": "in_progress" }] });
    let serve = json!({ "command": "sleep 1000", "background": true });
    let answers = [
        filling(vec![call("update_plan", plan), call("bash", serve)], 20_000),
        filling(vec![call("read_file", json!({ "path": "notes.txt" }))], 85_000),
        ModelAnswer::text("## Goal\nFix the port."),
        ModelAnswer::text("The port is fixed."),
    ];
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("notes.txt"), "The port is 8080.\n").unwrap();
    let (server, scene, mut zed, session) = play(&answers, &folder).await;
    let prompt = zed.prompt(&session, "Fix the port. Never use port 80!").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let bodies: Vec<Value> = server.requests().iter().map(|seen| seen.json()).collect();
    assert_eq!(bodies.len(), 4);
    // The summary is asked for after the same beginning, so that the provider's cache serves it.
    assert_eq!((&bodies[2]["system"], &bodies[2]["tools"]), (&bodies[1]["system"], &bodies[1]["tools"]));
    assert!(messages_of(&bodies[2]).starts_with(&messages_of(&bodies[1])), "{}", messages_of(&bodies[2]));
    expect![[r#"
        user: Fix the port. Never use port 80!
        user: What happened so far, in short:

        ## Goal
        Fix the port.

        The plan as it is now:
        - Start the server (completed)
        - Fix the port (in progress)

        Commands and sub-agents that work in the background, by their handles:
        - bg1: sleep 1000

        [acpd wrote this message in place of older ones. The user's own messages before it are unchanged.]
        assistant: read_file {"path":"notes.txt"}
        user:      1	The port is 8080.
    "#]]
    .assert_eq(&messages_of(&bodies[3]));
    let events = scene.history.events(&session);
    assert!(events.iter().any(|event| event.kind.name() == "compacted"));
}

#[actix::test]
async fn old_outcomes_are_cleared_before_anything_is_summarised_and_can_be_recalled() {
    let read = |path: &str| call("read_file", json!({ "path": path }));
    let answers = [
        filling(vec![read("long.txt")], 30_000),
        filling(vec![read("other.txt")], 60_000),
        filling(vec![read("last.txt")], 82_000),
        filling(vec![call("recall", json!({ "query": "needle" }))], 40_000),
        ModelAnswer::text("Done."),
    ];
    let folder = TempDir::new().unwrap();
    let lines = format!("{}\n", "many words ".repeat(80)).repeat(50);
    for (name, first) in [("long.txt", "the needle is here"), ("other.txt", "nothing"), ("last.txt", "the last one")] {
        fs::write(folder.path().join(name), format!("{first}\n{lines}")).unwrap();
    }
    let (server, _scene, mut zed, session) = play(&answers, &folder).await;
    let prompt = zed.prompt(&session, "Read them.").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let bodies: Vec<Value> = server.requests().iter().map(|seen| seen.json()).collect();
    assert_eq!(bodies.len(), 5, "nothing was summarised");
    let cleared = messages_of(&bodies[3]);
    assert!(!cleared.contains("the needle is here") && cleared.contains("This outcome was removed"), "{cleared}");
    assert!(cleared.contains("the last one"), "the last outcome stays");
    let recalled = messages_of(&bodies[4]);
    let found = recalled.lines().rev().take(12).collect::<Vec<_>>().join("\n");
    assert!(found.contains("the needle is here"), "{found}");
}

#[actix::test]
async fn the_name_for_the_providers_cache_is_one_per_session_also_after_a_compaction() {
    let say = |text: &str| vec![Step::text(text), Step::end()];
    let scene = Scene::new(vec![say("A."), say("B."), say("A summary."), say("C."), say("Other.")]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for text in ["one", "two", "/compact", "three"] {
        let prompt = zed.prompt(&session, text).await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn", "{text}");
    }
    let other = zed.new_session().await;
    let prompt = zed.prompt(&other, "one").await;
    zed.answer(prompt).await;
    let requests = scene.script.requests();
    let keys: Vec<&str> = requests.iter().map(|request| request.cache_key.as_str()).collect();
    assert!(format!("{:?}", requests[3].messages).contains("A summary."), "{:?}", requests[3].messages);
    assert_eq!(keys, [&session, &session, &session, &session, &other]);
}
