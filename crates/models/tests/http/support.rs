//! Models with settings for tests, and what a session would do with their answers.

use std::sync::Arc;

use acpd_models::{
    KeyConfig, LocalConfig, ModelsConfig, ProviderConfig, ProviderKind, ProviderTimeouts, Providers, Rehearsal,
    RetryPolicy,
};
use domain::conversation::{CallResult, Message, Part};
use domain::model::{Catalogue, Delta, Model, ModelError, ModelRequest};
use domain::tool::ToolSpec;
use domain::{CallId, Content, Environment, MessageId, ModelId, ThoughtLevel};
use futures_util::StreamExt;
use serde_json::json;

use testkit::answers::Dialect;
use testkit::provider::Server;

/// The key of every test. It must not appear in any error.
pub(crate) const KEY: &str = "sk-test-0123456789";

pub(crate) const BOTH: [ProviderKind; 2] = [ProviderKind::Anthropic, ProviderKind::OpenAi];

pub(crate) const ALL: [ProviderKind; 6] = [
    ProviderKind::Anthropic,
    ProviderKind::Vertex,
    ProviderKind::OpenAi,
    ProviderKind::Responses,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// Returns the API that a server of this kind speaks in these tests.
pub(crate) fn dialect(kind: ProviderKind) -> Dialect {
    match kind {
        ProviderKind::Anthropic | ProviderKind::Vertex => Dialect::Anthropic,
        ProviderKind::OpenAi => Dialect::Chat,
        ProviderKind::Responses => Dialect::Responses,
        ProviderKind::Gemini => Dialect::Gemini,
        ProviderKind::Ollama => Dialect::Ollama,
    }
}

pub(crate) fn environment(pairs: &[(&str, &str)]) -> Arc<Environment> {
    Arc::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// Configures one provider `fake` at this address, with waits of a few milliseconds.
pub(crate) fn config(kind: ProviderKind, address: &str) -> ModelsConfig {
    let provider = ProviderConfig {
        key: KeyConfig { env: Some("FAKE_KEY".to_owned()), ..KeyConfig::default() },
        ..ProviderConfig::new(kind, address)
    };
    ModelsConfig {
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        retry: RetryPolicy { first_ms: 2, longest_ms: 8, ..RetryPolicy::default() },
        timeouts: ProviderTimeouts { connect_seconds: 5.0, first_seconds: 20.0, idle_seconds: 20.0 },
        ..ModelsConfig::default()
    }
}

pub(crate) fn providers(config: &ModelsConfig) -> Providers {
    Providers::new(config, None, vec![Arc::new(Rehearsal::new())]).unwrap()
}

pub(crate) fn model_of(config: &ModelsConfig, name: &str) -> Arc<dyn Model> {
    providers(config).find(&ModelId::from(format!("fake/{name}"))).unwrap()
}

pub(crate) fn model(kind: ProviderKind, server: &Server) -> Arc<dyn Model> {
    let name = match kind {
        ProviderKind::Anthropic | ProviderKind::Vertex => "claude-sonnet-4-5",
        ProviderKind::OpenAi => "some-model",
        ProviderKind::Responses => "gpt-5.1",
        ProviderKind::Gemini => "gemini-3-pro-preview",
        ProviderKind::Ollama => "qwen3:8b",
    };
    model_of(&config(kind, &server.address), name)
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text(text)] })
}

pub(crate) fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    ModelRequest {
        system: "You are a test.".to_owned(),
        messages,
        tools: vec![Arc::new(ToolSpec {
            name: "read_file".to_owned(),
            description: "Reads a file.".to_owned(),
            schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
            read_only: true,
        })],
        thought: ThoughtLevel::Medium,
        environment: environment(&[("FAKE_KEY", KEY)]),
        cache_key: "session-1".to_owned(),
        tool_use: domain::model::ToolUse::Allowed,
    }
}

pub(crate) async fn ask(model: &dyn Model) -> (Vec<Delta>, Option<ModelError>) {
    ask_with(model, request(vec![user("hello")])).await
}

/// Collects the whole answer. Nothing may follow an error, and no error may contain the key.
pub(crate) async fn ask_with(model: &dyn Model, request: ModelRequest) -> (Vec<Delta>, Option<ModelError>) {
    let mut stream = model.respond(request);
    let mut deltas = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            // Announcements of calls have their own tests.
            Ok(Delta::CallBegun { .. }) => {}
            Ok(delta) => deltas.push(delta),
            Err(error) => {
                assert!(stream.next().await.is_none(), "something follows {error:?}");
                assert!(!format!("{error:?} {error}").contains(KEY), "{error:?}");
                return (deltas, Some(error));
            }
        }
    }
    assert!(stream.next().await.is_none());
    (deltas, None)
}

/// Records an answer as a session does: the response, and the outcomes of its calls.
pub(crate) fn recorded(deltas: &[Delta], outcome: impl Fn(&str) -> String) -> Vec<Arc<Message>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut results = Vec::new();
    for delta in deltas {
        match (delta, parts.last_mut()) {
            (Delta::Text(more), Some(Part::Text(text))) | (Delta::Thought(more), Some(Part::Thought(text))) => {
                text.push_str(more);
            }
            (Delta::Text(text), _) => parts.push(Part::Text(text.clone())),
            (Delta::Thought(text), _) => parts.push(Part::Thought(text.clone())),
            (Delta::Seal(seal), _) => parts.push(Part::Seal(seal.clone())),
            (Delta::Call { tool, input, origin }, _) => {
                let id = CallId::new();
                results.push(CallResult { call: id.clone(), text: outcome(tool), images: vec![], failed: false });
                parts.push(Part::Call { id, tool: tool.clone(), input: input.clone(), origin: origin.clone() });
            }
            (Delta::Abandoned, _) => {
                parts.clear();
                results.clear();
            }
            (
                Delta::CallBegun { .. }
                | Delta::CutCall { .. }
                | Delta::Usage(_)
                | Delta::DocumentsAsText { .. }
                | Delta::Notice(_)
                | Delta::Stopped(_),
                _,
            ) => {}
        }
    }
    let mut messages = vec![Arc::new(Message::Assistant { id: MessageId::new(), parts })];
    if !results.is_empty() {
        messages.push(Arc::new(Message::Results { results }));
    }
    messages
}
