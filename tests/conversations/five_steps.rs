//! Sessions with real tools at servers that speak as the providers do: a task of five steps with
//! parallel calls, a picture and a break in the middle, whose requests are validated, and a call
//! that is shown while it is written.

use std::fs;
use std::sync::Arc;

use attachments::Converter;
use models::{
    KeyConfig, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal, RetryPolicy,
};
use serde_json::json;
use testkit::Scene;
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};
use testkit::validation::{self, PICTURE, PROVIDERS, Provider};
use tools::Registry;

fn models(provider: &Provider, server: &Server) -> Arc<Providers> {
    let Provider { model: name, base, .. } = provider;
    let kind: ProviderKind = serde_json::from_value(json!(provider.kind)).unwrap();
    let model =
        ModelConfig { id: (*name).to_owned(), images: Some(true), thinks: Some(true), ..ModelConfig::default() };
    let provider = ProviderConfig {
        key: KeyConfig { command: Some("echo a-key".to_owned()), ..KeyConfig::default() },
        models: vec![model],
        ..ProviderConfig::new(kind, format!("{}{base}", server.address))
    };
    let config = ModelsConfig {
        default: Some(format!("fake/{name}")),
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        retry: RetryPolicy { first_ms: 1, ..RetryPolicy::default() },
        ..ModelsConfig::default()
    };
    let providers = Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap();
    Arc::new(providers.with_converter(Converter::new(env!("CARGO_BIN_EXE_acpd"))))
}

#[actix::test]
async fn a_task_of_five_steps_ends_well_at_every_validating_server() {
    for provider in PROVIDERS {
        let name = provider.name;
        let folder = tempfile::tempdir().unwrap();
        for file in ["a", "b", "c", "d"] {
            fs::write(folder.path().join(file), format!("this is {file}\n")).unwrap();
        }
        fs::write(folder.path().join("picture.png"), validation::PICTURE_BYTES).unwrap();
        let server = provider.server();
        let models = models(&provider, &server);
        let scene = Scene::adjusted(|ports| {
            ports.models = models;
            ports.toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
        });
        let mut zed = scene.editor("zed").await;
        let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
        let prompt = zed.prompt(opened["result"]["sessionId"].as_str().unwrap(), "Do it.").await;
        let answer = zed.answer(prompt).await;
        let transcript = scene.transcript.take();
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{name}: {answer}\n{transcript}");
        assert!(transcript.contains("Done."), "{name}: {transcript}");
        let requests = server.requests();
        assert_eq!(requests.len(), provider.requests, "{name}");
        assert!(requests.iter().any(|request| request.body.contains(&PICTURE[..40])), "{name} was shown no picture");
    }
}

/// Returns the beginning of an answer up to the end of the event with the first bytes of a call's
/// arguments.
fn begun(answer: &[u8], line_end: &[u8]) -> usize {
    let position = |from: usize, word: &[u8]| {
        from + answer[from..].windows(word.len()).position(|window| window == word).unwrap() + word.len()
    };
    position(position(position(0, b"read_file"), b"pat"), line_end)
}

#[actix::test]
async fn a_call_is_shown_while_a_provider_still_writes_its_arguments() {
    for provider in PROVIDERS {
        let name = provider.name;
        let (open, gate) = tokio::sync::watch::channel(false);
        let call = ModelAnswer::new(vec![AnswerPart::Call("read_file", json!({ "path": "a.txt" }))]);
        let bytes = call.sse(provider.dialect);
        let line_end: &[u8] = if provider.dialect == Dialect::Ollama { b"\n" } else { b"\n\n" };
        let (first, rest) = bytes.split_at(begun(&bytes, line_end));
        let held = Reply::begun(&[first]).then(Action::UntilOpen(gate)).then_piece(rest);
        let held = held.then(Action::Write(b"0\r\n\r\n".to_vec()));
        let (server, queue) = Server::queue();
        *queue.lock().unwrap() = [held, Reply::stream(&[&ModelAnswer::text("Done.").sse(provider.dialect)])].into();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "this is a\n").unwrap();
        let models = models(&provider, &server);
        let scene = Scene::adjusted(|ports| {
            ports.models = models;
            ports.toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
        });
        let mut zed = scene.editor("zed").await;
        let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
        let prompt = zed.prompt(opened["result"]["sessionId"].as_str().unwrap(), "Do it.").await;
        // The server sends nothing more until the editor has seen the call.
        let call = zed.update("tool_call").await;
        assert_eq!(call["params"]["update"]["status"], "pending", "{name}: {call}");
        open.send_replace(true);
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn", "{name}");
    }
}
