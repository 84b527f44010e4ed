//! `agent`: gives a task to a sub-agent, which works by itself and reports its result. This file
//! declares the tool and describes its calls. The session carries them out, with the same tools and
//! permission questions.

use std::sync::Arc;

use domain::text::cut;
use domain::tool::{AGENT, Job, SubAgentRequest, SubAgentTask, ToolHost, ToolSpec};
use domain::{Access, AgentId, Grant, Mode, ModelId, Outcome, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use project::CustomAgent;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

pub(crate) struct AgentTool;

#[derive(Deserialize)]
struct Input {
    #[serde(default, alias = "prompt")]
    task: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tools: Option<Preset>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default, alias = "subagent_type")]
    agent: Option<String>,
    #[serde(default, alias = "agent_id")]
    id: Option<String>,
    #[serde(default, alias = "run_in_background", deserialize_with = "input::flag")]
    background: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Preset {
    ReadOnly,
    All,
}

impl Tool for AgentTool {
    fn name(&self) -> &'static str {
        AGENT
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Execute
    }

    fn verb(&self) -> &'static str {
        "Delegate"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Gives a task to a sub-agent, which works on it alone and comes back with a report. Use it for work \
                that takes many steps of which only the result matters, such as finding out how a large project does \
                something.\n\
                - The sub-agent knows nothing of this conversation: put all that it needs into `task`, and say what \
                to report.\n\
                - It cannot ask back, and its requests and tokens are limited.\n\
                - Sub-agents that may only read work at the same time: for parts that do not depend on each other, make \
                several calls in one answer.\n\
                - With `background` the call returns at once. A call with the `id` and no `task` waits for the report.\n\
                - To ask a sub-agent more after its report, give its `id` and another `task`: it remembers its work.\n\
                - The user sees the report only through you."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "What to do, where, and what to report. Needed unless you wait for a report."},
                    "description": {"type": "string", "description": "The task in five to ten words, for the user."},
                    "tools": {"type": "string", "enum": ["read-only", "all"], "description": "Whether it may only read, or use all tools that you have. Default: read-only, or what the custom agent says."},
                    "agent": {"type": "string", "description": "The name of a custom agent, if your instructions list any."},
                    "model": {"type": "string", "description": "The id of another model to use. Default: the session's."},
                    "background": {"type": "boolean", "description": "Return at once, and let it work in the background. Only with read-only tools."},
                    "id": {"type": "string", "description": "A sub-agent that you have started before: to wait for its report, or to give it another task."}
                },
                "required": []
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let given: Input = input::parse(&call.input)?;
        let id = given.id.as_deref().map(str::trim).filter(|id| !id.is_empty()).map(AgentId::from);
        let task = given.task.clone().filter(|task| !task.trim().is_empty());
        let (title, preview, access, request) = match (task, id) {
            (None, None) => {
                return Err(RefusalReason("bad input: give a `task`, or the `id` of a sub-agent".to_owned()));
            }
            (None, Some(id)) => {
                let title = format!("Wait for the report of {}", cut(id.as_str(), 40));
                (title, Vec::new(), Access::Free, SubAgentRequest::Collect(id))
            }
            (Some(task), id) => {
                let (preview, start) = start(given, task, id, &call)?;
                let title = format!("Delegate: {}", cut(start.about.trim(), 80));
                let access = Access::Ask { always: Some(Grant::Tool(self.name().to_owned())) };
                (title, preview, access, SubAgentRequest::Start(start.task))
            }
        };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title,
            kind: self.kind(),
            locations: Vec::new(),
            preview,
            access,
            input: call.input,
        };
        Ok(Box::new(AgentJob { card, request }))
    }
}

/// A sub-agent to start, and a few words about its task.
struct Start {
    about: String,
    task: SubAgentTask,
}

fn start(
    given: Input,
    task: String,
    continues: Option<AgentId>,
    call: &CallRequest,
) -> Result<(Vec<ToolContent>, Start), RefusalReason> {
    let Input { description, tools, model, agent, background, .. } = given;
    let custom = match agent.filter(|name| !name.trim().is_empty()) {
        Some(name) => Some(find_custom(name.trim(), call)?),
        None => None,
    };
    let preset = tools.map(|preset| match preset {
        Preset::ReadOnly => Mode::ReadOnly,
        Preset::All => call.site.mode,
    });
    let of_custom = custom.as_ref().and_then(|custom| custom.mode.or(custom.tools.as_ref().map(|_| call.site.mode)));
    let mode = match (preset, of_custom) {
        (Some(preset), Some(of_custom)) => preset.within(of_custom),
        (Some(mode), None) | (None, Some(mode)) => mode,
        // A continued sub-agent keeps its mode.
        (None, None) if continues.is_some() => call.site.mode,
        (None, None) => Mode::ReadOnly,
    };
    let mode = mode.within(call.site.mode);
    if background && !mode.only_reads() && continues.is_none() {
        return Err(RefusalReason("only a sub-agent with read-only tools can work in the background".to_owned()));
    }
    let model = model.map(ModelId::from).or_else(|| custom.as_ref()?.model.clone());
    let tools = custom.as_ref().and_then(|custom| custom.tools.clone());
    let words = description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let about = words.or_else(|| task.lines().find(|line| !line.trim().is_empty())).unwrap_or(&task).to_owned();
    let who = custom.as_ref().map(|custom| format!(" `{}`", custom.name)).unwrap_or_default();
    let may = match (mode, &continues) {
        (_, Some(id)) => format!("`{id}` continues with the tools that it had before"),
        (Mode::ReadOnly | Mode::Plan, None) => "may only read".to_owned(),
        (Mode::ReadOffline, None) => "may only read, without network".to_owned(),
        (Mode::Full | Mode::Safe | Mode::Sandbox, None) => "may use all tools".to_owned(),
    };
    let only = tools.as_ref().map(|tools| format!(", of these: {}", tools.join(", "))).unwrap_or_default();
    let uses = model.as_ref().map(|model| format!(" and uses the model {model}")).unwrap_or_default();
    let preview = vec![ToolContent::text(&task), ToolContent::text(format!("The sub-agent{who} {may}{only}{uses}."))];
    let instructions = custom.map(|custom| custom.text);
    Ok((preview, Start { about, task: SubAgentTask { task, mode, tools, model, instructions, continues, background } }))
}

fn find_custom(name: &str, call: &CallRequest) -> Result<CustomAgent, RefusalReason> {
    let contents = call.settings.library.open(&call.site.cwd, &call.rules);
    contents.agent(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = contents.agents.iter().map(|agent| agent.name.as_str()).collect();
        let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
        RefusalReason(format!("there is no agent `{}`; the agents are: {names}", cut(name, 80)))
    })
}

struct AgentJob {
    card: ToolCard,
    request: SubAgentRequest,
}

impl Job for AgentJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        host.delegate(self.request)
    }
}
