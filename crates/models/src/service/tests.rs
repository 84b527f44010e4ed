//! Tests of what a provider is sent and what is remembered about it, without a server.

use super::*;
use crate::secret::Secret;
use crate::spec;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_stored_key_is_not_sent_to_an_address_from_the_environment() {
    let service = Service::stub(ProviderKind::OpenAi);
    let elsewhere = environment(&[("P_BASE_URL", "http://evil.example/v1/")]);
    let kept =
        Key { secret: Secret::new("k"), source: "stored key".to_owned(), from_environment: false, is_token: false };
    assert_eq!(service.reach_with(Some(kept), &elsewhere).await.unwrap().base, "http://127.0.0.1:9");
    let both = environment(&[("P_BASE_URL", "http://proxy.example/v1/"), ("P_KEY", "k")]);
    assert_eq!(service.reach(&both).await.unwrap().base, "http://proxy.example/v1");
}

#[tokio::test]
async fn a_missing_key_or_broken_address_fails_before_anything_is_sent() {
    let service = Service::stub(ProviderKind::Anthropic);
    let failure = service.reach(&Environment::default()).await.unwrap_err();
    let error = service.error("m", failure, None, 1);
    assert_eq!(error.kind, domain::turn::FailureKind::Authentication);
    assert_eq!(error.message, "p: no key was found (looked at: environment variable P_KEY)");
    let broken = environment(&[("P_BASE_URL", "nowhere"), ("P_KEY", "k")]);
    let failure = service.reach(&broken).await.unwrap_err();
    assert_eq!(service.error("m", failure, None, 1).message, "p: `P_BASE_URL` is not an http address");
}

#[tokio::test]
async fn a_key_with_strange_letters_is_refused_and_not_quoted() {
    let service = Service::stub(ProviderKind::OpenAi);
    let line = service.reach(&environment(&[("P_KEY", "ge\u{7}heim")])).await.unwrap();
    let failure = service.get(&line, "/models").unwrap_err();
    let error = service.error("m", failure, line.key(), 1);
    assert_eq!(error.data["key"], "environment variable P_KEY");
    assert!(!format!("{error:?}{line:?}").contains("heim"));
}

#[test]
fn a_key_is_scrubbed_also_where_a_long_text_is_cut() {
    let service = Service::stub(ProviderKind::OpenAi);
    let key =
        Key { secret: Secret::new("k".repeat(50)), source: "x".to_owned(), from_environment: true, is_token: false };
    let message = format!("{}{} is no key", "a".repeat(580), key.secret.expose());
    let refusal = crate::failure::ErrorBody { message, ..Default::default() };
    let error = service.error("m", Failure::of_status(500, &refusal, None), Some(&key), 1);
    let detail = error.data["detail"].as_str().unwrap();
    assert_eq!(detail, format!("{}[key] is no key", "a".repeat(580)));
}

#[test]
fn addresses_are_tidied() {
    for (address, kind, tidied) in [
        ("https://api.anthropic.com/", ProviderKind::Anthropic, "https://api.anthropic.com"),
        (" https://proxy/v1/", ProviderKind::Anthropic, "https://proxy"),
        ("https://api.openai.com/v1/", ProviderKind::OpenAi, "https://api.openai.com/v1"),
        ("http://127.0.0.1:11434/v1", ProviderKind::Ollama, "http://127.0.0.1:11434"),
    ] {
        assert_eq!(tidy(address, kind), tidied);
    }
    let azure = "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21";
    let asked = "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21";
    assert_eq!(below(azure, "/chat/completions"), asked);
    assert_eq!(below("http://x/v1", "/models?limit=1"), "http://x/v1/models?limit=1");
    assert_eq!(below("http://x?a=1", "/m?b=2"), "http://x/m?b=2&a=1");
}

fn dialect(service: &Service, base: &str, model: &str) -> Dialect {
    service.dialect(base, &spec::spec("p", model))
}

const OPENAI: &str = "https://api.openai.com/v1";

#[test]
fn responses_is_the_usual_dialect_only_at_openais_own_address() {
    let service = Service::stub(ProviderKind::OpenAi);
    for (base, model, expected) in [
        (OPENAI, "gpt-5.1", Dialect::Responses),
        (OPENAI, "a-name-nobody-knows", Dialect::Responses),
        ("https://openrouter.ai/api/v1", "openai/gpt-5.1", Dialect::Chat),
        ("https://x.openai.azure.com/openai/v1", "gpt-5.1", Dialect::Chat),
        ("https://api.openai.com.example/v1", "gpt-5.1", Dialect::Chat),
        ("http://127.0.0.1:8000/v1", "gpt-5.1", Dialect::Chat),
    ] {
        assert_eq!(dialect(&service, base, model), expected, "{base} {model}");
    }
    let chosen = spec::Spec { dialect: Some(ModelApi::Chat), ..spec::spec("p", "gpt-5.1") };
    assert_eq!(service.dialect(OPENAI, &chosen), Dialect::Chat);
    assert_eq!(dialect(&Service::stub(ProviderKind::Responses), "http://127.0.0.1:8000/v1", "m"), Dialect::Responses);
}

/// The refusals are OpenAI's own (users' quotations in issues of openai-python, 2025).
#[test]
fn a_provider_that_names_the_other_api_gets_it_for_this_model_at_this_address() {
    let service = Service::stub(ProviderKind::OpenAi);
    let refusal = |message: &str| ErrorBody { message: message.to_owned(), ..ErrorBody::default() };
    let to_responses = refusal("This model is only supported in v1/responses and not in v1/chat/completions.");
    let to_chat = refusal("This model is only supported in v1/chat/completions and not in v1/responses.");
    assert!(!service.note_dialect(Dialect::Chat, "http://a", "m", &refusal("no such model")));
    assert!(!service.note_dialect(Dialect::Anthropic, "http://a", "m", &to_chat));
    assert!(service.note_dialect(Dialect::Chat, "http://a", "m", &to_responses));
    assert!(service.note_dialect(Dialect::Responses, OPENAI, "old", &to_chat));
    for (base, model, expected) in [
        ("http://a", "m", Dialect::Responses),
        ("http://a", "n", Dialect::Chat),
        ("http://b", "m", Dialect::Chat),
        (OPENAI, "old", Dialect::Chat),
        (OPENAI, "m", Dialect::Responses),
    ] {
        assert_eq!(dialect(&service, base, model), expected, "{base} {model}");
    }
    assert!(service.note_dialect(Dialect::Chat, "http://a", "m", &to_responses), "a request at the same time switches");
    for _ in 0..2 {
        assert!(!service.note_dialect(Dialect::Responses, "http://a", "m", &to_chat), "a model is switched only once");
        assert_eq!(dialect(&service, "http://a", "m"), Dialect::Responses, "and does not flip");
    }
}

#[tokio::test(start_paused = true)]
async fn a_complaint_is_remembered_for_an_hour_for_its_model_and_address() {
    let service = Service::stub(ProviderKind::OpenAi);
    let line = |base: &'static str| {
        let environment = environment(&[("P_BASE_URL", base), ("P_KEY", "k")]);
        let service = &service;
        async move { service.reach(&environment).await.unwrap() }
    };
    let (here, elsewhere) = (line("http://a.example/v1").await, line("http://b.example/v1").await);
    service.note_refused(&here, "m", "no effort".to_owned());
    assert_eq!(service.refused(&here, "m"), ["no effort"]);
    assert_eq!(service.refused(&here, "n"), [""; 0]);
    assert_eq!(service.refused(&elsewhere, "m"), [""; 0]);
    tokio::time::advance(REMEMBERED - Duration::from_secs(1)).await;
    assert_eq!(service.refused(&here, "m"), ["no effort"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(service.refused(&here, "m"), [""; 0]);
}

/// Azure's paths and header: openai-python 3.51.0, `lib/azure.py`, November 2026.
#[tokio::test]
async fn azure_gets_its_key_in_its_own_header_below_the_deployments_path() {
    let service = Service::stub(ProviderKind::OpenAi);
    let request = async |base: &str| {
        let line = service.reach(&environment(&[("P_BASE_URL", base), ("P_KEY", "k")])).await.unwrap();
        let path = Dialect::Chat.path(&spec::spec("p", "m"));
        service.post(&line, &path, EncodedBody::Whole(bytes::Bytes::new())).unwrap().build().unwrap()
    };
    let deployment = "https://x.openai.azure.com/openai/deployments/d";
    let sent = request(&format!("{deployment}?api-version=2024-10-21")).await;
    assert_eq!(sent.url().as_str(), format!("{deployment}/chat/completions?api-version=2024-10-21"));
    assert_eq!(
        (sent.headers().get("api-key").unwrap(), sent.headers().get(AUTHORIZATION)),
        (&"k".parse().unwrap(), None)
    );
    let other = request("https://x.example/v1").await;
    assert_eq!(other.url().as_str(), "https://x.example/v1/chat/completions");
    assert_eq!(other.headers().get(AUTHORIZATION).unwrap(), "Bearer k");
    assert_eq!(other.headers().get("api-key"), None);
}

/// The tokens of gateways and subscriptions (anthropic-sdk-python 2.9.0, `_client.py`, November
/// 2026).
#[tokio::test]
async fn an_anthropic_token_is_a_bearer_and_an_anthropic_key_is_not() {
    let keys = KeySources::new(crate::key::KeyConfig { env: Some("P_KEY".to_owned()), ..Default::default() }, None);
    let service = Service { keys: keys.or_variable("P_TOKEN", true), ..Service::stub(ProviderKind::Anthropic) };
    for (variable, header, value) in [("P_TOKEN", "authorization", "Bearer k"), ("P_KEY", "x-api-key", "k")] {
        let line = service.reach(&environment(&[(variable, "k")])).await.unwrap();
        let sent =
            service.post(&line, "/v1/messages", EncodedBody::Whole(bytes::Bytes::new())).unwrap().build().unwrap();
        assert_eq!(sent.headers().get(header).unwrap(), value, "{variable}");
        let other = if header == "x-api-key" { "authorization" } else { "x-api-key" };
        assert_eq!(sent.headers().get(other), None, "{variable}");
    }
}
