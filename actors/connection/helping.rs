//! The client as the editor of its own prompts: its files, its terminals and the person at it, asked for over this connection
//! and no other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::{Context, Handler, Message, WeakRecipient};
use domain::editor::{
    Editor, EditorError, Elicitation, Elicited, Offers, TerminalExit, TerminalId, TerminalOrder, TerminalOutput,
};
use domain::{ConnectionId, QuestionId, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::oneshot;
use wire::to_client::{self, Answered};
use wire::{Id, method, rpc};

use super::{Asked, Connection};
use crate::mail::report;
use crate::tail::Tail;

/// A client that does not answer in this time counts as gone. A command may run for as long as it likes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a request to the client; the answer goes back by the channel, which closes if the connection does.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct AskClient {
    session: SessionId,
    /// The last event when it was asked. The client is told up to there first: of the call that asks, for one.
    after: u64,
    method: &'static str,
    params: Value,
    answer: Option<oneshot::Sender<Answered>>,
}

/// Something for the client that it does not answer.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) enum TellClient {
    Notice {
        method: &'static str,
        params: Value,
    },
    /// Somebody does not wait for an answer any more.
    Abandoned,
}

/// Tells so when it is dropped.
struct Abandon(WeakRecipient<TellClient>);

impl Drop for Abandon {
    fn drop(&mut self) {
        report(&self.0, TellClient::Abandoned);
    }
}

impl Connection {
    /// What no tool waits for any more is taken back from the client.
    fn withdraw_abandoned(&mut self) {
        let abandoned = |_: &Id, asked: &Asked| matches!(asked, Asked::Help(tool) if tool.is_closed());
        for (id, _) in self.asked.take_where(abandoned) {
            let params = serde_json::json!({ "requestId": id });
            self.outbox.push(&rpc::notification(method::CANCEL_REQUEST, &params));
        }
    }

    fn ask_client(&mut self, ask: AskClient) {
        let AskClient { method, params, answer, .. } = ask;
        self.withdraw_abandoned();
        let id = Id::from_text(QuestionId::new().as_str());
        self.outbox.push(&rpc::request(&id, method, &params));
        if let Some(answer) = answer {
            self.asked.insert(id, Asked::Help(answer));
        }
    }

    /// Asks what the client has been told enough for.
    pub(super) fn ask_what_is_due(&mut self, session: &SessionId) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        let seen = attachment.seen.number;
        let due: Vec<AskClient> = attachment.asks.extract_if(.., |ask| ask.after <= seen).collect();
        due.into_iter().for_each(|ask| self.ask_client(ask));
    }

    /// The client hears no more of the session. Nobody waits for answers, but a terminal has to be released.
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

impl Handler<TellClient> for Connection {
    type Result = ();

    fn handle(&mut self, tell: TellClient, _: &mut Context<Self>) {
        match tell {
            TellClient::Notice { method, params } => self.outbox.push(&rpc::notification(method, &params)),
            TellClient::Abandoned => self.withdraw_abandoned(),
        }
    }
}

pub(super) struct ClientEditor {
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
    pub(super) offers: Offers,
    pub(super) tail: Arc<Tail>,
    pub(super) reach: WeakRecipient<AskClient>,
    pub(super) tell: WeakRecipient<TellClient>,
}

impl ClientEditor {
    /// False if the client is gone.
    fn send(&self, method: &'static str, params: Value, answer: Option<oneshot::Sender<Answered>>) -> bool {
        let after = self.tail.watch().borrow().appended;
        report(&self.reach, AskClient { session: self.session.clone(), after, method, params, answer })
    }

    fn ask(&self, method: &'static str, params: Value) -> BoxFuture<'static, Result<Answered, EditorError>> {
        let (tell, told) = oneshot::channel();
        let sent = self.send(method, params, Some(tell));
        Box::pin(async move {
            if !sent {
                return Err(EditorError::Gone);
            }
            told.await.map_err(|_| EditorError::Gone)
        })
    }

    fn ask_briefly<T: 'static>(
        &self,
        method: &'static str,
        params: Value,
        read: fn(Answered) -> Result<T, EditorError>,
    ) -> BoxFuture<'static, Result<T, EditorError>> {
        let answer = self.ask(method, params);
        Box::pin(async move {
            let answer = tokio::time::timeout(PATIENCE, answer).await.map_err(|_| EditorError::Gone)??;
            read(answer)
        })
    }
}

impl Editor for ClientEditor {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn connection(&self) -> ConnectionId {
        self.connection.clone()
    }

    fn read_text(&self, path: PathBuf) -> BoxFuture<'static, Result<String, EditorError>> {
        let params = to_client::read_text(&self.session, path);
        self.ask_briefly(method::FS_READ_TEXT_FILE, params, to_client::text)
    }

    fn write_text(&self, path: PathBuf, text: String) -> BoxFuture<'static, Result<(), EditorError>> {
        let params = to_client::write_text(&self.session, path, text);
        self.ask_briefly(method::FS_WRITE_TEXT_FILE, params, to_client::done)
    }

    fn open_terminal(&self, order: TerminalOrder) -> BoxFuture<'static, Result<TerminalId, EditorError>> {
        let params = to_client::open_terminal(&self.session, order);
        self.ask_briefly(method::TERMINAL_CREATE, params, to_client::terminal_id)
    }

    fn terminal_output(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalOutput, EditorError>> {
        let params = to_client::terminal(&self.session, &terminal);
        self.ask_briefly(method::TERMINAL_OUTPUT, params, to_client::terminal_output)
    }

    fn terminal_exit(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalExit, EditorError>> {
        let params = to_client::terminal(&self.session, &terminal);
        let answer = self.ask(method::TERMINAL_WAIT_FOR_EXIT, params);
        Box::pin(async move { to_client::terminal_exit(answer.await?) })
    }

    fn kill_terminal(&self, terminal: TerminalId) -> BoxFuture<'static, Result<(), EditorError>> {
        let params = to_client::terminal(&self.session, &terminal);
        self.ask_briefly(method::TERMINAL_KILL, params, to_client::done)
    }

    fn release_terminal(&self, terminal: TerminalId) {
        let params = to_client::terminal(&self.session, &terminal);
        self.send(method::TERMINAL_RELEASE, params, None);
    }

    fn elicit(&self, elicitation: Elicitation) -> BoxFuture<'static, Result<Elicited, EditorError>> {
        let Some(params) = to_client::elicit(&self.session, elicitation) else {
            let why = "it cannot show a form like this".to_owned();
            return Box::pin(std::future::ready(Err(EditorError::Refused(why))));
        };
        let answer = self.ask(method::ELICITATION_CREATE, params);
        let abandon = Abandon(self.tell.clone());
        Box::pin(async move {
            // Dropped after the answer's future: only then does nobody wait any more.
            let _abandon = abandon;
            to_client::elicited(answer.await?)
        })
    }

    fn elicited_elsewhere(&self, id: String) {
        let params = serde_json::json!({ "elicitationId": id });
        report(&self.tell, TellClient::Notice { method: method::ELICITATION_COMPLETE, params });
    }
}
