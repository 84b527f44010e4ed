//! Lists, streams and errors in the shapes of each provider, from `tests/shapes`. Each file names
//! its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use acpd_models::{ModelsConfig, ProviderKind};
use domain::model::{Catalogue, Delta};
use domain::{StopReason, Usage};
use serde::Deserialize;

use crate::support::{KEY, ask, config, environment, model_of, providers};
use testkit::provider::{Reply, Server};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shapes {
    provider: String,
    kind: ProviderKind,
    /// The path of the API below the server's address.
    base: String,
    source: String,
    date: String,
    list: List,
    stream: Stream,
    errors: Vec<Refusal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    body: String,
    models: Vec<Listed>,
    /// Answers at other paths, which the list leads to.
    #[serde(default)]
    other: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    id: String,
    window: u64,
    images: bool,
    thinks: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    body: String,
    thought: String,
    text: String,
    /// Each call as its tool and its input.
    calls: Vec<String>,
    /// Input, output, and the part of the input that was cached.
    tokens: [u64; 3],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    status: u16,
    body: String,
    kind: String,
    /// The provider's words; empty if they are not shown.
    detail: String,
}

fn all() -> Vec<Shapes> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut shapes: Vec<Shapes> =
        files.map(|path| toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()).collect();
    shapes.sort_by(|one, other| one.provider.cmp(&other.provider));
    shapes
}

fn config_at(shapes: &Shapes, server: &Server) -> ModelsConfig {
    let mut config = config(shapes.kind, &format!("{}{}", server.address, shapes.base));
    config.retry.tries = 1;
    config
}

#[test]
fn every_provider_has_its_shapes_with_a_source_and_a_date() {
    let names: Vec<String> = all().into_iter().map(|shapes| shapes.provider).collect();
    let expected = [
        "Anthropic",
        "Azure",
        "DeepSeek",
        "Gemini",
        "LM Studio",
        "Mistral",
        "Ollama",
        "OpenAI",
        "OpenRouter",
        "llama.cpp",
        "vLLM",
    ];
    assert_eq!(names, expected);
    for shapes in all() {
        assert!(shapes.source.trim().len() > 20 && shapes.date.len() == 10, "{}", shapes.provider);
        assert!(shapes.errors.len() >= 2, "{}", shapes.provider);
    }
}

#[tokio::test]
async fn each_providers_list_is_read() {
    for shapes in all() {
        let (list, other) = (shapes.list.body.clone(), shapes.list.other.clone());
        let server = Server::with(move |seen, _| {
            let body = other.get(&seen.path).unwrap_or(&list);
            Reply::new(200, &[("content-type", "application/json")], body)
        });
        let providers = providers(&config_at(&shapes, &server));
        let environment = environment(&[("FAKE_KEY", KEY)]);
        providers.wait_for_lists(&environment, Duration::from_secs(10)).await;
        let listed = providers.list(&environment).into_iter().filter(|info| info.id.as_str() != "rehearsal");
        let listed: Vec<Listed> = listed
            .map(|info| Listed {
                id: info.id.as_str().trim_start_matches("fake/").to_owned(),
                window: info.window,
                images: info.images,
                thinks: info.thinks,
            })
            .collect();
        assert_eq!(listed, shapes.list.models, "{}", shapes.provider);
        assert_eq!(server.requests().len(), 1 + shapes.list.other.len(), "{}", shapes.provider);
    }
}

#[tokio::test]
async fn each_providers_stream_is_read() {
    for shapes in all() {
        let server = Server::script(vec![Reply::stream(&[shapes.stream.body.as_bytes()])]);
        let (deltas, error) = ask(&*model_of(&config_at(&shapes, &server), "some-model")).await;
        assert_eq!(error, None, "{}", shapes.provider);
        let (mut thought, mut text, mut calls, mut usage) =
            (String::new(), String::new(), Vec::new(), Usage::default());
        for delta in &deltas {
            match delta {
                Delta::Thought(more) => thought.push_str(more),
                Delta::Text(more) => text.push_str(more),
                Delta::Call { tool, input, .. } => calls.push(format!("{tool} {input}")),
                Delta::Usage(more) => usage += *more,
                Delta::Seal(_) | Delta::Stopped(_) => {}
                Delta::CallBegun { .. }
                | Delta::CutCall { .. }
                | Delta::DocumentsAsText { .. }
                | Delta::Abandoned
                | Delta::Notice(_) => {
                    panic!("{}: {delta:?}", shapes.provider)
                }
            }
        }
        let Stream { thought: thoughts, text: words, calls: named, tokens, .. } = &shapes.stream;
        assert_eq!((&thought, &text, &calls), (thoughts, words, named), "{}", shapes.provider);
        assert_eq!([usage.input, usage.output, usage.cached_read], *tokens, "{}", shapes.provider);
        assert_eq!(deltas.last(), Some(&Delta::Stopped(StopReason::EndTurn)), "{}", shapes.provider);
    }
}

#[tokio::test]
async fn each_providers_errors_are_read() {
    for shapes in all() {
        for refusal in &shapes.errors {
            let reply = Reply::new(refusal.status, &[("content-type", "application/json")], &refusal.body);
            let server = Server::script(vec![reply]);
            let (deltas, error) = ask(&*model_of(&config_at(&shapes, &server), "some-model")).await;
            let error = error.unwrap_or_else(|| panic!("{}: {deltas:?}", shapes.provider));
            let detail = error.data["detail"].as_str().unwrap_or_default();
            let read = (format!("{:?}", error.kind), detail);
            assert_eq!(read, (refusal.kind.clone(), &*refusal.detail), "{} {}", shapes.provider, refusal.status);
        }
    }
}
