//! Requests that the tools of a client's prompts make to that client: for its files, its terminals
//! and its user. They go over this connection and no other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, Message, WeakRecipient};
use domain::editor::{
    Editor, EditorCapabilities, EditorError, Elicitation, Elicited, Form, LineRange, TerminalExit, TerminalId,
    TerminalOutput, TerminalRequest,
};
use domain::{ConnectionId, QuestionId, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::oneshot;
use wire::client_requests::{self, Answered};
use wire::{Id, ProtocolVersion, RpcError, method, rpc};

use super::elicitations::Elicitations;
use super::{Connection, OwnRequest};
use crate::mail::{reaches, report};
use crate::tail::Tail;

/// How long the client may take for quick requests. A write and a new terminal may wait for the
/// user, and a command may run for any time.
const QUICK_DEADLINE: Duration = Duration::from_secs(10);

/// Sends a request to the client. The answer is returned over the channel, which closes when the
/// connection does.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct AskClient {
    session: SessionId,
    /// The number of the last event when the request was made. The client receives everything up to
    /// that event first, such as the call that makes the request.
    after: u64,
    method: &'static str,
    params: Value,
    answer: Option<oneshot::Sender<Answered>>,
}

/// A message for the client that needs no answer.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) enum NotifyClient {
    ClientNotification {
        method: &'static str,
        params: Value,
    },
    /// A caller no longer waits for its answer.
    Abandoned,
}

impl AskClient {
    /// Whether its caller has given up.
    fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// An answer that a tool waits for. Dropping it withdraws the request. The order of the fields
/// matters: the receiver is dropped first, and therefore the connection sees that the caller has
/// given up.
struct PendingReply {
    reply: oneshot::Receiver<Answered>,
    _abandon: RequestGuard,
}

/// Reports on drop that the caller has given up.
struct RequestGuard(WeakRecipient<NotifyClient>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        report(&self.0, NotifyClient::Abandoned);
    }
}

impl Connection {
    /// The interface through which the tools of this client's prompts make requests to it.
    pub(super) fn as_editor(
        &self,
        session: &SessionId,
        tail: &Arc<Tail>,
        ctx: &Context<Self>,
    ) -> Option<Arc<dyn Editor>> {
        let capabilities = self.capabilities();
        let offered = EditorCapabilities {
            read_files: capabilities.read_files,
            write_files: capabilities.write_files,
            terminal: capabilities.terminal,
            forms: capabilities.elicits_form,
            pages: capabilities.elicits_url,
        };
        (offered != EditorCapabilities::default()).then(|| {
            Arc::new(ClientEditor {
                version: self.version(),
                connection: self.id.clone(),
                session: session.clone(),
                capabilities: offered,
                tail: tail.clone(),
                elicitations: self.own_requests.elicitations.clone(),
                requests: ctx.address().recipient().downgrade(),
                notifications: ctx.address().recipient().downgrade(),
            }) as Arc<dyn Editor>
        })
    }

    /// Withdraws from the client the requests for which no tool waits any more.
    fn withdraw_abandoned(&mut self) {
        for attachment in self.attachments.values_mut() {
            attachment.asks.retain(|ask| !ask.is_abandoned());
        }
        self.withdraw_tool_requests(|asked| matches!(asked, OwnRequest::ForTool { answer, .. } if answer.is_closed()));
    }

    /// Withdraws the requests of a turn that is over. Its tools receive a cancellation, and must
    /// not achieve the effect by other means.
    pub(super) fn withdraw_tool_requests_of(&mut self, session: &SessionId) {
        self.withdraw_tool_requests(|asked| matches!(asked, OwnRequest::ForTool { session: of, .. } if of == session));
    }

    fn withdraw_tool_requests(&mut self, which: impl Fn(&OwnRequest) -> bool) {
        for (id, asked) in self.own_requests.pending.take_where(|_, asked| which(asked)) {
            let params = serde_json::json!({ "requestId": id });
            self.outbox.push(&rpc::notification(method::CANCEL_REQUEST, &params));
            if let OwnRequest::ForTool { session, method, answer } = asked {
                // The caller may be gone.
                let _ = answer.send(Err(RpcError::cancelled("the answer is no longer needed")));
                if method == method::TERMINAL_CREATE {
                    self.own_requests.pending.insert(id, OwnRequest::LateTerminal(session));
                }
            }
        }
    }

    pub(super) fn pass_to_tool(
        &mut self,
        session: &SessionId,
        method: &'static str,
        tool: oneshot::Sender<Answered>,
        result: Answered,
    ) {
        // The tool may have ended meanwhile.
        if let Err(result) = tool.send(result)
            && method == method::TERMINAL_CREATE
        {
            self.release_late_terminal(session, result);
        }
    }

    /// Releases a terminal that was created after its tool had given up.
    pub(super) fn release_late_terminal(&mut self, session: &SessionId, result: Answered) {
        if let Ok(terminal) = client_requests::terminal_id(result) {
            let params = client_requests::terminal(session, &terminal);
            let (session, method) = (session.clone(), method::TERMINAL_RELEASE);
            self.ask_client(AskClient { session, after: 0, method, params, answer: None });
        }
    }

    fn ask_client(&mut self, ask: AskClient) {
        if ask.is_abandoned() {
            return;
        }
        let AskClient { session, method, params, answer, .. } = ask;
        let id = Id::from_text(QuestionId::new().as_str());
        self.outbox.push(&rpc::request(&id, method, &params));
        if let Some(answer) = answer {
            self.own_requests.pending.insert(id, OwnRequest::ForTool { session, method, answer });
        }
    }

    /// Sends the requests whose preceding events the cursor has passed.
    pub(super) fn send_due_requests(&mut self, session: &SessionId) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        let seen = attachment.seen.number;
        let due: Vec<AskClient> = attachment.asks.extract_if(.., |ask| ask.after <= seen).collect();
        due.into_iter().for_each(|ask| self.ask_client(ask));
    }

    /// Drops the requests of a session from which the client receives nothing more. No caller waits
    /// for the answers, but terminals must be released.
    pub(super) fn drop_asks(&mut self, asks: Vec<AskClient>) {
        asks.into_iter().filter(|ask| ask.answer.is_none()).for_each(|ask| self.ask_client(ask));
    }
}

impl Handler<AskClient> for Connection {
    type Result = ();

    fn handle(&mut self, ask: AskClient, _: &mut Context<Self>) {
        match self.attachments.get_mut(&ask.session) {
            Some(attachment) if !attachment.ended && attachment.seen.number < ask.after => attachment.asks.push(ask),
            Some(_) | None => self.ask_client(ask),
        }
    }
}

impl Handler<NotifyClient> for Connection {
    type Result = ();

    fn handle(&mut self, tell: NotifyClient, _: &mut Context<Self>) {
        match tell {
            NotifyClient::ClientNotification { method, params } => {
                self.outbox.push(&rpc::notification(method, &params))
            }
            NotifyClient::Abandoned => self.withdraw_abandoned(),
        }
    }
}

pub(super) struct ClientEditor {
    pub(super) version: ProtocolVersion,
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
    pub(super) capabilities: EditorCapabilities,
    pub(super) tail: Arc<Tail>,
    pub(super) elicitations: Arc<Elicitations>,
    pub(super) requests: WeakRecipient<AskClient>,
    pub(super) notifications: WeakRecipient<NotifyClient>,
}

impl ClientEditor {
    /// Returns false if the client is gone.
    fn send(&self, method: &'static str, params: Value, answer: Option<oneshot::Sender<Answered>>) -> bool {
        let after = self.tail.watch().borrow().appended;
        report(&self.requests, AskClient { session: self.session.clone(), after, method, params, answer })
    }

    fn ask(&self, method: &'static str, params: Value) -> BoxFuture<'static, Result<Answered, EditorError>> {
        let (answer, reply) = oneshot::channel();
        let sent = self.send(method, params, Some(answer));
        let mut awaited = PendingReply { reply, _abandon: RequestGuard(self.notifications.clone()) };
        Box::pin(async move {
            if !sent {
                return Err(EditorError::Gone);
            }
            (&mut awaited.reply).await.map_err(|_| EditorError::Gone)
        })
    }

    /// Waits until the client answers, the turn ends, or the connection closes.
    fn ask_patiently<T: 'static>(
        &self,
        method: &'static str,
        params: Value,
        read: fn(Answered) -> Result<T, EditorError>,
    ) -> BoxFuture<'static, Result<T, EditorError>> {
        let answer = self.ask(method, params);
        Box::pin(async move { read(answer.await?) })
    }

    fn ask_briefly<T: 'static>(
        &self,
        method: &'static str,
        params: Value,
        read: fn(Answered) -> Result<T, EditorError>,
    ) -> BoxFuture<'static, Result<T, EditorError>> {
        let answer = self.ask_patiently(method, params, read);
        Box::pin(async move { tokio::time::timeout(QUICK_DEADLINE, answer).await.unwrap_or(Err(EditorError::Gone)) })
    }
}

impl Editor for ClientEditor {
    fn capabilities(&self) -> EditorCapabilities {
        self.capabilities
    }

    fn is_connected(&self) -> bool {
        reaches(&self.requests)
    }

    fn connection(&self) -> ConnectionId {
        self.connection.clone()
    }

    fn read_text(&self, path: PathBuf, lines: Option<LineRange>) -> BoxFuture<'static, Result<String, EditorError>> {
        let params = client_requests::read_text(&self.session, path, lines);
        self.ask_briefly(method::FS_READ_TEXT_FILE, params, client_requests::text)
    }

    fn write_text(&self, path: PathBuf, text: String) -> BoxFuture<'static, Result<(), EditorError>> {
        let params = client_requests::write_text(&self.session, path, text);
        self.ask_patiently(method::FS_WRITE_TEXT_FILE, params, client_requests::done)
    }

    fn open_terminal(&self, request: TerminalRequest) -> BoxFuture<'static, Result<TerminalId, EditorError>> {
        let params = client_requests::open_terminal(&self.session, request);
        self.ask_patiently(method::TERMINAL_CREATE, params, client_requests::terminal_id)
    }

    fn terminal_output(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalOutput, EditorError>> {
        let params = client_requests::terminal(&self.session, &terminal);
        self.ask_briefly(method::TERMINAL_OUTPUT, params, client_requests::terminal_output)
    }

    fn terminal_exit(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalExit, EditorError>> {
        let params = client_requests::terminal(&self.session, &terminal);
        self.ask_patiently(method::TERMINAL_WAIT_FOR_EXIT, params, client_requests::terminal_exit)
    }

    fn kill_terminal(&self, terminal: TerminalId) -> BoxFuture<'static, Result<(), EditorError>> {
        let params = client_requests::terminal(&self.session, &terminal);
        self.ask_briefly(method::TERMINAL_KILL, params, client_requests::done)
    }

    fn release_terminal(&self, terminal: TerminalId) {
        let params = client_requests::terminal(&self.session, &terminal);
        self.send(method::TERMINAL_RELEASE, params, None);
    }

    fn elicit(&self, elicitation: Elicitation) -> BoxFuture<'static, Result<Elicited, EditorError>> {
        let refused = |why: &str| Box::pin(std::future::ready(Err(EditorError::Refused(why.to_owned()))));
        let page = match &elicitation.form {
            Form::Page { id, .. } => Some(id.clone()),
            Form::Fields(_) => None,
        };
        let Some(params) = self.version.elicit(&self.session, elicitation) else {
            return refused("it cannot show a form like this");
        };
        let Some(open) = self.elicitations.open() else {
            return refused("too many questions are open there");
        };
        if let Some(page) = page {
            self.elicitations.opens_page(&page);
        }
        let answer = self.ask_patiently(method::ELICITATION_CREATE, params, client_requests::elicited);
        Box::pin(async move {
            let _open = open;
            answer.await
        })
    }

    fn complete_elicitation(&self, id: String) {
        if !self.elicitations.closes_page(&id) {
            return;
        }
        let params = serde_json::json!({ "elicitationId": id });
        report(&self.notifications, NotifyClient::ClientNotification { method: method::ELICITATION_COMPLETE, params });
    }
}
