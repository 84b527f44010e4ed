//! What acpd does for a child as its client: files, terminals, and questions to the person at the editor.

use std::sync::Arc;

use domain::editor::{Editor, Elicitation, Elicited, Form};
use domain::hosted::AgentOrder;
use domain::{CallSite, Mode, SeenFiles, SessionId, ToolContent, TurnId};
use futures_util::future::BoxFuture;
use process::Launcher;
use process::confine::AccessLimits;
use serde_json::{Value, json};
use wire::RpcError;
use wire::child::ChildRequest;

use crate::files;
use crate::terminals::Terminals;

/// The services for one child.
pub(crate) struct Services {
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
    launcher: Launcher,
    terminals: Arc<Terminals>,
}

impl Services {
    pub(crate) fn new(order: &AgentOrder, limits: Arc<AccessLimits>, launcher: Launcher) -> Self {
        let site = CallSite {
            session: order.session.clone(),
            turn: TurnId::from(""),
            cwd: order.cwd.clone(),
            extra_roots: order.extra_roots.clone(),
            mode: Mode::default(),
            environment: order.environment.clone(),
            seen: Arc::new(SeenFiles::default()),
            entered: Arc::default(),
            editor: None,
        };
        Self { site: Arc::new(site), limits, launcher, terminals: Arc::default() }
    }

    /// Serves a request; None for a permission question, which is not served here.
    pub(crate) fn serve(
        &self,
        request: ChildRequest,
        editor: Option<Arc<dyn Editor>>,
    ) -> Option<BoxFuture<'static, Result<Value, RpcError>>> {
        let (site, limits, terminals) = (self.site.clone(), self.limits.clone(), self.terminals.clone());
        Some(match request {
            ChildRequest::Permission(_) => return None,
            ChildRequest::ReadFile(read) => Box::pin(files::read(read, editor, site, limits)),
            ChildRequest::WriteFile(write) => Box::pin(files::write(write, editor, site, limits)),
            ChildRequest::CreateTerminal(create) => {
                let launcher = self.launcher.clone();
                Box::pin(async move { terminals.create(create, editor, site, limits, &launcher).await })
            }
            ChildRequest::TerminalOutput(id) => Box::pin(async move { terminals.output(id).await }),
            ChildRequest::WaitForExit(id) => Box::pin(async move { terminals.wait(id).await }),
            ChildRequest::KillTerminal(id) => Box::pin(async move { terminals.kill(id).await }),
            ChildRequest::ReleaseTerminal(id) => Box::pin(async move { terminals.release(id) }),
            ChildRequest::Elicit(elicitation) => Box::pin(elicit(elicitation, editor)),
        })
    }

    /// Replaces the terminals in the content of a call by what clients can show.
    pub(crate) fn resolve(&self, content: &mut [ToolContent]) {
        self.terminals.resolve(content);
    }

    pub(crate) fn site(&self) -> Arc<CallSite> {
        self.site.clone()
    }

    fn session(&self) -> &SessionId {
        &self.site.session
    }
}

/// Asks the person at the editor that sent the prompt. Without one that can show the question it is declined.
async fn elicit(elicitation: Elicitation, editor: Option<Arc<dyn Editor>>) -> Result<Value, RpcError> {
    let can_show = |editor: &Arc<dyn Editor>| match elicitation.form {
        Form::Fields(_) => editor.capabilities().forms,
        Form::Page { .. } => editor.capabilities().pages,
    };
    let Some(editor) = editor.filter(|editor| editor.is_connected() && can_show(editor)) else {
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
        self.limits.pinned_roots.forget(self.session());
    }
}
