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
use testkit::provider::Server;
use testkit::validation::{self, PICTURE, PROVIDERS, Provider};
use tools::Registry;

fn models(provider: &Provider, server: &Server) -> Arc<Providers> {
    let Provider { model: name, base, .. } = provider;
    let kind: Kind = serde_json::from_value(json!(provider.kind)).unwrap();
    let model =
        ModelConfig { id: (*name).to_owned(), images: Some(true), thinks: Some(true), ..ModelConfig::default() };
    let provider = ProviderConfig {
        key: KeyConfig { command: Some("echo a-key".to_owned()), ..KeyConfig::default() },
        models: vec![model],
        ..ProviderConfig::new(kind, &format!("{}{base}", server.address))
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
            ports.toolbox = Arc::new(Registry::new(tools::Settings::new(env!("CARGO_BIN_EXE_acpd"))));
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
