//! `bash_input`: writes to the standard input of a background command that was started with an open
//! one.

use std::sync::Arc;

use domain::tool::{BASH_INPUT, Job, ToolHost, ToolSpec};
use domain::{Access, Mode, Outcome, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use process::background::BackgroundCommand;
use serde::Deserialize;
use serde_json::json;

use crate::bash::ProtectedAccess;
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

/// The most bytes per call.
const MAX_INPUT_BYTES: usize = 64 << 10;

pub(crate) struct BashInputTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "id", alias = "bash_id", deserialize_with = "input::filled")]
    handle: String,
    #[serde(default, alias = "input", alias = "chars")]
    text: String,
    #[serde(default, deserialize_with = "input::flag")]
    close: bool,
}

impl Tool for BashInputTool {
    fn name(&self) -> &'static str {
        BASH_INPUT
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Execute
    }

    fn verb(&self) -> &'static str {
        "Write to"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Writes text to the standard input of a background command that bash started with `input`. A line \
                needs its newline at the end. The user is asked first. Read the reaction with bash_output."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "As bash returned it, such as bg1."},
                    "text": {"type": "string", "description": "The text, for example \"yes\\n\"."},
                    "close": {"type": "boolean", "description": "Close the input after the text. Default: false."}
                },
                "required": ["handle", "text"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { handle, text, close } = input::parse(&call.input)?;
        if text.len() > MAX_INPUT_BYTES {
            return Err(RefusalReason(format!(
                "the text is longer than {} KB; write it to a file",
                MAX_INPUT_BYTES / 1024
            )));
        }
        if text.is_empty() && !close {
            return Err(RefusalReason("there is neither `text` nor `close`".to_owned()));
        }
        let kept = call.background.find(&call.site.session, &handle)?;
        if call.site.mode == Mode::Sandbox && kept.mode != Mode::Sandbox {
            return Err(RefusalReason(format!(
                "`{handle}` was started outside the sandbox, so it gets no input in this mode; end it with bash_stop and \
                 start it again"
            )));
        }
        let mut preview = vec![ToolContent::text(&text)];
        if close {
            preview.push(ToolContent::text("Closes the input afterwards."));
        }
        // A shell or an interpreter runs what is written to it, so the text itself shows nothing.
        let mut access = Access::Ask { always: None };
        if kept.mode != Mode::Sandbox
            && let Some(note) = unseen_reach(&text, close, &call)
        {
            access = Access::AskEveryTime;
            preview.push(ToolContent::text(note));
        }
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Write to {}", kept.label()),
            kind: self.kind(),
            locations: Vec::new(),
            input: call.input,
            preview,
            access,
        };
        Ok(Box::new(InputJob { card, kept, text, close }))
    }
}

/// Returns the reason if only the user can decide about a text: it reaches acpd's own files, or may
/// do so together with the next text.
fn unseen_reach(text: &str, close: bool, call: &CallRequest) -> Option<&'static str> {
    if let Some(reach) = ProtectedAccess::of(text, &call.site.cwd, &call.site, &call.limits.protected_paths) {
        return Some(reach.text());
    }
    (!text.is_empty() && !text.ends_with('\n') && !close)
        .then_some("Ends within a line, so it does not show what the whole line will be.")
}

struct InputJob {
    card: ToolCard,
    kept: Arc<BackgroundCommand>,
    text: String,
    close: bool,
}

impl Job for InputJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let written = tokio::select! {
                written = self.kept.write_input(&self.text, self.close) => written,
                () = host.cancelled() => return Outcome::cancelled(),
            };
            match written {
                Ok(()) => {
                    let length = domain::text::size(self.text.len() as u64);
                    Outcome::completed(format!("Wrote {length} to `{}`.", self.kept.handle))
                }
                Err(error) => Outcome::failed(error.to_string()),
            }
        })
    }
}
