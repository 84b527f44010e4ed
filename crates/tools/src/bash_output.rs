//! `bash_output`: returns the output of a background command since the last call, and whether the
//! command still runs.

use std::sync::Arc;
use std::time::Duration;

use domain::tool::{Job, ToolHost, ToolSpec};
use domain::{Access, AgentId, Outcome, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use process::background::BackgroundCommand;
use serde::Deserialize;
use serde_json::json;

use crate::bash::with_note;
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

/// How often new output is shown to users while the call waits.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct BashOutputTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "id", alias = "bash_id", deserialize_with = "input::filled")]
    handle: String,
    #[serde(default, alias = "timeout", deserialize_with = "input::number")]
    wait_ms: Option<u64>,
}

impl Tool for BashOutputTool {
    fn name(&self) -> &'static str {
        "bash_output"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Execute
    }

    fn verb(&self) -> &'static str {
        "Look at"
    }

    fn spec(&self, settings: &ToolSettings) -> ToolSpec {
        let most = settings.bash.timeout_max.as_millis();
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Returns what a background command has written since the last call, and whether it still runs. With \
                 `wait_ms` the call returns when the command ends, or after that time at the latest (at most {most} \
                 ms); without it, at once."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "As bash returned it, such as bg1."},
                    "wait_ms": {"type": "integer", "minimum": 0, "description": "Milliseconds to wait for the command to end. Default 0."}
                },
                "required": ["handle"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let input: Input = input::parse(&call.input)?;
        let kept = call.background.find(&call.site.session, &input.handle)?;
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Look at {}", kept.label()),
            kind: self.kind(),
            locations: Vec::new(),
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let wait = Duration::from_millis(input.wait_ms.unwrap_or(0)).min(call.settings.bash.timeout_max);
        Ok(Box::new(OutputJob { card, kept, wait, agent: call.site.agent.clone() }))
    }
}

struct OutputJob {
    card: ToolCard,
    kept: Arc<BackgroundCommand>,
    wait: Duration,
    agent: Option<AgentId>,
}

impl Job for OutputJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let kept = &self.kept;
            let show = async {
                let mut before = String::new();
                loop {
                    tokio::time::sleep(LIVE_INTERVAL).await;
                    let now = kept.live_output();
                    // Each update is stored in the log, so an unchanged output is not shown again.
                    if now != before {
                        host.progress(vec![ToolContent::text(&now)]);
                        before = now;
                    }
                }
            };
            tokio::select! {
                () = kept.ended() => {}
                () = tokio::time::sleep(self.wait) => {}
                () = show => {}
                // The output remains unread for the next call.
                () = host.cancelled() => return Outcome::cancelled(),
            }
            report(kept, self.agent.as_ref())
        })
    }
}

/// Takes the new output and describes the state of the command, for the main conversation or a
/// sub-agent.
pub(crate) fn report(kept: &BackgroundCommand, reader: Option<&AgentId>) -> Outcome {
    // The end is checked first: if the command has ended, all its output is there.
    let end = kept.end();
    if end.is_some() {
        kept.report_end(reader);
    }
    let output = kept.take_output();
    let note = match &end {
        None => format!("{} is still running", kept.handle),
        Some(end) => format!("{} has ended: {}", kept.handle, end.describe()),
    };
    let written = output.text();
    let written = if written.is_empty() { "(no new output)".to_owned() } else { written };
    Outcome::completed(with_note(&written, &note)).with_raw(json!({
        "handle": kept.handle,
        "running": end.is_none(),
        "exitCode": end.as_ref().and_then(|end| end.exit_code()),
        "signal": end.as_ref().and_then(|end| end.signal()),
        "truncated": output.is_cut(),
    }))
}
