//! Images and PDFs in prompts, as each provider's server receives them.

use std::sync::Arc;

use attachments::Converter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use models::{KeyConfig, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal};
use serde_json::{Value, json};
use testkit::Scene;
use testkit::answers::{Dialect, ModelAnswer};
use testkit::documents::{WIDE_IMAGE, endless_pdf, pdf};
use testkit::provider::{Reply, Server};

const PROVIDERS: [(ProviderKind, Dialect, &str); 5] = [
    (ProviderKind::Anthropic, Dialect::Anthropic, "claude-sonnet-5"),
    (ProviderKind::OpenAi, Dialect::Chat, "gpt-4o"),
    (ProviderKind::Responses, Dialect::Responses, "gpt-5.1"),
    (ProviderKind::Gemini, Dialect::Gemini, "gemini-3-pro"),
    (ProviderKind::Ollama, Dialect::Ollama, "llava"),
];

/// Sends two prompts to a model, the first one with these blocks. Returns the bodies of both
/// requests.
async fn ask(kind: ProviderKind, dialect: Dialect, name: &str, blocks: &[Value]) -> [Value; 2] {
    let server = Server::with(move |_, _| Reply::stream(&[&ModelAnswer::text("Seen.").sse(dialect)]));
    let provider = ProviderConfig {
        key: KeyConfig { command: Some("echo a-key".to_owned()), ..KeyConfig::default() },
        models: vec![ModelConfig { id: name.to_owned(), ..ModelConfig::default() }],
        ..ProviderConfig::new(kind, &server.address)
    };
    let config = ModelsConfig {
        default: Some(format!("fake/{name}")),
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        ..ModelsConfig::default()
    };
    let providers = Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap();
    let providers = Arc::new(providers.with_converter(Converter::new(env!("CARGO_BIN_EXE_acpd"))));
    let scene = Scene::adjusted(|ports| ports.models = providers);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = [&[json!({ "type": "text", "text": "See." })][..], blocks].concat();
    let answer = zed.call("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{kind:?}: {answer}");
    let again = zed.prompt(&session, "And now?").await;
    zed.answer(again).await;
    let requests = server.requests();
    [requests[0].json(), requests[1].json()]
}

fn embedded(mime: &str, bytes: &[u8]) -> Value {
    let resource = json!({ "uri": "file:///work/report.pdf", "mimeType": mime, "blob": STANDARD.encode(bytes) });
    json!({ "type": "resource", "resource": resource })
}

/// Collects all strings of a body.
fn strings(body: &Value) -> Vec<&str> {
    match body {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[actix::test]
async fn a_pdf_is_a_document_where_the_model_reads_it_and_text_elsewhere() {
    let file = pdf(&["The quarterly report."]);
    let data = STANDARD.encode(&file);
    for (kind, dialect, name) in PROVIDERS {
        let bodies = ask(kind, dialect, name, &[embedded("application/pdf", &file)]).await;
        let texts = strings(&bodies[0]);
        let is_document = texts.iter().any(|text| text.ends_with(&data));
        let is_text = texts.iter().any(|text| text.contains("[page 1]\nThe quarterly report."));
        let reads = matches!(kind, ProviderKind::Anthropic | ProviderKind::Responses | ProviderKind::Gemini);
        assert_eq!((is_document, is_text), (reads, !reads), "{kind:?}: {}", bodies[0]);
        assert!(strings(&bodies[1]).iter().any(|text| texts.contains(text) && text.len() > 40), "{kind:?}");
    }
}

#[actix::test]
async fn a_pdf_that_cannot_be_read_is_named_and_the_turn_goes_on() {
    let blocks = [embedded("application/pdf", &endless_pdf())];
    let [body, _] = ask(ProviderKind::OpenAi, Dialect::Chat, "gpt-4o", &blocks).await;
    let left_out = "[file file:///work/report.pdf left out: the file is damaged, or needs too much memory to read]";
    assert!(strings(&body).iter().any(|text| text.contains(left_out)), "{body}");
}

#[actix::test]
async fn a_large_image_is_scaled_to_the_providers_limit_and_to_the_same_bytes_each_time() {
    let block = json!({ "type": "image", "mimeType": "image/png", "data": WIDE_IMAGE });
    for (kind, dialect, name) in PROVIDERS {
        let bodies = ask(kind, dialect, name, std::slice::from_ref(&block)).await;
        let images = bodies.each_ref().map(|body| {
            let texts = strings(body).into_iter().map(|text| text.rsplit(',').next().unwrap_or(text));
            let mut images = texts.filter(|text| text.starts_with("iVBORw0KGgo"));
            images.next().unwrap_or_else(|| panic!("{kind:?}: {body}")).to_owned()
        });
        assert_eq!(images[0], images[1], "{kind:?}");
        let image = attachments::read_header(&STANDARD.decode(&images[0]).unwrap()).unwrap();
        let side = match kind {
            ProviderKind::OpenAi | ProviderKind::Responses => 2_048,
            ProviderKind::Gemini => 3_072,
            ProviderKind::Anthropic | ProviderKind::Vertex | ProviderKind::Ollama => 2_000,
        };
        assert_eq!(image.pixels.unwrap().0, side, "{kind:?}");
    }
}
