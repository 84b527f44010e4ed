//! What a client can choose in a session, in the three forms that clients know: modes, models,
//! options.

use agent_client_protocol_schema::v1 as acp;
use domain::hosted::Offer;
use domain::{Approval, Extra, Mode, SessionId, ThoughtLevel};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::value;
use crate::answer_data::SessionOptions;

/// The group for models whose ids name no provider.
const NO_PROVIDER: (&str, &str) = ("built-in", "Built-in");

/// The answer to `session/new` and `session/fork`; without an id, the answer to `session/load` and
/// `session/resume`.
pub fn session_opened(id: Option<&SessionId>, session_options: &SessionOptions) -> Value {
    if let Some(offer) = &session_options.hosted {
        return hosted_session_opened(id, offer, session_options);
    }
    let mut answer = match id {
        Some(id) => value(
            &acp::NewSessionResponse::new(id.to_string())
                .modes(modes(session_options))
                .config_options(options(session_options)),
        ),
        None => value(
            &acp::LoadSessionResponse::new().modes(modes(session_options)).config_options(options(session_options)),
        ),
    };
    if session_options.extras.has(Extra::Models) {
        answer["models"] = models(session_options);
    }
    answer
}

/// The same for a hosted session: what its agent offers, as far as that is valid.
fn hosted_session_opened(id: Option<&SessionId>, offer: &Offer, session_options: &SessionOptions) -> Value {
    let mut answer = json!({});
    if let Some(id) = id {
        answer["sessionId"] = json!(id);
    }
    if let Some(agent) = &session_options.agent {
        answer["_meta"]["acpd"]["agent"] = json!(agent);
    }
    if let Some(modes) = valid::<acp::SessionModeState>(offer.modes.as_ref()) {
        answer["modes"] = modes.clone();
    }
    if let Some(options) = hosted_options(offer.options.as_ref(), session_options.switches) {
        answer["configOptions"] = options;
    }
    if let Some(offered) = offer.models.as_ref().filter(|_| session_options.extras.has(Extra::Models)) {
        answer["models"] = offered.clone();
    }
    answer
}

/// The value, if the schema's type can read it.
pub(crate) fn valid<T: DeserializeOwned>(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| serde_json::from_value::<T>((*value).clone()).is_ok())
}

/// The options of a child agent, if they are valid. Boolean options are only for clients that show
/// them.
pub(crate) fn hosted_options(options: Option<&Value>, switches: bool) -> Option<Value> {
    let options = valid::<Vec<acp::SessionConfigOption>>(options)?.as_array()?;
    Some(options.iter().filter(|option| switches || option["type"] != "boolean").cloned().collect())
}

/// All options, as `configOptions` in the answer to `session/set_config_option`.
pub fn config_options(session_options: &SessionOptions) -> Value {
    match &session_options.hosted {
        Some(offer) => hosted_options(offer.options.as_ref(), session_options.switches).unwrap_or(json!([])),
        None => value(&options(session_options)),
    }
}

fn modes(session_options: &SessionOptions) -> acp::SessionModeState {
    let mode = |mode: Mode| acp::SessionMode::new(mode.id(), mode.name()).description(mode.description().to_owned());
    acp::SessionModeState::new(session_options.mode.id(), Mode::ALL.into_iter().map(mode).collect())
}

/// The older form of the model choice, which is not in the schema.
fn models(session_options: &SessionOptions) -> Value {
    let models: Vec<Value> =
        choices(session_options).into_iter().map(|(id, name)| json!({ "modelId": id, "name": name })).collect();
    json!({ "availableModels": models, "currentModelId": session_options.model })
}

/// The available models, and the chosen one even if it is no longer available.
fn choices(session_options: &SessionOptions) -> Vec<(&str, &str)> {
    let mut choices: Vec<_> =
        session_options.models.iter().map(|model| (model.id.as_str(), model.name.as_str())).collect();
    let chosen = session_options.model.as_str();
    if !choices.iter().any(|(id, _)| *id == chosen) {
        choices.push((chosen, chosen));
    }
    choices
}

pub(crate) fn options(session_options: &SessionOptions) -> Vec<acp::SessionConfigOption> {
    let modes = Mode::ALL.map(|mode| option(mode.id(), mode.name()).description(mode.description().to_owned()));
    let approvals = Approval::ALL
        .map(|approval| option(approval.id(), approval.name()).description(approval.description().to_owned()));
    let mut options = vec![
        acp::SessionConfigOption::select("mode", "Mode", session_options.mode.id(), modes.to_vec())
            .description("Which tools there are".to_owned())
            .category(acp::SessionConfigOptionCategory::Mode),
        acp::SessionConfigOption::select(
            "model",
            "Model",
            session_options.model.to_string(),
            model_options(session_options),
        )
        .description("Who answers".to_owned())
        .category(acp::SessionConfigOptionCategory::Model),
        acp::SessionConfigOption::select("approval", "Approval", session_options.approval.id(), approvals.to_vec())
            .description("When to ask before a tool runs".to_owned())
            .category(acp::SessionConfigOptionCategory::Other("_approval".to_owned())),
    ];
    // Offered only if the chosen model can think.
    if session_options.models.iter().any(|model| model.id == session_options.model && model.thinks) {
        let levels = ThoughtLevel::ALL.map(|level| option(level.id(), level.name()));
        options.push(
            acp::SessionConfigOption::select(
                "thought_level",
                "Thinking",
                session_options.thought.id(),
                levels.to_vec(),
            )
            .description("How long the model may think before it answers".to_owned())
            .category(acp::SessionConfigOptionCategory::ThoughtLevel),
        );
    }
    options
}

/// The models to choose from, grouped by provider if at least one id names its provider.
fn model_options(session_options: &SessionOptions) -> acp::SessionConfigSelectOptions {
    let all = |models: Vec<(&str, &str)>| models.into_iter().map(|(id, name)| option(id, name)).collect::<Vec<_>>();
    let mut groups = grouped_models(session_options);
    if let [(None, _)] = groups.as_slice() {
        return acp::SessionConfigSelectOptions::Ungrouped(
            groups.pop().map(|(_, models)| all(models)).unwrap_or_default(),
        );
    }
    let group = |(group, models): ModelGroup<'_>| {
        let (id, label) = group.unwrap_or(NO_PROVIDER);
        acp::SessionConfigSelectGroup::new(id.to_owned(), label, all(models))
    };
    acp::SessionConfigSelectOptions::Grouped(groups.into_iter().map(group).collect())
}

/// The models of one provider, after its id and name. There is one group without a provider if no
/// id names one.
type ModelGroup<'a> = (Option<(&'a str, &'a str)>, Vec<(&'a str, &'a str)>);

pub(crate) fn grouped_models(session_options: &SessionOptions) -> Vec<ModelGroup<'_>> {
    let choices = choices(session_options);
    if !choices.iter().any(|(id, _)| id.contains('/')) {
        return vec![(None, choices)];
    }
    let mut groups: Vec<ModelGroup<'_>> = Vec::new();
    for (id, name) in choices {
        let group = id.split_once('/').map_or(NO_PROVIDER, |(provider, _)| (provider, provider));
        match groups.iter_mut().find(|(known, _)| *known == Some(group)) {
            Some((_, models)) => models.push((id, name)),
            None => groups.push((Some(group), vec![(id, name)])),
        }
    }
    groups
}

fn option(id: &str, name: &str) -> acp::SessionConfigSelectOption {
    acp::SessionConfigSelectOption::new(id.to_owned(), name)
}
