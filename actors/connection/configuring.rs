//! Options of a session: turns the option that a client names into a setting, and answers with all
//! options after the change.

use actix::Context;
use domain::event::Setting;
use domain::model::ModelInfo;
use domain::{Approval, Mode, ModelId, ThoughtLevel};
use serde_json::{Value, json};
use wire::request::{self, ConfigureAnswer};
use wire::v1::encode;
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
        let mut menu = attachment.translator.menu().clone();
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
            None => menu.models.clone(),
        };
        let work = async move {
            let set = sent.await.map_err(|_| RpcError::internal("the session is not there", "load it again"))?;
            set.recorded.written().await.map_err(opening::unreadable)?;
            menu.models = models;
            (menu.mode, menu.approval, menu.model, menu.thought) = (set.mode, set.approval, set.model, set.thought);
            Ok(match configure.answer {
                ConfigureAnswer::Empty => json!({}),
                ConfigureAnswer::Options => json!({ "configOptions": encode::config_options(&menu) }),
            })
        };
        self.answer_later(id, work, ctx);
    }
}

impl Connection {
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

fn setting(configure: &request::Configure, is_offered: impl Fn(&ModelId) -> bool) -> Result<Setting, RpcError> {
    let value = configure.value.as_str();
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
