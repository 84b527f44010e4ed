//! Which models are available to which session, and which one a new session uses, without ever
//! waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acpd_models::{
    KeyConfig, KeyStore, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal,
    Secret,
};
use domain::Environment;
use domain::model::Catalogue;
use serde_json::{Value, json};

use crate::support::{KEY, ask_with, config, dialect, environment, providers, request, user};
use testkit::answers::ModelAnswer;
use testkit::provider::{Action, Reply, Server};

fn ids(providers: &Providers, environment: &Environment) -> Vec<String> {
    providers.list(environment).into_iter().map(|info| info.id.to_string()).collect()
}

/// Polls until the background work has made the condition true.
async fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "it never comes true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn nothing_local() -> ModelsConfig {
    ModelsConfig { local: LocalConfig { probe: false, ..LocalConfig::default() }, ..ModelsConfig::default() }
}

fn models(ids: &[&str]) -> Value {
    json!({ "object": "list", "data": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() })
}

#[tokio::test]
async fn without_a_key_and_without_a_server_there_is_the_rehearsal() {
    let providers = providers(&nothing_local());
    let environment = environment(&[("ANTHROPIC_API_KEY", ""), ("HOME", "/home/x")]);
    assert_eq!(ids(&providers, &environment), ["rehearsal"]);
    assert_eq!(providers.default_model(&environment), "rehearsal".into());
    assert!(!providers.is_authenticated(&environment).await);
    assert_eq!(
        providers.key_variables(),
        ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"]
    );
    assert_eq!(providers.names(), ["anthropic", "openai", "gemini", "github"]);
}

#[tokio::test]
async fn a_key_in_the_environment_selects_its_provider_and_address() {
    for (kind, name, variable, address) in [
        (ProviderKind::Anthropic, "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        (ProviderKind::OpenAi, "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ] {
        let server = Server::with(move |seen, _| match seen.method.as_str() {
            "GET" => Reply::json(200, &models(&["claude-haiku-4-5", "gpt-4.1"])),
            _ => Reply::stream(&[&ModelAnswer::text("hi").sse(dialect(kind))]),
        });
        let providers = providers(&nothing_local());
        let base =
            if kind == ProviderKind::OpenAi { format!("{}/v1/", server.address) } else { server.address.clone() };
        let environment = environment(&[(variable, KEY), (address, &base)]);
        assert!(providers.is_authenticated(&environment).await);

        // Well-known names are used until the provider's own list arrives.
        let first = providers.default_model(&environment);
        assert!(first.as_str().starts_with(&format!("{name}/")), "{first}");
        let listed = [format!("{name}/claude-haiku-4-5"), format!("{name}/gpt-4.1"), "rehearsal".to_owned()];
        until(|| ids(&providers, &environment) == listed).await;
        let default = providers.default_model(&environment);
        assert!(listed.contains(&default.to_string()), "{default}");

        let mut request = request(vec![user("hello")]);
        request.environment = environment.clone();
        let model = providers.find(&default).unwrap();
        assert_eq!(ask_with(&*model, request).await, (ModelAnswer::text("hi").deltas(), None));
        let seen = server.requests();
        let paths: Vec<&str> = seen.iter().map(|seen| seen.path.as_str()).collect();
        match kind {
            ProviderKind::Anthropic => assert_eq!(paths, ["/v1/models?limit=1000", "/v1/messages"]),
            _ => assert_eq!(paths, ["/v1/models", "/v1/chat/completions"]),
        }
        assert!(
            seen.iter().all(|seen| [seen.header("x-api-key"), seen.header("authorization")].concat().contains(KEY))
        );
        // Another session, without the key, sees none of these models.
        assert_eq!(ids(&providers, &Environment::default()), ["rehearsal"]);
    }
}

#[tokio::test]
async fn a_server_on_this_machine_is_used_while_it_answers() {
    let ollama = Server::script(vec![Reply::json(200, &models(&["nomic-embed-text", "qwen3:8b"]))]);
    let webpage = Server::script(vec![Reply::new(200, &[("content-type", "text/html")], "<html></html>")]);
    let config = ModelsConfig {
        local: LocalConfig { probe: true, ollama: ollama.address.clone(), llama_cpp: webpage.address.clone() },
        ..ModelsConfig::default()
    };
    let providers = providers(&config);
    let none = Environment::default();
    providers.warm(&none);
    until(|| providers.default_model(&none) == "ollama/qwen3:8b".into()).await;
    assert_eq!(ids(&providers, &none), ["ollama/nomic-embed-text", "ollama/qwen3:8b", "rehearsal"]);
    // A key in the environment takes precedence.
    let keyed = environment(&[("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &webpage.address)]);
    assert!(providers.default_model(&keyed).as_str().starts_with("openai/"));
}

#[tokio::test]
async fn a_model_server_that_hangs_delays_no_call() {
    let server = Server::script(vec![Reply(vec![Action::UntilClosed])]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    config.local = LocalConfig { probe: true, ollama: server.address.clone(), llama_cpp: server.address.clone() };
    let providers = providers(&config);
    let environment = environment(&[("FAKE_KEY", KEY)]);
    // The server never answers, so a call that waited for it would not return.
    for _ in 0..100 {
        assert_eq!(ids(&providers, &environment), ["rehearsal"]);
        assert_eq!(providers.default_model(&environment), "rehearsal".into());
    }
    until(|| server.requests().len() == 3).await;
}

#[test]
fn outside_of_a_runtime_nothing_is_asked_and_nothing_breaks() {
    let providers = providers(&config(ProviderKind::OpenAi, "http://127.0.0.1:9"));
    assert_eq!(ids(&providers, &environment(&[("FAKE_KEY", KEY)])), ["rehearsal"]);
}

#[tokio::test]
async fn configured_models_are_offered_as_configured_and_others_beside_them_on_demand() {
    let server = Server::script(vec![Reply::json(200, &models(&["own", "other"]))]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    let provider = config.providers.get_mut("fake").unwrap();
    let own = ModelConfig { id: "own".into(), name: Some("My own".into()), window: Some(4096), ..Default::default() };
    provider.models = vec![own];
    let environment = environment(&[("FAKE_KEY", KEY)]);
    assert_eq!(ids(&providers(&config), &environment), ["fake/own", "rehearsal"]);
    config.providers.get_mut("fake").unwrap().discover = Some(true);
    let providers = providers(&config);
    until(|| ids(&providers, &environment) == ["fake/own", "fake/other", "rehearsal"]).await;
    let info = providers.find(&"fake/own".into()).unwrap().info().clone();
    assert_eq!((info.name.as_str(), info.window), ("My own", 4096));
    assert_eq!(providers.default_model(&environment), "fake/own".into());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_model_is_found_by_provider_and_name_without_a_list() {
    let providers = providers(&config(ProviderKind::OpenAi, "http://127.0.0.1:9"));
    for id in ["rehearsal", "fake/some/deep/name", "anthropic/claude-sonnet-4-5", "openai/gpt-5"] {
        assert_eq!(providers.find(&id.into()).unwrap().info().id, id.into());
    }
    for id in ["", "fake", "fake/", "nobody/x", "ollama/x"] {
        assert!(providers.find(&id.into()).is_none(), "{id}");
    }
}

#[tokio::test]
async fn a_configured_provider_takes_the_place_of_the_well_known_one() {
    let server = Server::script(vec![Reply::json(200, &models(&["mine"]))]);
    let mut config = nothing_local();
    config.providers.insert("openai".into(), ProviderConfig::new(ProviderKind::OpenAi, &server.address));
    let providers = providers(&config);
    let none = Environment::default();
    until(|| ids(&providers, &none) == ["openai/mine", "rehearsal"]).await;
    assert_eq!(server.requests()[0].header("authorization"), "");
}

#[test]
fn a_makers_own_provider_needs_no_list_of_models() {
    let mut config = nothing_local();
    let key = KeyConfig { env: Some("WORK_KEY".into()), ..KeyConfig::default() };
    let work = ProviderConfig { base_url: None, key, ..ProviderConfig::new(ProviderKind::Anthropic, "") };
    config.providers.insert("work".into(), work);
    let providers = providers(&config);
    assert!(providers.default_model(&environment(&[("WORK_KEY", KEY)])).as_str().starts_with("work/claude-"));
    assert_eq!(providers.default_model(&environment(&[])), "rehearsal".into());
}

#[test]
fn a_broken_configuration_is_an_error_that_names_the_setting() {
    let build = |config: &ModelsConfig| {
        let built = Providers::new(config, None, vec![Arc::new(Rehearsal::new())]);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let mut broken = config(ProviderKind::OpenAi, "localhost:1234");
    assert_eq!(build(&broken), "`providers.fake.base_url`: not an http or https address");
    broken = config(ProviderKind::OpenAi, "http://x");
    broken.default = Some("nobody/x".into());
    assert_eq!(build(&broken), "`default`: `nobody/x` is neither a model of a provider nor a built-in one");
    for (wrong, near) in [("fakke/some-model", "`fake/some-model`"), ("rehersal", "`rehearsal`")] {
        broken.default = Some(wrong.to_owned());
        assert!(build(&broken).ends_with(&format!("a built-in one; did you mean {near}?")), "{}", build(&broken));
    }
    broken = config(ProviderKind::OpenAi, "http://x");
    broken.providers.get_mut("fake").unwrap().headers = [("a b".to_owned(), Secret::new("hush"))].into();
    assert_eq!(build(&broken), "`providers.fake.headers.a b`: not a header");
    broken = nothing_local();
    broken.providers.insert("a/b".into(), ProviderConfig::new(ProviderKind::OpenAi, "http://x"));
    assert_eq!(build(&broken), "`providers.a/b`: a provider's name has no slash and no space");
}

#[tokio::test]
async fn a_key_can_be_checked_before_it_is_stored() {
    let server = Server::with(|seen, _| match seen.header("x-api-key") {
        "good" => Reply::json(200, &models(&["claude-a", "claude-b"])),
        _ => Reply::json(401, &json!({ "error": { "type": "authentication_error", "message": "invalid x-api-key" } })),
    });
    let providers = providers(&config(ProviderKind::Anthropic, &server.address));
    assert_eq!(providers.check("fake", &Secret::new("good")).await, Ok(2));
    let error = providers.check("fake", &Secret::new("bad-key")).await.unwrap_err();
    assert_eq!(error.message, "fake: the key was refused (401)");
    assert!(!format!("{error:?}").contains("bad-key"));
    assert_eq!(
        providers.check("nobody", &Secret::new("x")).await.unwrap_err().message,
        "there is no provider `nobody`"
    );
}

#[tokio::test]
async fn a_stored_key_makes_its_provider_usable() {
    let home = tempfile::tempdir().unwrap();
    let key_store = KeyStore::new(home.path());
    let providers = Providers::new(&nothing_local(), Some(&key_store), vec![Arc::new(Rehearsal::new())]).unwrap();
    let none = Environment::default();
    // Nothing is requested here: the test must not use the real address.
    assert!(!providers.is_authenticated(&none).await);
    key_store.store("github", &Secret::new("token")).unwrap();
    assert!(providers.is_authenticated(&none).await);
    key_store.forget("github").unwrap();
    assert!(!providers.is_authenticated(&none).await);
}

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_new_session_waits_for_the_list_and_gets_a_listed_model() {
    let server = Server::script(vec![
        Reply(vec![Action::Pause(Duration::from_millis(50))]).then_all(Reply::json(200, &models(&["scripted"]))),
    ]);
    let providers = providers(&nothing_local());
    let base = format!("{}/v1", server.address);
    let environment = environment(&[("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &base)]);
    assert_eq!(providers.default_model(&environment), "openai/gpt-6-sol".into());
    providers.wait_for_lists(&environment, SOON).await;
    assert_eq!(providers.default_model(&environment), "openai/scripted".into());
    assert_eq!(providers.correction(&"openai/gpt-6-sol".into(), &environment), Some("openai/scripted".into()));
    assert_eq!(providers.correction(&"openai/scripted".into(), &environment), None);
    assert_eq!(providers.correction(&"rehearsal".into(), &environment), Some("openai/scripted".into()));
    assert_eq!(providers.fallback(&"openai/gpt-6-sol".into(), &environment), Some("openai/scripted".into()));
    assert_eq!(providers.fallback(&"openai/scripted".into(), &environment), None);
    assert_eq!(providers.remarks(&"openai/scripted".into(), &environment), [""; 0]);
}

#[tokio::test]
async fn waiting_for_a_list_ends_at_the_deadline_and_keeps_chosen_defaults() {
    let server = Server::script(vec![Reply(vec![Action::UntilClosed])]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    let environment = environment(&[("FAKE_KEY", KEY)]);
    providers(&config).wait_for_lists(&environment, Duration::from_millis(10)).await;
    config.default = Some("fake/mine".into());
    let providers = providers(&config);
    providers.wait_for_lists(&environment, Duration::from_secs(86_400)).await;
    assert_eq!(providers.correction(&"fake/mine".into(), &environment), None);
    assert_eq!(providers.fallback(&"fake/mine".into(), &environment), None);
}

/// A list that hangs is named at once if it is the reason for the substitute, and later otherwise.
#[tokio::test]
async fn a_provider_whose_list_hangs_is_named() {
    let server = Server::script(vec![Reply(vec![Action::UntilClosed])]);
    let providers = providers(&config(ProviderKind::OpenAi, &server.address));
    let environment = environment(&[("FAKE_KEY", KEY)]);
    providers.wait_for_lists(&environment, Duration::from_millis(10)).await;
    let hangs = "fake: its list of models has not arrived yet";
    let remarks = providers.remarks(&"rehearsal".into(), &environment);
    assert_eq!(remarks.len(), 2);
    assert_eq!(remarks[0], hangs);
    assert_eq!(providers.unusable(&environment), [hangs]);
    assert_eq!(providers.remarks(&"fake/mine".into(), &environment), Vec::<String>::new());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(providers.remarks(&"fake/mine".into(), &environment), [hangs]);
}

#[tokio::test]
async fn a_provider_without_models_and_its_substitute_are_named() {
    let empty = Reply::json(200, &models(&[]));
    let refused = Reply::json(401, &json!({ "error": { "message": "no" } }));
    for (reply, why) in [
        (empty, "fake: it answers, but lists no model that can be used here"),
        (refused, "fake: the key was refused (401)"),
    ] {
        let server = Server::script(vec![reply]);
        let providers = providers(&config(ProviderKind::OpenAi, &server.address));
        let environment = environment(&[("FAKE_KEY", KEY)]);
        providers.wait_for_lists(&environment, SOON).await;
        assert_eq!(providers.default_model(&environment), "rehearsal".into());
        let remarks = providers.remarks(&"rehearsal".into(), &environment);
        assert_eq!(remarks.len(), 2);
        assert_eq!(remarks[0], why);
        assert!(remarks[1].starts_with("No model of a configured provider can be used, so `rehearsal` answers"));
    }
    // Without any provider there is nothing to remark on.
    assert_eq!(providers(&nothing_local()).remarks(&"rehearsal".into(), &Environment::default()), [""; 0]);
}

#[tokio::test]
async fn a_huge_model_list_is_truncated_and_every_model_stays_selectable() {
    let ids: Vec<String> = (0..200_000).map(|number| format!("m{number}")).collect();
    let list = models(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let server = Server::script(vec![Reply::json(200, &list)]);
    let providers = providers(&config(ProviderKind::OpenAi, &server.address));
    let environment = environment(&[("FAKE_KEY", KEY)]);
    providers.wait_for_lists(&environment, Duration::from_secs(60)).await;
    assert_eq!(providers.list(&environment).len(), 1_001);
    assert!(providers.offers(&"fake/m150000".into(), &environment));
    assert!(!providers.offers(&"other/m1".into(), &environment));
    assert_eq!(providers.correction(&"fake/m150000".into(), &environment), None);
}

/// The lists and facts are those of llama.cpp (`tools/server/server.cpp`, `/v1/models` and
/// `/props`) and LM Studio (its REST API v0), November 2025.
#[tokio::test]
async fn the_window_loaded_by_a_local_server_is_requested_and_used() {
    let llama = Server::with(|seen, _| match seen.path.as_str() {
        "/v1/models" => Reply::json(
            200,
            &json!({ "object": "list", "data": [{ "id": "qwen3.gguf", "object": "model", "owned_by": "llamacpp",
                "meta": { "vocab_type": 2, "n_vocab": 151_936, "n_ctx_train": 40_960, "n_embd": 1024 } }] }),
        ),
        "/props" => Reply::json(
            200,
            &json!({ "default_generation_settings": { "id": 0, "n_ctx": 4_096 }, "total_slots": 1,
                "modalities": { "vision": true, "audio": false } }),
        ),
        other => Reply::json(404, &json!({ "error": { "message": other } })),
    });
    let studio = Server::with(|seen, _| match seen.path.as_str() {
        "/v1/models" => Reply::json(
            200,
            &json!({ "object": "list", "data": [
                { "id": "qwen2-vl-7b-instruct", "object": "model", "owned_by": "organization_owner" },
                { "id": "meta-llama-3.1-8b-instruct", "object": "model", "owned_by": "organization_owner" }] }),
        ),
        "/api/v0/models" => Reply::json(
            200,
            &json!({ "object": "list", "data": [
                { "id": "qwen2-vl-7b-instruct", "object": "model", "type": "vlm", "state": "loaded",
                    "max_context_length": 32_768, "loaded_context_length": 8_000 },
                { "id": "meta-llama-3.1-8b-instruct", "object": "model", "type": "llm", "state": "not-loaded",
                    "max_context_length": 131_072 }] }),
        ),
        other => Reply::json(404, &json!({ "error": other })),
    });
    let environment = environment(&[("FAKE_KEY", KEY)]);
    let of_studio =
        vec![("fake/qwen2-vl-7b-instruct", 8_000, true), ("fake/meta-llama-3.1-8b-instruct", 32_768, false)];
    // LM Studio before version 0.4 knows only the older of its two addresses.
    for (server, expected, requests) in [(&llama, vec![("fake/qwen3.gguf", 4_096, true)], 2), (&studio, of_studio, 3)] {
        let providers = providers(&config(ProviderKind::OpenAi, &format!("{}/v1", server.address)));
        providers.wait_for_lists(&environment, SOON).await;
        let listed = providers.list(&environment);
        let listed = listed.iter().filter(|info| info.id.as_str() != "rehearsal");
        let listed: Vec<(&str, u64, bool)> = listed.map(|info| (info.id.as_str(), info.window, info.images)).collect();
        assert_eq!(listed, expected);
        assert_eq!(server.requests().len(), requests);
    }
}
