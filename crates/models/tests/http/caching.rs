//! Marks for the provider's cache, and what writing to it costs.

use acpd_models::{CacheTtl, LocalConfig, ModelsConfig, ProviderConfig, ProviderKind};
use domain::model::{Catalogue, ModelInfo};
use serde_json::{Value, json};

use crate::support::{ask, config, model_of, providers};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

/// Collects the marks of a body.
fn marks(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| marks(item, found)),
        Value::Object(fields) => {
            found.extend(fields.get("cache_control").cloned());
            fields.values().for_each(|field| marks(field, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn claude_caches_for_an_hour_where_asked() {
    for kind in [ProviderKind::Anthropic, ProviderKind::Vertex] {
        for (ttl, mark) in [
            (CacheTtl::FiveMinutes, json!({ "type": "ephemeral" })),
            (CacheTtl::OneHour, json!({ "type": "ephemeral", "ttl": "1h" })),
        ] {
            let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Anthropic)])]);
            let mut config = config(kind, &server.address);
            config.providers.get_mut("fake").unwrap().prompt_cache_ttl = ttl;
            assert_eq!(ask(&*model_of(&config, "claude-sonnet-4-5")).await.1, None);
            let mut found = Vec::new();
            marks(&server.requests()[0].json(), &mut found);
            assert_eq!(
                found,
                [mark.clone(), mark.clone(), mark],
                "{kind:?}: the tools, the system text and the prompt"
            );
        }
    }
}

#[test]
fn writing_to_an_hours_cache_costs_twice_the_input() {
    let info = |ttl: CacheTtl| -> ModelInfo {
        let own = ProviderConfig {
            base_url: None,
            prompt_cache_ttl: ttl,
            ..ProviderConfig::new(ProviderKind::Anthropic, "")
        };
        let local = LocalConfig { probe: false, ..LocalConfig::default() };
        let config = ModelsConfig { providers: [("fake".to_owned(), own)].into(), local, ..ModelsConfig::default() };
        providers(&config).find(&"fake/claude-sonnet-4-5".into()).unwrap().info().clone()
    };
    for (ttl, factor) in [(CacheTtl::FiveMinutes, 1.25), (CacheTtl::OneHour, 2.0)] {
        let price = info(ttl).price.unwrap();
        assert!((price.cached_write - factor * price.input).abs() < 1e-9, "{ttl:?} {price:?}");
    }
}
