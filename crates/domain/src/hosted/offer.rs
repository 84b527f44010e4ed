//! What a child agent lets the user choose: its modes, models, options and slash commands, each as
//! the child sends it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Everything that a child offers. The values are those of the child's protocol; only the current
/// choices are interpreted here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Value>,
}

/// A change to what a child offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", content = "value", rename_all = "snake_case")]
pub enum OfferPart {
    /// The mode with this id is current.
    Mode(String),
    /// The model with this id is current.
    Model(String),
    /// All options with their current values.
    Options(Value),
    /// All slash commands.
    Commands(Value),
}

/// A choice of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSetting {
    Mode(String),
    Model(String),
    Option { id: String, value: OptionValue },
}

/// The value of an option: one of a list, or on and off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    Id(String),
    Switch(bool),
}

impl OptionValue {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(id) => Some(Self::Id(id.clone())),
            Value::Bool(on) => Some(Self::Switch(*on)),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub fn is_switch(&self) -> bool {
        matches!(self, Self::Switch(_))
    }
}

impl Offer {
    /// Adopts the offer of a child that has just opened its session. Known slash commands stay if
    /// the offer has none, because a child announces them separately.
    pub fn replace(&mut self, new: &Offer) {
        let commands = new.commands.clone().or(self.commands.take());
        *self = Offer { commands, ..new.clone() };
    }

    pub fn change(&mut self, part: &OfferPart) {
        match part {
            OfferPart::Mode(id) => set_current(&mut self.modes, "currentModeId", id),
            OfferPart::Model(id) => set_current(&mut self.models, "currentModelId", id),
            OfferPart::Options(options) => self.options = Some(options.clone()),
            OfferPart::Commands(commands) => self.commands = Some(commands.clone()),
        }
    }

    /// Returns the choices of `before` that this offer still has, but not as its current values.
    pub fn forgotten(&self, before: &Offer) -> Vec<AgentSetting> {
        let mut forgotten = Vec::new();
        let lost = |now: &Option<Value>, before: &Option<Value>, current: &str, list: &str, id: &str| {
            let wanted = before.as_ref()?.get(current)?.as_str()?;
            let now = now.as_ref()?;
            let is_offered = now.get(list)?.as_array()?.iter().any(|entry| entry.get(id) == Some(&json!(wanted)));
            (is_offered && now.get(current).and_then(Value::as_str) != Some(wanted)).then(|| wanted.to_owned())
        };
        let mode = lost(&self.modes, &before.modes, "currentModeId", "availableModes", "id");
        let model = lost(&self.models, &before.models, "currentModelId", "availableModels", "modelId");
        forgotten.extend(mode.map(AgentSetting::Mode));
        forgotten.extend(model.map(AgentSetting::Model));
        for (id, value) in current_values(before.options.as_ref()) {
            let now = current_values(self.options.as_ref()).find(|(known, _)| *known == id);
            if now.is_some_and(|(_, now)| now != value && now.is_switch() == value.is_switch()) {
                forgotten.push(AgentSetting::Option { id: id.to_owned(), value });
            }
        }
        forgotten
    }

    /// Whether there is an option with this id.
    pub fn has_option(&self, id: &str) -> bool {
        let mut options = self.options.as_ref().and_then(Value::as_array).into_iter().flatten();
        options.any(|option| option.get("id").and_then(Value::as_str) == Some(id))
    }

    /// Whether the option with this id can only be on or off.
    pub fn is_switch(&self, id: &str) -> bool {
        current_values(self.options.as_ref()).any(|(known, value)| known == id && value.is_switch())
    }

    /// Returns the id of the current model, if the child has reported it.
    pub fn current_model(&self) -> Option<&str> {
        let named = self.models.as_ref().and_then(|models| models.get("currentModelId")?.as_str());
        let option = |value: &Value| value.get("category").and_then(Value::as_str) == Some("model");
        let options = self.options.as_ref().and_then(Value::as_array).into_iter().flatten();
        named.or_else(|| options.filter(|entry| option(entry)).find_map(|entry| entry.get("currentValue")?.as_str()))
    }

    pub fn weight(&self) -> usize {
        let parts = [&self.modes, &self.models, &self.options, &self.commands];
        parts.into_iter().flatten().map(crate::event::json_weight).sum()
    }
}

impl OfferPart {
    pub fn weight(&self) -> usize {
        match self {
            OfferPart::Mode(id) | OfferPart::Model(id) => id.len(),
            OfferPart::Options(value) | OfferPart::Commands(value) => crate::event::json_weight(value),
        }
    }
}

fn set_current(choices: &mut Option<Value>, current: &str, id: &str) {
    if let Some(Value::Object(choices)) = choices {
        choices.insert(current.to_owned(), Value::from(id));
    }
}

/// The ids of options, and their current values.
fn current_values(options: Option<&Value>) -> impl Iterator<Item = (&str, OptionValue)> {
    let options = options.and_then(Value::as_array).into_iter().flatten();
    options.filter_map(|option| Some((option.get("id")?.as_str()?, OptionValue::read(option.get("currentValue")?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_a_child_forgot_are_found_if_it_still_offers_them() {
        let offer = |mode: &str, model: &str, effort: &str| Offer {
            modes: Some(json!({ "currentModeId": mode, "availableModes": [{ "id": "ask" }, { "id": "code" }] })),
            models: Some(json!({ "currentModelId": model, "availableModels": [{ "modelId": "small" }] })),
            options: Some(json!([{ "id": "effort", "currentValue": effort }])),
            commands: None,
        };
        let before = offer("code", "large", "high");
        let forgotten = offer("ask", "small", "low").forgotten(&before);
        let effort = AgentSetting::Option { id: "effort".to_owned(), value: OptionValue::Id("high".to_owned()) };
        // The model `large` does not exist any more.
        assert_eq!(forgotten, [AgentSetting::Mode("code".to_owned()), effort]);
        assert_eq!(before.forgotten(&before), []);
        assert_eq!(Offer::default().forgotten(&before), []);
    }

    #[test]
    fn a_change_replaces_what_it_names() {
        let mut offer = Offer { modes: Some(json!({ "currentModeId": "ask" })), ..Offer::default() };
        offer.change(&OfferPart::Mode("code".to_owned()));
        offer.change(&OfferPart::Model("large".to_owned()));
        offer.change(&OfferPart::Commands(json!([{ "name": "plan" }])));
        assert_eq!(offer.modes, Some(json!({ "currentModeId": "code" })));
        assert_eq!(offer.models, None, "a child without models has no current one");
        offer.replace(&Offer::default());
        assert_eq!(offer.commands, Some(json!([{ "name": "plan" }])));
    }
}
