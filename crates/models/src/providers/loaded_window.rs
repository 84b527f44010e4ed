//! The window with which LM Studio and llama.cpp have loaded a model, which their lists of models
//! omit.
//!
//! A model that was trained for 128k tokens is often loaded with 4k. Both servers report the real
//! number at separate addresses beside `/v1`: llama.cpp at `/props` (`tools/server/README.md`), LM
//! Studio at `/api/v0/models` (its REST API). Without an answer there, the list's value stands.

use serde_json::{Value, json};
use tracing::debug;

use super::listing::get_json;
use crate::service::{ProviderEndpoint, Service};

/// Writes the windows into a list of models, as `context_length`.
pub(super) async fn add_windows(service: &Service, endpoint: &ProviderEndpoint, list: &mut Value) {
    let owner = list["data"][0]["owned_by"].as_str().unwrap_or_default();
    let path = match owner {
        "llamacpp" => "/props",
        "organization_owner" => "/api/v0/models",
        _ => return,
    };
    match get_json(service, endpoint, &format!("{}{path}", endpoint.root())).await {
        Ok(facts) if path == "/props" => merge_llama_cpp(list, &facts),
        Ok(facts) => merge_lm_studio(list, &facts),
        Err(failure) => debug!(provider = service.name, what = failure.what, "no window of the loaded model"),
    }
}

/// Merges llama.cpp's window. It is that of one slot, which is what one session can use.
fn merge_llama_cpp(list: &mut Value, props: &Value) {
    let Some(window) = props["default_generation_settings"]["n_ctx"].as_u64() else { return };
    let images = props["modalities"]["vision"].as_bool();
    for row in list["data"].as_array_mut().into_iter().flatten() {
        row["context_length"] = json!(window);
        if images == Some(true) {
            row["architecture"] = json!({ "input_modalities": ["text", "image"] });
        }
    }
}

/// Merges LM Studio's windows. A model that is not loaded has none yet: it is loaded on first use,
/// with its user's settings.
fn merge_lm_studio(list: &mut Value, models: &Value) {
    let known: Vec<&Value> = models["data"].as_array().into_iter().flatten().collect();
    for row in list["data"].as_array_mut().into_iter().flatten() {
        let Some(model) = known.iter().find(|model| model["id"] == row["id"]) else { continue };
        if let Some(window) = model["loaded_context_length"].as_u64() {
            row["context_length"] = json!(window);
        }
        if model["type"] == "vlm" {
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
}
