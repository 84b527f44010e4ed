//! `bash_stop`: ends a background command and everything that it started.

use std::sync::Arc;

use domain::tool::{Job, ToolHost, ToolSpec};
use domain::{Access, AgentId, Outcome, ToolCard, ToolKind};
use futures_util::future::BoxFuture;
use process::background::BackgroundCommand;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, bash_output, input};

pub(crate) struct BashStopTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "id", alias = "bash_id", deserialize_with = "input::filled")]
    handle: String,
}

impl Tool for BashStopTool {
    fn name(&self) -> &'static str {
        "bash_stop"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Execute
    }

    fn verb(&self) -> &'static str {
        "Stop"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Ends a background command with everything that it started, and returns what it had written \
                since the last look."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "As bash returned it, such as bg1."}
                },
                "required": ["handle"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let input: Input = input::parse(&call.input)?;
        let kept = call.background.find(&call.site.session, &input.handle)?;
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Stop {}", kept.label()),
            kind: self.kind(),
            locations: Vec::new(),
            input: call.input,
            preview: Vec::new(),
            // Ending a command that the user allowed needs no approval.
            access: Access::Free,
        };
        Ok(Box::new(StopJob { card, kept, agent: call.site.agent.clone() }))
    }
}

struct StopJob {
    card: ToolCard,
    kept: Arc<BackgroundCommand>,
    agent: Option<AgentId>,
}

impl Job for StopJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, _host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            self.kept.stop();
            // This takes at most 2 seconds, so a cancellation waits for it too.
            self.kept.ended().await;
            bash_output::report(&self.kept, self.agent.as_ref())
        })
    }
}
