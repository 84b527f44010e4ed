//! The running turn: what it reports, how it is stopped, and how it ends.

use super::activity::{Activity, RunningTurn};
use super::effect::{Effect, Purpose, TurnInput};
use super::eviction::Requester;
use super::hosted::AgentTurn;
use super::input::{RequestUsage, TurnReport};
use super::machine::SessionMachine;
use super::sub_agents::SubAgents;
use crate::event::Setting;
use crate::model::Price;
use crate::tool::{NotificationKind, PlanRefusal};
use crate::turn::FailureKind;
use crate::{CallId, Cost, Decision, EventKind, ModelId, QuestionId, StopReason, ToolKind, TurnFailure, TurnId, Usage};

/// How often hooks may send one turn back. A hook that always refuses must not keep the model busy
/// forever.
const MAX_STOP_HOOK_ROUNDS: u32 = 3;

impl SessionMachine {
    /// Whether the backend of this turn still counts: the turn runs and has not been stopped.
    pub(super) fn is_running_turn(&self, turn: &TurnId) -> bool {
        matches!(&self.activity, Activity::Turn(running) if running.id == *turn)
    }

    pub(super) fn handle_turn_report(&mut self, turn: TurnId, report: TurnReport) {
        if !self.is_running_turn(&turn) {
            return;
        }
        match report {
            TurnReport::Text { message, text } => {
                self.append(EventKind::AgentText { message, text });
            }
            TurnReport::Thought { message, text } => {
                self.append(EventKind::AgentThought { message, text });
            }
            TurnReport::Sealed { message, seal } => {
                self.append(EventKind::ResponseSealed { message, seal });
            }
            TurnReport::CallBegun { call, message, tool, title } => {
                self.append(EventKind::CallBegun { call, message, tool, title });
            }
            TurnReport::Requested { message, calls } => {
                self.drop_begun_calls(&calls);
                self.append(EventKind::CallsRequested { message, calls });
            }
            TurnReport::Abandoned { message } => {
                self.drop_begun_calls(&[]);
                self.append(EventKind::Abandoned { message });
            }
            TurnReport::Reminder { text } => {
                self.drop_begun_calls(&[]);
                self.remind(turn, text);
            }
            TurnReport::Notice { text } => self.notice_passing(text),
            TurnReport::CallRejected { call, message, request, reason } => {
                let refusal = PlanRefusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
                self.record_refusal(call, message, request, refusal, None);
            }
            TurnReport::Cleared { calls } => self.clear_results(calls),
            TurnReport::Summarising { message, text } => {
                self.append(EventKind::Compacting { compaction: message, text });
            }
            TurnReport::Summarised { message, summary, kept_from, kept_of_user } => {
                let compaction = Some(message);
                self.append(EventKind::Compacted { summary, kept_from, kept_of_user, compaction });
                self.insert_steering();
                let conversation = self.state.conversation.clone();
                self.send_to_turn(TurnInput::Compacted { conversation });
            }
            TurnReport::Called { call, message, request } => self.start_call(call, message, request, None),
            TurnReport::Planned { call, message, entries } => {
                self.append(EventKind::Planned { call: call.clone(), message, entries });
                self.send_call_ended(call, false);
            }
            TurnReport::Usage { usage, window, price, estimated } => {
                self.record_usage(RequestUsage { usage, price, estimated }, usage.total(), window);
            }
            TurnReport::Ended { reason, fallback } => self.consider_end(turn, reason, fallback),
            TurnReport::Died => {
                let failure = TurnFailure::internal("the turn crashed; this is a bug in acpd");
                self.stop_turn(StopReason::Failed(failure));
            }
        }
    }

    /// Handles the end of the model's work. The turn ends unless another model takes over or a hook
    /// objects.
    fn consider_end(&mut self, turn: TurnId, reason: StopReason, fallback: Option<ModelId>) {
        if self.fall_back(&reason, fallback) || self.continue_with_steering(&reason) {
            return;
        }
        if reason == StopReason::EndTurn && self.wait_for_agents(&turn) {
            return;
        }
        if let Activity::Turn(running) = &mut self.activity {
            running.ending = Some(reason.clone());
        }
        self.effect(Effect::RunHooks { turn, reason });
    }

    pub(super) fn handle_hook_verdict(&mut self, turn: TurnId, refusal: Option<String>) {
        let Activity::Turn(running) = &mut self.activity else { return };
        if running.id != turn {
            return;
        }
        let Some(reason) = running.ending.take() else { return };
        if let Some(why) = refusal.filter(|_| reason == StopReason::EndTurn) {
            running.sent_back += 1;
            if running.sent_back <= MAX_STOP_HOOK_ROUNDS {
                return self.remind(turn, format!("A hook did not let the turn end: {why}"));
            }
        }
        // A message may have arrived while the hooks decided.
        if !self.continue_with_steering(&reason) {
            self.end_turn(reason);
        }
    }

    /// Continues the turn with this text as if the user had written it, and shows it as a notice.
    fn remind(&mut self, turn: TurnId, text: String) {
        self.notice_passing(text.clone());
        self.continue_with(turn, text);
    }

    /// Continues the turn with this text as if the user had written it.
    pub(super) fn continue_with(&mut self, turn: TurnId, text: String) {
        self.append(EventKind::user_text(turn, text));
        self.insert_steering();
        let (at, conversation) = (self.sync_point, self.state.conversation.clone());
        self.send_to_turn(TurnInput::Continue { at, conversation });
    }

    /// Clears the outcomes of these calls from the conversation, and continues the turn.
    fn clear_results(&mut self, calls: Vec<CallId>) {
        self.append(EventKind::ResultsCleared { calls });
        self.insert_steering();
        let (at, conversation) = (self.sync_point, self.state.conversation.clone());
        self.send_to_turn(TurnInput::Continue { at, conversation });
    }

    /// Continues with a listed model if the provider does not know the default one; once per turn.
    fn fall_back(&mut self, reason: &StopReason, fallback: Option<ModelId>) -> bool {
        let StopReason::Failed(failure) = reason else { return false };
        if failure.kind != FailureKind::UnknownModel || self.state.settings.model_chosen {
            return false;
        }
        let Activity::Turn(running) = &mut self.activity else { return false };
        if std::mem::replace(&mut running.fell_back, true) {
            return false;
        }
        let Some(other) = fallback else { return false };
        let unknown = self.state.settings.model.clone();
        let text = format!("The provider does not know the model `{unknown}`; `{other}` answers in its place.");
        self.set_model(other);
        self.notice_passing(text);
        let (at, conversation) = (self.sync_point, self.state.conversation.clone());
        self.send_to_turn(TurnInput::Continue { at, conversation });
        true
    }

    pub(super) fn set_model(&mut self, model: ModelId) {
        self.append(EventKind::Configured { setting: Setting::Model(model), automatic: true });
        self.switch_model();
        self.publish();
    }

    /// Switches a running turn to the current model, from its next request on.
    pub(super) fn switch_model(&mut self) {
        if matches!(self.activity, Activity::Turn(_)) {
            self.effect(Effect::SwitchModel);
        }
    }

    pub(super) fn send_call_ended(&mut self, call: CallId, failed: bool) {
        if matches!(self.activity, Activity::Turn(_)) {
            self.insert_steering();
            let (at, conversation) = (self.sync_point, self.state.conversation.clone());
            self.send_to_turn(TurnInput::CallEnded { call, failed, at, conversation });
        }
    }

    pub(super) fn record_usage(&mut self, spent: RequestUsage, window_used: u64, window: u64) {
        let RequestUsage { usage, price, estimated } = spent;
        let cost = price.map(|price| self.cost_with(&price, &usage));
        self.append(EventKind::Used { usage, window_used, window, cost, estimated });
    }

    /// The cost of the session in the currency of the price, including this request.
    fn cost_with(&self, price: &Price, usage: &Usage) -> Cost {
        let before = self.state.usage.costs.amount(&price.currency);
        Cost { amount: before + price.of(usage), currency: price.currency.clone() }
    }

    pub(super) fn cancel(&mut self, by: &Requester) {
        let is_of_another = self.state.open.turn.as_ref().is_some_and(|turn| !by.sent(&turn.origin));
        let can_be_cancelled = !matches!(self.activity, Activity::Idle | Activity::Closing | Activity::Stopping(..));
        if is_of_another && can_be_cancelled {
            self.notice_passing(format!("{} cancelled the turn.", by.display_name()));
        }
        self.queue.give_up();
        self.stop_turn(StopReason::Cancelled);
    }

    pub(super) fn withdraw(&mut self, turn: &TurnId) {
        if let Some(at) = self.queue.waiting.iter().position(|prompt| prompt.turn == *turn) {
            let prompt = self.queue.waiting.remove(at);
            self.give_up_prompt(prompt);
        } else if let Some(at) = self.queue.steering.iter().position(|message| message.prompt.turn == *turn) {
            let message = self.queue.steering.remove(at);
            self.give_up_prompt(message.map(|message| message.prompt));
        } else if self.state.open.turn.as_ref().is_some_and(|open| open.has_prompt(turn)) {
            self.stop_turn(StopReason::Cancelled);
        }
    }

    pub(super) fn fail_unstarted(&mut self, turn: &TurnId, failure: TurnFailure) {
        if self.is_running_turn(turn) {
            self.stop_turn(StopReason::Failed(failure));
        }
    }

    pub(super) fn fail_write(&mut self, failure: TurnFailure) {
        // Nothing runs for a waiting turn, and its question is in the log already.
        if !matches!(self.activity, Activity::Waiting(_)) {
            self.stop_turn(StopReason::Failed(failure));
        }
    }

    /// Ends the activity early. A turn's model is dropped at once, its tools are cancelled, and it
    /// ends when they have.
    pub(super) fn stop_turn(&mut self, reason: StopReason) {
        if reason == StopReason::Cancelled {
            self.queue.give_up_steering();
        }
        match std::mem::take(&mut self.activity) {
            Activity::Expanding(message) => {
                self.effect(Effect::AbortExpansion);
                self.activity = Activity::Stopping(RunningTurn::new(message.turn.clone(), Purpose::Answer), reason);
                self.record_unexpanded(message);
                self.end_if_stopped();
            }
            Activity::Restoring(mut restoration) => {
                restoration.stopped = Some(reason);
                self.activity = Activity::Restoring(restoration);
                self.effect(Effect::StopRestoring);
            }
            Activity::SlashCommand(mut running) => {
                running.stopped = Some(reason);
                self.activity = Activity::SlashCommand(running);
                self.effect(Effect::StopSlashCommand);
            }
            Activity::Turn(running) => self.stop_running(running, reason, self.evicting),
            Activity::Waiting(turn) => {
                self.stop_running(RunningTurn::new(turn, Purpose::Answer), reason, self.evicting)
            }
            // A turn that is being suspended continues in the next daemon, unless a user cancels
            // it.
            Activity::Suspending(running) if reason == StopReason::Cancelled => {
                self.stop_running(running, reason, false);
            }
            unaffected @ (Activity::Idle | Activity::Suspending(_) | Activity::Stopping(..) | Activity::Closing) => {
                self.activity = unaffected
            }
        }
    }

    /// Stops a running turn. `unanswered` means that its questions were not rejected, because the
    /// daemon stops.
    fn stop_running(&mut self, mut running: RunningTurn, reason: StopReason, unanswered: bool) {
        if reason == StopReason::Cancelled {
            self.effect(Effect::CancelBackground(running.id.clone()));
        }
        match running.agent {
            Some(AgentTurn::Sent | AgentTurn::SentToSecond) => self.effect(Effect::CancelAgent),
            // No child has the prompt, so none has to end it.
            Some(AgentTurn::Unsent) | None => running.agent = None,
        }
        self.drop_backend(&mut running);
        for call in running.calls.keys() {
            self.effect(Effect::CancelCall(call.clone()));
        }
        self.activity = Activity::Stopping(running, reason);
        let open: Vec<(QuestionId, CallId)> = self
            .state
            .open
            .questions
            .iter()
            .map(|open| (open.question.id.clone(), open.question.call.clone()))
            .collect();
        for (question, call) in open {
            let decision = if unanswered { Decision::Unanswered } else { Decision::Cancelled };
            self.append(EventKind::PermissionAnswered { question, call, decision, by: "acpd".to_owned(), words: None });
        }
        self.end_if_stopped();
    }

    /// Drops the backend, the hooks and the sub-agents of a turn, which are not needed any more.
    pub(super) fn drop_backend(&mut self, running: &mut RunningTurn) {
        self.effect(Effect::DropTurn);
        if running.ending.take().is_some() {
            self.effect(Effect::AbortHooks);
        }
        running.agents = SubAgents::default();
        running.held.clear();
    }

    pub(super) fn end_if_stopped(&mut self) {
        if let Activity::Stopping(running, reason) = &self.activity
            && running.calls.is_empty()
            && running.agent.is_none()
        {
            let (turn, reason) = (running.id.clone(), reason.clone());
            if reason != StopReason::EndTurn {
                self.effect(Effect::NotifyHooks { turn, reason: reason.clone() });
            }
            self.end_turn(reason);
        }
        self.close_if_suspended();
    }

    /// Records the end of the turn, whatever the activity was.
    pub(super) fn end_turn(&mut self, reason: StopReason) {
        let agent_usage = self.activity.running().map(|running| running.agent_usage).unwrap_or_default();
        if let Activity::Turn(running) = std::mem::take(&mut self.activity) {
            self.effect(Effect::DropTurn);
            // Calls of dismissed sub-agents may still be ending.
            for call in running.calls.into_keys() {
                self.effect(Effect::DropCall(call));
            }
        }
        let verdict = Self::cut_off(&reason);
        let cuts_calls_off = self.cuts_calls_off(&reason);
        if !self.evicting {
            self.notify(NotificationKind::TurnEnded, reason.name().to_owned());
        }
        let mut spent = self.state.open.turn.as_ref().map(|turn| turn.usage).unwrap_or_default();
        spent += agent_usage;
        for mut kind in self.state.open.closing(verdict, reason) {
            if matches!(kind, EventKind::ToolEnded { .. }) && !cuts_calls_off {
                continue;
            }
            if let EventKind::TurnEnded { usage, .. } = &mut kind {
                *usage = spent;
            }
            self.append(kind);
        }
        // The remaining reports are about the work of calls that were cancelled.
        self.early_reports.clear();
        self.effect(Effect::TurnClosed);
        self.queue_left_steering();
        self.take_next();
    }

    pub(super) fn notify(&mut self, kind: NotificationKind, about: String) {
        let turn = self.activity.turn_id().cloned();
        let attended = self.has_clients();
        self.effect(Effect::Notify { kind, about, turn, attended });
    }
}
