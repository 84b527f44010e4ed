//! What a client can choose in a session, in the three forms that clients know: modes, models, options.

use agent_client_protocol_schema::v1 as acp;
use domain::model::ModelInfo;
use domain::{Approval, Extra, ExtraSet, Mode, ModelId, SessionId, ThoughtLevel};
use serde_json::{Value, json};

use super::value;

/// The group for models whose ids name no provider.
const NO_PROVIDER: (&str, &str) = ("built-in", "Built-in");

/// The choices of a session, and what is chosen.
#[derive(Clone, Debug)]
pub struct Menu {
    pub models: Vec<ModelInfo>,
    pub mode: Mode,
    pub approval: Approval,
    pub model: ModelId,
    pub thought: ThoughtLevel,
    /// The extensions of the stable protocol that this client receives.
    pub extras: ExtraSet,
}

/// The answer to `session/new` and `session/fork`; without an id, the answer to `session/load` and `session/resume`.
pub fn session_opened(id: Option<&SessionId>, menu: &Menu) -> Value {
    let mut answer = match id {
        Some(id) => {
            value(&acp::NewSessionResponse::new(id.to_string()).modes(modes(menu)).config_options(options(menu)))
        }
        None => value(&acp::LoadSessionResponse::new().modes(modes(menu)).config_options(options(menu))),
    };
    if menu.extras.has(Extra::Models) {
        answer["models"] = models(menu);
    }
    answer
}

/// All options, as `configOptions` in the answer to `session/set_config_option`.
pub fn config_options(menu: &Menu) -> Value {
    value(&options(menu))
}

fn modes(menu: &Menu) -> acp::SessionModeState {
    let mode = |mode: Mode| acp::SessionMode::new(mode.id(), mode.name()).description(mode.description().to_owned());
    acp::SessionModeState::new(menu.mode.id(), Mode::ALL.into_iter().map(mode).collect())
}

/// The older form of the model choice, which is not in the schema.
fn models(menu: &Menu) -> Value {
    let models: Vec<Value> =
        choices(menu).into_iter().map(|(id, name)| json!({ "modelId": id, "name": name })).collect();
    json!({ "availableModels": models, "currentModelId": menu.model })
}

/// The available models, and the chosen one even if it is no longer available.
fn choices(menu: &Menu) -> Vec<(&str, &str)> {
    let mut choices: Vec<_> = menu.models.iter().map(|model| (model.id.as_str(), model.name.as_str())).collect();
    let chosen = menu.model.as_str();
    if !choices.iter().any(|(id, _)| *id == chosen) {
        choices.push((chosen, chosen));
    }
    choices
}

pub(crate) fn options(menu: &Menu) -> Vec<acp::SessionConfigOption> {
    let modes = Mode::ALL.map(|mode| option(mode.id(), mode.name()).description(mode.description().to_owned()));
    let approvals = Approval::ALL
        .map(|approval| option(approval.id(), approval.name()).description(approval.description().to_owned()));
    let mut options = vec![
        acp::SessionConfigOption::select("mode", "Mode", menu.mode.id(), modes.to_vec())
            .description("Which tools there are".to_owned())
            .category(acp::SessionConfigOptionCategory::Mode),
        acp::SessionConfigOption::select("model", "Model", menu.model.to_string(), model_options(menu))
            .description("Who answers".to_owned())
            .category(acp::SessionConfigOptionCategory::Model),
        acp::SessionConfigOption::select("approval", "Approval", menu.approval.id(), approvals.to_vec())
            .description("When to ask before a tool runs".to_owned())
            .category(acp::SessionConfigOptionCategory::Other("_approval".to_owned())),
    ];
    // Offered only where it means something.
    if menu.models.iter().any(|model| model.id == menu.model && model.thinks) {
        let levels = ThoughtLevel::ALL.map(|level| option(level.id(), level.name()));
        options.push(
            acp::SessionConfigOption::select("thought_level", "Thinking", menu.thought.id(), levels.to_vec())
                .description("How long the model may think before it answers".to_owned())
                .category(acp::SessionConfigOptionCategory::ThoughtLevel),
        );
    }
    options
}

/// Grouped by provider as soon as one id names its provider.
fn model_options(menu: &Menu) -> acp::SessionConfigSelectOptions {
    let choices = choices(menu);
    if !choices.iter().any(|(id, _)| id.contains('/')) {
        let options = choices.into_iter().map(|(id, name)| option(id, name)).collect();
        return acp::SessionConfigSelectOptions::Ungrouped(options);
    }
    let mut groups: Vec<acp::SessionConfigSelectGroup> = Vec::new();
    for (id, name) in choices {
        let (group, label) = id.split_once('/').map_or(NO_PROVIDER, |(provider, _)| (provider, provider));
        match groups.iter_mut().find(|known| &*known.group.0 == group) {
            Some(known) => known.options.push(option(id, name)),
            None => {
                let options = vec![option(id, name)];
                groups.push(acp::SessionConfigSelectGroup::new(group.to_owned(), label, options));
            }
        }
    }
    acp::SessionConfigSelectOptions::Grouped(groups)
}

fn option(id: &str, name: &str) -> acp::SessionConfigSelectOption {
    acp::SessionConfigSelectOption::new(id.to_owned(), name)
}
