//! Limits on spending. Between two requests to a model, of the turn or of a sub-agent, the machine
//! compares what was spent with the limits. Beyond a limit, the user is asked before either
//! continues. There is one such question at a time, and its answer applies to all work that it
//! holds back. It is a permission question about a call that exists only in the log, so it is
//! shown, answered and kept across restarts like every other one. If a sub-agent is the first to
//! reach the limit, the question belongs to it and, like the sub-agent, ends with the daemon.

use super::activity::Activity;
use super::effect::{Effect, Purpose, StartTurn, SubAgentInput, TurnInput};
use super::machine::SessionMachine;
use crate::budget::{BUDGET, Costs, Spending, SpendingLimit, SpendingScope, exceeded, grants_needed};
use crate::{
    Access, CallId, EventKind, MessageId, Outcome, Question, QuestionId, StopReason, ToolCard, ToolContent, ToolKind,
    TurnId,
};

/// What all sessions have spent today, and how often the user has agreed to continue.
#[derive(Debug, Default)]
pub(super) struct SpendingWatch {
    /// What all sessions together have spent today, as far as this one knows.
    pub(super) today: Spending,
    session_granted: u32,
    day_granted: u32,
}

/// What is held back until the user agrees to continue.
#[derive(Debug)]
pub enum HeldWork {
    Start(StartTurn),
    TurnInput(TurnInput),
    SubAgentInput { agent: TurnId, input: SubAgentInput },
}

impl SessionMachine {
    /// Starts the backend of the turn, unless a limit is reached.
    pub(super) fn start_backend(&mut self, start: StartTurn) {
        match self.limit_reached() {
            Some(reason) => self.hold(HeldWork::Start(start), &reason, None),
            None => self.effect(Effect::StartTurn(start)),
        }
    }

    /// Sends an input to the backend. An input that leads to a request to the model is held back if
    /// a limit is reached.
    pub(super) fn send_to_turn(&mut self, input: TurnInput) {
        match self.limit_reached().filter(|_| self.is_between_requests()) {
            Some(reason) => self.hold(HeldWork::TurnInput(input), &reason, None),
            None => self.effect(Effect::SendToTurn(input)),
        }
    }

    /// Why the turn may not continue; None if no limit is reached.
    pub(super) fn limit_reached(&self) -> Option<String> {
        let Activity::Turn(running) = &self.activity else { return None };
        if running.purpose == Purpose::Compact {
            return None;
        }
        let granted = [running.granted, self.spending.session_granted, self.spending.day_granted];
        let accounts = self.accounts(&running.costs_before).into_iter().zip(granted);
        accounts.into_iter().find_map(|((scope, spent, limit), granted)| exceeded(scope, &spent, limit, granted))
    }

    /// The amount spent in each scope, and the limit of that scope.
    fn accounts(&self, costs_before: &Costs) -> [(SpendingScope, Spending, SpendingLimit); 3] {
        let limits = &self.policy.spending;
        let costs = &self.state.usage.costs;
        let turn = Spending {
            tokens: self.state.open.turn.as_ref().map_or(0, |turn| turn.usage.total()),
            costs: costs.since(costs_before),
        };
        let session = Spending { tokens: self.state.usage.tokens.total(), costs: costs.clone() };
        [
            (SpendingScope::Turn, turn, limits.turn),
            (SpendingScope::Session, session, limits.session),
            (SpendingScope::Day, self.spending.today.clone(), limits.day),
        ]
    }

    /// Raises every limit above what was spent.
    fn grant(&mut self) {
        let Activity::Turn(running) = &self.activity else { return };
        let needed = self.accounts(&running.costs_before).map(|(_, spent, limit)| grants_needed(&spent, limit));
        let [turn, session, day] = needed;
        self.spending.session_granted = self.spending.session_granted.max(session);
        self.spending.day_granted = self.spending.day_granted.max(day);
        if let Activity::Turn(running) = &mut self.activity {
            running.granted = running.granted.max(turn);
        }
    }

    /// Holds work back until the user agrees to continue. `within` is the call on which the
    /// sub-agent works whose work it is.
    pub(super) fn hold(&mut self, work: HeldWork, reason: &str, within: Option<CallId>) {
        let Activity::Turn(running) = &mut self.activity else { return };
        running.held.push(work);
        self.ask_to_go_on(reason, within);
    }

    /// Asks whether to continue beyond a limit, unless that question is open already.
    pub(super) fn ask_to_go_on(&mut self, reason: &str, within: Option<CallId>) {
        if self.state.open.calls.values().any(|open| open.card.tool == BUDGET) {
            return;
        }
        let call = CallId::new();
        let card = ToolCard {
            tool: BUDGET.to_owned(),
            title: "Go on beyond the budget".to_owned(),
            kind: ToolKind::Other,
            locations: Vec::new(),
            input: serde_json::json!({ "reason": reason }),
            preview: vec![ToolContent::text(format!("A limit is reached for {reason}. Go on?"))],
            access: Access::AskEveryTime,
        };
        if let Some(within) = within {
            self.append(EventKind::Delegated { call: call.clone(), within });
        }
        self.append(EventKind::ToolCalled { call: call.clone(), message: MessageId::new(), card });
        let question = Question { id: QuestionId::new(), call, always: None, options: Vec::new(), inquiry: None };
        self.append(EventKind::PermissionAsked { question });
        self.publish();
        self.notify_waiting();
        self.apply_unattended_policy();
    }

    /// Whether a call represents the question whether to continue beyond a limit.
    pub(super) fn is_about_budget(&self, call: &CallId) -> bool {
        self.state.open.calls.get(call).is_some_and(|open| open.card.tool == BUDGET)
    }

    /// Handles the answer to the question whether to continue. A turn restored from the log
    /// continues after the call.
    pub(super) fn settle_budget(&mut self, call: CallId, allowed: bool) {
        if !allowed {
            self.append(EventKind::ToolEnded { call, outcome: Outcome::declined(None) });
            self.notice("The turn has ended at a limit of the budget.".to_owned());
            return self.stop_turn(StopReason::MaxTurnRequests);
        }
        self.grant();
        let is_of_agent = self.state.delegated.contains_key(&call);
        let outcome = Outcome::completed("The limit is raised once more by its amount.");
        self.append(EventKind::ToolEnded { call: call.clone(), outcome });
        let held = self.activity.running_mut().map(|running| std::mem::take(&mut running.held)).unwrap_or_default();
        if held.is_empty() && !is_of_agent {
            self.send_call_ended(call, false);
        }
        for work in held {
            match work {
                HeldWork::Start(start) => {
                    self.insert_steering();
                    self.effect(Effect::StartTurn(StartTurn { after: self.sync_point, ..start }));
                }
                HeldWork::TurnInput(input) => {
                    self.insert_steering();
                    let input = input.renewed(self.sync_point, self.state.conversation.clone());
                    self.effect(Effect::SendToTurn(input));
                }
                HeldWork::SubAgentInput { agent, input } => {
                    self.effect(Effect::SendToSubAgent { agent, input, at: self.sync_point });
                }
            }
        }
        self.start_agents();
    }
}
