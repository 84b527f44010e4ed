//! `update_plan`: declares the tool for models. The turn carries it out, because a plan belongs to
//! the conversation and not to the disk.

use domain::ToolKind;
use domain::plan::read_plan;
use domain::tool::{Job, ToolSpec, UPDATE_PLAN};
use serde_json::json;

use crate::ToolSettings;
use crate::tool::{CallRequest, RefusalReason, Tool};

pub(crate) struct UpdatePlanTool;

impl Tool for UpdatePlanTool {
    fn name(&self) -> &'static str {
        UPDATE_PLAN
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Think
    }

    fn verb(&self) -> &'static str {
        "Plan"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Shows the user the plan for this task and how far it has come. Use it for work of three or \
                more steps; leave it out for a single small change or a question. Each call replaces the whole plan, \
                so send every entry every time. Keep one entry `in_progress` while you work, mark it `completed` as \
                soon as it is done, and only when it really is."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "entries": {
                        "type": "array",
                        "description": "The whole plan, in order.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "content": {"type": "string", "description": "One step, such as \"Add a test for empty input\"."},
                                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"], "description": "Default: pending."},
                                "priority": {"type": "string", "enum": ["high", "medium", "low"], "description": "Default: medium."}
                            },
                            "required": ["content", "status"]
                        }
                    }
                },
                "required": ["entries"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        read_plan(&call.input).map_err(RefusalReason)?;
        Err(RefusalReason("the plan is kept by the turn itself and is not run as a tool".to_owned()))
    }
}
