//! Translates a session's log into what a client of version 2 receives, live and on replay alike.
//!
//! It receives the events of one session in order, starting where the client's cursor starts. It
//! does no I/O, chooses no request ids, and does not know which questions and prompts its client
//! has open.

mod calls;
mod delegation;
mod hosted;
mod session_state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use domain::event::{Setting, SteeringPrompt};
use domain::model::ModelInfo;
use domain::permission::AgentOption;
use domain::state::{AskedQuestion, BackgroundWork};
use domain::{
    CallId, Choice, Content, Event, EventKind, Extra, MessageId, PromptOrigin, Question, QuestionId, SessionId,
    StopReason, ToolCard, TurnId,
};
use serde_json::{Value, json};

use self::calls::ShownCall;
use self::session_state::State;
use crate::answer_data::SessionOptions;
use crate::chunk::{self, ChunkParams, Speaker};
use crate::compactions::Compactions;
use crate::inquiries;
use crate::method;
use crate::rpc;
use crate::translator::{Outbound, PriorView, TranslatorStart, Viewer};
use crate::v2::encode::{self, content, session_options};

/// The id of the plan. A session has only one.
const PLAN: &str = "plan";

#[derive(Debug)]
pub struct Translator {
    session: SessionId,
    viewer: Viewer,
    session_options: SessionOptions,
    cwd: PathBuf,
    head: u64,
    /// From this number on, events are new to the client and not history.
    live_from: u64,
    /// The calls without an outcome. Later events name them only by id.
    calls: BTreeMap<CallId, ShownCall>,
    /// The calls of sub-agents. They are not shown until the user is asked about one.
    hidden: BTreeSet<CallId>,
    /// For each call of a sub-agent, the call on which the sub-agent works.
    within: BTreeMap<CallId, CallId>,
    /// The calls that the client shows as paused.
    paused: BTreeSet<CallId>,
    /// The questions that were open at `head`.
    open_questions: Vec<AskedQuestion>,
    /// The calls of the questions that are open after the events translated so far.
    questions: BTreeMap<QuestionId, CallId>,
    turn: Option<Turn>,
    /// Why the last turn ended.
    stopped: Option<StopReason>,
    /// What works in the background, by its handle.
    background: BTreeMap<String, BackgroundWork>,
    /// Whether the client starts after the last event and has seen nothing before it.
    starts_at_head: bool,
    compactions: Compactions,
    /// The state that the client received last.
    sent: State,
}

/// The running turn.
#[derive(Debug)]
struct Turn {
    id: TurnId,
    origin: PromptOrigin,
    /// Whether its prompt has a message in the log.
    is_inserted: bool,
    /// Whether a child agent waits for the user to answer a form.
    is_paused: bool,
}

/// What is sent for one event. Answers are sent before updates, because the last update carries the
/// position of the event: a reader that was cut off in between receives the answer again.
#[derive(Default)]
struct EventOutput {
    answers: Vec<Outbound>,
    updates: Vec<Value>,
    others: Vec<Outbound>,
}

impl EventOutput {
    fn update(&mut self, update: Value) {
        self.updates.push(update);
    }
}

impl Translator {
    pub fn new(attach: TranslatorStart) -> Self {
        let (next, hidden) = (attach.next, attach.hidden_calls());
        let calls = attach.open_calls.into_iter().map(|(id, open)| (id, ShownCall::open(open)));
        let asked = attach.open_questions.iter().filter(|asked| asked.at < next);
        let turn = attach.turn.map(|open| Turn {
            is_inserted: open.asked.is_some_and(|asked| asked < next),
            is_paused: open.paused.is_some_and(|paused| paused < next),
            id: open.id,
            origin: open.origin,
        });
        let mut translator = Self {
            session: attach.session,
            viewer: attach.viewer,
            session_options: attach.session_options,
            cwd: attach.cwd,
            head: attach.head,
            live_from: attach.own_from,
            calls: calls.collect(),
            hidden,
            within: attach.delegated.into_iter().map(|(call, delegated)| (call, delegated.within)).collect(),
            paused: BTreeSet::new(),
            questions: asked.map(|asked| (asked.question.id.clone(), asked.question.call.clone())).collect(),
            open_questions: attach.open_questions,
            turn,
            stopped: None,
            background: attach.background,
            starts_at_head: next == attach.head + 1,
            compactions: Compactions::default(),
            sent: State::default(),
        };
        translator.sent = translator.state();
        translator
    }

    pub fn session_options(&self) -> &SessionOptions {
        &self.session_options
    }

    pub fn offer(&mut self, models: Vec<ModelInfo>) {
        self.session_options.models = models;
    }

    /// What a client receives before the answer to its resume: the open calls and terminals, unless
    /// it has received them from the log, and the current state, which may name them.
    pub fn preface(&mut self) -> Vec<Vec<u8>> {
        let mut updates = Vec::new();
        if std::mem::take(&mut self.starts_at_head) {
            updates.extend(self.background.values().flat_map(|work| calls::in_background(work, &self.cwd)));
            for (id, call) in self.calls.iter().filter(|(id, _)| !self.hidden.contains(id)) {
                updates.push(announced(id, &call.card));
                updates.extend(call.is_started.then(|| call.start(id, &self.cwd)).into_iter().flatten());
            }
            updates.extend(self.pause());
        }
        self.sent = self.state();
        updates.push(self.sent.update());
        updates.iter().map(|update| self.notification(update, None)).collect()
    }

    /// The earlier questions that are still unanswered, for a client that starts at event `next`.
    pub fn catch_up(&mut self, _: PriorView, next: u64) -> Vec<Outbound> {
        let before = self.open_questions.iter().filter(|open| open.at < next);
        before.map(|open| self.question(&open.question)).collect()
    }

    /// Translates the next event.
    pub fn translate(&mut self, event: &Event) -> Vec<Outbound> {
        // Nearly all events are text, which changes nothing else.
        if let EventKind::AgentText { message, text } = &event.kind {
            return vec![self.text_chunk(Speaker::Agent, text, message, event)];
        }
        if let EventKind::AgentThought { message, text } = &event.kind {
            return vec![self.text_chunk(Speaker::Thought, text, message, event)];
        }
        let mut output = EventOutput::default();
        self.take(event, &mut output);
        output.updates.extend(self.pause());
        let state = self.state();
        if event.number >= self.live_from && state != self.sent {
            output.update(state.update());
            self.sent = state;
        }
        self.deliver(output, self.position(event))
    }

    fn take(&mut self, event: &Event, output: &mut EventOutput) {
        match &event.kind {
            EventKind::AgentText { .. } | EventKind::AgentThought { .. } => {}
            EventKind::Noticed { message, text, passing } => self.notice(event, message, text, *passing, output),
            EventKind::UserMessage { turn, message, content, steering, .. } => {
                self.user_message(turn, message, content, steering.as_ref(), output);
            }
            EventKind::Delegated { call, within } => {
                self.hidden.insert(call.clone());
                self.within.insert(call.clone(), within.clone());
            }
            EventKind::CallBegun { call, tool, title, .. } => {
                self.announce(call, &ToolCard::begun(tool, title), output);
            }
            EventKind::ToolCalled { call, card, .. } => self.announce(call, card, output),
            EventKind::ToolStarted { call } => self.start(call, output),
            EventKind::ToolProgressed { call, content } => self.progress(call, content, output),
            EventKind::CallPaused { call } => self.wait(call, true, output),
            EventKind::CallResumed { call } => self.wait(call, false, output),
            EventKind::ToolEnded { call, outcome } => self.end(event.number, call, outcome, output),
            EventKind::BackgroundOutput { handle, text } => {
                output.updates.extend(self.background.get(handle).map(|work| calls::output_chunk(&work.call, text)));
            }
            EventKind::BackgroundEnded { handle, exit_code, signal } => {
                let ended = self.background.remove(handle);
                output.updates.extend(ended.map(|work| calls::ended_in_background(&work, *exit_code, *signal)));
            }
            EventKind::PermissionAsked { question } => self.ask(event, question, output),
            EventKind::PermissionAnswered { question, .. } => {
                self.questions.remove(question);
                output.others.push(Outbound::Settled { question: question.clone() });
            }
            EventKind::Hosted { event: hosted } => self.hosted(hosted, event.number >= self.live_from, output),
            EventKind::Planned { entries, .. } => {
                let entries: Vec<Value> = entries.iter().map(content::plan_entry).collect();
                let plan = json!({ "type": "items", "planId": PLAN, "entries": entries });
                output.update(json!({ "sessionUpdate": "plan_update", "plan": plan }));
            }
            EventKind::Configured { setting, .. } => self.configure(setting, output),
            EventKind::Titled { title } => output.update(json!({
                "sessionUpdate": "session_info_update",
                "title": title,
                "updatedAt": event.at.to_rfc3339(),
            })),
            EventKind::Used { window_used, window, cost, .. } => {
                if self.viewer.extras.has(Extra::UsageUpdate) {
                    let mut usage = json!({ "sessionUpdate": "usage_update", "used": window_used, "size": window });
                    if let Some(cost) = cost {
                        usage["cost"] = json!({ "amount": cost.amount, "currency": cost.currency });
                    }
                    output.update(usage);
                }
            }
            EventKind::Compacting { compaction, text } => {
                output.updates.extend(self.compactions.progress(compaction, text));
            }
            EventKind::Compacted { summary, compaction, .. } => {
                let number = || format!("compaction-{}", event.number);
                let id = compaction.as_ref().map_or_else(number, ToString::to_string);
                output.update(self.compactions.completed(&id, summary));
            }
            EventKind::PromptDropped { prompt, origin } => {
                let answer = Err(encode::prompt_dropped(&StopReason::Cancelled));
                output.answers.push(Outbound::Answer { turn: prompt.clone(), origin: Some(origin.clone()), answer });
            }
            EventKind::TurnStarted { turn, origin } => {
                self.turn = Some(Turn { id: turn.clone(), origin: origin.clone(), is_inserted: false, is_paused: false });
            }
            EventKind::TurnEnded { turn, reason, .. } => self.turn_ended(turn, reason, output),
            EventKind::Created { cwd, mode, approval, model, .. } => {
                self.cwd.clone_from(cwd);
                self.session_options.mode = *mode;
                self.session_options.approval = *approval;
                self.session_options.model = model.clone();
            }
            // A message in the log beside this event describes the move.
            EventKind::Moved { folder, .. } => self.cwd.clone_from(folder),
            // Only the model sees less than before.
            EventKind::ResultsCleared { .. }
            // A message in the log beside these events describes what was done.
            | EventKind::Restored { .. }
            | EventKind::Reopened
            | EventKind::ResponseSealed { .. }
            | EventKind::CallsRequested { .. }
            | EventKind::Abandoned { .. } => {}
        }
    }

    /// The prompt is answered as soon as its message is in the log. The message goes to every
    /// client, the one that sent it included.
    fn user_message(
        &mut self,
        turn: &TurnId,
        message: &MessageId,
        blocks: &[Content],
        steering: Option<&SteeringPrompt>,
        output: &mut EventOutput,
    ) {
        if let Some(joined) = steering {
            let answer = Ok(encode::prompt_inserted(&joined.message));
            let (turn, origin) = (joined.prompt.clone(), Some(joined.origin.clone()));
            output.answers.push(Outbound::Answer { turn, origin, answer });
        } else if let Some(open) = self.turn.as_mut().filter(|open| open.id == *turn && !open.is_inserted) {
            open.is_inserted = true;
            let answer = Ok(encode::prompt_inserted(message));
            output.answers.push(Outbound::Answer { turn: turn.clone(), origin: Some(open.origin.clone()), answer });
        }
        let blocks: Vec<Value> = blocks.iter().map(content::block).collect();
        output.update(json!({ "sessionUpdate": "user_message", "messageId": message, "content": blocks }));
    }

    /// Sends a passing notice as a notice, and only live; any other notice becomes a message.
    fn notice(&self, event: &Event, message: &MessageId, text: &str, passing: bool, output: &mut EventOutput) {
        if !passing {
            output.update(agent_message(message.as_str(), text));
        } else if event.number >= self.live_from && !text.is_empty() {
            output.update(json!({ "sessionUpdate": "notice", "severity": "info", "title": text }));
        }
    }

    fn configure(&mut self, setting: &Setting, output: &mut EventOutput) {
        match setting {
            Setting::Mode(mode) => self.session_options.mode = *mode,
            Setting::Approval(approval) => self.session_options.approval = *approval,
            Setting::Model(model) => self.session_options.model = model.clone(),
            Setting::ThoughtLevel(level) => self.session_options.thought = *level,
        }
        output.update(json!({ "sessionUpdate": "config_option_update", "configOptions": session_options::options(&self.session_options) }));
    }

    fn turn_ended(&mut self, turn: &TurnId, reason: &StopReason, output: &mut EventOutput) {
        output.updates.extend(self.compactions.turn_ended(reason));
        if let StopReason::Failed(failure) = reason {
            output.update(agent_message(turn.as_str(), &failure.message));
        }
        if let Some(open) = self.turn.take().filter(|open| !open.is_inserted) {
            let answer = Err(encode::prompt_dropped(reason));
            output.answers.push(Outbound::Answer { turn: open.id, origin: Some(open.origin), answer });
        }
        self.stopped = Some(reason.clone());
        output.others.push(Outbound::TurnOver { turn: turn.clone() });
    }

    /// A question is asked when the cursor passes it, unless it was settled before the client
    /// attached. A hidden call is shown before the user is asked about it.
    fn ask(&mut self, event: &Event, question: &Question, output: &mut EventOutput) {
        self.questions.insert(question.id.clone(), question.call.clone());
        self.reveal(&question.call, output);
        let is_open = self.open_questions.iter().any(|open| open.question.id == question.id);
        if event.number > self.head || is_open {
            output.others.push(self.question(question));
        }
    }

    fn question(&self, question: &Question) -> Outbound {
        let id = question.id.clone();
        let client = &self.viewer.capabilities;
        if let Some(inquiry) = question.inquiry.as_ref().filter(|_| client.elicits_form) {
            let params = encode::elicit(&self.session, inquiry.form(&question.call));
            return Outbound::Ask { question: id, method: method::ELICITATION_CREATE, params };
        }
        let ours = |choice: &Choice| json!({ "optionId": choice.id(), "name": question.choice_name(*choice), "kind": choice.id() });
        let theirs =
            |option: &AgentOption| json!({ "optionId": option.id, "name": option.name, "kind": option.kind.id() });
        let options: Vec<Value> = match question.options.as_slice() {
            [] => question.choices().iter().map(ours).collect(),
            options => options.iter().map(theirs).collect(),
        };
        let mut params = json!({ "sessionId": self.session, "title": "Use a tool", "options": options });
        if let Some(call) = self.calls.get(&question.call) {
            params["title"] = json!(call.card.title);
            params["description"] = json!(call.explanation(&self.cwd));
            params["subject"] = call.subject(&question.call, &self.cwd);
        }
        if let Some(inquiry) = &question.inquiry {
            params["_meta"] = inquiries::meta(inquiry);
            if let Some(note) = inquiries::note(inquiry, client) {
                let described = params["description"].as_str().unwrap_or_default();
                params["description"] = json!(format!("{described}\n{note}").trim_start());
            }
        }
        Outbound::Ask { question: id, method: method::SESSION_REQUEST_PERMISSION, params }
    }

    /// Serializes a piece of text into a single allocation. Most updates are text.
    fn text_chunk(&self, speaker: Speaker, text: &str, message: &MessageId, event: &Event) -> Outbound {
        let params = ChunkParams::new(&self.session, speaker.chunk(text, message.as_str()), self.position(event));
        let length = chunk::length(&self.session, text, message.as_str());
        Outbound::Update(rpc::sized_notification(length, method::SESSION_UPDATE, &params))
    }

    fn deliver(&self, output: EventOutput, position: Option<(u32, u64)>) -> Vec<Outbound> {
        let last = output.updates.len().saturating_sub(1);
        let update = |(at, update): (usize, Value)| {
            Outbound::Update(self.notification(&update, position.filter(|_| at == last)))
        };
        output
            .answers
            .into_iter()
            .chain(output.updates.into_iter().enumerate().map(update))
            .chain(output.others)
            .collect()
    }

    fn notification(&self, update: &Value, position: Option<(u32, u64)>) -> Vec<u8> {
        rpc::notification(method::SESSION_UPDATE, &ChunkParams::new(&self.session, update, position))
    }

    fn position(&self, event: &Event) -> Option<(u32, u64)> {
        self.viewer.with_positions.then_some((event.life, event.number))
    }
}

fn agent_message(message: &str, text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message", "messageId": message, "content": [{ "type": "text", "text": text }] })
}

/// The update that shows a call which has not started.
fn announced(call: &CallId, card: &ToolCard) -> Value {
    let mut update = content::pending_call(call, card);
    update.insert("sessionUpdate".to_owned(), json!("tool_call_update"));
    Value::Object(update)
}

#[cfg(test)]
mod tests;
