//! A client's view of one session: the cursor that reads its events, and the handling of each
//! event.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context, SpawnHandle};
use domain::event::Setting;
use domain::history::HistoryError;
use domain::instructions::SlashCommandCard;
use domain::{Event, EventKind, LogPosition, PromptOrigin, QuestionId, SessionId, Worktree};
use serde_json::{Value, json};
use tokio::sync::watch;
use wire::rpc;
use wire::{Id, Outbound, PriorView, ProtocolVersion, RpcError, Translator, method};

use super::client_requests::AskClient;
use super::{Connection, OwnRequest, opening};
use crate::cursor::CursorItem;
use crate::session::{AttachmentGuard, Session};
use crate::tail::Tail;

/// An item that one of this connection's cursors has read.
pub(super) struct CursorYield {
    pub(super) session: SessionId,
    /// The attach that the cursor belongs to: a cancelled cursor may still have yielded something.
    pub(super) attach: u64,
    pub(super) passed: CursorItem,
}

/// A session that this client has open.
pub(super) struct Attachment {
    pub(super) attach: u64,
    pub(super) version: ProtocolVersion,
    pub(super) addr: Addr<Session>,
    pub(super) tail: Arc<Tail>,
    pub(super) commands: SlashCommands,
    pub(super) translator: Translator,
    /// The position of the last event that the cursor passed.
    pub(super) seen: LogPosition,
    pub(super) start: AttachState,
    /// Whether a request to open the session has been answered. The session then stays open even if
    /// other such requests are withdrawn.
    pub(super) opened: bool,
    /// Whether the session has left memory; the next prompt reopens it.
    pub(super) ended: bool,
    pub(super) waiting: PendingReplies,
    /// Requests of tools to this client. Each waits until the cursor has passed all events that
    /// preceded it.
    pub(super) asks: Vec<AskClient>,
    pub(super) cursor: SpawnHandle,
    /// Dropping it detaches the client.
    pub(super) guard: AttachmentGuard,
}

/// The slash commands of a session.
pub(super) struct SlashCommands {
    pub(super) own: Vec<SlashCommandCard>,
    /// The slash commands that the session's MCP servers add.
    pub(super) served: watch::Receiver<Vec<SlashCommandCard>>,
    /// The stream of changes to the served commands.
    pub(super) changes: SpawnHandle,
}

/// The state of the session at the attach.
pub(super) struct AttachState {
    /// Its last event, which the answer to a bridge names.
    pub(super) head: LogPosition,
    /// How many messages it had.
    pub(super) messages: u64,
    /// Whether the client is a bridge, which needs the positions of events.
    pub(super) with_positions: bool,
    pub(super) resume: Option<Resume>,
    /// The worktree in which it worked.
    pub(super) worktree: Option<Worktree>,
}

/// Requests and questions that wait for the cursor.
#[derive(Default)]
pub(super) struct PendingReplies {
    pub(super) loading: Vec<PendingLoad>,
    /// Close requests, which are answered when the cursor has read the session's end.
    pub(super) closing: Vec<Id>,
    /// Requests that are answered at the session's end and need nothing else.
    pub(super) watching: Vec<Id>,
    /// Open questions, which are asked once the requests to open the session are answered.
    pub(super) unasked: Vec<(QuestionId, &'static str, Value)>,
}

/// Reports that the slash commands of the session's MCP servers have changed.
pub(super) struct CommandsChanged {
    pub(super) session: SessionId,
    pub(super) attach: u64,
}

/// A request to open the session, answered when the cursor has passed all earlier events.
pub(super) struct PendingLoad {
    pub(super) head: u64,
    pub(super) id: Id,
    /// Whether the request comes from a bridge that continues after a position it has seen.
    pub(super) resumes: bool,
}

/// How a bridge that lost an earlier connection continues on this one.
pub(super) struct Resume {
    /// Prompts that the bridge sent earlier, and that ended after this event, are answered here.
    pub(super) after: u64,
    /// The requests that will be answered here, by the ids that the bridge gave them. The bridge
    /// need not wait for the answers to any others.
    pub(super) pending: Vec<String>,
}

/// When the request that opens a session is answered.
pub(super) enum AnswerWhen {
    /// The caller answers at once, because nothing is replayed.
    Now,
    /// When the cursor has passed all earlier events.
    Load(Id),
    /// The same, for a bridge that continues after a position it has seen.
    Resume(Id),
}

impl Attachment {
    /// The answer to the request that opened the session.
    pub(super) fn opened_answer(&self, id: Option<&SessionId>) -> Value {
        let mut opened = self.version.session_opened(id, self.translator.session_options(), &self.all_commands());
        if self.start.with_positions {
            opened["_meta"]["acpd"]["at"] = json!([self.start.head.life, self.start.head.number]);
        }
        if let Some(worktree) = &self.start.worktree {
            opened["_meta"]["acpd"]["worktree"] = json!(worktree);
        }
        opened
    }

    /// The answer to a request that opened an existing session.
    fn opened_again(&self, session: &SessionId) -> Value {
        let mut opened = self.opened_answer(None);
        opened["_meta"]["acpd"]["sessionId"] = json!(session);
        opened["_meta"]["acpd"]["messages"] = json!(self.start.messages);
        opened
    }

    /// The notification that lists the available slash commands.
    pub(super) fn commands(&self, session: &SessionId) -> Vec<u8> {
        self.version.commands(session, &self.all_commands())
    }

    fn all_commands(&self) -> Vec<SlashCommandCard> {
        let served = self.commands.served.borrow();
        self.commands.own.iter().chain(served.iter()).cloned().collect()
    }

    /// What a client receives before the answer to a request that opens an existing session.
    fn preface(&mut self, session: &SessionId) -> Vec<Vec<u8>> {
        let commands = (!self.version.lists_commands_when_opened()).then(|| self.commands(session));
        self.translator.preface().into_iter().chain(commands).collect()
    }

    /// Removes a waiting request. Returns whether it was a request to open the session, or None if
    /// no such request waits.
    pub(super) fn withdraw(&mut self, request: &Id) -> Option<bool> {
        if let Some(at) = self.waiting.closing.iter().position(|close| close == request) {
            self.waiting.closing.remove(at);
            return Some(false);
        }
        if let Some(at) = self.waiting.watching.iter().position(|watch| watch == request) {
            self.waiting.watching.remove(at);
            return Some(false);
        }
        let at = self.waiting.loading.iter().position(|load| load.id == *request)?;
        self.waiting.loading.remove(at);
        Some(true)
    }

    /// Whether a request waits for the cursor.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.loading.is_empty() || !self.waiting.closing.is_empty() || !self.waiting.watching.is_empty()
    }
}

impl Connection {
    /// Detaches from every session, because the client will read no more updates. The sessions live
    /// on, and requests that waited for their events are not answered. Short requests in progress
    /// still are.
    pub(super) fn detach_all(&mut self, ctx: &mut Context<Self>) {
        for attachment in self.attachments.values() {
            let loads = attachment.waiting.loading.iter().map(|load| &load.id);
            for id in loads.chain(&attachment.waiting.closing).chain(&attachment.waiting.watching) {
                self.requests.close(id);
            }
        }
        for (_, prompt) in self.prompts.pending.drain() {
            self.requests.close(&prompt.request);
        }
        let sessions: Vec<SessionId> = self.attachments.keys().cloned().collect();
        sessions.iter().for_each(|session| self.detach(session, ctx));
    }

    /// Detaches from a session, which lives on without this client.
    pub(super) fn detach(&mut self, session: &SessionId, ctx: &mut Context<Self>) {
        self.cancel_cursor(session, ctx);
        if let Some(left) = self.attachments.remove(session) {
            self.drop_asks(left.asks);
        }
        self.own_requests
            .pending
            .take_where(|_, asked| matches!(asked, OwnRequest::Question { session: of, .. } if of == session));
        self.publish();
    }

    pub(super) fn cancel_cursor(&mut self, session: &SessionId, ctx: &mut Context<Self>) {
        if let Some(before) = self.attachments.get_mut(session) {
            ctx.cancel_future(before.cursor);
            ctx.cancel_future(before.commands.changes);
        }
    }

    pub(super) fn handle_cursor_item(&mut self, yielded: CursorYield, ctx: &mut Context<Self>) {
        let CursorYield { session, attach, passed } = yielded;
        if self.attachments.get(&session).is_none_or(|attachment| attachment.attach != attach) {
            return;
        }
        match passed {
            CursorItem::Events { events, unsaved, reservation } => {
                for event in events {
                    self.show(&session, &event, unsaved.as_ref(), ctx);
                }
                drop(reservation);
            }
            CursorItem::Ended => {
                self.ended(&session, RpcError::internal("the session ended unexpectedly", "load it again"), ctx)
            }
            CursorItem::Unreadable(error) => self.ended(&session, opening::history_failed(error), ctx),
        }
    }

    pub(super) fn announce(&mut self, CommandsChanged { session, attach }: &CommandsChanged) {
        if let Some(attachment) = self.attachments.get(session).filter(|attachment| attachment.attach == *attach) {
            self.outbox.push(&attachment.commands(session));
        }
    }

    fn show(&mut self, session: &SessionId, event: &Event, unsaved: Option<&HistoryError>, ctx: &mut Context<Self>) {
        tracing::debug!(parent: &self.span, %session, number = event.number, event = event.kind.name(), "sends");
        // The models that were offered when the client attached may be out of date.
        let models = if let EventKind::Configured { setting: Setting::Model(model), .. } = &event.kind {
            Some(self.models_with(model))
        } else {
            None
        };
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        attachment.seen = event.position();
        if let Some(models) = models {
            attachment.translator.offer(models);
        }
        for outbound in attachment.translator.translate(event) {
            self.pass_on(session, event.number, outbound, unsaved, ctx);
        }
        self.answer_load(session, event.number, ctx);
        self.send_due_requests(session);
    }

    /// Whether this client is attached to this session actor with a cursor that has not ended.
    pub(super) fn follows(&self, session: &SessionId, addr: &Addr<Session>) -> bool {
        self.attachments.get(session).is_some_and(|attachment| !attachment.ended && attachment.addr == *addr)
    }

    /// Answers a client that resumes a session it already follows. The cursor continues, and
    /// therefore no event is sent twice or skipped.
    pub(super) fn resume_again(&mut self, session: &SessionId, id: &Id, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        let opened = attachment.opened_again(session);
        attachment.preface(session).iter().for_each(|message| self.outbox.push(message));
        self.answer(id, Ok(opened), ctx);
    }

    /// Sends the open calls and questions to a client that starts in the middle of the log.
    pub(super) fn catch_up(&mut self, session: &SessionId, seen: PriorView, next: u64, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        for outbound in attachment.translator.catch_up(seen, next) {
            self.pass_on(session, next, outbound, None, ctx);
        }
    }

    fn pass_on(
        &mut self,
        session: &SessionId,
        number: u64,
        outbound: Outbound,
        unsaved: Option<&HistoryError>,
        ctx: &mut Context<Self>,
    ) {
        match outbound {
            Outbound::Update(message) => {
                // Only session updates are ever logged with their contents: other messages may hold
                // keys.
                tracing::trace!(parent: &self.span, message = %String::from_utf8_lossy(&message), "update");
                self.outbox.push(&message);
            }
            Outbound::Ask { question, method, params } => match self.attachments.get_mut(session) {
                Some(attachment) if !attachment.waiting.loading.is_empty() => {
                    attachment.waiting.unasked.push((question, method, params))
                }
                Some(_) | None => self.ask_user(session, question, method, &params),
            },
            Outbound::Settled { question } => {
                if let Some(attachment) = self.attachments.get_mut(session) {
                    attachment.waiting.unasked.retain(|(unasked, ..)| *unasked != question);
                }
                for (id, _) in self.own_requests.pending.take_where(
                    |_, asked| matches!(asked, OwnRequest::Question { question: open, .. } if *open == question),
                ) {
                    let params = json!({ "requestId": id });
                    self.outbox.push(&rpc::notification(method::CANCEL_REQUEST, &params));
                }
            }
            Outbound::Inserted { prompt, joined } => self.note_inserted(&prompt, joined, ctx),
            Outbound::TurnOver { turn } => {
                // The replayed end of an earlier turn does not concern the tools of the running
                // one.
                let happened_since = |attachment: &Attachment| number > attachment.start.head.number;
                if self.prompts.pending.contains_key(&turn) || self.attachments.get(session).is_some_and(happened_since)
                {
                    self.withdraw_tool_requests_of(session);
                }
            }
            Outbound::Answer { turn, origin, answer } => {
                let answer = match (answer, unsaved) {
                    (Ok(_), Some(error)) => Err(opening::history_failed(error.clone())),
                    (answer, _) => answer,
                };
                if let Some(prompt) = self.prompts.pending.remove(&turn) {
                    self.answer(&prompt.request, answer, ctx);
                } else if let Some(request) = self.inherited(session, number, origin) {
                    // The request arrived on another connection, so it is not among the requests of
                    // this one.
                    self.requests.open(request.clone(), None, None);
                    self.answer(&request, answer, ctx);
                }
            }
        }
    }

    fn ask_user(&mut self, session: &SessionId, question: QuestionId, method: &'static str, params: &Value) {
        let is_form = method == method::ELICITATION_CREATE;
        // Unique across daemons and repeated questions: an old answer never matches a new question.
        let id = Id::from_text(QuestionId::new().as_str());
        self.outbox.push(&rpc::request(&id, method, params));
        self.own_requests.pending.insert(id, OwnRequest::Question { session: session.clone(), question, is_form });
    }

    /// Asks the questions that were held back until all requests to open the session were answered.
    pub(super) fn ask_unasked(&mut self, session: &SessionId) {
        let Some(attachment) = self.attachments.get_mut(session).filter(|open| open.waiting.loading.is_empty()) else {
            return;
        };
        for (question, method, params) in std::mem::take(&mut attachment.waiting.unasked) {
            self.ask_user(session, question, method, &params);
        }
    }

    /// The prompt that this client's bridge sent before it reconnected, if that prompt started the
    /// turn.
    fn inherited(&self, session: &SessionId, number: u64, origin: Option<PromptOrigin>) -> Option<Id> {
        let origin = origin?;
        let after = self.attachments.get(session)?.start.resume.as_ref()?.after;
        let earlier =
            self.client.bridge.is_some() && origin.bridge == self.client.bridge && origin.connection != self.id;
        let mine = earlier && number > after;
        mine.then(|| Id::from_raw_text(&origin.request))?
    }

    pub(super) fn answer_load(&mut self, session: &SessionId, passed: u64, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        let passed: Vec<PendingLoad> = attachment.waiting.loading.extract_if(.., |load| passed >= load.head).collect();
        if passed.is_empty() {
            return;
        }
        attachment.opened = true;
        let opened = attachment.opened_again(session);
        let pending = attachment.start.resume.as_ref().map(|resume| json!(resume.pending));
        let is_bridge = self.client.bridge.is_some();
        if passed.iter().any(|load| !load.resumes) {
            attachment.preface(session).iter().for_each(|message| self.outbox.push(message));
        }
        for load in passed {
            let mut opened = opened.clone();
            if load.resumes {
                opened["pending"] = pending.clone().unwrap_or_else(|| json!([]));
                // Any other prompt that the bridge sent earlier was not accepted, and will not be.
                opened["final"] = json!(is_bridge);
            }
            self.answer(&load.id, Ok(opened), ctx);
        }
        self.ask_unasked(session);
    }

    /// Handles the end of a session that left memory. Requests that wait for it are answered: with
    /// its real end if the cursor has read it, else with `error`.
    pub(super) fn ended(&mut self, session: &SessionId, error: RpcError, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        attachment.ended = true;
        let loads = std::mem::take(&mut attachment.waiting.loading).into_iter().map(|load| load.id);
        let closes = std::mem::take(&mut attachment.waiting.closing);
        let watches = std::mem::take(&mut attachment.waiting.watching);
        attachment.waiting.unasked.clear();
        let asks = std::mem::take(&mut attachment.asks);
        self.drop_asks(asks);
        self.settle_prompts_of(session, &error, ctx);
        for request in loads {
            self.answer(&request, Err::<Value, _>(error.clone()), ctx);
        }
        for request in closes {
            self.finish_close(session, &request, ctx);
        }
        for request in watches {
            self.report_end(request, session.clone(), ctx);
        }
    }
}
