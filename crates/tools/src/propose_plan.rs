//! `propose_plan`: ends the mode `plan`. The model shows its whole plan, and the user chooses the
//! mode in which the session carries it out, or continues planning. Like `ask_user`, it is answered
//! and never runs.

use domain::inquiry::{Inquiry, InquiryChoice, InquiryPurpose};
use domain::tool::{Job, PROPOSE_PLAN, ToolSpec};
use domain::{Mode, ToolKind, escape};
use serde::Deserialize;
use serde_json::json;

use crate::ask_user::{InquiryJob, secret_requested};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

/// The most characters of a plan. The user must see all of it, so a longer one is refused instead
/// of cut.
const MAX_PLAN_CHARS: usize = 20_000;

/// The modes in which a plan can be carried out.
const MODES: [Mode; 3] = [Mode::Full, Mode::Safe, Mode::Sandbox];

pub(crate) struct ProposePlanTool;

#[derive(Deserialize)]
struct Input {
    #[serde(deserialize_with = "input::filled")]
    plan: String,
}

impl Tool for ProposePlanTool {
    fn name(&self) -> &'static str {
        PROPOSE_PLAN
    }

    fn kind(&self) -> ToolKind {
        ToolKind::SwitchMode
    }

    fn verb(&self) -> &'static str {
        "Propose"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Shows the user your plan and asks to carry it out. For the mode `plan` only, once you have read \
                          enough to know what has to change. The user approves it and chooses the mode to go on in, or \
                          keeps planning and may say what to change; then improve the plan and propose it again."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "plan": {"type": "string", "description": "The whole plan in Markdown: what will change and where, in which order, and how it will be checked."}
                },
                "required": ["plan"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { plan } = input::parse(&call.input)?;
        if call.site.mode != Mode::Plan {
            let mode = call.site.mode.id();
            return Err(RefusalReason(format!("the mode is `{mode}` and not `plan`; a plan needs no approval there")));
        }
        let plan = plan.trim();
        if plan.chars().count() > MAX_PLAN_CHARS {
            return Err(RefusalReason(format!(
                "the plan is longer than {MAX_PLAN_CHARS} characters; propose a shorter one"
            )));
        }
        if let Some(secret) = secret_requested(plan) {
            return Err(RefusalReason(format!(
                "the plan asks for \"{secret}\": a secret must not be asked for, because the answer is kept in the log; have the \
                 user store it where the program reads it"
            )));
        }
        let choice = |mode: Mode| InquiryChoice {
            id: mode.id().to_owned(),
            label: format!("Approve and continue in the mode \"{}\"", mode.name()),
            description: Some(mode.description().to_owned()),
        };
        let inquiry = Inquiry {
            text: escape::text(plan).into_owned(),
            choices: MODES.into_iter().map(choice).collect(),
            free_text: false,
            purpose: InquiryPurpose::Plan,
        };
        Ok(Box::new(InquiryJob::new(self, inquiry, "Plan", call.input)))
    }
}
