//! One call of a server's tool: how it is described, run and cancelled, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use domain::editor::Editor;
use domain::text::cut;
use domain::tool::{Job, PlanRefusal, ToolHost, ToolRequest, ToolSpec};
use domain::{Access, CallSite, Grant, Mode, Outcome, SessionId, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use process::IoThread;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
    RequestId, ServerResult, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::link::{ConnectedServer, SharedServer};
use crate::server_group::OfferedTool;
use crate::{message_budget, names, tool_result};

/// How often the progress of a call is shown to users.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Whether the operator trusts the hints of servers about their tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HintPolicy {
    Trusted,
    Shown,
}

fn only_reads(tool: &Tool) -> bool {
    tool.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false)
}

/// Returns whether a mode offers a tool. `read-only`, `safe` and `plan` offer a tool that claims to
/// be read-only only if the operator trusts such hints.
pub(crate) fn allows(mode: Mode, tool: &Tool, hints: HintPolicy) -> bool {
    match mode {
        Mode::Full => true,
        Mode::ReadOnly | Mode::Safe | Mode::Plan => hints == HintPolicy::Trusted && only_reads(tool),
        Mode::Sandbox | Mode::ReadOffline => false,
    }
}

pub(crate) fn spec(offered: &OfferedTool, hints: HintPolicy) -> ToolSpec {
    let mut schema = Value::Object(offered.tool.input_schema.as_ref().clone());
    // Some providers require both fields.
    if schema.get("type").is_none() {
        schema["type"] = json!("object");
    }
    if schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    let words = offered.tool.description.as_deref().or(offered.tool.title.as_deref()).unwrap_or_default();
    ToolSpec {
        name: offered.name.clone(),
        description: cut(words, 10_000),
        schema,
        read_only: hints == HintPolicy::Trusted && only_reads(&offered.tool),
    }
}

/// Describes a call before it runs. The hints are the server's own claims and are shown as such.
fn card(offered: &OfferedTool, input: Value, hints: HintPolicy) -> ToolCard {
    let own = offered.tool.annotations.as_ref();
    let title = offered.tool.title.as_deref().or(own.and_then(|own| own.title.as_deref()));
    let mut title = format!("{}: {}", offered.server, cut(title.unwrap_or(&offered.tool.name), 100));
    if only_reads(&offered.tool) {
        title.push_str(" (read-only, according to the server)");
    } else if own.and_then(|own| own.destructive_hint) == Some(true) {
        title.push_str(" (destructive, according to the server)");
    }
    let access = if hints == HintPolicy::Trusted && only_reads(&offered.tool) {
        Access::Free
    } else {
        Access::Ask { always: Some(Grant::Tool(offered.name.clone())) }
    };
    ToolCard {
        tool: offered.name.clone(),
        title,
        kind: ToolKind::Other,
        locations: Vec::new(),
        input,
        preview: Vec::new(),
        access,
    }
}

/// The context of a call besides its request.
pub(crate) struct CallContext {
    pub(crate) io_thread: Arc<IoThread>,
    pub(crate) hints: HintPolicy,
    pub(crate) max_wait: Duration,
    pub(crate) output_limit: usize,
}

pub(crate) fn plan(
    tools: Vec<OfferedTool>,
    request: ToolRequest,
    site: &CallSite,
    context: CallContext,
) -> Result<Box<dyn Job>, PlanRefusal> {
    let ToolRequest { tool: name, input } = request;
    let refuse = |reason: String| PlanRefusal { kind: ToolKind::Other, title: name.clone(), reason };
    let Some(offered) = tools.into_iter().find(|tool| tool.name == name) else {
        return Err(refuse(format!(
            "there is no tool `{name}`; its MCP server is not available, or does not offer it any more ({PREFIX}... names \
             belong to MCP servers)",
            PREFIX = names::PREFIX,
        )));
    };
    if !allows(site.mode, &offered.tool, context.hints) {
        let mode = site.mode.id();
        return Err(refuse(format!("the session's mode `{mode}` leaves out `{name}`; only the user can change it")));
    }
    let Some(connected) = offered.shared.connected() else {
        return Err(refuse(format!("the MCP server `{}` is not connected", offered.server)));
    };
    let Value::Object(arguments) = input else {
        return Err(refuse("the input must be a JSON object".to_owned()));
    };
    let card = card(&offered, Value::Object(arguments.clone()), context.hints);
    let params = CallToolRequestParams::new(offered.tool.name.clone()).with_arguments(arguments);
    let call = RemoteCall {
        connected,
        shared: offered.shared,
        params,
        session: site.session.clone(),
        editor: site.editor.clone(),
        max_wait: context.max_wait,
        limit: context.output_limit,
    };
    Ok(Box::new(McpJob { card, call, io_thread: context.io_thread }))
}

struct McpJob {
    card: ToolCard,
    call: RemoteCall,
    io_thread: Arc<IoThread>,
}

impl Job for McpJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let mut task = match self.io_thread.spawn(self.call.run(host.clone())) {
                Ok(task) => task,
                Err(error) => return Outcome::failed(format!("The call could not be started: {error}.")),
            };
            // Dropping the task sends a cancellation to the server.
            tokio::select! {
                outcome = task.done() => outcome
                    .unwrap_or_else(|| Outcome::failed("the call failed inside acpd; this is a defect of acpd")),
                () = host.cancelled() => Outcome::cancelled(),
            }
        })
    }
}

/// A call as it runs on the thread for MCP servers.
struct RemoteCall {
    connected: Arc<ConnectedServer>,
    shared: Arc<SharedServer>,
    params: CallToolRequestParams,
    session: SessionId,
    editor: Option<Arc<dyn Editor>>,
    max_wait: Duration,
    limit: usize,
}

impl RemoteCall {
    async fn run(self, host: Arc<dyn ToolHost>) -> Outcome {
        let peer = &self.connected.peer;
        let (entry, progress) = self.shared.enter(self.session, self.editor, host.clone());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(self.params));
        let options = PeerRequestOptions::with_timeout(self.max_wait).reset_timeout_on_progress();
        let sent = match peer.send_request_with_option(request, options).await {
            Ok(sent) => sent,
            Err(error) => return failed(&error, &self.connected, &self.shared),
        };
        let id = sent.id.clone();
        // No progress is missed: there is no await in between, and messages are read on this
        // thread.
        entry.sent_as(sent.progress_token.clone());
        let mut cancel_on_drop = CancelOnDrop { peer: peer.clone(), request: Some(sent.id.clone()) };
        let answer = tokio::select! {
            answer = sent.await_response() => answer,
            never = show(progress, host) => match never {},
        };
        cancel_on_drop.request = None;
        match answer {
            Ok(ServerResult::CallToolResult(result)) => tool_result::of(result, self.limit),
            Ok(_) => Outcome::failed("The server's answer is not a result of a call that acpd knows."),
            Err(error) => match self.connected.refusals.take(&id) {
                Some(why) => Outcome::failed(why),
                None => failed(&error, &self.connected, &self.shared),
            },
        }
    }
}

fn failed(error: &ServiceError, connected: &Arc<ConnectedServer>, shared: &SharedServer) -> Outcome {
    Outcome::failed(match error {
        ServiceError::McpError(error) if error.message == message_budget::refused_answer() => {
            format!("The call may have had an effect, but acpd does not read the result: {}.", error.message)
        }
        ServiceError::McpError(error) => format!("The server refused: {}", cut(&error.message, 2000)),
        ServiceError::Timeout { timeout } => {
            format!("The server did not answer within {} s and showed no progress.", timeout.as_secs())
        }
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
            if shared.connected().is_some_and(|now| Arc::ptr_eq(&now, connected)) {
                shared.suspected.notify_one();
            }
            "The connection to the server was lost; the call may or may not have had an effect.".to_owned()
        }
        other => format!("The call failed: {}", cut(&other.to_string(), 2000)),
    })
}

async fn show(mut progress: watch::Receiver<Option<String>>, host: Arc<dyn ToolHost>) -> std::convert::Infallible {
    while progress.changed().await.is_ok() {
        let text = progress.borrow_and_update().clone();
        host.progress(text.into_iter().map(ToolContent::text).collect());
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
    std::future::pending().await
}

/// Sends a cancellation to the server if it is dropped while the request is open.
struct CancelOnDrop {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(request), Ok(runtime)) = (self.request.take(), Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(request), Some("cancelled by the user".to_owned()));
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}
