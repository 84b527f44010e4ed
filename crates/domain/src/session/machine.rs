//! The machine itself: its parts, the dispatch of inputs, and how it appends events.

use std::path::PathBuf;
use std::sync::Arc;

use super::activity::Activity;
use super::clients::Clients;
use super::effect::{Effect, InputReply};
use super::input::{Input, SessionStart};
use super::policy::SessionPolicy;
use super::prompts::PromptQueue;
use super::servers::ServerChoice;
use super::spending::SpendingWatch;
use super::sub_agents::AgentRecords;
use crate::event::Setting;
use crate::tool::BackgroundReport;
use crate::{Durability, Event, EventKind, MessageId, Millis, SessionState};

/// The rules and the state of one session.
pub struct SessionMachine {
    pub(super) state: SessionState,
    pub(super) activity: Activity,
    /// Set once the session is being evicted: nothing new begins, and it closes when its activity
    /// has ended.
    pub(super) evicting: bool,
    pub(super) queue: PromptQueue,
    pub(super) clients: Clients,
    pub(super) servers: ServerChoice,
    /// Folders that a client named while a turn was running; they apply from the next turn on.
    pub(super) roots_wanted: Option<Vec<PathBuf>>,
    /// Reports of commands whose call has no outcome in the log yet.
    pub(super) early_reports: Vec<BackgroundReport>,
    pub(super) policy: SessionPolicy,
    pub(super) agents: AgentRecords,
    /// The bytes of work that the child of a hosted session has done since its last prompt.
    pub(super) unprompted: usize,
    pub(super) spending: SpendingWatch,
    stamp: Stamp,
    /// The number of the last event that must be synced before anything that follows from it.
    pub(super) sync_point: u64,
    effects: Vec<Effect>,
}

/// The fields that all events of one step have in common.
struct Stamp {
    life: u32,
    /// The time of the input that is being handled.
    now: Millis,
}

impl SessionMachine {
    /// Creates a machine over the fold of a log. Its first input must be `Input::Opened` with the
    /// same beginning.
    pub fn new(state: SessionState, start: &SessionStart, policy: SessionPolicy) -> Self {
        let life = match start {
            SessionStart::Repaired | SessionStart::Imported { .. } => state.head.life + 1,
            SessionStart::Created { .. } | SessionStart::Continued => state.head.life,
        };
        Self {
            state,
            activity: Activity::Idle,
            evicting: false,
            queue: PromptQueue::default(),
            clients: Clients::default(),
            servers: ServerChoice::default(),
            roots_wanted: None,
            early_reports: Vec::new(),
            policy,
            agents: AgentRecords::default(),
            unprompted: 0,
            spending: SpendingWatch::default(),
            stamp: Stamp { life, now: Millis::default() },
            sync_point: 0,
            effects: Vec::new(),
        }
    }

    /// Handles one input and returns the effects, which must be carried out in order.
    pub fn step(&mut self, input: Input, now: Millis) -> Vec<Effect> {
        self.stamp.now = now;
        self.handle(input);
        std::mem::take(&mut self.effects)
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Opened(start) => self.open(start),
            Input::ClientAttached(client) => self.attach(client),
            Input::ClientDetached { attach } => self.detach(attach),
            Input::Prompt { prompt, backlog_full } => {
                let reply = self.accept_prompt(prompt, backlog_full);
                self.reply(InputReply::Prompt(reply));
            }
            Input::Cancel(by) => self.cancel(&by),
            Input::Withdraw(turn) => self.withdraw(&turn),
            Input::CancelCall(call) => {
                let reply = self.cancel_call(call);
                self.reply(InputReply::CancelCall(reply));
            }
            Input::SpentToday(spent) => self.spending.today = spent,
            Input::Background(report) => self.note_background(report),
            Input::Answer { question, answer } => self.settle_question(question, answer),
            Input::AnswerOpen { question, answer } => self.answer_open(question.as_ref(), answer),
            Input::CannotAnswer { question, attach, why } => self.note_unable(question, attach, &why),
            Input::DenyTimerFired => self.deny_questions(),
            Input::Undo(direction) => self.undo(direction),
            Input::Restored(result) => self.restored(result),
            Input::Evict { reason, in_background } => self.evict(&reason, in_background),
            Input::IdleTimerFired { in_background } => self.evict_if_unused(in_background),
            Input::Rename(title) => self.rename(title),
            Input::Configure(setting) => self.configure(setting),
            Input::ModelCorrected(model) => self.correct_model(model),
            Input::ModelRemarks(remarks) => self.show_remarks(remarks),
            Input::SetServers { wanted, kept } => self.set_servers(wanted, kept),
            Input::ServersLost { text } => self.lose_servers(text),
            Input::SetEnvironment(environment) => self.adopt_environment(environment),
            Input::EditorReturned(editor) => self.return_editor(editor),
            Input::SetRoots(roots) => self.set_roots(roots),
            Input::Notice { text } => self.notice_passing(text),
            Input::PromptExpanded(prepared) => self.continue_prompt(prepared),
            Input::SteeringExpanded { prompt, prepared } => self.note_steering_expanded(&prompt, prepared),
            Input::Move(entered) => self.relocate(entered),
            Input::SlashCommandDone { text, setting } => self.end_slash_command(text, setting),
            Input::Turn { turn, report } => self.handle_turn_report(turn, report),
            Input::TurnNotStarted { turn, failure } => self.fail_unstarted(&turn, failure),
            Input::HooksAnswered { turn, refusal } => self.handle_hook_verdict(turn, refusal),
            Input::Delegated { call, request } => self.delegate(call, request),
            Input::SubAgentEnded { turn, outcome, resumable } => self.end_agent(&turn, outcome, resumable),
            Input::SubAgentCalled { agent, call, message, request } => {
                self.start_call(call, message, request, Some(agent));
            }
            Input::SubAgentCallRejected { agent, call, message, request, refusal } => {
                self.record_refusal(call, message, request, refusal, Some(agent));
            }
            Input::SubAgentRequested { agent, calls } => self.note_requested(&agent, calls),
            Input::SubAgentWaits { agent, input } => self.send_to_agent(agent, input),
            Input::SubAgentUsage { spent, window } => self.record_usage(spent, self.state.usage.window_used, window),
            Input::Call { call, report } => self.handle_call_report(call, report),
            Input::AgentPromptSynced(turn) => self.note_prompt_synced(&turn),
            Input::Agent(report) => self.handle_agent_report(report),
            Input::AgentAsked(asked) => self.ask_for_agent(asked),
            Input::WriteFailed(failure) => self.fail_write(failure),
        }
    }

    pub fn state(&self) -> &SessionState {
        &self.state
    }

    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The number of the event up to which the log must be synced before anything follows from it.
    pub fn sync_point(&self) -> u64 {
        self.sync_point
    }

    /// The folders besides the working folder that apply now or from the next turn on.
    pub fn wanted_roots(&self) -> &[PathBuf] {
        self.roots_wanted.as_deref().unwrap_or(&self.state.folders.extra_roots)
    }

    /// Appends one event and returns its number. From here on it has happened.
    pub(super) fn append(&mut self, kind: EventKind) -> u64 {
        let number = self.state.head.number + 1;
        let event = Arc::new(Event { life: self.stamp.life, number, at: self.stamp.now, kind });
        self.state.apply(&event);
        if event.kind.durability() == Durability::Synced {
            self.sync_point = number;
        }
        let is_listed =
            matches!(event.kind, EventKind::ToolStarted { .. } | EventKind::ToolEnded { .. } | EventKind::Used { .. });
        self.effects.push(Effect::Append(event));
        if is_listed {
            self.publish();
        }
        number
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn reply(&mut self, reply: InputReply) {
        self.effects.push(Effect::Reply(reply));
    }

    pub(super) fn publish(&mut self) {
        if !matches!(self.effects.last(), Some(Effect::Publish)) {
            self.effects.push(Effect::Publish);
        }
    }

    /// Appends a notice that stays in the conversation, such as the answer to a slash command.
    pub(super) fn notice(&mut self, text: String) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: false });
    }

    /// Appends a notice that is relevant only while it happens.
    pub(super) fn notice_passing(&mut self, text: String) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true });
    }

    fn rename(&mut self, title: String) {
        self.append(EventKind::Titled { title });
        self.effect(Effect::Flush);
        self.publish();
        self.consider_eviction();
    }

    fn configure(&mut self, setting: Setting) {
        let is_of_the_model = matches!(setting, Setting::Model(_) | Setting::ThoughtLevel(_));
        self.append(EventKind::Configured { setting, automatic: false });
        if is_of_the_model {
            self.switch_model();
        }
        self.publish();
    }

    fn set_roots(&mut self, roots: Vec<PathBuf>) {
        self.roots_wanted = Some(roots);
        if self.activity.is_idle() {
            self.adopt_roots();
        }
    }

    /// Applies the folders that a client named last.
    pub(super) fn adopt_roots(&mut self) {
        if let Some(roots) = self.roots_wanted.take() {
            self.state.folders.extra_roots = roots;
        }
    }
}
