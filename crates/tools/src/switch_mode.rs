//! `switch_mode`: the model proposes another mode, and the session changes to it if the user
//! agrees. It asks every time: no rule, "always" answer or approval setting answers it.

use std::sync::Arc;

use domain::text::cut;
use domain::tool::{Job, SWITCH_MODE, ToolHost, ToolSpec};
use domain::{Access, Mode, Outcome, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

pub(crate) struct SwitchModeTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "mode_id", alias = "modeId", deserialize_with = "input::filled")]
    mode: String,
    #[serde(default)]
    reason: Option<String>,
}

impl Tool for SwitchModeTool {
    fn name(&self) -> &'static str {
        SWITCH_MODE
    }

    fn kind(&self) -> ToolKind {
        ToolKind::SwitchMode
    }

    fn verb(&self) -> &'static str {
        "Switch to"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        let modes = Mode::ALL.map(|mode| format!("`{}`: {}", mode.id(), mode.description()));
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Asks the user to change the session's mode, which decides what tools there are. Use it only when the task needs a \
                 tool that the mode leaves out, or when the user wants it. If the user agrees, the mode counts from the next \
                 step on. {}",
                modes.join(". ")
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "mode": {"type": "string", "enum": Mode::ALL.map(Mode::id), "description": "The mode to change to."},
                    "reason": {"type": "string", "description": "Why, in one sentence, for the user."}
                },
                "required": ["mode"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { mode, reason } = input::parse(&call.input)?;
        let Some(mode) = Mode::from_id(&mode) else {
            let known = Mode::ALL.map(Mode::id).join(", ");
            return Err(RefusalReason(format!("there is no mode `{}`; the modes are {known}", cut(&mode, 40))));
        };
        let now = call.site.mode;
        if now == Mode::Plan {
            return Err(RefusalReason("the mode `plan` ends with an approved plan: use `propose_plan`".to_owned()));
        }
        if mode == now {
            return Err(RefusalReason(format!("the mode is `{}` already", mode.id())));
        }
        let mut preview = vec![ToolContent::text(format!(
            "The session's mode changes from `{}` ({}) to `{}` ({}).",
            now.id(),
            now.description(),
            mode.id(),
            mode.description()
        ))];
        preview.extend(reason.filter(|reason| !reason.trim().is_empty()).map(ToolContent::text));
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Switch to the mode `{}`", mode.id()),
            kind: self.kind(),
            locations: Vec::new(),
            preview,
            access: Access::AskEveryTime,
            input: call.input,
        };
        Ok(Box::new(SwitchJob { card, mode }))
    }
}

struct SwitchJob {
    card: ToolCard,
    mode: Mode,
}

impl Job for SwitchJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        host.switch_mode(self.mode)
    }
}
