//! The current state of a session: its log, folded. Live appends and reopening from disk use the
//! same `apply`.

mod open_work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use self::open_work::unanswered;
pub use self::open_work::{AskedQuestion, BackgroundWork, OpenCall, OpenTurn, OpenWork};
use crate::budget::Costs;
use crate::checkpoint::Checkpoints;
use crate::conversation::Conversation;
use crate::event::Setting;
use crate::history::SessionMeta;
use crate::hosted::{Hosted, HostedEvent};
use crate::permission::PermissionMemory;
use crate::tool::OutcomeKind;
use crate::{
    Approval, CallId, Choice, Cost, Decision, Event, EventKind, LogPosition, Millis, Mode, ModelId, QuestionId,
    SessionId, ThoughtLevel, Usage, Worktree,
};

/// Everything that is derived from the log of one session.
#[derive(Clone, Debug)]
pub struct SessionState {
    pub id: SessionId,
    pub folders: SessionFolders,
    pub settings: SessionSettings,
    pub title: Option<String>,
    pub created: Millis,
    pub updated: Millis,
    /// The "always" answers of the user.
    pub memory: PermissionMemory,
    pub usage: SessionUsage,
    pub conversation: Conversation,
    pub messages: u64,
    pub open: OpenWork,
    pub delegated: BTreeMap<CallId, DelegatedCall>,
    /// The turns whose changes to files can be undone or redone.
    pub checkpoints: Checkpoints,
    /// The position of the last event; number 0 before the first.
    pub head: LogPosition,
    /// The last position of each past life.
    pub past_lives: Vec<LogPosition>,
}

/// A call of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedCall {
    /// The call on which the sub-agent works.
    pub within: CallId,
    /// The number of the event that asks the user about the call. Clients see the call from there
    /// on, if there is such an event.
    pub shown_from: Option<u64>,
}

impl DelegatedCall {
    /// Whether a reader at event `next` does not see the call yet.
    pub fn is_hidden_at(&self, next: u64) -> bool {
        self.shown_from.is_none_or(|shown| shown >= next)
    }
}

/// The folders in which a session works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFolders {
    /// The folder in which the session works now.
    pub cwd: PathBuf,
    /// The folder in which it was opened. It differs from `cwd` while the session is in a worktree.
    pub opened_in: PathBuf,
    /// The worktree in which it works, if it is in one.
    pub worktree: Option<Worktree>,
    /// The real path of `opened_in` when the session began. It is stored beside the log.
    pub real_cwd: Option<PathBuf>,
    /// The folders besides `cwd` that file tools may use.
    pub extra_roots: Vec<PathBuf>,
}

/// What a client can configure in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    pub mode: Mode,
    pub approval: Approval,
    pub model: ModelId,
    /// Whether the user chose the model in this session.
    pub model_chosen: bool,
    pub thought: ThoughtLevel,
    /// The child agent that answers, and what can be configured there; None for the native engine.
    pub hosted: Option<Hosted>,
}

/// What a session has used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionUsage {
    /// The tokens of the session's whole life.
    pub tokens: Usage,
    /// What it has cost, in the currency of the last request.
    pub cost: Option<Cost>,
    /// What it has cost, in all currencies.
    pub costs: Costs,
    /// How full the model's window was after its last request.
    pub window_used: u64,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            approval: Approval::default(),
            model: ModelId::from(""),
            model_chosen: false,
            thought: ThoughtLevel::default(),
            hosted: None,
        }
    }
}

impl SessionSettings {
    fn change(&mut self, setting: &Setting, automatic: bool) {
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
}

impl SessionState {
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            folders: SessionFolders::default(),
            settings: SessionSettings::default(),
            title: None,
            created: Millis::default(),
            updated: Millis::default(),
            memory: PermissionMemory::default(),
            usage: SessionUsage::default(),
            conversation: Conversation::default(),
            messages: 0,
            open: OpenWork::default(),
            delegated: BTreeMap::new(),
            checkpoints: Checkpoints::default(),
            head: LogPosition { life: 1, number: 0 },
            past_lives: Vec::new(),
        }
    }

    /// Folds one event into the state.
    pub fn apply(&mut self, event: &Event) {
        if event.life > self.head.life {
            self.past_lives.push(self.head);
        }
        self.head = event.position();
        self.updated = event.at;
        self.conversation.apply(event);
        match &event.kind {
            EventKind::Created { cwd, extra_roots, mode, approval, model, agent } => {
                self.created = event.at;
                self.folders.cwd.clone_from(cwd);
                self.folders.opened_in.clone_from(cwd);
                // A fork works in no worktree: that of its original belongs to the original.
                self.folders.worktree = None;
                self.folders.extra_roots.clone_from(extra_roots);
                (self.settings.mode, self.settings.approval, self.settings.model) = (*mode, *approval, model.clone());
                // A fork has a session of its own at the same agent.
                self.settings.hosted = agent.clone().map(Hosted::new);
            }
            EventKind::Hosted { event: hosted } => self.note_hosted(hosted),
            EventKind::UserMessage { .. } => self.messages += 1,
            EventKind::Configured { setting, automatic } => self.settings.change(setting, *automatic),
            EventKind::Moved { folder, worktree, .. } => {
                self.folders.cwd.clone_from(folder);
                self.folders.worktree.clone_from(worktree);
            }
            EventKind::Titled { title } => self.title = Some(title.clone()),
            EventKind::Used { usage, window_used, window, cost, .. } => {
                self.usage.tokens += *usage;
                if let Some(cost) = cost {
                    self.usage.costs.set(cost);
                    self.usage.cost = Some(cost.clone());
                }
                self.usage.window_used = *window_used;
                match &mut self.settings.hosted {
                    // A child reports this as often as it likes.
                    Some(hosted) => hosted.window = *window,
                    None => self.messages += 1,
                }
            }
            // The next request reports it. The request for the summary itself is no indication.
            EventKind::Compacted { .. } => self.usage.window_used = 0,
            EventKind::Delegated { call, within } => {
                let delegated = DelegatedCall { within: within.clone(), shown_from: None };
                self.delegated.insert(call.clone(), delegated);
            }
            EventKind::PermissionAsked { question } => self.show_delegated(&question.call, event.number),
            EventKind::CallPaused { call } => self.show_delegated(call, event.number),
            EventKind::PermissionAnswered { question, decision, .. } => self.remember(question, *decision),
            EventKind::ToolEnded { outcome, .. } => {
                if let Some(turn) = &self.open.turn {
                    self.checkpoints.note(&turn.id, event.number, outcome);
                }
            }
            EventKind::Restored { turn, way, .. } => self.checkpoints.restored(turn, *way),
            EventKind::TurnStarted { .. } => {
                if let Some(hosted) = &mut self.settings.hosted {
                    hosted.unprompted = false;
                }
            }
            EventKind::TurnEnded { usage, .. } => {
                if self.settings.hosted.is_some() {
                    self.messages += 1;
                    self.usage.tokens += *usage;
                    // Calls that the child left open stay as clients saw them last.
                    self.open.calls.clear();
                }
            }
            EventKind::CallBegun { .. }
            | EventKind::CallsRequested { .. }
            | EventKind::ToolCalled { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::BackgroundOutput { .. }
            | EventKind::BackgroundEnded { .. }
            | EventKind::Planned { .. }
            | EventKind::Reopened
            | EventKind::AgentText { .. }
            | EventKind::AgentThought { .. }
            | EventKind::ResponseSealed { .. }
            | EventKind::Abandoned { .. }
            | EventKind::ResultsCleared { .. }
            | EventKind::ToolProgressed { .. }
            | EventKind::CallResumed { .. }
            | EventKind::Compacting { .. }
            | EventKind::PromptDropped { .. }
            | EventKind::Noticed { .. } => {}
        }
        // Last, because the arms above look at what was open before the event.
        self.open.apply(event);
    }

    /// Makes the call visible to clients from this event on, if it belongs to a sub-agent.
    fn show_delegated(&mut self, call: &CallId, number: u64) {
        if let Some(delegated) = self.delegated.get_mut(call) {
            delegated.shown_from.get_or_insert(number);
        }
    }

    fn note_hosted(&mut self, event: &HostedEvent) {
        if let Some(hosted) = &mut self.settings.hosted {
            hosted.apply(event);
        }
    }

    /// Remembers an "always" answer to an open question.
    fn remember(&mut self, question: &QuestionId, decision: Decision) {
        let Some(asked) = self.open.questions.iter().find(|open| open.question.id == *question) else { return };
        if let (Decision::Chose(choice), Some(grant)) = (decision, &asked.question.always) {
            match choice {
                Choice::AllowAlways => self.memory.remember(grant.clone(), true),
                Choice::RejectAlways => self.memory.remember(grant.clone(), false),
                Choice::AllowOnce | Choice::RejectOnce => {}
            }
        }
    }

    /// Whether the turn survives a restart of the daemon, because a permission question about one
    /// of its own calls is open.
    pub fn is_waiting(&self) -> bool {
        self.open.turn.is_some() && self.open.questions.iter().any(|asked| self.can_wait(&asked.question.call))
    }

    /// Whether the call can still be run after a restart: it has not started, and it does not
    /// belong to a sub-agent, whose conversation is not in the log.
    pub(crate) fn can_wait(&self, call: &CallId) -> bool {
        let is_pending = self.open.calls.get(call).is_some_and(|open| !open.started);
        // A child agent ends with the daemon, and its question with it.
        is_pending && !self.delegated.contains_key(call) && self.settings.hosted.is_none()
    }

    /// Returns the events that close everything except a waiting turn: calls that ran get an
    /// outcome, and the calls of sub-agents end.
    pub(crate) fn suspending(&self) -> Vec<EventKind> {
        let lost = |call: &CallId| !self.can_wait(call);
        let questions = self.open.questions.iter().filter(|asked| lost(&asked.question.call)).map(unanswered);
        let calls = self.open.calls.iter().filter(|(call, _)| lost(call)).map(|(call, open)| EventKind::ToolEnded {
            call: call.clone(),
            outcome: open.unfinished(OutcomeKind::Interrupted),
        });
        questions.chain(calls).chain(self.open.ending_agents()).collect()
    }

    /// Returns the number of the next event for a reader that saw everything up to `position`. A
    /// position beyond the stored part of its life means the end of that life, because the rest
    /// never reached the disk.
    pub fn next_after(&self, position: LogPosition) -> u64 {
        let end = self.past_lives.iter().find(|end| end.life == position.life).copied();
        let end = end.unwrap_or(self.head);
        position.number.min(end.number) + 1
    }

    /// Adopts the folders that are stored beside the log, as the last client named them.
    pub fn adopt_stored(&mut self, meta: &SessionMeta) {
        self.folders.extra_roots.clone_from(&meta.extra_roots);
        self.folders.real_cwd.clone_from(&meta.real_cwd);
    }

    pub fn meta(&self, clean: bool) -> SessionMeta {
        SessionMeta {
            id: self.id.clone(),
            cwd: self.folders.opened_in.clone(),
            worktree: self.folders.worktree.clone().map(Box::new),
            real_cwd: self.folders.real_cwd.clone(),
            extra_roots: self.folders.extra_roots.clone(),
            title: self.title.clone(),
            created: self.created,
            updated: self.updated,
            agent: self.settings.hosted.as_ref().map(|hosted| hosted.agent.clone()),
            messages: self.messages,
            last: self.head.number,
            life: self.head.life,
            waiting: self.is_waiting(),
            clean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Question;

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
    fn a_position_beyond_the_stored_log_means_the_end_of_its_life() {
        let state =
            log(vec![(1, said()), (1, said()), (2, EventKind::Reopened), (2, said()), (3, EventKind::Reopened)]);
        let next = |life, number| state.next_after(LogPosition { life, number });
        // On disk, life 1 ended at 2, although a client has seen event 4 of it.
        assert_eq!([next(1, 1), next(1, 2), next(1, 4)], [2, 3, 3]);
        assert_eq!([next(2, 3), next(2, 4), next(2, 9)], [4, 5, 5]);
        assert_eq!([next(3, 5), next(3, 9), next(1, 0)], [6, 6, 1]);
    }

    #[test]
    fn the_cost_in_one_currency_is_kept_while_another_is_used() {
        let used = |amount: f64, currency: &str| {
            let cost = Some(Cost { amount, currency: currency.to_owned() });
            (1, EventKind::Used { usage: Usage::default(), window_used: 0, window: 0, cost, estimated: false })
        };
        let usage = log(vec![used(1.0, "EUR"), used(2.0, "USD")]).usage;
        assert_eq!((usage.costs.amount("EUR"), usage.costs.amount("USD")), (1.0, 2.0));
        assert_eq!(usage.cost.map(|cost| cost.currency).as_deref(), Some("USD"));
    }

    #[test]
    fn a_sub_agents_call_is_hidden_up_to_the_question_about_it() {
        let delegated = |call: &str| EventKind::Delegated { call: call.into(), within: "agent".into() };
        let question =
            Question { id: "q".into(), call: "asked".into(), always: None, options: Vec::new(), inquiry: None };
        let asked = EventKind::PermissionAsked { question };
        let state = log(vec![(1, delegated("asked")), (1, delegated("quiet")), (1, said()), (1, asked)]);
        let is_hidden = |call: &str, next| state.delegated[&CallId::from(call)].is_hidden_at(next);
        assert_eq!([is_hidden("asked", 4), is_hidden("quiet", 4)], [true, true]);
        assert_eq!([is_hidden("asked", 5), is_hidden("quiet", 5)], [false, true]);
    }
}
