//! Serves the requests of a child as its client: files, terminals, and questions to the user.
//!
//! A child is a program with the user's rights, so this is not a security boundary around it. But
//! whatever acpd does for it, or has the editor do, stays inside the session's folders, does not
//! touch acpd's own files, and obeys the rules.

use std::path::PathBuf;
use std::sync::Arc;

use domain::editor::{Editor, Elicitation, Elicited, Form};
use domain::hosted::{AgentLaunch, ClientRules};
use domain::{Access, CallSite, Mode, SeenFiles, SessionId, ToolCard, ToolContent, ToolKind, TurnId};
use futures_util::future::BoxFuture;
use process::confine::{AccessLimits, Roots};
use process::{Launcher, Sandbox};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::RpcError;
use wire::child::ChildRequest;

use crate::files;
use crate::hosts::AgentHostSettings;
use crate::terminals::Terminals;

/// The most files that are read or written for one child at a time. Each may be in memory as a
/// whole, more than once.
const FILES_AT_ONCE: usize = 2;

/// Serves the requests of one child.
pub(crate) struct Services {
    context: ServiceContext,
    terminals: Arc<Terminals>,
}

/// The session, folders, rules and limits under which the requests of one child are served.
#[derive(Clone)]
pub(crate) struct ServiceContext {
    pub(crate) site: Arc<CallSite>,
    pub(crate) limits: Arc<AccessLimits>,
    pub(crate) launcher: Launcher,
    /// The acpd binary, which runs as the parent of commands in an editor's terminal; the daemon
    /// recognises them by it.
    pub(crate) terminal_parent: Option<PathBuf>,
    files: Arc<Semaphore>,
    rules: Option<Arc<dyn ClientRules>>,
    confinement: Option<Confinement>,
}

/// The sandbox of a child, which also applies to the commands that it asks for.
#[derive(Clone)]
struct Confinement {
    readable: Option<Vec<PathBuf>>,
}

impl ServiceContext {
    /// Collects what the requests of a child need. `is_confined` is whether the child runs in the
    /// sandbox.
    pub(crate) fn new(launch: &AgentLaunch, settings: &AgentHostSettings, is_confined: bool) -> Self {
        let site = CallSite {
            session: launch.session.clone(),
            turn: TurnId::from(""),
            agent: None,
            cwd: launch.cwd.clone(),
            extra_roots: launch.extra_roots.clone(),
            mode: Mode::default(),
            environment: launch.environment.clone(),
            seen: Arc::new(SeenFiles::default()),
            entered: Arc::default(),
            editor: None,
        };
        Self {
            site: Arc::new(site),
            limits: settings.limits(),
            launcher: settings.launcher.clone(),
            terminal_parent: settings.terminal_parent.clone(),
            files: Arc::new(Semaphore::new(FILES_AT_ONCE)),
            rules: settings.rules.clone(),
            confinement: is_confined.then(|| Confinement { readable: settings.sandbox_reads.clone() }),
        }
    }

    /// Waits until another file may be read or written. The semaphore is never closed, so this
    /// always returns a permit.
    pub(crate) async fn file_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.files.clone().acquire_owned().await.ok()
    }

    pub(crate) fn is_confined(&self) -> bool {
        self.confinement.is_some()
    }

    /// Returns the sandbox of the child and its commands, if they run in one: they may write in the
    /// session's folders only.
    pub(crate) async fn sandbox(&self) -> Result<Option<Sandbox>, String> {
        let Some(Confinement { readable }) = self.confinement.clone() else { return Ok(None) };
        let (site, limits) = (self.site.clone(), self.limits.clone());
        let opened = tokio::task::spawn_blocking(move || Roots::open(&site, &limits).map(|roots| roots.folders()));
        let writable = match opened.await {
            Ok(Ok(folders)) => folders,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("opening the session's folders failed".to_owned()),
        };
        Ok(Some(Sandbox { writable, readable, protected_paths: self.limits.protected_paths.clone() }))
    }

    /// Returns an error if a rule denies the request, or if a command reaches acpd's own files.
    pub(crate) async fn check(
        &self,
        tool: &str,
        kind: ToolKind,
        change: impl FnOnce(&mut ToolCard),
    ) -> Result<(), RpcError> {
        let Some(rules) = &self.rules else { return Ok(()) };
        let mut card = ToolCard { kind, access: Access::Ask { always: None }, ..ToolCard::begun(tool, "") };
        change(&mut card);
        match rules.refusal(card, self.site.clone()).await {
            Some(reason) => {
                Err(RpcError::invalid_request(reason, "do without it, or ask the user to change the rules"))
            }
            None => Ok(()),
        }
    }
}

impl Services {
    pub(crate) fn new(context: ServiceContext) -> Self {
        Self { context, terminals: Arc::default() }
    }

    /// Serves a request. Returns None for a permission question, which the session answers.
    pub(crate) fn serve(
        &self,
        request: ChildRequest,
        editor: Option<Arc<dyn Editor>>,
    ) -> Option<BoxFuture<'static, Result<Value, RpcError>>> {
        let (context, terminals) = (self.context.clone(), self.terminals.clone());
        Some(match request {
            ChildRequest::Permission(_) => return None,
            ChildRequest::ReadFile(read) => Box::pin(files::read(read, editor, context)),
            ChildRequest::WriteFile(write) => Box::pin(files::write(write, editor, context)),
            ChildRequest::CreateTerminal(create) => {
                Box::pin(async move { terminals.create(create, editor, &context).await })
            }
            ChildRequest::TerminalOutput(id) => Box::pin(async move { terminals.output(id).await }),
            ChildRequest::WaitForExit(id) => Box::pin(async move { terminals.wait(id).await }),
            ChildRequest::KillTerminal(id) => Box::pin(async move { terminals.kill(id).await }),
            ChildRequest::ReleaseTerminal(id) => Box::pin(async move { terminals.release(id) }),
            ChildRequest::Elicit(elicitation) => Box::pin(elicit(elicitation, editor)),
        })
    }

    /// Replaces terminals in the content of a call with content that clients can show.
    pub(crate) fn resolve(&self, content: &mut [ToolContent]) {
        self.terminals.resolve(content);
    }

    fn session(&self) -> &SessionId {
        &self.context.site.session
    }
}

/// Whether the editor that sent the prompt is there and can show a question.
pub(crate) fn can_show(elicitation: &Elicitation, editor: Option<&Arc<dyn Editor>>) -> bool {
    editor.is_some_and(|editor| {
        editor.is_connected()
            && match elicitation.form {
                Form::Fields(_) => editor.capabilities().forms,
                Form::Page { .. } => editor.capabilities().pages,
            }
    })
}

/// Asks the user through the editor that sent the prompt. Declines if no connected editor can show
/// the question.
async fn elicit(elicitation: Elicitation, editor: Option<Arc<dyn Editor>>) -> Result<Value, RpcError> {
    let Some(editor) = editor.filter(|editor| can_show(&elicitation, Some(editor))) else {
        return Ok(json!({ "action": "decline" }));
    };
    Ok(match editor.elicit(elicitation).await {
        Ok(Elicited::Accepted(Some(content))) => json!({ "action": "accept", "content": content }),
        Ok(Elicited::Accepted(None)) => json!({ "action": "accept" }),
        Ok(Elicited::Declined) | Err(_) => json!({ "action": "decline" }),
        Ok(Elicited::Cancelled) => json!({ "action": "cancel" }),
    })
}

impl Drop for Services {
    fn drop(&mut self) {
        self.context.limits.pinned_roots.forget(self.session());
    }
}
