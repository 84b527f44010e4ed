//! What has begun in a session and has not ended: its turn, calls, questions, and work in the
//! background.

use std::collections::BTreeMap;

use crate::conversation::NOT_RUN;
use crate::event::{RequestedCall, SteeringPrompt};
use crate::hosted::{CallFields, CallStatus, HostedEvent};
use crate::tool::{AGENT, OutcomeKind};
use crate::{
    CallId, Decision, Event, EventKind, MessageId, Millis, Outcome, PromptOrigin, Question, StopReason, ToolCard,
    TurnId, Usage,
};

/// The outcome of a call that the model did not finish writing.
const INCOMPLETE_CALL: &str = "This call was not run: the answer broke off before the call was complete.";

/// The open parts of a session.
#[derive(Clone, Debug, Default)]
pub struct OpenWork {
    pub turn: Option<OpenTurn>,
    /// Calls that have no outcome yet.
    pub calls: BTreeMap<CallId, OpenCall>,
    /// Calls that the model has begun to write and that have not been taken up yet, as clients see
    /// them.
    pub begun: BTreeMap<CallId, ToolCard>,
    /// Calls of the current response that have not been taken up yet, in the model's order.
    pub queued: Vec<RequestedCall>,
    /// The open questions, oldest first.
    pub questions: Vec<AskedQuestion>,
    /// The commands and sub-agents that work in the background, by their handles.
    pub background: BTreeMap<String, BackgroundWork>,
}

/// The turn that runs or waits.
#[derive(Clone, Debug)]
pub struct OpenTurn {
    pub id: TurnId,
    pub origin: PromptOrigin,
    pub started: Millis,
    /// The number of the event that started the turn.
    pub number: u64,
    /// The number of the event with its prompt, once it is in the log.
    pub asked: Option<u64>,
    /// The message with its prompt, once it is in the log.
    pub message: Option<MessageId>,
    /// The tokens of its model requests so far.
    pub usage: Usage,
    /// The prompts that joined it.
    pub steering: Vec<SteeringPrompt>,
    /// The number of the event since which a child agent waits for the user to answer a form, if it
    /// does.
    pub paused: Option<u64>,
}

impl OpenTurn {
    /// Whether the prompt with this id started the turn or joined it.
    pub(crate) fn has_prompt(&self, prompt: &TurnId) -> bool {
        self.id == *prompt || self.steering.iter().any(|joined| joined.prompt == *prompt)
    }
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedQuestion {
    /// The number of the event that asked the question.
    pub at: u64,
    pub question: Question,
}

/// A command or a sub-agent that continues after the call that started it.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundWork {
    /// The call that started it.
    pub call: CallId,
    pub card: ToolCard,
    /// The end of what it wrote.
    pub output: String,
    /// The number of the event since which it works in the background.
    pub since: u64,
}

impl BackgroundWork {
    /// How many bytes of output are kept.
    const MAX_KEPT_BYTES: usize = 4 * 1024;

    pub fn new(call: CallId, card: ToolCard, since: u64) -> Self {
        Self { call, card, output: String::new(), since }
    }

    /// Whether it is a sub-agent, which ends with its turn.
    pub fn is_agent(&self) -> bool {
        self.card.tool == AGENT
    }

    fn wrote(&mut self, text: &str) {
        self.output.push_str(text);
        let surplus = self.output.len().saturating_sub(Self::MAX_KEPT_BYTES);
        self.output.drain(..self.output.ceil_char_boundary(surplus));
    }
}

/// A call without an outcome.
#[derive(Clone, Debug)]
pub struct OpenCall {
    pub card: ToolCard,
    pub started: bool,
    /// Whether it waits for the user.
    pub paused: bool,
    /// How often it has waited for the user.
    pub pauses: u32,
}

impl OpenWork {
    pub(super) fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnStarted { turn, origin } => {
                self.turn = Some(OpenTurn {
                    id: turn.clone(),
                    origin: origin.clone(),
                    started: event.at,
                    number: event.number,
                    asked: None,
                    message: None,
                    usage: Usage::default(),
                    steering: Vec::new(),
                    paused: None,
                });
            }
            EventKind::UserMessage { turn, message, steering, .. } => {
                if let Some(open) = self.turn.as_mut().filter(|open| open.id == *turn) {
                    open.asked.get_or_insert(event.number);
                    open.message.get_or_insert_with(|| message.clone());
                    open.steering.extend(steering.clone());
                }
            }
            EventKind::CallBegun { call, tool, title, .. } => {
                self.begun.insert(call.clone(), ToolCard::begun(tool, title));
            }
            EventKind::CallsRequested { calls, .. } => self.queued.clone_from(calls),
            EventKind::ToolCalled { call, card, .. } => {
                self.begun.remove(call);
                self.queued.retain(|queued| queued.call != *call);
                self.calls.insert(call.clone(), OpenCall::new(card.clone()));
            }
            EventKind::Planned { call, .. } => self.queued.retain(|queued| queued.call != *call),
            EventKind::PermissionAsked { question } => {
                self.questions.push(AskedQuestion { at: event.number, question: question.clone() });
            }
            EventKind::PermissionAnswered { question, .. } => {
                self.questions.retain(|open| open.question.id != *question);
            }
            EventKind::ToolStarted { call } => {
                if let Some(open) = self.calls.get_mut(call) {
                    open.started = true;
                }
            }
            EventKind::CallPaused { call } => {
                if let Some(open) = self.calls.get_mut(call) {
                    open.paused = true;
                    open.pauses += 1;
                }
            }
            EventKind::CallResumed { call } => {
                if let Some(open) = self.calls.get_mut(call) {
                    open.paused = false;
                }
            }
            EventKind::ToolEnded { call, outcome } => self.end_call(event.number, call, outcome),
            EventKind::BackgroundOutput { handle, text } => {
                if let Some(work) = self.background.get_mut(handle) {
                    work.wrote(text);
                }
            }
            EventKind::BackgroundEnded { handle, .. } => {
                self.background.remove(handle);
            }
            EventKind::Used { usage, .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.usage += *usage;
                }
            }
            EventKind::TurnEnded { .. } => {
                self.turn = None;
                self.queued.clear();
            }
            EventKind::Hosted { event: HostedEvent::Called { call, fields, .. } } => {
                self.note_hosted_call(call, fields)
            }
            EventKind::Hosted { event: HostedEvent::Paused } => {
                if let Some(turn) = &mut self.turn {
                    turn.paused = Some(event.number);
                }
            }
            EventKind::Hosted { event: HostedEvent::Resumed } => {
                if let Some(turn) = &mut self.turn {
                    turn.paused = None;
                }
            }
            EventKind::Created { .. }
            | EventKind::Reopened
            | EventKind::Configured { .. }
            | EventKind::Titled { .. }
            | EventKind::AgentText { .. }
            | EventKind::AgentThought { .. }
            | EventKind::ResponseSealed { .. }
            | EventKind::Abandoned { .. }
            | EventKind::Compacting { .. }
            | EventKind::ResultsCleared { .. }
            | EventKind::Compacted { .. }
            | EventKind::PromptDropped { .. }
            | EventKind::Delegated { .. }
            | EventKind::ToolProgressed { .. }
            | EventKind::Moved { .. }
            | EventKind::Restored { .. }
            | EventKind::Hosted {
                event:
                    HostedEvent::Opened { .. }
                    | HostedEvent::Unprompted
                    | HostedEvent::Offered { .. }
                    | HostedEvent::Relayed { .. },
            }
            | EventKind::Noticed { .. } => {}
        }
    }

    /// Notes what a child agent reports about one of its calls.
    fn note_hosted_call(&mut self, call: &CallId, fields: &CallFields) {
        match fields.status {
            Some(status) if status.is_over() => {
                self.calls.remove(call);
            }
            status => {
                let open = self.calls.entry(call.clone());
                let open = open.or_insert_with(|| OpenCall::new(fields.card()));
                fields.apply_to(&mut open.card);
                open.started |= status == Some(CallStatus::InProgress);
            }
        }
    }

    fn end_call(&mut self, number: u64, call: &CallId, outcome: &Outcome) {
        let ended = self.calls.remove(call);
        self.begun.remove(call);
        if let (Some(handle), Some(open)) = (&outcome.background, ended) {
            self.background.insert(handle.clone(), BackgroundWork::new(call.clone(), open.card, number));
        }
    }

    /// Returns the events that close everything open: unanswered questions, calls without an
    /// outcome, and the turn. Used when a session is opened after an unclean end, and when a turn
    /// dies.
    pub fn closing(&self, verdict: OutcomeKind, reason: StopReason) -> Vec<EventKind> {
        let mut kinds: Vec<EventKind> = self.questions.iter().map(unanswered).collect();
        for (call, open) in &self.calls {
            kinds.push(EventKind::ToolEnded { call: call.clone(), outcome: open.unfinished(verdict) });
        }
        kinds.extend(self.begun.keys().map(|call| never_run(call, verdict, NOT_RUN)));
        kinds.extend(self.ending_agents());
        if let Some(turn) = &self.turn {
            kinds.push(EventKind::TurnEnded {
                turn: turn.id.clone(),
                origin: Some(turn.origin.clone()),
                message: turn.message.clone(),
                reason,
                usage: Usage::default(),
                steering: turn.steering.clone(),
            });
        }
        kinds
    }

    /// Returns the events that end all work in the background, which does not outlive its session
    /// in memory.
    pub(crate) fn ending_background(&self) -> Vec<EventKind> {
        self.background.keys().map(|handle| background_ended(handle)).collect()
    }

    /// Returns the events that end the sub-agents in the background, which do not outlive their
    /// turn.
    pub(super) fn ending_agents(&self) -> impl Iterator<Item = EventKind> {
        self.background.iter().filter(|(_, work)| work.is_agent()).map(|(handle, _)| background_ended(handle))
    }

    /// Returns the events that close the open questions about a call, to append before its outcome.
    pub(crate) fn settling(&self, call: &CallId) -> Vec<EventKind> {
        self.questions.iter().filter(|open| open.question.call == *call).map(unanswered).collect()
    }

    /// Iterates over every call that clients show as unfinished: the open ones and those that the
    /// model is still writing.
    pub fn shown_calls(&self) -> impl Iterator<Item = (CallId, OpenCall)> {
        let begun = self.begun.iter().map(|(id, card)| (id.clone(), OpenCall::new(card.clone())));
        begun.chain(self.calls.iter().map(|(id, open)| (id.clone(), open.clone())))
    }

    /// Returns the events to append when a response breaks off or ends with the calls `kept`: an
    /// outcome for every other call that it had begun to write.
    pub(crate) fn dropping(&self, kept: &[RequestedCall]) -> Vec<EventKind> {
        let is_kept = |call: &CallId| kept.iter().any(|requested| requested.call == *call);
        let dropped = self.begun.keys().filter(|call| !is_kept(call));
        dropped.map(|call| never_run(call, OutcomeKind::Interrupted, INCOMPLETE_CALL)).collect()
    }
}

/// Builds the end of work in the background that ended with its session, its turn or its daemon.
fn background_ended(handle: &str) -> EventKind {
    EventKind::BackgroundEnded { handle: handle.to_owned(), exit_code: None, signal: None }
}

/// Builds the end of a call that clients saw while the model wrote it, and that did not run.
fn never_run(call: &CallId, verdict: OutcomeKind, text: &str) -> EventKind {
    EventKind::ToolEnded { call: call.clone(), outcome: Outcome { verdict, ..Outcome::failed(text) } }
}

/// Builds the event that closes a question without an answer.
pub(super) fn unanswered(AskedQuestion { question, .. }: &AskedQuestion) -> EventKind {
    EventKind::PermissionAnswered {
        question: question.id.clone(),
        call: question.call.clone(),
        decision: Decision::Unanswered,
        by: "acpd".to_owned(),
        words: None,
    }
}

impl OpenCall {
    /// A call that has not started.
    pub fn new(card: ToolCard) -> Self {
        Self { card, started: false, paused: false, pauses: 0 }
    }

    /// Builds the outcome of a call that did not finish.
    pub fn unfinished(&self, verdict: OutcomeKind) -> Outcome {
        let text = match (verdict, self.started) {
            (OutcomeKind::Cancelled, _) => return Outcome::cancelled(),
            (_, true) => "The call was interrupted; it may have had an effect.",
            (_, false) => "The call was interrupted before it ran; nothing was done.",
        };
        Outcome { verdict, ..Outcome::failed(text) }
    }
}
