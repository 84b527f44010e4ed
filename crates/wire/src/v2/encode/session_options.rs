//! What a client can choose in a session. Modes and models are options like any other.

use domain::hosted::Offer;
use domain::{Approval, Mode, ThoughtLevel};
use serde_json::{Value, json};

use crate::answer_data::SessionOptions;
use crate::v1::encode::session_options::grouped_models;

/// All options of a session.
pub(crate) fn options(session_options: &SessionOptions) -> Vec<Value> {
    if let Some(offer) = &session_options.hosted {
        return hosted_options(offer);
    }
    let modes: Vec<Value> =
        Mode::ALL.iter().map(|mode| described(mode.id(), mode.name(), mode.description())).collect();
    let approvals: Vec<Value> = Approval::ALL
        .iter()
        .map(|approval| described(approval.id(), approval.name(), approval.description()))
        .collect();
    let mut options = vec![
        select("mode", "Mode", "Which tools there are", "mode", session_options.mode.id(), modes),
        select("model", "Model", "Who answers", "model", session_options.model.as_str(), models(session_options)),
        select(
            "approval",
            "Approval",
            "When to ask before a tool runs",
            "_approval",
            session_options.approval.id(),
            approvals,
        ),
    ];
    // Offered only if the chosen model can think.
    if session_options.models.iter().any(|model| model.id == session_options.model && model.thinks) {
        let levels = ThoughtLevel::ALL.iter().map(|level| plain(level.id(), level.name())).collect();
        let description = "How long the model may think before it answers";
        options.push(select(
            "thought_level",
            "Thinking",
            description,
            "thought_level",
            session_options.thought.id(),
            levels,
        ));
    }
    options
}

/// The options of a child agent, which speaks version 1: modes and models become options unless it
/// has such options.
fn hosted_options(offer: &Offer) -> Vec<Value> {
    let mut options: Vec<Value> =
        offer.options.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(hosted_option).collect();
    let lists = [
        (&offer.modes, "mode", "Mode", "currentModeId", "availableModes", "id"),
        (&offer.models, "model", "Model", "currentModelId", "availableModels", "modelId"),
    ];
    for (choices, id, name, current, list, entry_id) in lists {
        let is_known = options.iter().any(|option| option["category"] == id);
        let Some(choices) = choices.as_ref().filter(|_| !is_known) else { continue };
        let entry = |entry: &Value| Some(plain(entry.get(entry_id)?.as_str()?, entry.get("name")?.as_str()?));
        let values = choices[list].as_array().into_iter().flatten().filter_map(entry).collect();
        if let Some(current) = choices[current].as_str() {
            let description = if id == "mode" { "How the agent works" } else { "Who answers" };
            options.push(select(id, name, description, id, current, values));
        }
    }
    options
}

fn hosted_option(option: &Value) -> Option<Value> {
    let text = |name: &str| option.get(name).and_then(Value::as_str);
    let description = text("description").unwrap_or(text("name")?);
    let category = text("category").unwrap_or("_other");
    if let Some(on) = option.get("currentValue").and_then(Value::as_bool) {
        return Some(json!({
            "type": "boolean",
            "configId": text("id")?,
            "name": text("name")?,
            "description": description,
            "category": category,
            "currentValue": on,
        }));
    }
    let entry = |entry: &Value| Some(plain(entry.get("value")?.as_str()?, entry.get("name")?.as_str()?));
    let entry_or_group = |given: &Value| match given.get("options").and_then(Value::as_array) {
        Some(inside) => {
            let inside: Vec<Value> = inside.iter().filter_map(entry).collect();
            Some(
                json!({ "groupId": given.get("group")?.as_str()?, "name": given.get("name")?.as_str()?, "options": inside }),
            )
        }
        None => entry(given),
    };
    let values = option.get("options")?.as_array()?.iter().filter_map(entry_or_group).collect();
    Some(select(text("id")?, text("name")?, description, category, text("currentValue")?, values))
}

fn select(id: &str, name: &str, description: &str, category: &str, current: &str, options: Vec<Value>) -> Value {
    json!({
        "type": "select",
        "configId": id,
        "name": name,
        "description": description,
        "category": category,
        "currentValue": current,
        "options": options,
    })
}

/// The models to choose from, grouped by provider if at least one id names its provider.
fn models(session_options: &SessionOptions) -> Vec<Value> {
    let grouped = grouped_models(session_options);
    let all = |models: &[(&str, &str)]| models.iter().map(|(id, name)| plain(id, name)).collect::<Vec<_>>();
    match grouped.as_slice() {
        [(None, models)] => all(models),
        groups => groups
            .iter()
            .map(|(group, models)| {
                let (id, label) = group.unwrap_or(("built-in", "Built-in"));
                json!({ "groupId": id, "name": label, "options": all(models) })
            })
            .collect(),
    }
}

fn plain(id: &str, name: &str) -> Value {
    json!({ "value": id, "name": name })
}

fn described(id: &str, name: &str, description: &str) -> Value {
    json!({ "value": id, "name": name, "description": description })
}
