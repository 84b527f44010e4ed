//! `diagnostics`: returns what the language server reports about a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::text::count;
use domain::tool::{DIAGNOSTICS, Job, Location, ToolHost, ToolSpec};
use domain::{Access, CallSite, Outcome, ToolCard, ToolContent, ToolKind, Verdict};
use futures_util::future::BoxFuture;
use lsp::{Change, LanguageServers};
use serde::Deserialize;
use serde_json::json;

use crate::settings::ToolSettings;
use crate::tool::{CallRequest, RefusalReason, Tool, fill};
use crate::{document, hook_changes, input};

pub(crate) struct DiagnosticsTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "file", deserialize_with = "input::filled")]
    path: String,
}

impl Tool for DiagnosticsTool {
    fn name(&self) -> &'static str {
        DIAGNOSTICS
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Read
    }

    fn verb(&self) -> &'static str {
        "Check"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Returns the errors and warnings that the language server of a file reports about it as it is \
                now. New errors come by themselves with the outcome of an edit, so use this for files that you have \
                not edited, and to see whether an error is gone."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"path": {"type": "string", "description": "The file, absolute or relative to the working folder."}},
                "required": ["path"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { path } = input::parse(&call.input)?;
        let confined = call.roots()?.find(&path)?;
        // An error can quote the file.
        if call.rules.reading_verdict(&[&confined.path, &confined.real]) == Some(Verdict::Deny) {
            return Err(RefusalReason(format!("a rule denies reading {}", confined.shown)));
        }
        let text = String::from_utf8(document::read(&confined, &call.site)?.bytes)
            .map_err(|_| RefusalReason(format!("{} is not a text file", confined.shown)))?;
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Check {}", confined.shown),
            kind: self.kind(),
            locations: vec![Location { path: confined.real.clone(), line: None }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let CallRequest { site, settings, language_servers, .. } = call;
        let (path, shown) = (confined.real.clone(), confined.shown.clone());
        Ok(Box::new(CheckJob { card, site, settings, language_servers, path, shown, text }))
    }
}

struct CheckJob {
    card: ToolCard,
    site: Arc<CallSite>,
    settings: Arc<ToolSettings>,
    language_servers: Arc<LanguageServers>,
    path: PathBuf,
    shown: String,
    text: String,
}

impl Job for CheckJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let Self { site, settings, language_servers, path, shown, text, .. } = *self;
            let found = language_servers.findings(&settings.diagnostics, &settings.launcher, &site, path, text);
            let found = tokio::select! {
                found = found => found,
                () = host.cancelled() => return Outcome::cancelled(),
            };
            match found {
                Ok(findings) if findings.is_empty() => {
                    Outcome::completed(format!("{shown} has no errors or warnings."))
                }
                Ok(findings) => {
                    let lines = findings.iter().map(|finding| finding.describe(&shown));
                    let (text, listed) = fill(lines, settings.output_limit / 2);
                    let more = findings.len() - listed;
                    let more = if more > 0 { format!("[and {more} more]") } else { String::new() };
                    Outcome::completed(format!("{text}{more}"))
                        .with_raw(json!({"summary": count(findings.len(), "finding")}))
                }
                Err(reason) => Outcome::failed(reason.to_string()),
            }
        })
    }
}

/// Returns the files that a call has changed, with their texts before and after it.
pub(crate) fn changes(outcome: &Outcome) -> Vec<Change> {
    let change = |(path, old, new): (&Path, Option<&str>, &str)| Change {
        path: path.to_owned(),
        before: old.unwrap_or_default().to_owned(),
        after: new.to_owned(),
    };
    diffs(outcome).map(change).collect()
}

/// Returns the paths of the files that a call has changed.
pub(crate) fn changed_paths(outcome: &Outcome) -> Vec<&Path> {
    diffs(outcome).map(|(path, _, _)| path).collect()
}

fn diffs(outcome: &Outcome) -> impl Iterator<Item = (&Path, Option<&str>, &str)> {
    let has_changed = hook_changes::has_changed_files(outcome);
    outcome.content.iter().filter(move |_| has_changed).filter_map(diff)
}

fn diff(content: &ToolContent) -> Option<(&Path, Option<&str>, &str)> {
    match content {
        ToolContent::Diff { path, old, new } => Some((path, old.as_deref(), new)),
        ToolContent::Text { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    }
}
