//! Options of a session: turns the option that a client names into a setting, and answers with all
//! options after the change.

use actix::Context;
use domain::event::Setting;
use domain::hosted::{AgentSetting, Offer, OptionValue};
use domain::model::ModelInfo;
use domain::state::SessionSettings;
use domain::{Approval, Mode, ModelId, ThoughtLevel};
use serde_json::{Value, json};
use wire::answer_data::SessionOptions;
use wire::request::{self, ConfigureAnswer};
use wire::{Id, RpcError};

use super::{Connection, opening};
use crate::session;

impl Connection {
    pub(super) fn configure(&mut self, id: Id, configure: request::Configure, ctx: &mut Context<Self>) {
        let session = configure.session.clone();
        self.with_session(id, &session, ctx, |this, id, ctx| this.send_setting(id, configure, ctx));
    }

    fn send_setting(&mut self, id: Id, configure: request::Configure, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get(&configure.session) else {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        };
        let mut session_options = attachment.translator.session_options().clone();
        if let Some(offer) = &session_options.hosted {
            return match agent_setting(&configure, offer) {
                Ok(setting) => self.send_agent_setting(id, &configure, setting, session_options, ctx),
                Err(error) => self.answer(&id, Err::<Value, _>(error), ctx),
            };
        }
        let ports = self.runtime.ports();
        let environment = self.whole_environment();
        let setting = match setting(&configure, |model| ports.models.offers(model, &environment)) {
            Ok(setting) => setting,
            Err(error) => return self.answer(&id, Err::<Value, _>(error), ctx),
        };
        let setting_model = match &setting {
            Setting::Model(model) => Some(model.clone()),
            Setting::Mode(_) | Setting::Approval(_) | Setting::ThoughtLevel(_) => None,
        };
        let sent = attachment.addr.send(session::Configure(setting));
        let models = match &setting_model {
            Some(model) => self.models_with(model),
            None => session_options.models.clone(),
        };
        let version = self.version();
        let work = async move {
            let set = sent.await.map_err(|_| RpcError::internal("the session is not in memory", "load it again"))?;
            set.recorded.written().await.map_err(opening::history_failed)?;
            session_options.models = models;
            let SessionSettings { mode, approval, model, thought, model_chosen: _, hosted: _ } = set.settings;
            (session_options.mode, session_options.approval, session_options.model, session_options.thought) =
                (mode, approval, model, thought);
            Ok(match configure.answer {
                ConfigureAnswer::Empty => json!({}),
                ConfigureAnswer::Options => json!({ "configOptions": version.config_options(&session_options) }),
            })
        };
        self.answer_later(id, work, ctx);
    }
}

impl Connection {
    /// Asks the child agent of a hosted session to set one of its own options.
    fn send_agent_setting(
        &mut self,
        id: Id,
        configure: &request::Configure,
        setting: AgentSetting,
        mut session_options: SessionOptions,
        ctx: &mut Context<Self>,
    ) {
        let Some(attachment) = self.attachments.get(&configure.session) else { return };
        let sent = attachment.addr.send(session::ConfigureAgent(setting));
        let (version, answer) = (self.version(), configure.answer);
        let work = async move {
            let set = sent.await.map_err(|_| RpcError::internal("the session is not in memory", "load it again"))?;
            let set = set.map_err(opening::agent_failed)?;
            set.recorded.written().await.map_err(opening::history_failed)?;
            session_options.hosted = Some(set.offer);
            Ok(match answer {
                ConfigureAnswer::Empty => json!({}),
                ConfigureAnswer::Options => json!({ "configOptions": version.config_options(&session_options) }),
            })
        };
        self.answer_later(id, work, ctx);
    }

    /// The models that this client may choose from, including the current one.
    pub(super) fn models_with(&self, chosen: &ModelId) -> Vec<ModelInfo> {
        let ports = self.runtime.ports();
        let mut models = ports.models.list(&self.whole_environment());
        if !models.iter().any(|info| info.id == *chosen)
            && let Some(model) = ports.models.find(chosen)
        {
            models.push(model.info().clone());
        }
        models
    }
}

/// Turns the option that a client names into a setting of the child agent. `mode` and `model`
/// select the agent's mode and model unless the agent has options with these ids.
fn agent_setting(configure: &request::Configure, offer: &Offer) -> Result<AgentSetting, RpcError> {
    let (id, value) = (configure.option.clone(), configure.value.clone());
    let is_option = offer.has_option(&id) && configure.answer == ConfigureAnswer::Options;
    match (id.as_str(), value) {
        (_, value) if is_option && offer.is_switch(&id) == value.is_switch() => Ok(AgentSetting::Option { id, value }),
        (_, _) if is_option => Err(RpcError::invalid_params("value", "Must be of the type of the option")),
        ("mode", OptionValue::Id(mode)) if offer.modes.is_some() => Ok(AgentSetting::Mode(mode)),
        ("model", OptionValue::Id(model)) if offer.models.is_some() => Ok(AgentSetting::Model(model)),
        (_, value) if offer.has_option(&id) => Ok(AgentSetting::Option { id, value }),
        (_, _) => Err(RpcError::invalid_params("configId", &format!("unknown option `{id}`"))),
    }
}

fn setting(configure: &request::Configure, is_offered: impl Fn(&ModelId) -> bool) -> Result<Setting, RpcError> {
    let value = match &configure.value {
        OptionValue::Id(value) => value.as_str(),
        OptionValue::Switch(_) => return Err(RpcError::invalid_params("value", "Must be a string")),
    };
    let setting = match configure.option.as_str() {
        "mode" => Mode::from_id(value).map(Setting::Mode),
        "approval" => Approval::from_id(value).map(Setting::Approval),
        "thought_level" => ThoughtLevel::from_id(value).map(Setting::ThoughtLevel),
        "model" => {
            let model = ModelId::from(value);
            is_offered(&model).then_some(Setting::Model(model))
        }
        other => return Err(RpcError::invalid_params("configId", &format!("unknown option `{other}`"))),
    };
    let field = match (configure.answer, configure.option.as_str()) {
        (ConfigureAnswer::Empty, "mode") => "modeId",
        (ConfigureAnswer::Empty, "model") => "modelId",
        (ConfigureAnswer::Empty | ConfigureAnswer::Options, _) => "value",
    };
    setting.ok_or_else(|| {
        RpcError::invalid_params(field, &format!("unknown value `{value}` for the option `{}`", configure.option))
    })
}
