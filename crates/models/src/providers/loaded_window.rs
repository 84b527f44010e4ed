//! The window with which LM Studio and llama.cpp have loaded a model, which their lists of models
//! omit.
//!
//! A model that was trained for 128k tokens is often loaded with 4k. Both servers report the real
//! number at separate addresses beside `/v1`: llama.cpp at `/props` (`tools/server/README.md`), LM
//! Studio at `/api/v1/models` and, before version 0.4, at `/api/v0/models`. Without an answer
//! there, the list's value stands.

use serde_json::{Value, json};
use tracing::debug;

use super::listing::get_json;
use crate::service::{ProviderEndpoint, Service};

/// Writes the windows into a list of models, as `context_length`.
pub(super) async fn add_windows(service: &Service, endpoint: &ProviderEndpoint, list: &mut Value) {
    let get = async |path: &str| {
        let facts = get_json(service, endpoint, &format!("{}{path}", endpoint.root())).await;
        let log = |failure: &_| debug!(provider = service.name, path, ?failure, "no window of the loaded model");
        facts.inspect_err(log).unwrap_or_default()
    };
    match list["data"][0]["owned_by"].as_str() {
        Some("llamacpp") => merge_llama_cpp(list, &get("/props").await),
        Some("organization_owner") => {
            let facts = get("/api/v1/models").await;
            // Older versions answer unknown paths with an error and status 200.
            let is_known = facts["models"].is_array();
            merge_lm_studio(list, &if is_known { facts } else { get("/api/v0/models").await });
        }
        Some(_) | None => {}
    }
}

/// Merges llama.cpp's window. It is that of one slot, which is what one session can use.
fn merge_llama_cpp(list: &mut Value, props: &Value) {
    // A router for several models reports 0. Its list has the window of each model that is loaded.
    let window = props["default_generation_settings"]["n_ctx"].as_u64().filter(|window| *window > 0);
    let Some(window) = window else { return };
    let images = props["modalities"]["vision"].as_bool();
    for row in list["data"].as_array_mut().into_iter().flatten() {
        row["context_length"] = json!(window);
        if images == Some(true) {
            row["architecture"] = json!({ "input_modalities": ["text", "image"] });
        }
    }
}

/// Merges LM Studio's windows, from either version of its API. A model that is not loaded has none
/// yet: it is loaded on first use, with its user's settings.
fn merge_lm_studio(list: &mut Value, models: &Value) {
    let known = models["models"].as_array().or(models["data"].as_array());
    for row in list["data"].as_array_mut().into_iter().flatten() {
        let is_same = |model: &&Value| {
            let instances = model["loaded_instances"].as_array().into_iter().flatten();
            [&model["key"], &model["id"]].contains(&&row["id"])
                || instances.into_iter().any(|one| one["id"] == row["id"])
        };
        let Some(model) = known.and_then(|models| models.iter().find(is_same)) else { continue };
        // With several instances of one model, the smallest window is safe.
        let instances = model["loaded_instances"].as_array().into_iter().flatten();
        let loaded = instances.filter_map(|one| one["config"]["context_length"].as_u64()).min();
        if let Some(window) = loaded.or(model["loaded_context_length"].as_u64()) {
            row["context_length"] = json!(window);
        }
        if model["type"] == "vlm" || model["capabilities"]["vision"] == true {
            row["architecture"] = json!({ "input_modalities": ["text", "image"] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_window_counts_and_not_the_trained_one() {
        let mut list =
            json!({ "data": [{ "id": "m.gguf", "owned_by": "llamacpp", "meta": { "n_ctx_train": 131_072 } }] });
        let props = json!({ "default_generation_settings": { "n_ctx": 8_192 }, "modalities": { "vision": false } });
        merge_llama_cpp(&mut list, &props);
        assert_eq!(list["data"][0]["context_length"], 8_192);
        let mut list = json!({ "data": [{ "id": "a" }, { "id": "b" }, { "id": "c" }] });
        let models = json!({ "data": [
            { "id": "a", "type": "vlm", "state": "loaded", "max_context_length": 32_768, "loaded_context_length": 4_096 },
            { "id": "b", "type": "llm", "state": "not-loaded", "max_context_length": 32_768 },
        ] });
        merge_lm_studio(&mut list, &models);
        assert_eq!(list["data"][0]["context_length"], 4_096);
        assert_eq!(list["data"][0]["architecture"]["input_modalities"][1], "image");
        assert_eq!(list["data"][1].get("context_length"), None);
        merge_llama_cpp(&mut list, &json!([]));
        merge_lm_studio(&mut list, &json!("?"));
    }

    #[test]
    fn a_router_of_llama_cpp_leaves_the_window_of_each_model() {
        let mut list = json!({ "data": [{ "id": "a", "owned_by": "llamacpp", "meta": { "n_ctx": 4_096 } }] });
        let before = list.clone();
        merge_llama_cpp(&mut list, &json!({ "role": "router", "default_generation_settings": { "n_ctx": 0 } }));
        assert_eq!(list, before);
    }

    #[test]
    fn both_versions_of_lm_studio_report_the_smallest_loaded_window() {
        let instance = |id: &str, window: u64| json!({ "id": id, "config": { "context_length": window } });
        let models = json!({ "models": [
            { "type": "llm", "key": "maker/a", "loaded_instances": [instance("a", 8_192), instance("a:2", 4_096)],
                "max_context_length": 131_072, "capabilities": { "vision": true, "trained_for_tool_use": true } },
            { "type": "llm", "key": "b", "loaded_instances": [], "capabilities": { "vision": false } },
        ] });
        let mut list = json!({ "data": [{ "id": "maker/a" }, { "id": "a:2" }, { "id": "b" }] });
        merge_lm_studio(&mut list, &models);
        assert_eq!(list["data"][0]["context_length"], 4_096);
        assert_eq!(list["data"][1]["context_length"], 4_096);
        assert_eq!(list["data"][0]["architecture"]["input_modalities"][1], "image");
        assert_eq!(list["data"][2].as_object().map(serde_json::Map::len), Some(1));
    }
}
