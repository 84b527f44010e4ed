//! The current state of a session: its log, folded. Live appends and reopening from disk use the
//! same `apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::checkpoint::Checkpoints;
use crate::conversation::{Conversation, NOT_RUN};
use crate::event::{RequestedCall, Setting};
use crate::history::SessionMeta;
use crate::permission::Memory;
use crate::tool::OutcomeKind;
use crate::{
    Approval, CallId, Cost, Decision, Event, EventKind, Millis, Mode, ModelId, Origin, Outcome, Place, Question,
    SessionId, StopReason, ThoughtLevel, ToolCard, TurnId, Usage,
};

/// The outcome of a call that the model did not finish writing.
const NOT_WHOLE: &str = "This call was not run: the answer broke off before the call was complete.";

#[derive(Clone, Debug)]
pub struct SessionState {
    pub id: SessionId,
    pub cwd: PathBuf,
    /// The real path of `cwd` when the session began. It is stored beside the log.
    pub real_cwd: Option<PathBuf>,
    pub extra_roots: Vec<PathBuf>,
    pub mode: Mode,
    pub approval: Approval,
    pub model: ModelId,
    /// Whether the person chose the model in this session.
    pub model_chosen: bool,
    pub thought: ThoughtLevel,
    pub title: Option<String>,
    pub created: Millis,
    pub updated: Millis,
    pub memory: Memory,
    /// The tokens used over the session's whole life.
    pub usage: Usage,
    pub cost: Option<Cost>,
    /// How full the model's window was after its last request.
    pub window_used: u64,
    pub conversation: Conversation,
    pub messages: u64,
    pub turn: Option<OpenTurn>,
    /// Calls that have no outcome yet.
    pub calls: BTreeMap<CallId, OpenCall>,
    /// Calls that the model has begun to write and that have not been taken up yet, as clients see
    /// them.
    pub begun: BTreeMap<CallId, ToolCard>,
    /// The calls of sub-agents. Clients see one only from the event that asks the person about it,
    /// if there is such an event.
    pub hidden: BTreeMap<CallId, Option<u64>>,
    /// The turns whose changes to files can be undone or redone.
    pub checkpoints: Checkpoints,
    /// The open questions, oldest first.
    pub questions: Vec<Asked>,
    /// Calls of the current response that have not been taken up yet, in the model's order.
    pub queued: Vec<RequestedCall>,
    /// The position of the last event; number 0 before the first.
    pub head: Place,
    /// The last position of each past life.
    pub past_lives: Vec<Place>,
}

#[derive(Clone, Debug)]
pub struct OpenTurn {
    pub id: TurnId,
    pub origin: Origin,
    pub started: Millis,
    /// The number of the event that started the turn.
    pub number: u64,
    /// The tokens of its model requests so far.
    pub usage: Usage,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The number of the event that asked the question.
    pub at: u64,
    pub question: Question,
}

#[derive(Clone, Debug)]
pub struct OpenCall {
    pub card: ToolCard,
    pub started: bool,
}

impl SessionState {
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            cwd: PathBuf::new(),
            real_cwd: None,
            extra_roots: Vec::new(),
            mode: Mode::default(),
            approval: Approval::default(),
            model: ModelId::from(""),
            model_chosen: false,
            thought: ThoughtLevel::default(),
            title: None,
            created: Millis::default(),
            updated: Millis::default(),
            memory: Memory::default(),
            usage: Usage::default(),
            cost: None,
            window_used: 0,
            conversation: Conversation::default(),
            messages: 0,
            turn: None,
            calls: BTreeMap::new(),
            begun: BTreeMap::new(),
            hidden: BTreeMap::new(),
            checkpoints: Checkpoints::default(),
            questions: Vec::new(),
            queued: Vec::new(),
            head: Place { life: 1, number: 0 },
            past_lives: Vec::new(),
        }
    }

    pub fn apply(&mut self, event: &Event) {
        if event.life > self.head.life {
            self.past_lives.push(self.head);
        }
        self.head = event.place();
        self.updated = event.at;
        self.conversation.apply(event);
        match &event.kind {
            EventKind::Created { cwd, extra_roots, mode, approval, model } => {
                self.created = event.at;
                self.cwd.clone_from(cwd);
                self.extra_roots.clone_from(extra_roots);
                self.mode = *mode;
                self.approval = *approval;
                self.model = model.clone();
            }
            EventKind::TurnStarted { turn, origin } => {
                self.turn = Some(OpenTurn {
                    id: turn.clone(),
                    origin: origin.clone(),
                    started: event.at,
                    number: event.number,
                    usage: Usage::default(),
                });
            }
            EventKind::UserMessage { .. } => self.messages += 1,
            EventKind::CallBegun { call, tool, title, .. } => {
                self.begun.insert(call.clone(), ToolCard::begun(tool, title));
            }
            EventKind::ToolCalled { call, card, .. } => {
                self.begun.remove(call);
                self.queued.retain(|queued| queued.call != *call);
                self.calls.insert(call.clone(), OpenCall { card: card.clone(), started: false });
            }
            EventKind::CallsRequested { calls, .. } => self.queued.clone_from(calls),
            EventKind::PermissionAsked { question } => {
                if let Some(until) = self.hidden.get_mut(&question.call) {
                    until.get_or_insert(event.number);
                }
                self.questions.push(Asked { at: event.number, question: question.clone() });
            }
            EventKind::PermissionAnswered { question, decision, .. } => self.settle(question, *decision),
            EventKind::ToolStarted { call } => {
                if let Some(open) = self.calls.get_mut(call) {
                    open.started = true;
                }
            }
            EventKind::ToolEnded { call, outcome } => {
                self.calls.remove(call);
                self.begun.remove(call);
                if let Some(open) = &self.turn {
                    self.checkpoints.note(&open.id, event.number, outcome);
                }
            }
            EventKind::Restored { turn, way, .. } => self.checkpoints.restored(turn, *way),
            EventKind::Configured { setting, automatic } => self.configure(setting, *automatic),
            EventKind::Titled { title } => self.title = Some(title.clone()),
            EventKind::Used { usage, window_used, cost, .. } => {
                self.usage += *usage;
                if let Some(turn) = &mut self.turn {
                    turn.usage += *usage;
                }
                self.cost = cost.clone().or(self.cost.take());
                self.window_used = *window_used;
                self.messages += 1;
            }
            // The next request reports it. The request for the summary itself is no indication.
            EventKind::Compacted { .. } => self.window_used = 0,
            EventKind::TurnEnded { .. } => {
                self.turn = None;
                self.queued.clear();
            }
            EventKind::Planned { call, .. } => self.queued.retain(|queued| queued.call != *call),
            EventKind::Delegated { call, .. } => {
                self.hidden.insert(call.clone(), None);
            }
            EventKind::Reopened
            | EventKind::AgentText { .. }
            | EventKind::AgentThought { .. }
            | EventKind::ResponseSealed { .. }
            | EventKind::Abandoned { .. }
            | EventKind::ToolProgressed { .. }
            | EventKind::Noticed { .. } => {}
        }
    }

    fn settle(&mut self, id: &crate::QuestionId, decision: Decision) {
        let Some(at) = self.questions.iter().position(|open| open.question.id == *id) else { return };
        let Asked { question, .. } = self.questions.remove(at);
        if let (Decision::Chose(choice), Some(grant)) = (decision, question.always) {
            match choice {
                crate::Choice::AllowAlways => self.memory.remember(grant, true),
                crate::Choice::RejectAlways => self.memory.remember(grant, false),
                crate::Choice::AllowOnce | crate::Choice::RejectOnce => {}
            }
        }
    }

    fn configure(&mut self, setting: &Setting, automatic: bool) {
        match setting {
            Setting::Mode(mode) => self.mode = *mode,
            Setting::Approval(approval) => self.approval = *approval,
            Setting::Model(model) => {
                self.model = model.clone();
                self.model_chosen |= !automatic;
            }
            Setting::ThoughtLevel(level) => self.thought = *level,
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
        if let Some(turn) = &self.turn {
            kinds.push(EventKind::TurnEnded {
                turn: turn.id.clone(),
                origin: Some(turn.origin.clone()),
                reason,
                usage: Usage::default(),
            });
        }
        kinds
    }

    /// Returns the events that close the open questions about a call, to append before its outcome.
    pub fn settling(&self, call: &CallId) -> Vec<EventKind> {
        self.questions.iter().filter(|open| open.question.call == *call).map(unanswered).collect()
    }

    /// Iterates over every call that clients show as unfinished: the open ones and those that the
    /// model is still writing.
    pub fn shown_calls(&self) -> impl Iterator<Item = (CallId, OpenCall)> {
        let begun = self.begun.iter().map(|(id, card)| (id.clone(), OpenCall { card: card.clone(), started: false }));
        begun.chain(self.calls.iter().map(|(id, open)| (id.clone(), open.clone())))
    }

    /// Returns the events to append when a response breaks off or ends with the calls `kept`: an
    /// outcome for every other call that it had begun to write.
    pub fn dropping(&self, kept: &[RequestedCall]) -> Vec<EventKind> {
        let is_kept = |call: &CallId| kept.iter().any(|requested| requested.call == *call);
        let dropped = self.begun.keys().filter(|call| !is_kept(call));
        dropped.map(|call| never_run(call, OutcomeKind::Interrupted, NOT_WHOLE)).collect()
    }

    /// Whether the turn survives a restart of the daemon, because a permission question about one
    /// of its own calls is open.
    pub fn is_waiting(&self) -> bool {
        self.turn.is_some() && self.questions.iter().any(|asked| self.can_wait(&asked.question.call))
    }

    /// Whether the call can still be run after a restart: it has not started, and it does not
    /// belong to a sub-agent, whose conversation is not in the log.
    pub fn can_wait(&self, call: &CallId) -> bool {
        self.calls.get(call).is_some_and(|open| !open.started) && !self.hidden.contains_key(call)
    }

    /// Returns the events that close everything except a waiting turn: calls that ran get an
    /// outcome, and the calls of sub-agents end.
    pub fn suspending(&self) -> Vec<EventKind> {
        let lost = |call: &CallId| !self.can_wait(call);
        let questions = self.questions.iter().filter(|asked| lost(&asked.question.call)).map(unanswered);
        let calls = self.calls.iter().filter(|(call, _)| lost(call)).map(|(call, open)| EventKind::ToolEnded {
            call: call.clone(),
            outcome: open.unfinished(OutcomeKind::Interrupted),
        });
        questions.chain(calls).collect()
    }

    /// Returns the number of the next event for a reader that saw everything up to `place`. A place
    /// beyond the stored part of its life means the end of that life, because the rest never
    /// reached the disk.
    pub fn next_after(&self, place: Place) -> u64 {
        let end = self.past_lives.iter().find(|end| end.life == place.life).copied();
        let end = end.unwrap_or(self.head);
        place.number.min(end.number) + 1
    }

    /// Iterates over the calls that are hidden from a reader at event `next`.
    pub fn hidden_at(&self, next: u64) -> impl Iterator<Item = &CallId> {
        self.hidden.iter().filter(move |(_, until)| until.is_none_or(|until| until >= next)).map(|(call, _)| call)
    }

    pub fn meta(&self, clean: bool) -> SessionMeta {
        SessionMeta {
            id: self.id.clone(),
            cwd: self.cwd.clone(),
            real_cwd: self.real_cwd.clone(),
            extra_roots: self.extra_roots.clone(),
            title: self.title.clone(),
            created: self.created,
            updated: self.updated,
            messages: self.messages,
            last: self.head.number,
            life: self.head.life,
            waiting: self.is_waiting(),
            clean,
        }
    }
}

/// Builds the end of a call that clients saw while the model wrote it, and that did not run.
fn never_run(call: &CallId, verdict: OutcomeKind, text: &str) -> EventKind {
    EventKind::ToolEnded { call: call.clone(), outcome: Outcome { verdict, ..Outcome::failed(text) } }
}

/// Builds the event that closes a question without an answer.
fn unanswered(Asked { question, .. }: &Asked) -> EventKind {
    EventKind::PermissionAnswered {
        question: question.id.clone(),
        call: question.call.clone(),
        decision: Decision::Unanswered,
        by: "acpd".to_owned(),
    }
}

impl OpenCall {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn log(kinds: Vec<(u32, EventKind)>) -> SessionState {
        let mut state = SessionState::new("s".into());
        for ((life, kind), number) in kinds.into_iter().zip(1..) {
            state.apply(&Event { life, number, at: Millis(1), kind });
        }
        state
    }

    fn said() -> EventKind {
        EventKind::AgentText { message: "m".into(), text: "x".to_owned() }
    }

    #[test]
    fn a_place_beyond_what_is_stored_of_its_life_means_the_end_of_that_life() {
        let state =
            log(vec![(1, said()), (1, said()), (2, EventKind::Reopened), (2, said()), (3, EventKind::Reopened)]);
        let next = |life, number| state.next_after(Place { life, number });
        // On disk, life 1 ended at 2, although a client has seen event 4 of it.
        assert_eq!([next(1, 1), next(1, 2), next(1, 4)], [2, 3, 3]);
        assert_eq!([next(2, 3), next(2, 4), next(2, 9)], [4, 5, 5]);
        assert_eq!([next(3, 5), next(3, 9), next(1, 0)], [6, 6, 1]);
    }

    #[test]
    fn a_sub_agents_call_is_hidden_up_to_the_question_about_it() {
        let delegated = |call: &str| EventKind::Delegated { call: call.into(), within: "agent".into() };
        let question = Question { id: "q".into(), call: "asked".into(), always: None };
        let asked = EventKind::PermissionAsked { question };
        let state = log(vec![(1, delegated("asked")), (1, delegated("quiet")), (1, said()), (1, asked)]);
        let hidden = |next| state.hidden_at(next).map(CallId::as_str).collect::<Vec<_>>();
        assert_eq!(hidden(4), ["asked", "quiet"]);
        assert_eq!(hidden(5), ["quiet"]);
    }
}
