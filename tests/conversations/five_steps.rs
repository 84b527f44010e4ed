//! A task of five steps through the daemon's actors, with real tools, at servers that validate requests as strictly as
//! the providers do: parallel calls, a picture, and a break in the middle.

use std::fs;
use std::sync::Arc;

use attachments::Converter;
use models::{
    KeyConfig, Kind, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, Providers, Rehearsal, RetryPolicy,
};
use serde_json::json;
use testkit::Scene;
use testkit::answers::Dialect;
use testkit::provider::Server;
use testkit::validation::{self, Check, PICTURE};
use tools::Registry;

const PROVIDERS: [(Kind, Dialect, Check, &str); 7] = [
    (Kind::Anthropic, Dialect::Anthropic, validation::anthropic, "claude-sonnet-4-5"),
    (Kind::Vertex, Dialect::Anthropic, validation::vertex, "claude-sonnet-4-5"),
    (Kind::OpenAi, Dialect::Chat, validation::chat, "some-model"),
    (Kind::OpenAi, Dialect::Mistral, validation::mistral, "mistral-large-latest"),
    (Kind::Responses, Dialect::Responses, validation::responses, "gpt-5.1"),
    (Kind::Gemini, Dialect::Gemini, validation::gemini, "gemini-3-pro-preview"),
    (Kind::Ollama, Dialect::Ollama, validation::ollama, "qwen3:8b"),
];

fn models(kind: Kind, server: &Server, name: &str) -> Arc<Providers> {
    let model = ModelConfig { id: name.to_owned(), images: Some(true), thinks: Some(true), ..ModelConfig::default() };
    let provider = ProviderConfig {
        key: KeyConfig { command: Some("echo a-key".to_owned()), ..KeyConfig::default() },
        models: vec![model],
        ..ProviderConfig::new(kind, &server.address)
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
    for (kind, dialect, check, name) in PROVIDERS {
        let folder = tempfile::tempdir().unwrap();
        for file in ["a", "b", "c", "d"] {
            fs::write(folder.path().join(file), format!("this is {file}\n")).unwrap();
        }
        fs::write(folder.path().join("picture.png"), validation::PICTURE_BYTES).unwrap();
        let server = validation::server(dialect, check);
        let models = models(kind, &server, name);
        let scene = Scene::adjusted(|ports| {
            ports.models = models;
            ports.toolbox = Arc::new(Registry::new(tools::Settings::new(env!("CARGO_BIN_EXE_acpd"))));
        });
        let mut zed = scene.editor("zed").await;
        let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
        let prompt = zed.prompt(opened["result"]["sessionId"].as_str().unwrap(), "Do it.").await;
        let answer = zed.answer(prompt).await;
        let transcript = scene.transcript.take();
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{kind:?}: {answer}\n{transcript}");
        assert!(transcript.contains("Done."), "{kind:?}: {transcript}");
        let requests = server.requests();
        // Five steps, one of them twice. Mistral refuses a picture right after a tool's message, once.
        assert_eq!(requests.len(), if dialect == Dialect::Mistral { 7 } else { 6 }, "{kind:?}");
        assert!(requests.iter().any(|request| request.body.contains(&PICTURE[..40])), "{kind:?} was shown no picture");
    }
}
