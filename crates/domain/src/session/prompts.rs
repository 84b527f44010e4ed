//! Prompts: taken, queued or refused, expanded, and started as turns.

use std::collections::VecDeque;

use super::activity::{Activity, RunningSlashCommand, RunningTurn};
use super::effect::{Effect, Purpose, StartTurn};
use super::hosted::AgentTurn;
use super::input::{Prompt, PromptAccepted, PromptMessage, PromptRefused};
use super::machine::SessionMachine;
use super::policy::BusyPolicy;
use super::slash::{self, SlashCommand};
use super::steering::WaitingMessage;
use crate::conversation::Message;
use crate::event::{Setting, SteeringPrompt};
use crate::mcp::PreparedPrompt;
use crate::tool::OutcomeKind;
use crate::{Content, EventKind, Mode, Payload, PromptOrigin, StopReason, TurnId};

/// How many prompts may wait, in the queue or for the next request of the running turn.
const QUEUE: usize = 16;

const TITLE_CHARS: usize = 60;

#[derive(Default)]
pub(super) struct PromptQueue {
    pub(super) waiting: VecDeque<Prompt>,
    /// Prompts that join the running turn at its next request.
    pub(super) steering: VecDeque<WaitingMessage>,
    /// Prompts that were cancelled while they waited. Their turns are recorded after the current
    /// activity.
    pub(super) given_up: Vec<Prompt>,
}

impl PromptQueue {
    pub(super) fn give_up(&mut self) {
        self.give_up_steering();
        self.given_up.extend(self.waiting.drain(..));
    }

    pub(super) fn give_up_steering(&mut self) {
        self.given_up.extend(self.steering.drain(..).map(|message| message.prompt));
    }

    /// Forgets prompts that are not in the log. Bridges send them again, and other clients see that
    /// the daemon is gone.
    pub(super) fn forget(&mut self) {
        self.steering.clear();
        self.waiting.clear();
    }

    fn is_full(&self) -> bool {
        self.waiting.len() + self.steering.len() >= QUEUE
    }
}

impl SessionMachine {
    /// Decides whether a prompt starts, joins the running turn, is queued, or is refused. The
    /// client's wish takes precedence over the session's policy.
    pub(super) fn accept_prompt(
        &mut self,
        prompt: Prompt,
        backlog_full: bool,
    ) -> Result<PromptAccepted, PromptRefused> {
        if self.evicting {
            return Err(PromptRefused::BeingEvicted);
        }
        if self.clients.is_superseded(&prompt.origin) {
            return Err(PromptRefused::Superseded);
        }
        if backlog_full {
            return Err(PromptRefused::Unwritten);
        }
        if self.activity.is_idle() {
            if prompt.needs_turn {
                return Err(PromptRefused::NoTurn);
            }
            self.start_prompt(prompt);
            return Ok(PromptAccepted::Started);
        }
        match prompt.when_busy.unwrap_or(self.policy.when_busy) {
            BusyPolicy::Steer if !self.queue.is_full() && self.can_be_steered_by(&prompt) => {
                self.hold_steering(prompt);
                Ok(PromptAccepted::Steering)
            }
            BusyPolicy::Steer | BusyPolicy::Queue if !self.queue.is_full() => {
                self.queue.waiting.push_back(prompt);
                Ok(PromptAccepted::Queued)
            }
            BusyPolicy::Steer | BusyPolicy::Queue | BusyPolicy::Refuse if self.state.open.turn.is_none() => {
                Err(PromptRefused::Restoring)
            }
            BusyPolicy::Steer | BusyPolicy::Queue | BusyPolicy::Refuse => Err(PromptRefused::Busy),
        }
    }

    /// The origins of the running turn's prompts and of the waiting prompts.
    pub fn prompted(&self) -> Vec<PromptOrigin> {
        let started = self.state.open.turn.iter().map(|turn| turn.origin.clone());
        let joined = self.state.open.turn.iter().flat_map(|turn| &turn.steering).map(|joined| joined.origin.clone());
        let joining = self.queue.steering.iter().map(|message| &message.prompt);
        let waiting = joining.chain(&self.queue.waiting).chain(&self.queue.given_up);
        started.chain(joined).chain(waiting.map(|prompt| prompt.origin.clone())).collect()
    }

    pub(super) fn start_prompt(&mut self, prompt: Prompt) {
        let Prompt { turn, origin, content, message, editor, trace, .. } = prompt;
        self.adopt_roots();
        self.connect_servers();
        let number = self.append(EventKind::TurnStarted { turn: turn.clone(), origin });
        self.effect(Effect::TurnOpened { number, trace, editor });
        let message = PromptMessage { turn: turn.clone(), message: message.unwrap_or_default(), content };
        if self.is_hosted() && self.refuse_worktree(&message) {
            // The notice has answered it.
        } else if self.is_hosted() {
            // A child resolves slash commands and all other references in a prompt itself.
            let after = self.record_message(message, false, PreparedPrompt::default(), None);
            self.start_turn(turn, Purpose::Answer, after);
        } else if let Some(command) = slash::read(&message.content) {
            let after = self.record_message(message, true, PreparedPrompt::default(), None);
            self.run_slash_command(command, turn, after);
        } else {
            self.activity = Activity::Expanding(message.clone());
            self.publish();
            self.effect(Effect::ExpandPrompt(message));
        }
    }

    /// Continues a prompt whose references have been read: asks the model, or explains in a notice
    /// why not.
    pub(super) fn continue_prompt(&mut self, mut prepared: PreparedPrompt) {
        let mut message = match std::mem::take(&mut self.activity) {
            Activity::Expanding(message) => message,
            other => {
                self.activity = other;
                return;
            }
        };
        for text in std::mem::take(&mut prepared.notices) {
            self.notice_passing(text);
        }
        if let Some(why) = prepared.refusal.take() {
            self.record_message(message, true, PreparedPrompt::default(), None);
            self.notice(why);
            return self.end_turn(StopReason::EndTurn);
        }
        if let Some(prompt) = prepared.prompt.take() {
            message.content = prompt;
        }
        let turn = message.turn.clone();
        let after = self.record_message(message, false, prepared, None);
        self.start_turn(turn, Purpose::Answer, after);
    }

    pub(super) fn start_turn(&mut self, turn: TurnId, purpose: Purpose, after: u64) {
        let agent = self.is_hosted().then_some(AgentTurn::Unsent);
        let costs_before = self.state.usage.costs.clone();
        self.activity = Activity::Turn(RunningTurn { agent, costs_before, ..RunningTurn::new(turn.clone(), purpose) });
        self.review_model();
        self.start_backend(StartTurn { turn, purpose, unfinished: None, after });
        self.publish();
    }

    /// Records the message of a prompt whose expansion is cut short, as it was typed.
    pub(super) fn record_unexpanded(&mut self, message: PromptMessage) {
        let aside = slash::call(&message.content).is_some();
        self.record_message(message, aside, PreparedPrompt::default(), None);
    }

    pub(super) fn record_message(
        &mut self,
        message: PromptMessage,
        aside: bool,
        prepared: PreparedPrompt,
        steering: Option<SteeringPrompt>,
    ) -> u64 {
        let PromptMessage { turn, message, content } = message;
        let PreparedPrompt { stands_for, context, .. } = prepared;
        let number =
            self.append(EventKind::UserMessage { turn, message, content, aside, stands_for, context, steering });
        if self.state.title.is_none()
            && let Some(title) = self.first_words()
        {
            self.append(EventKind::Titled { title });
        }
        number
    }

    /// A title from the first message: the first line of its own text, or else of what is attached,
    /// cut at a word.
    fn first_words(&self) -> Option<String> {
        let first = self.state.conversation.messages().first()?;
        let Message::User { content, .. } = &**first else { return None };
        let own = content.iter().filter(|block| matches!(block.payload, Payload::Text { .. }));
        let text = own.chain(content).map(Content::as_text).find(|text| !text.trim().is_empty())?;
        let line = text.trim().lines().next()?.trim();
        if line.chars().count() <= TITLE_CHARS {
            return Some(line.to_owned());
        }
        let cut: String = line.chars().take(TITLE_CHARS).collect();
        let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
        Some(format!("{words}…"))
    }

    /// Continues after an activity: records the cancelled prompts, then starts the next prompt,
    /// closes or considers eviction.
    pub(super) fn take_next(&mut self) {
        self.publish();
        self.record_given_up();
        match self.queue.waiting.pop_front() {
            _ if self.evicting => self.close(),
            Some(next) => self.start_prompt(next),
            None => self.consider_eviction(),
        }
    }

    /// Handles the withdrawal of a waiting prompt. A prompt whose message is not recorded is
    /// answered at once.
    pub(super) fn give_up_prompt(&mut self, prompt: Option<Prompt>) {
        match prompt {
            Some(Prompt { turn, origin, dropped_if_cancelled: true, .. }) => {
                self.append(EventKind::PromptDropped { prompt: turn, origin });
            }
            Some(prompt) => self.queue.given_up.push(prompt),
            None => {}
        }
    }

    /// Records a turn for each prompt that was cancelled while it waited; the end of that turn
    /// answers the prompt. A prompt whose message is not recorded gets no turn.
    fn record_given_up(&mut self) {
        for prompt in std::mem::take(&mut self.queue.given_up) {
            let Prompt { turn, origin, content, message, dropped_if_cancelled, .. } = prompt;
            if dropped_if_cancelled {
                self.append(EventKind::PromptDropped { prompt: turn, origin });
                continue;
            }
            self.append(EventKind::TurnStarted { turn: turn.clone(), origin });
            let aside = !self.is_hosted() && slash::read(&content).is_some();
            let message = PromptMessage { turn, message: message.unwrap_or_default(), content };
            self.record_message(message, aside, PreparedPrompt::default(), None);
            for kind in self.state.open.closing(OutcomeKind::Cancelled, StopReason::Cancelled) {
                self.append(kind);
            }
        }
    }

    fn run_slash_command(&mut self, command: SlashCommand, turn: TurnId, after: u64) {
        self.activity = Activity::SlashCommand(RunningSlashCommand::new(turn.clone()));
        let (text, setting) = match command {
            SlashCommand::Status => (slash::status(&self.state), None),
            SlashCommand::Mode(None) => (self.list_modes(), None),
            SlashCommand::Mode(Some(id)) => match Mode::from_id(&id) {
                Some(mode) => (format!("The mode is now {id}: {}.", mode.description()), Some(Setting::Mode(mode))),
                None => (format!("There is no mode `{id}`. {}", self.list_modes()), None),
            },
            SlashCommand::Compact if self.state.conversation.messages().len() < 3 => {
                ("There is nothing to compact yet.".to_owned(), None)
            }
            SlashCommand::Compact => return self.start_turn(turn, Purpose::Compact, after),
            SlashCommand::Restore(direction) => return self.restore_in_turn(turn, direction),
            SlashCommand::Worktree(command) => return self.run_worktree_command(command),
            SlashCommand::Help | SlashCommand::Model(_) | SlashCommand::Mcp | SlashCommand::Skills => {
                self.publish();
                return self.effect(Effect::RunSlashCommand(command));
            }
        };
        self.end_slash_command(text, setting);
    }

    fn list_modes(&self) -> String {
        slash::listing("mode", self.state.settings.mode.id(), Mode::ALL.map(Mode::id))
    }

    pub(super) fn end_slash_command(&mut self, text: String, setting: Option<Setting>) {
        let Activity::SlashCommand(running) = &mut self.activity else { return };
        let reason = running.stopped.take().unwrap_or(StopReason::EndTurn);
        if let Some(setting) = setting {
            self.append(EventKind::Configured { setting, automatic: false });
        }
        self.notice(text);
        self.end_turn(reason);
    }
}
