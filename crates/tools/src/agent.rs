//! `agent`: gives a task to a sub-agent, which works on its own and reports. This file declares the tool and describes
//! its calls; the session carries them out, with the same tools and the same questions.

use std::sync::Arc;

use domain::text::cut;
use domain::tool::{AGENT, Job, SubAgentTask, ToolHost, ToolSpec};
use domain::{Access, Grant, Mode, ModelId, Outcome, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Call, Refused, Tool};
use crate::{Settings, input};

pub(crate) struct Agent;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "prompt", deserialize_with = "input::filled")]
    task: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tools: Preset,
    #[serde(default)]
    model: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Preset {
    #[default]
    ReadOnly,
    All,
}

impl Tool for Agent {
    fn name(&self) -> &'static str {
        AGENT
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Execute
    }

    fn verb(&self) -> &'static str {
        "Delegate"
    }

    fn spec(&self, _settings: &Settings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Gives a task to a sub-agent, which works on it alone and comes back with a report. Use it for work \
                that takes many steps of which only the result matters, such as finding out how a large project does \
                something.\n\
                - The sub-agent knows nothing of this conversation: put all that it needs into `task`, and say what \
                to report.\n\
                - It cannot ask back, has no sub-agents of its own, and may make a limited number of requests.\n\
                - The user sees the report only through you."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "What to do, where, and what to report."},
                    "description": {"type": "string", "description": "The task in five to ten words, for the user."},
                    "tools": {"type": "string", "enum": ["read-only", "all"], "description": "Whether it may only look, or use all tools that you have. Default: read-only."},
                    "model": {"type": "string", "description": "The id of another model to use. Default: the session's."}
                },
                "required": ["task"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: Call) -> Result<Box<dyn Job>, Refused> {
        let Input { task, description, tools, model } = input::parse(&call.input)?;
        let words = description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let about = words.or_else(|| task.lines().find(|line| !line.trim().is_empty())).unwrap_or(&task);
        let mode = match tools {
            Preset::ReadOnly => Mode::ReadOnly,
            Preset::All => call.site.mode,
        };
        let may = if mode == Mode::ReadOnly { "may only look" } else { "may use all tools" };
        let uses = model.as_deref().map(|model| format!(" and uses the model {model}")).unwrap_or_default();
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Delegate: {}", cut(about.trim(), 80)),
            kind: self.kind(),
            locations: Vec::new(),
            preview: vec![ToolContent::text(&task), ToolContent::text(format!("The sub-agent {may}{uses}."))],
            access: Access::Ask { always: Some(Grant::Tool(self.name().to_owned())) },
            input: call.input,
        };
        let task = SubAgentTask { task, mode, model: model.as_deref().map(ModelId::from) };
        Ok(Box::new(AgentJob { card, task }))
    }
}

struct AgentJob {
    card: ToolCard,
    task: SubAgentTask,
}

impl Job for AgentJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        host.delegate(self.task)
    }
}
