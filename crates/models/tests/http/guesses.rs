//! Unknown models: they work, and what is guessed about them is reported as a guess.

use std::time::Duration;

use acpd_models::{ModelOverride, ProviderKind};
use domain::model::Catalogue;
use serde_json::json;

use crate::support::{KEY, ask, config, environment, providers};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

#[tokio::test]
async fn only_a_window_that_no_source_knows_is_reported_as_a_guess() {
    let list = json!({ "data": [
        { "id": "our-own" },
        { "id": "our-served", "max_model_len": 16_384 },
        { "id": "our-configured" },
        { "id": "gpt-4.1" },
    ] });
    let server = Server::with(move |seen, _| match seen.method.as_str() {
        "GET" => Reply::json(200, &list),
        _ => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)]),
    });
    let mut config = config(ProviderKind::OpenAi, &server.address);
    let known = ModelOverride { window: Some(9_000), ..ModelOverride::default() };
    config.overrides = [("our-configured".to_owned(), known)].into();
    let providers = providers(&config);
    let environment = environment(&[("FAKE_KEY", KEY)]);
    let offered = providers.offered(&environment, Duration::from_secs(10)).await;
    let fake = offered.iter().filter(|offered| offered.info.id.as_str().starts_with("fake/"));
    let brief: Vec<(&str, u64, bool)> =
        fake.map(|offered| (offered.info.id.as_str(), offered.info.window, offered.guessed)).collect();
    assert_eq!(
        brief,
        [
            ("fake/our-own", 32_768, true),
            ("fake/our-served", 16_384, false),
            ("fake/our-configured", 9_000, false),
            ("fake/gpt-4.1", 1_047_576, false),
        ]
    );
    let model = providers.find(&"fake/our-own".into()).unwrap();
    assert_eq!(ask(&*model).await, (ModelAnswer::text("hi").deltas(), None));
}
