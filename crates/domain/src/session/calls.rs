//! The tool calls of a turn: each is planned, checked against the rules, asked about if need be,
//! run, and recorded.

use super::activity::{Activity, RunningCall};
use super::effect::{Effect, InputReply, PlanCall, SubAgentInput};
use super::input::CallReport;
use super::machine::SessionMachine;
use super::sub_agents::SubAgent;
use crate::event::{RequestedCall, Setting};
use crate::permission::decide;
use crate::recall::RecallReader;
use crate::tool::{OutcomeKind, PlanRefusal, ToolRequest};
use crate::{
    Access, CallId, EventKind, MessageId, Mode, Outcome, Question, QuestionId, ToolCard, ToolKind, TurnId, Verdict,
};

/// How many times one call is recorded as waiting for the user.
const PAUSES: u32 = 100;

impl SessionMachine {
    pub(super) fn running_call(&self, call: &CallId) -> Option<&RunningCall> {
        self.activity.running()?.calls.get(call)
    }

    pub(super) fn agent_of(&self, call: &CallId) -> Option<TurnId> {
        self.running_call(call)?.agent.clone()
    }

    /// Ends the calls that the model began to write in this response and did not complete.
    pub(super) fn drop_begun_calls(&mut self, kept: &[RequestedCall]) {
        for kind in self.state.open.dropping(kept) {
            self.append(kind);
        }
    }

    /// Starts to plan a call. `agent` is the sub-agent that makes it.
    pub(super) fn start_call(&mut self, call: CallId, message: MessageId, request: ToolRequest, agent: Option<TurnId>) {
        let Activity::Turn(running) = &mut self.activity else { return };
        let sub = agent.as_ref().and_then(|agent| running.agents.get(agent));
        let mode = sub.map(|sub| sub.mode);
        let reader = sub.map_or(RecallReader::Main, SubAgent::reader);
        if let Some(reason) = sub.and_then(|sub| sub.refusal(&request.tool, self.policy.agents)) {
            let refusal = PlanRefusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
            return self.record_refusal(call, message, request, refusal, agent);
        }
        let now = self.state.settings.mode;
        let planned =
            RunningCall { message, request: request.clone(), agent: agent.clone(), mode: now, allowed: false };
        running.calls.insert(call.clone(), planned);
        let recorded = self.state.open.calls.get(&call).map(|open| Box::new(open.card.clone()));
        self.effect(Effect::PlanCall(PlanCall { call, request, recorded, agent, mode, reader }));
    }

    /// Plans a call that is in the log and has not run.
    pub(super) fn plan_again(&mut self, call: CallId, allowed: bool) {
        let Some(message) = self.state.conversation.response_with(&call).cloned() else { return };
        let Some(request) = self.recorded_request(&call) else { return };
        self.start_call(call.clone(), message, request, None);
        if let Some(planned) = self.activity.running_mut().and_then(|running| running.calls.get_mut(&call)) {
            planned.allowed = allowed;
        }
    }

    pub(super) fn recorded_request(&self, call: &CallId) -> Option<ToolRequest> {
        let ToolCard { tool, input, .. } = &self.state.open.calls.get(call)?.card;
        Some(ToolRequest { tool: tool.clone(), input: input.clone() })
    }

    pub(super) fn handle_call_report(&mut self, call: CallId, report: CallReport) {
        if self.running_call(&call).is_none() {
            return;
        }
        let is_running = matches!(self.activity, Activity::Turn(_));
        match report {
            CallReport::Planned { card, rule } if is_running => self.check_call(call, card, rule),
            CallReport::Refused(refusal) if is_running => self.refuse_call(call, refusal),
            // The turn is stopping, and the call has been cancelled.
            CallReport::Planned { .. } => {}
            CallReport::Refused(_) => self.end_call(call, Outcome::cancelled()),
            CallReport::Progressed(content) => {
                self.append(EventKind::ToolProgressed { call, content });
            }
            CallReport::Waits(waits) => self.note_wait(call, waits),
            CallReport::ModeAgreed(mode) if is_running => self.switch_mode(&call, mode),
            CallReport::HooksAgreed if is_running => {
                let refusal = self.refusal_of_mode(&call);
                self.reply(InputReply::HooksAgreed(refusal));
            }
            CallReport::ModeAgreed(_) | CallReport::HooksAgreed => {}
            CallReport::Ended(outcome) => self.end_call(call, outcome),
            CallReport::Died => self.crash_call(call),
        }
    }

    /// Records that a running call waits for the user, or continues. A server can ask as often as
    /// it likes, but only the first `PAUSES` waits are recorded.
    fn note_wait(&mut self, call: CallId, waits: bool) {
        let Some(open) = self.state.open.calls.get(&call).filter(|open| open.started) else { return };
        if waits && !open.paused && open.pauses < PAUSES {
            self.append(EventKind::CallPaused { call });
        } else if !waits && open.paused {
            self.append(EventKind::CallResumed { call });
        }
    }

    /// Records a planned call, which then runs, waits for an answer, or is denied.
    fn check_call(&mut self, call: CallId, card: ToolCard, rule: Option<Verdict>) {
        let Some(RunningCall { message, agent, allowed, .. }) = self.running_call(&call).cloned() else { return };
        let shown = card.clone().visible();
        let is_recorded = self.state.open.calls.get(&call).is_some_and(|open| open.card == shown);
        let verdict = if allowed && is_recorded && rule != Some(Verdict::Deny) {
            // The call does what the user allowed before the daemon restarted, and no rule has
            // forbidden it since.
            Verdict::Run
        } else {
            decide(&card, rule, self.state.settings.approval, &self.state.memory)
        };
        let inquiry = match &card.access {
            Access::Inquire(inquiry) => Some(inquiry.clone()),
            Access::Ask { .. } | Access::AskEveryTime | Access::Free => None,
        };
        let always = match card.access {
            // A rule that asks will ask again, whatever the answer is.
            Access::Ask { always } if rule != Some(Verdict::Ask) => always,
            Access::Ask { .. } | Access::AskEveryTime | Access::Inquire(_) | Access::Free => None,
        };
        if !is_recorded {
            self.record_call(call.clone(), message, shown, agent.as_ref());
        }
        match verdict {
            Verdict::Run => self.allow_call(call),
            Verdict::Deny if rule == Some(Verdict::Deny) => {
                self.end_call(call, Outcome::denied_because("a rule of the configuration forbids it."));
            }
            Verdict::Deny => self.end_call(call, Outcome::declined_before()),
            Verdict::Ask => {
                let options = inquiry.as_ref().map(|inquiry| inquiry.options()).unwrap_or_default();
                let question = Question { id: QuestionId::new(), call, always, options, inquiry };
                self.append(EventKind::PermissionAsked { question });
                self.publish();
                self.notify_waiting();
                self.apply_unattended_policy();
            }
        }
    }

    /// Runs a call that the user or the rules have allowed. A call from before a restart is planned
    /// again first.
    pub(super) fn allow_call(&mut self, call: CallId) {
        if self.running_call(&call).is_none() {
            self.plan_again(call, true);
        } else if let Some(refusal) = self.refusal_of_mode(&call) {
            self.end_call(call, refusal);
        } else {
            self.run_call(call);
        }
    }

    /// Denies a call that was planned for another mode: the new mode may leave it out, or require
    /// the sandbox.
    fn refusal_of_mode(&self, call: &CallId) -> Option<Outcome> {
        let mode = self.state.settings.mode;
        let planned = self.running_call(call)?.mode;
        (planned != mode && mode != Mode::Full).then(|| {
            let reason =
                format!("the user has set the mode `{}` since; make the call again if it allows it.", mode.id());
            Outcome::denied_because(&reason)
        })
    }

    fn run_call(&mut self, call: CallId) {
        let after = self.append(EventKind::ToolStarted { call: call.clone() });
        self.effect(Effect::RunCall { call, after });
    }

    /// Sets the mode that a call asked for and the user agreed to. A sub-agent does not decide for
    /// the conversation.
    fn switch_mode(&mut self, call: &CallId, mode: Mode) {
        let outcome = if self.agent_of(call).is_some() {
            Outcome::failed("A sub-agent cannot change the session's mode.")
        } else {
            self.append(EventKind::Configured { setting: Setting::Mode(mode), automatic: false });
            self.publish();
            Outcome::completed(format!("The mode is `{}` now.", mode.id()))
        };
        self.reply(InputReply::ModeSwitched(outcome));
    }

    fn record_call(&mut self, call: CallId, message: MessageId, card: ToolCard, agent: Option<&TurnId>) {
        let called = EventKind::ToolCalled { call: call.clone(), message, card };
        if let Some(agent) = agent {
            self.record_step(agent, &call, &called);
        }
        self.append(called);
    }

    pub(super) fn end_call(&mut self, call: CallId, mut outcome: Outcome) {
        let agent = self.agent_of(&call);
        if outcome.verdict == OutcomeKind::Cancelled
            && self.is_suspending()
            && let Some(open) = self.state.open.calls.get(&call)
        {
            // The daemon stops; no client has cancelled the call.
            outcome = open.unfinished(OutcomeKind::Interrupted);
        }
        self.conclude_call(call, outcome, agent);
    }

    /// Records the outcome of a call, drops its executor, and continues the turn that made it.
    fn conclude_call(&mut self, call: CallId, outcome: Outcome, agent: Option<TurnId>) {
        if let Some(running) = self.activity.running_mut() {
            let had_executor = running.calls.remove(&call).is_some();
            let dismissed = running.agents.release(&call);
            if had_executor {
                self.effect(Effect::DropCall(call.clone()));
            }
            self.dismiss_agents(dismissed);
        }
        let failed = outcome.verdict != OutcomeKind::Completed;
        if let Some(agent) = &agent {
            let kind = EventKind::ToolEnded { call: call.clone(), outcome: outcome.clone() };
            self.effect(Effect::RecordForAgent { agent: agent.clone(), kind });
        }
        if self.state.open.calls.contains_key(&call) {
            // A crashed executor leaves its question open.
            for kind in self.state.open.settling(&call) {
                self.append(kind);
            }
            self.append(EventKind::ToolEnded { call: call.clone(), outcome });
            self.take_early_reports();
        }
        match agent {
            Some(agent) => self.send_to_agent(agent, SubAgentInput::CallEnded { call, failed }),
            None => self.send_call_ended(call, failed),
        }
        self.end_if_stopped();
    }

    /// Records a call that could not be planned, with its failure, for the model and the user.
    fn refuse_call(&mut self, call: CallId, refusal: PlanRefusal) {
        let Some(RunningCall { message, request, agent, .. }) = self.running_call(&call).cloned() else { return };
        self.record_refusal(call, message, request, refusal, agent);
    }

    pub(super) fn record_refusal(
        &mut self,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        refusal: PlanRefusal,
        agent: Option<TurnId>,
    ) {
        let card = ToolCard {
            tool: request.tool,
            title: refusal.title,
            kind: refusal.kind,
            locations: Vec::new(),
            input: request.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        // A call that was planned before a restart is in the log already.
        if !self.state.open.calls.contains_key(&call) {
            self.record_call(call.clone(), message, card.visible(), agent.as_ref());
        }
        self.conclude_call(call, Outcome::failed(refusal.reason), agent);
    }

    /// Ends a call whose executor died without reporting an outcome.
    fn crash_call(&mut self, call: CallId) {
        let Some(RunningCall { request, .. }) = self.running_call(&call).cloned() else { return };
        let reason = "The tool crashed; this is a bug in acpd.".to_owned();
        if self.state.open.calls.contains_key(&call) {
            self.end_call(call, Outcome::failed(reason));
        } else {
            self.refuse_call(call, PlanRefusal { kind: ToolKind::Other, title: request.tool, reason });
        }
    }
}
