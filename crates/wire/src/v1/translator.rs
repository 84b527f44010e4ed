//! Translates a session's log into what a client receives, live and on load alike.
//!
//! It receives one session's events in order, starting at the client's cursor. It does no I/O,
//! chooses no request ids, and does not know which questions and prompts its client has open.

mod hosted;

use std::collections::{BTreeMap, BTreeSet};

use agent_client_protocol_schema::v1 as acp;
use domain::event::{Setting, SteeringPrompt};
use domain::model::ModelInfo;
use domain::state::{AskedQuestion, OpenCall};
use domain::tool::OutcomeKind;
use domain::{
    CallId, ConnectionId, Content, Event, EventKind, Extra, MessageId, Outcome, PlanEntry, PromptOrigin, Question,
    SessionId, StopReason, ToolCard, ToolContent, TurnId, Usage,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer_data::SessionOptions;
use crate::chunk::{self, ChunkParams, Speaker};
use crate::client_requests;
use crate::compactions::Compactions;
use crate::inquiries;
use crate::method;
use crate::rpc::{self, RpcError};
use crate::translator::{Outbound, PriorView, TranslatorStart, Viewer};
use crate::v1::encode::{self, content, permission, session_options};

#[derive(Debug)]
pub struct Translator {
    session: SessionId,
    viewer: Viewer,
    session_options: SessionOptions,
    head: u64,
    own_from: u64,
    /// The calls without an outcome. Later events name them only by id.
    calls: BTreeMap<CallId, OpenCall>,
    /// The calls of sub-agents. They are not shown until the user is asked about one.
    hidden: BTreeSet<CallId>,
    /// The unfinished calls that this translator has announced.
    announced: BTreeSet<CallId>,
    open_questions: Vec<AskedQuestion>,
    /// The running turn, if the viewer's own prompt started it.
    own_turn: Option<TurnId>,
    /// Whether the message that started the running turn is in the log.
    is_inserted: bool,
    compactions: Compactions,
}

impl Translator {
    pub fn new(attach: TranslatorStart) -> Self {
        let (next, hidden) = (attach.next, attach.hidden_calls());
        let mut translator = Self {
            session: attach.session,
            viewer: attach.viewer,
            session_options: attach.session_options,
            head: attach.head,
            own_from: attach.own_from,
            calls: attach.open_calls.into_iter().collect(),
            hidden,
            announced: BTreeSet::new(),
            open_questions: attach.open_questions,
            own_turn: None,
            is_inserted: false,
            compactions: Compactions::default(),
        };
        if let Some(open) = attach.turn {
            translator.own_turn = translator.is_own(&open.origin).then_some(open.id);
            translator.is_inserted = open.asked.is_some_and(|asked| asked < next);
        }
        translator
    }

    /// The options of the session after the events translated so far.
    pub fn session_options(&self) -> &SessionOptions {
        &self.session_options
    }

    /// Replaces the models among the options of the session, from the next update on.
    pub fn offer(&mut self, models: Vec<ModelInfo>) {
        self.session_options.models = models;
    }

    /// The first messages for a client that starts at event `next`: the open calls, unless it has
    /// seen them, and the unanswered earlier questions.
    pub fn catch_up(&mut self, seen: PriorView, next: u64) -> Vec<Outbound> {
        let mut outbound = Vec::new();
        for (id, open) in self.calls.iter().filter(|(id, _)| !self.hidden.contains(id)) {
            // Either way the client knows the call from here on, and later events only update it.
            self.announced.insert(id.clone());
            if seen == PriorView::Everything {
                continue;
            }
            let announced = announced(id, open);
            let params = ChunkParams::new(&self.session, &announced, None);
            outbound.push(Outbound::Update(rpc::notification(method::SESSION_UPDATE, &params)));
        }
        let before = self.open_questions.iter().filter(|open| open.at < next);
        outbound.extend(before.map(|open| self.question(&open.question)));
        outbound
    }

    fn is_own(&self, origin: &PromptOrigin) -> bool {
        origin.connection == self.viewer.connection
            || (self.viewer.bridge.is_some() && origin.bridge == self.viewer.bridge)
    }

    /// Translates the next event.
    pub fn translate(&mut self, event: &Event) -> Vec<Outbound> {
        match &event.kind {
            EventKind::Delegated { call, .. } => {
                self.hidden.insert(call.clone());
                Vec::new()
            }
            EventKind::ToolCalled { call, card, .. } if self.hidden.contains(call) => {
                self.calls.insert(call.clone(), OpenCall::new(card.clone()));
                Vec::new()
            }
            EventKind::ToolEnded { call, .. } if self.hidden.remove(call) => {
                self.calls.remove(call);
                Vec::new()
            }
            EventKind::ToolStarted { call } if self.hidden.contains(call) => {
                if let Some(open) = self.calls.get_mut(call) {
                    open.started = true;
                }
                Vec::new()
            }
            EventKind::ToolProgressed { call, .. } if self.hidden.contains(call) => Vec::new(),
            EventKind::PermissionAsked { question } if self.hidden.remove(&question.call) => {
                self.reveal(event, &question.call).into_iter().chain(self.ask(event, question)).collect()
            }
            EventKind::CallPaused { call } if self.hidden.remove(call) => {
                let runs = self.update_call(event, call, acp::ToolCallStatus::InProgress, None, None);
                // The last update for an event carries its position.
                let shown = self.revealed(call).map(|announced| self.update_without_position(&announced));
                shown.into_iter().chain([runs]).collect()
            }
            EventKind::AgentText { message, text } => {
                vec![self.text_chunk(Speaker::Agent, text, message.as_str(), self.position(event))]
            }
            EventKind::Noticed { message, text, passing } => self.noticed(event, message, text, *passing),
            EventKind::AgentThought { message, text } => {
                vec![self.text_chunk(Speaker::Thought, text, message.as_str(), self.position(event))]
            }
            EventKind::UserMessage { turn, message, content, steering, .. } => {
                self.user_message(event, turn, message, content, steering.as_ref())
            }
            EventKind::CallBegun { call, tool, title, .. } => {
                vec![self.tool_called(event, call, &ToolCard::begun(tool, title))]
            }
            EventKind::ToolCalled { call, card, .. } => vec![self.tool_called(event, call, card)],
            EventKind::ToolStarted { call } => {
                vec![self.update_call(event, call, acp::ToolCallStatus::InProgress, None, None)]
            }
            EventKind::ToolProgressed { call, content } => vec![self.tool_progressed(event, call, content)],
            EventKind::ToolEnded { call, outcome } => vec![self.tool_ended(event, call, outcome)],
            EventKind::PermissionAsked { question } => self.ask(event, question).into_iter().collect(),
            EventKind::PermissionAnswered { question, .. } => vec![Outbound::Settled { question: question.clone() }],
            EventKind::Hosted { event: hosted } => self.hosted(event, hosted),
            EventKind::Planned { entries, .. } => vec![self.planned(event, entries)],
            EventKind::Configured { setting, .. } => self.configured(event, setting),
            EventKind::Titled { title } => {
                let info = acp::SessionInfoUpdate::new().title(title.clone()).updated_at(event.at.to_rfc3339());
                vec![self.update(event, &acp::SessionUpdate::SessionInfoUpdate(info))]
            }
            EventKind::Used { .. } if !self.viewer.extras.has(Extra::UsageUpdate) => Vec::new(),
            EventKind::Used { window_used, window, cost, .. } => {
                let cost = cost.as_ref().map(|cost| acp::Cost::new(cost.amount, &cost.currency));
                let usage = acp::UsageUpdate::new(*window_used, *window).cost(cost);
                vec![self.update(event, &acp::SessionUpdate::UsageUpdate(usage))]
            }
            EventKind::Compacting { compaction, text } if self.viewer.capabilities.compaction => {
                let updates = self.compactions.progress(compaction, text);
                self.updates(event, &updates)
            }
            EventKind::Compacting { .. } => Vec::new(),
            EventKind::Compacted { summary, compaction, .. } => {
                vec![self.compacted(event, summary, compaction.as_ref())]
            }
            EventKind::PromptDropped { prompt, origin } => {
                let answer = self.prompt_answer(&StopReason::Cancelled, &Usage::default(), None);
                vec![Outbound::Answer { turn: prompt.clone(), origin: Some(origin.clone()), answer }]
            }
            EventKind::TurnEnded { turn, origin, message, reason, usage, steering } => {
                // No position: a reader that was cut off before the answer must start again here.
                let ended = self.compactions.turn_ended(reason).map(|ended| self.update_without_position(&ended));
                let mut outbound: Vec<Outbound> = ended.into_iter().collect();
                outbound.extend(self.turn_ended(turn, origin, message.as_ref(), reason, usage));
                outbound.extend(steering.iter().map(|joined| self.joined_turn_ended(joined, reason, usage)));
                outbound
            }
            EventKind::TurnStarted { turn, origin } => {
                self.own_turn = self.is_own(origin).then(|| turn.clone());
                self.is_inserted = false;
                Vec::new()
            }
            EventKind::Created { mode, approval, model, .. } => {
                (self.session_options.mode, self.session_options.approval, self.session_options.model) = (*mode, *approval, model.clone());
                Vec::new()
            }
            // Only the model sees less than before.
            EventKind::ResultsCleared { .. }
            // A message in the log beside these events describes what was done.
            | EventKind::Moved { .. }
            | EventKind::Restored { .. }
            | EventKind::Reopened
            // This version has no state for a call that waits.
            | EventKind::CallPaused { .. }
            | EventKind::CallResumed { .. }
            // This version has no agent terminals; the output is shown when the model reads it.
            | EventKind::BackgroundOutput { .. }
            | EventKind::BackgroundEnded { .. }
            | EventKind::ResponseSealed { .. }
            | EventKind::CallsRequested { .. }
            | EventKind::Abandoned { .. } => Vec::new(),
        }
    }

    /// Sends a passing notice, live only, to clients that show notices; others receive a message.
    fn noticed(&self, event: &Event, message: &MessageId, text: &str, passing: bool) -> Vec<Outbound> {
        if !(passing && self.viewer.capabilities.notices) {
            return vec![self.text_chunk(Speaker::Agent, text, message.as_str(), self.position(event))];
        }
        let notice = acp::Notice::new(acp::NoticeSeverity::Info, text);
        let is_live = event.number > self.head;
        is_live.then(|| self.update(event, &acp::SessionUpdate::Notice(notice))).into_iter().collect()
    }

    fn compacted(&mut self, event: &Event, summary: &str, compaction: Option<&MessageId>) -> Outbound {
        let id = compaction.map_or_else(|| format!("compaction-{}", event.number), ToString::to_string);
        if !self.viewer.capabilities.compaction {
            return self.text_chunk(
                Speaker::Agent,
                "Older messages were replaced by a summary.",
                &id,
                self.position(event),
            );
        }
        let update = self.compactions.completed(&id, summary);
        self.update(event, &update)
    }

    fn user_message(
        &mut self,
        event: &Event,
        turn: &TurnId,
        message: &MessageId,
        content: &[Content],
        steering: Option<&SteeringPrompt>,
    ) -> Vec<Outbound> {
        // Only the first message of a turn is the prompt; hooks and steering may add others.
        let is_first = !std::mem::replace(&mut self.is_inserted, true);
        let is_own = match steering {
            Some(joined) => self.is_own(&joined.origin),
            None => self.own_turn.as_ref() == Some(turn),
        };
        // The client that sent the prompt shows it already, except on load.
        if event.number >= self.own_from && is_own {
            let joined = steering.map(|joined| &joined.prompt);
            let prompt = joined.or(is_first.then_some(turn));
            let inserted = prompt.map(|prompt| Outbound::Inserted { prompt: prompt.clone(), joined: joined.is_some() });
            return inserted.into_iter().collect();
        }
        let chunks = content.iter().map(|block| {
            let chunk = acp::ContentChunk::new(content::block(block)).message_id(acp::MessageId::new(message.as_str()));
            acp::SessionUpdate::UserMessageChunk(chunk)
        });
        self.updates(event, &chunks.collect::<Vec<_>>())
    }

    fn tool_called(&mut self, event: &Event, call: &CallId, card: &ToolCard) -> Outbound {
        self.calls.insert(call.clone(), OpenCall::new(card.clone()));
        // A call that was shown while the model wrote it is completed, not announced again.
        let session_update = if self.announced.insert(call.clone()) { "tool_call" } else { "tool_call_update" };
        self.update(event, &CallUpdate { session_update, call: content::pending_call(call, card) })
    }

    fn tool_progressed(&self, event: &Event, call: &CallId, content: &[ToolContent]) -> Outbound {
        let content = content::tool_content(content, self.live(event));
        self.update_call(event, call, acp::ToolCallStatus::InProgress, Some(content), None)
    }

    fn tool_ended(&mut self, event: &Event, call: &CallId, outcome: &Outcome) -> Outbound {
        let status = match outcome.verdict {
            OutcomeKind::Completed => acp::ToolCallStatus::Completed,
            OutcomeKind::Failed | OutcomeKind::Denied | OutcomeKind::Cancelled | OutcomeKind::Interrupted => {
                acp::ToolCallStatus::Failed
            }
        };
        let content = match (outcome.content.is_empty(), outcome.text.is_empty()) {
            (false, _) => Some(content::tool_content(&outcome.content, self.live(event))),
            (true, false) => Some(vec![content::text_content(&outcome.text)]),
            // Without content the client keeps what it shows.
            (true, true) => None,
        };
        let outbound = self.update_call(event, call, status, content, Some(content::raw_output(outcome)));
        self.calls.remove(call);
        self.announced.remove(call);
        outbound
    }

    fn update_call(
        &self,
        event: &Event,
        call: &CallId,
        status: acp::ToolCallStatus,
        content: Option<Vec<acp::ToolCallContent>>,
        raw_output: Option<Value>,
    ) -> Outbound {
        let kind = self.calls.get(call).map(|open| content::kind(open.card.kind));
        let fields = acp::ToolCallUpdateFields::new().kind(kind).status(status).content(content).raw_output(raw_output);
        let update = acp::ToolCallUpdate::new(call.to_string(), fields);
        self.update(event, &acp::SessionUpdate::ToolCallUpdate(update))
    }

    /// Asks a question when the cursor passes it, unless it was settled before the attach.
    fn ask(&self, event: &Event, question: &Question) -> Option<Outbound> {
        let open = self.open_questions.iter().any(|open| open.question.id == question.id);
        (event.number > self.head || open).then(|| self.question(question))
    }

    /// Shows a hidden call before the user is asked about it.
    fn reveal(&self, event: &Event, call: &CallId) -> Option<Outbound> {
        Some(self.update(event, &self.revealed(call)?))
    }

    fn revealed(&self, call: &CallId) -> Option<CallUpdate> {
        Some(announced(call, self.calls.get(call)?))
    }

    fn question(&self, question: &Question) -> Outbound {
        let id = question.id.clone();
        let client = &self.viewer.capabilities;
        let form = question.inquiry.as_ref().filter(|_| client.elicits_form);
        if let Some(params) =
            form.and_then(|inquiry| client_requests::elicit(&self.session, inquiry.form(&question.call)))
        {
            return Outbound::Ask { question: id, method: method::ELICITATION_CREATE, params };
        }
        let call = match self.calls.get(&question.call) {
            Some(open) => content::pending_call(&question.call, &open.card),
            None => acp::ToolCallUpdate::new(question.call.to_string(), acp::ToolCallUpdateFields::new()),
        };
        let request = acp::RequestPermissionRequest::new(self.session.to_string(), call, permission::options(question));
        let mut params = encode::value(&request);
        if let Some(inquiry) = &question.inquiry {
            params["_meta"] = inquiries::meta(inquiry);
            if let (Some(note), Some(content)) =
                (inquiries::note(inquiry, client), params["toolCall"]["content"].as_array_mut())
            {
                content.push(json!({ "type": "content", "content": { "type": "text", "text": note } }));
            }
        }
        Outbound::Ask { question: id, method: method::SESSION_REQUEST_PERMISSION, params }
    }

    fn planned(&self, event: &Event, entries: &[PlanEntry]) -> Outbound {
        let plan = acp::Plan::new(entries.iter().map(content::plan_entry).collect());
        self.update(event, &acp::SessionUpdate::Plan(plan))
    }

    fn configured(&mut self, event: &Event, setting: &Setting) -> Vec<Outbound> {
        let mut updates = Vec::new();
        match setting {
            Setting::Mode(mode) => {
                self.session_options.mode = *mode;
                updates.push(acp::SessionUpdate::CurrentModeUpdate(acp::CurrentModeUpdate::new(mode.id())));
            }
            Setting::Approval(approval) => self.session_options.approval = *approval,
            Setting::Model(model) => self.session_options.model = model.clone(),
            Setting::ThoughtLevel(level) => self.session_options.thought = *level,
        }
        let options = acp::ConfigOptionUpdate::new(session_options::options(&self.session_options));
        updates.push(acp::SessionUpdate::ConfigOptionUpdate(options));
        self.updates(event, &updates)
    }

    fn turn_ended(
        &mut self,
        turn: &TurnId,
        origin: &Option<PromptOrigin>,
        message: Option<&MessageId>,
        reason: &StopReason,
        usage: &Usage,
    ) -> Vec<Outbound> {
        let mut outbound = Vec::new();
        if let StopReason::Failed(failure) = reason {
            // No position: a reader that was cut off before the answer must start again here.
            outbound.push(self.text_chunk(Speaker::Agent, &failure.message, turn.as_str(), None));
        }
        let answer = self.prompt_answer(reason, usage, message);
        self.own_turn = None;
        outbound.push(Outbound::TurnOver { turn: turn.clone() });
        outbound.push(Outbound::Answer { turn: turn.clone(), origin: origin.clone(), answer });
        outbound
    }

    /// The answer to a prompt that joined the turn, at the end of that turn.
    fn joined_turn_ended(&self, joined: &SteeringPrompt, reason: &StopReason, usage: &Usage) -> Outbound {
        let answer = self.prompt_answer(reason, usage, Some(&joined.message));
        Outbound::Answer { turn: joined.prompt.clone(), origin: Some(joined.origin.clone()), answer }
    }

    fn prompt_answer(
        &self,
        reason: &StopReason,
        usage: &Usage,
        message: Option<&MessageId>,
    ) -> Result<Value, RpcError> {
        let extras = self.viewer.extras;
        let mut answer = encode::prompt_answer(reason, extras.has(Extra::Usage).then_some(usage));
        if let (Ok(answer), Some(message)) = (&mut answer, message) {
            if extras.has(Extra::UserMessageId) {
                answer["userMessageId"] = json!(message);
            }
            answer["_meta"] = json!({ "acpd": { "userMessageId": message } });
        }
        answer
    }

    /// Serializes a piece of text into a single allocation. Most updates are text.
    fn text_chunk(&self, speaker: Speaker, text: &str, message: &str, position: Option<(u32, u64)>) -> Outbound {
        let params = ChunkParams::new(&self.session, speaker.chunk(text, message), position);
        let length = chunk::length(&self.session, text, message);
        Outbound::Update(rpc::sized_notification(length, method::SESSION_UPDATE, &params))
    }

    fn update(&self, event: &Event, update: &impl Serialize) -> Outbound {
        let params = ChunkParams::new(&self.session, update, self.position(event));
        Outbound::Update(rpc::notification(method::SESSION_UPDATE, &params))
    }

    /// An update that carries no position, because another message for the same event follows it.
    fn update_without_position(&self, update: &impl Serialize) -> Outbound {
        Outbound::Update(rpc::notification(method::SESSION_UPDATE, &ChunkParams::new(&self.session, update, None)))
    }

    /// Several updates for one event. The last one carries its position.
    fn updates(&self, event: &Event, updates: &[impl Serialize]) -> Vec<Outbound> {
        let last = updates.len().saturating_sub(1);
        let one = |(at, update)| {
            let position = if at == last { self.position(event) } else { None };
            Outbound::Update(rpc::notification(
                method::SESSION_UPDATE,
                &ChunkParams::new(&self.session, update, position),
            ))
        };
        updates.iter().enumerate().map(one).collect()
    }

    /// The client's connection, unless the event happened before it attached.
    fn live(&self, event: &Event) -> Option<&ConnectionId> {
        (event.number > self.head).then_some(&self.viewer.connection)
    }

    fn position(&self, event: &Event) -> Option<(u32, u64)> {
        self.viewer.with_positions.then_some((event.life, event.number))
    }
}

/// A `tool_call` or `tool_call_update` with the fields of an update. Unlike the schema's type, it
/// always writes `status` and `kind`.
#[derive(Serialize)]
struct CallUpdate {
    #[serde(rename = "sessionUpdate")]
    session_update: &'static str,
    #[serde(flatten)]
    call: acp::ToolCallUpdate,
}

/// Announces an open call with its present status.
fn announced(id: &CallId, open: &OpenCall) -> CallUpdate {
    let mut call = content::pending_call(id, &open.card);
    if open.started {
        call.fields = call.fields.status(acp::ToolCallStatus::InProgress);
    }
    CallUpdate { session_update: "tool_call", call }
}

#[cfg(test)]
mod tests;
