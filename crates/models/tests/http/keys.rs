//! Where keys come from and where they go, seen from the server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use acpd_models::{KeyConfig, KeyStore, ProviderKind, Providers, Rehearsal, Secret};
use domain::model::Catalogue;
use domain::turn::FailureKind;

use crate::support::{ask, ask_with, config, environment, model_of, request, user};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

#[tokio::test]
async fn an_expired_key_of_a_command_is_fetched_again_once() {
    let server = Server::with(|seen, _| match seen.header("authorization") {
        "Bearer key-2" => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)]),
        _ => Reply::new(401, &[], "{}"),
    });
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let command = format!("echo x >> {0}; echo key-$(wc -l < {0} | tr -d ' ')", count.display());
    let mut config = config(ProviderKind::OpenAi, &server.address);
    let provider = config.providers.get_mut("fake").unwrap();
    provider.key = KeyConfig { command: Some(command), ..KeyConfig::default() };
    let model = model_of(&config, "m");
    let mut request = request(vec![user("hello")]);
    request.environment = environment(&[("PATH", &std::env::var("PATH").unwrap())]);
    for _ in 0..2 {
        assert_eq!(ask_with(&*model, request.clone()).await, (ModelAnswer::text("hi").deltas(), None));
    }
    assert_eq!((server.requests().len(), fs::read_to_string(&count).unwrap().as_str()), (3, "x\nx\n"));
}

#[tokio::test]
async fn a_key_file_readable_by_others_is_refused_before_sending() {
    let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Anthropic)])]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, "from-file").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let mut config = config(ProviderKind::Anthropic, &server.address);
    config.providers.get_mut("fake").unwrap().key = KeyConfig { file: Some(file.clone()), ..KeyConfig::default() };
    let error = ask(&*model_of(&config, "m")).await.1.unwrap();
    assert_eq!((error.kind, server.requests().len()), (FailureKind::Authentication, 0));
    assert!(error.message.contains("chmod 600") && !format!("{error:?}").contains("from-file"), "{error}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(ask(&*model_of(&config, "m")).await, (ModelAnswer::text("hi").deltas(), None));
    assert_eq!(server.requests()[0].header("x-api-key"), "from-file");
}

#[tokio::test]
async fn a_stored_key_serves_until_it_is_forgotten() {
    let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)])]);
    let home = tempfile::tempdir().unwrap();
    let key_store = KeyStore::new(home.path().join("key_store"));
    let config = config(ProviderKind::OpenAi, &server.address);
    let providers = Providers::new(&config, Some(&key_store), vec![Arc::new(Rehearsal::new())]).unwrap();
    let model = providers.find(&"fake/m".into()).unwrap();
    let mut request = request(vec![user("hello")]);
    request.environment = environment(&[]);

    let error = ask_with(&*model, request.clone()).await.1.unwrap();
    assert_eq!(error.kind, FailureKind::Authentication);
    assert!(error.message.starts_with("fake: no key was found (looked at: environment variable FAKE_KEY, stored key "));
    key_store.store("fake", &Secret::new("stored-key")).unwrap();
    assert_eq!(ask_with(&*model, request.clone()).await, (ModelAnswer::text("hi").deltas(), None));
    assert_eq!(server.requests()[0].header("authorization"), "Bearer stored-key");
    assert!(key_store.forget("fake").unwrap());
    assert_eq!(ask_with(&*model, request).await.1.unwrap().kind, FailureKind::Authentication);
}

#[tokio::test]
async fn configured_headers_are_sent_and_take_precedence() {
    let echo = Reply::new(400, &[], "no use for Token abc-long-secret");
    let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)]), echo]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    let provider = config.providers.get_mut("fake").unwrap();
    provider.headers = [("X-Title", "acpd"), ("Authorization", "Token abc-long-secret")]
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .into();
    ask(&*model_of(&config, "m")).await;
    let seen = &server.requests()[0];
    assert_eq!((seen.header("x-title"), seen.header("authorization")), ("acpd", "Token abc-long-secret"));
    let error = ask(&*model_of(&config, "m")).await.1.unwrap();
    assert_eq!(error.data["detail"], "no use for Token [key]");
}

#[tokio::test]
async fn anthropics_auth_token_goes_out_as_a_bearer_token() {
    let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Anthropic)])]);
    let config =
        acpd_models::ModelsConfig { local: config(ProviderKind::Anthropic, "http://x").local, ..Default::default() };
    let model = crate::support::providers(&config).find(&"anthropic/claude-sonnet-4-5".into()).unwrap();
    for (variable, bearer, key) in [("ANTHROPIC_AUTH_TOKEN", "Bearer t-1", ""), ("ANTHROPIC_API_KEY", "", "t-1")] {
        let mut request = request(vec![user("hello")]);
        request.environment = environment(&[("ANTHROPIC_BASE_URL", &server.address), (variable, "t-1")]);
        assert_eq!(ask_with(&*model, request).await, (ModelAnswer::text("hi").deltas(), None));
        let seen = server.requests().pop().unwrap();
        assert_eq!((seen.header("authorization"), seen.header("x-api-key")), (bearer, key), "{variable}");
    }
}
