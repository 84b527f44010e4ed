//! Scripted tools with predictable behaviour.
//!
//! `look` reads and needs no permission; `where` reports the roots; `touch` asks first, and so does
//! `peek`, which reads; `wait` runs until it is cancelled; `crash` panics while it runs and
//! `crash_early` while it is planned; `refuse` cannot be planned; `deaf` reads, ignores
//! cancellation and never ends.

use std::sync::Arc;

use domain::tool::{Job, PlanRefusal, ToolHost, ToolRequest, ToolSpec, Toolbox};
use domain::{Access, CallSite, Grant, Mode, Outcome, SessionId, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::transcript::Transcript;

pub struct ScriptedTools {
    pub(crate) transcript: Transcript,
}

const TOOLS: [&str; 9] = ["where", "look", "peek", "touch", "wait", "crash", "crash_early", "refuse", "deaf"];

impl Toolbox for ScriptedTools {
    fn offer(&self, _: &SessionId, mode: Mode) -> Vec<Arc<ToolSpec>> {
        TOOLS
            .iter()
            .filter(|name| !mode.only_reads() || **name == "look")
            .map(|name| {
                Arc::new(ToolSpec {
                    name: (*name).to_owned(),
                    description: String::new(),
                    schema: json!({ "type": "object" }),
                    read_only: matches!(*name, "look" | "peek" | "deaf"),
                })
            })
            .collect()
    }

    fn plan(&self, request: ToolRequest, site: Arc<CallSite>) -> BoxFuture<'static, Result<Box<dyn Job>, PlanRefusal>> {
        let transcript = self.transcript.clone();
        Box::pin(async move {
            let kind = match request.tool.as_str() {
                "look" | "where" | "peek" => ToolKind::Read,
                "touch" => ToolKind::Edit,
                "wait" | "deaf" | "crash" => ToolKind::Execute,
                "crash_early" => panic!("the tool crashes as scripted"),
                other => {
                    let reason = format!("there is no tool `{other}`");
                    return Err(PlanRefusal { kind: ToolKind::Other, title: other.to_owned(), reason });
                }
            };
            let access = if matches!(request.tool.as_str(), "touch" | "peek") {
                Access::Ask { always: Some(Grant::Folder(site.cwd.clone())) }
            } else {
                Access::Free
            };
            let card = ToolCard {
                title: format!("{} {}", request.tool, request.input),
                tool: request.tool,
                kind,
                locations: Vec::new(),
                input: request.input,
                preview: Vec::new(),
                access,
            };
            let roots = site.roots().map(|root| root.display().to_string()).collect::<Vec<_>>().join(" ");
            Ok(Box::new(ScriptedJob { card, roots, transcript }) as Box<dyn Job>)
        })
    }
}

struct ScriptedJob {
    card: ToolCard,
    roots: String,
    transcript: Transcript,
}

impl Job for ScriptedJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            self.transcript.note(format!("tool   : {} runs", self.card.title));
            match self.card.tool.as_str() {
                "wait" => {
                    host.progress(vec![ToolContent::text("waiting")]);
                    host.cancelled().await;
                    self.transcript.note("tool   : wait was cancelled");
                    Outcome::cancelled()
                }
                "deaf" => std::future::pending().await,
                "where" => Outcome::completed(self.roots),
                "crash" => panic!("the tool crashes as scripted"),
                _ => Outcome::completed(format!("{} done", self.card.tool)),
            }
        })
    }
}
