//! The machine itself: its parts, the dispatch of inputs, and how it appends events.

use std::path::PathBuf;
use std::sync::Arc;

use super::activity::Activity;
use super::clients::Clients;
use super::effect::{Effect, Reply};
use super::input::{Beginning, Input};
use super::policy::SessionPolicy;
use super::prompts::PromptQueue;
use crate::event::Setting;
use crate::{Durability, Event, EventKind, MessageId, Millis, SessionState};

pub struct SessionMachine {
    pub(super) state: SessionState,
    pub(super) activity: Activity,
    /// Once set, nothing new begins, and the session closes when its activity has ended.
    pub(super) evicting: bool,
    pub(super) queue: PromptQueue,
    pub(super) clients: Clients,
    /// Folders that a client named while a turn was running; they count from the next turn on.
    pub(super) roots_wanted: Option<Vec<PathBuf>>,
    pub(super) policy: SessionPolicy,
    life: u32,
    /// The last event that must be synced before what follows from it.
    pub(super) sync_point: u64,
    /// The time of the input that is being handled.
    now: Millis,
    effects: Vec<Effect>,
}

impl SessionMachine {
    /// A machine over the fold of a log. It expects `Input::Opened` with the same beginning first.
    pub fn new(state: SessionState, beginning: &Beginning, policy: SessionPolicy) -> Self {
        let life = match beginning {
            Beginning::Repaired | Beginning::Imported => state.head.life + 1,
            Beginning::Created(_) | Beginning::Continued => state.head.life,
        };
        Self {
            state,
            activity: Activity::Idle,
            evicting: false,
            queue: PromptQueue::default(),
            clients: Clients::default(),
            roots_wanted: None,
            policy,
            life,
            sync_point: 0,
            now: Millis::default(),
            effects: Vec::new(),
        }
    }

    /// Handles one input. The effects are to be carried out in their order.
    pub fn step(&mut self, input: Input, now: Millis) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Opened(beginning) => self.open(beginning),
            Input::ClientAttached(client) => self.attach(client),
            Input::ClientDetached { attach } => self.detach(attach),
            Input::Prompt { prompt, backlog_full } => {
                let reply = self.take_prompt(prompt, backlog_full);
                self.reply(Reply::Prompt(reply));
            }
            Input::Cancel(by) => self.cancel(&by),
            Input::Withdraw(turn) => self.withdraw(&turn),
            Input::Answer { question, decision, by } => self.settle_question(question, decision, by),
            Input::AnswerOpen { question, decision, by } => {
                let reply = self.settle_open(question.as_ref(), decision, by);
                self.reply(Reply::Answer(reply));
            }
            Input::CannotAnswer { question, attach, why } => self.note_unable(question, attach, &why),
            Input::DenyTimerFired => self.deny_questions(),
            Input::Undo(direction) => self.undo(direction),
            Input::Restored(result) => self.restored(result),
            Input::Evict { reason, in_background } => self.evict(&reason, in_background),
            Input::IdleTimerFired { in_background } => self.leave_if_unused(in_background),
            Input::Rename(title) => self.rename(title),
            Input::Configure(setting) => self.configure(setting),
            Input::ModelCorrected(model) => self.set_model(model),
            Input::SetRoots(roots) => self.set_roots(roots),
            Input::Notice { text } => self.notice_passing(text),
            Input::PromptExpanded(prepared) => self.continue_prompt(prepared),
            Input::SlashCommandDone { text, setting } => self.end_slash_command(text, setting),
            Input::Turn { turn, report } => self.take_report(turn, report),
            Input::TurnNotStarted { turn, failure } => self.fail_unstarted(&turn, failure),
            Input::HooksAnswered { turn, refusal } => self.hear_hooks(turn, refusal),
            Input::SubAgentStarted { turn, call, mode } => self.add_agent(turn, call, mode),
            Input::SubAgentGone { turn } => self.dismiss_agents(&[turn]),
            Input::SubAgentCalled { agent, call, message, request } => {
                self.start_call(call, message, request, Some(agent));
            }
            Input::SubAgentBarred { agent, call, message, request, refusal } => {
                self.record_refusal(call, message, request, refusal, Some(agent));
            }
            Input::SubAgentUsed { spent, window } => {
                let window_used = self.state.window_used;
                self.pay(spent, window_used, window);
            }
            Input::Call { call, report } => self.take_call_report(call, report),
            Input::WriteFailed(failure) => self.fail_write(failure),
        }
        std::mem::take(&mut self.effects)
    }

    pub fn state(&self) -> &SessionState {
        &self.state
    }

    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    pub fn is_evicting(&self) -> bool {
        self.evicting
    }

    /// The event up to which the log must be synced before anything follows from it.
    pub fn sync_point(&self) -> u64 {
        self.sync_point
    }

    /// The folders beside the working folder that count now or from the next turn on.
    pub fn wanted_roots(&self) -> &[PathBuf] {
        self.roots_wanted.as_deref().unwrap_or(&self.state.extra_roots)
    }

    /// Appends one event: from here on it has happened.
    pub(super) fn append(&mut self, kind: EventKind) -> u64 {
        let number = self.state.head.number + 1;
        let event = Arc::new(Event { life: self.life, number, at: self.now, kind });
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

    pub(super) fn reply(&mut self, reply: Reply) {
        self.effects.push(Effect::Reply(reply));
    }

    pub(super) fn publish(&mut self) {
        if !matches!(self.effects.last(), Some(Effect::Publish)) {
            self.effects.push(Effect::Publish);
        }
    }

    /// A notice that stays in the conversation, such as the answer to a slash command.
    pub(super) fn notice(&mut self, text: String) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: false });
    }

    /// A notice that is of interest only while it happens.
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

    /// The folders that a client named last count from now on.
    pub(super) fn adopt_roots(&mut self) {
        if let Some(roots) = self.roots_wanted.take() {
            self.state.extra_roots = roots;
        }
    }
}
