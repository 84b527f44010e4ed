//! Sub-agents and spending limits: whatever the interleaving, no model is asked beyond a limit
//! that the user has not raised, and nothing that waited stays behind after the answer.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::moves::Move;
use super::{CallReport, Input, Simulation, TurnReport, planned};
use crate::budget::{SpendingLimit, SpendingLimits};
use crate::session::effect::{Effect, SubAgentInput};
use crate::session::input::RequestUsage;
use crate::session::{AgentLimits, BusyPolicy, SessionPolicy, UnattendedPolicy};
use crate::tool::{SubAgentRequest, SubAgentTask, ToolRequest};
use crate::{Access, CallId, Mode, Outcome, TurnId, Usage};

/// The sub-agents, according to the effects so far.
#[derive(Default)]
pub(super) struct Agents {
    /// Whether the model of each is being asked.
    at_work: BTreeMap<TurnId, bool>,
    /// The calls that each of them has made and that have no outcome.
    calls: BTreeMap<CallId, TurnId>,
    /// The calls that wait for sub-agents.
    delegating: BTreeSet<CallId>,
    /// The calls whose sub-agents have reported.
    answered: Vec<(CallId, Outcome)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Session(Move),
    /// The model of the turn spends tokens.
    Spends,
    /// A running call starts a sub-agent.
    Delegates,
    DelegatesInBackground,
    /// A sub-agent's response calls a tool, or two.
    AgentCalls,
    AgentCallsTwice,
    /// A sub-agent's conversation was shortened.
    AgentCompacts,
    AgentEnds,
    AgentDies,
    /// A call of a sub-agent ends.
    AgentCallEnds,
    /// A call passes on the report of its sub-agent.
    CallReturns,
}

const TOKENS: Usage = Usage { input: 100, output: 0, cached_read: 0, cached_write: 0, thought: 0 };

impl Simulation {
    pub(super) fn carry_out_for_agents(&mut self, effect: Effect) {
        let is_limited = |simulation: &Self| simulation.machine.limit_reached().is_some();
        match effect {
            Effect::StartSubAgent(start) => {
                assert!(!is_limited(self), "a sub-agent starts beyond a limit");
                self.around.agents.at_work.insert(start.turn, true);
            }
            Effect::SendToSubAgent { agent, input, .. } => {
                if let SubAgentInput::CallEnded { call, .. } = &input {
                    self.around.agents.calls.remove(call);
                }
                let is_between = !self.around.agents.calls.values().any(|made_by| *made_by == agent);
                if let Some(is_asked) = self.around.agents.at_work.get_mut(&agent).filter(|_| is_between) {
                    assert!(!std::mem::replace(is_asked, true), "a sub-agent is asked twice");
                    assert!(!is_limited(self), "a sub-agent continues beyond a limit");
                }
            }
            Effect::DropAgent(agent) => drop(self.around.agents.at_work.remove(&agent)),
            Effect::AnswerDelegation { call, outcome } => {
                assert!(self.around.agents.delegating.remove(&call), "a call is answered twice, or did not ask");
                self.around.agents.answered.push((call, outcome));
            }
            _ => {}
        }
    }

    pub(super) fn forget_agent_call(&mut self, call: &CallId) {
        self.around.agents.delegating.remove(call);
        self.around.agents.answered.retain(|(answered, _)| answered != call);
    }

    /// Forgets the sub-agents of a turn that is dropped.
    pub(super) fn drop_agents(&mut self) {
        self.around.agents = Agents::default();
    }

    fn delegate(&mut self, background: bool) {
        let agents = &self.around.agents;
        let is_free = |call: &CallId| {
            !agents.delegating.contains(call)
                && !agents.calls.contains_key(call)
                && !agents.answered.iter().any(|(answered, _)| answered == call)
        };
        let running = self.work.calls.iter().find(|(call, executor)| executor.running && is_free(call));
        let Some(call) = running.map(|(call, _)| call.clone()) else { return };
        self.around.agents.delegating.insert(call.clone());
        let task = SubAgentTask {
            task: "look".to_owned(),
            mode: Mode::ReadOnly,
            tools: None,
            model: None,
            instructions: None,
            continues: None,
            background,
        };
        self.deliver(Input::Delegated { call, request: SubAgentRequest::Start(task) });
    }

    /// The first sub-agent whose model is being asked.
    fn asked_agent(&self) -> Option<TurnId> {
        self.around.agents.at_work.iter().find(|(_, is_asked)| **is_asked).map(|(turn, _)| turn.clone())
    }

    fn agent_calls(&mut self, count: usize) {
        let Some(agent) = self.asked_agent() else { return };
        let spent = RequestUsage { usage: TOKENS, price: None, estimated: false };
        self.deliver(Input::SubAgentUsage { spent, window: 1 });
        let calls: Vec<CallId> = (0..count).map(|_| CallId::new()).collect();
        self.around.agents.at_work.insert(agent.clone(), false);
        self.around.agents.calls.extend(calls.iter().map(|call| (call.clone(), agent.clone())));
        self.deliver(Input::SubAgentRequested { agent: agent.clone(), calls: calls.clone() });
        for call in calls {
            let request = ToolRequest { tool: "read".to_owned(), input: serde_json::Value::Null };
            self.deliver(Input::SubAgentCalled { agent: agent.clone(), call, message: "m".into(), request });
        }
    }

    fn end_agent(&mut self, outcome: Outcome) {
        if let Some(turn) = self.asked_agent() {
            self.around.agents.at_work.remove(&turn);
            let resumable = true;
            self.deliver(Input::SubAgentEnded { turn, outcome, resumable });
        }
    }

    fn end_agent_call(&mut self) {
        let theirs = |call: &&CallId| self.around.agents.calls.contains_key(*call);
        let Some(call) = self.work.calls.keys().find(theirs).cloned() else { return };
        if let Some(executor) = self.work.calls.get_mut(&call)
            && !executor.planned
        {
            executor.planned = true;
            self.deliver(Input::Call { call: call.clone(), report: planned(Access::Free) });
        }
        if self.work.calls.get(&call).is_some_and(|executor| executor.running) {
            self.deliver(Input::Call { call, report: CallReport::Ended(Outcome::completed("seen")) });
        }
    }

    fn apply_step(&mut self, step: Step) {
        if self.work.closing && !matches!(step, Step::Session(_)) {
            return;
        }
        match step {
            Step::Session(step) => self.apply(step),
            Step::Spends => self.turn(TurnReport::Usage { usage: TOKENS, window: 1, price: None, estimated: false }),
            Step::Delegates => self.delegate(false),
            Step::DelegatesInBackground => self.delegate(true),
            Step::AgentCalls => self.agent_calls(1),
            Step::AgentCallsTwice => self.agent_calls(2),
            Step::AgentCompacts => {
                if let Some(agent) = self.asked_agent() {
                    self.around.agents.at_work.insert(agent.clone(), false);
                    self.deliver(Input::SubAgentWaits { agent, input: SubAgentInput::Compacted });
                }
            }
            Step::AgentEnds => self.end_agent(Outcome::completed("report")),
            Step::AgentDies => self.end_agent(Outcome::failed("crashed")),
            Step::AgentCallEnds => self.end_agent_call(),
            Step::CallReturns => {
                if let Some((call, outcome)) = self.around.agents.answered.pop() {
                    self.deliver(Input::Call { call, report: CallReport::Ended(outcome) });
                }
            }
        }
    }

    /// Lets everything end by itself, after the user has agreed to every question. A call that
    /// waits for a sub-agent ends only with its report.
    fn settle_agents(&mut self) {
        for _ in 0..60 {
            for step in [Move::Expanded, Move::SteeringExpanded, Move::RestoreEnds, Move::Allow] {
                self.apply(step);
            }
            for step in [Step::AgentCallEnds, Step::AgentEnds, Step::CallReturns] {
                self.apply_step(step);
            }
            let is_stopped = self.machine.activity().running().is_some() && self.work.backend.is_none();
            let agents = &self.around.agents;
            let ends =
                |call: &&CallId| is_stopped || !agents.delegating.contains(*call) && !agents.calls.contains_key(*call);
            if let Some(call) = self.work.calls.keys().find(ends).cloned() {
                self.deliver(Input::Call { call, report: CallReport::Ended(Outcome::completed("")) });
            }
            self.apply(Move::HooksAgree);
            self.apply(Move::TurnEnds);
            self.apply(Move::Reopen);
        }
        let activity = self.machine.activity();
        assert!(activity.is_idle(), "the session does not come to rest: {activity:?}");
        assert!(self.unanswered.is_empty(), "prompts got no answer: {:?}", self.unanswered);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    // A turn whose call waits for one sub-agent, or for two that work side by side.
    let start = [Move::Prompt, Move::Expanded, Move::TurnCalls, Move::PlannedFree].map(Session).to_vec();
    let one = [start, vec![Delegates]].concat();
    let start = [Move::Prompt, Move::Expanded, Move::TurnCallsTwice, Move::PlannedFree, Move::PlannedFree];
    let two = [start.map(Session).to_vec(), vec![Delegates, Delegates]].concat();
    let held = [two.clone(), vec![AgentCalls, AgentCalls, AgentCallEnds, AgentCallEnds]].concat();
    let stage = prop::sample::select(vec![one, two, held]);
    let own = vec![
        Spends,
        Delegates,
        DelegatesInBackground,
        AgentCalls,
        AgentCalls,
        AgentCallsTwice,
        AgentCallEnds,
        AgentCallEnds,
        AgentCompacts,
        AgentEnds,
        AgentDies,
        CallReturns,
    ];
    let session = vec![
        Move::Prompt,
        Move::Steer,
        Move::SteeringExpanded,
        Move::Expanded,
        Move::TurnCalls,
        Move::TurnCallsTwice,
        Move::TurnEnds,
        Move::TurnDies,
        Move::PlannedFree,
        Move::Allow,
        Move::Allow,
        Move::Deny,
        Move::AnswerCancelled,
        Move::Cancel,
        Move::Close,
        Move::Drain,
        Move::Crash,
        Move::Reopen,
        Move::Attach,
        Move::Detach,
        Move::HooksAgree,
        Move::CallDies,
    ];
    let single = prop_oneof![
        3 => prop::sample::select(own),
        2 => prop::sample::select(session).prop_map(Session),
    ];
    let single = single.prop_map(|step| vec![step]);
    prop::collection::vec(prop_oneof![4 => single, 1 => stage], 1..40).prop_map(|parts| parts.concat())
}

fn policy(tokens: u64) -> SessionPolicy {
    let limit = SpendingLimit { tokens, cost: 0.0 };
    SessionPolicy {
        agents: AgentLimits::default(),
        spending: SpendingLimits { turn: limit, ..SpendingLimits::default() },
        when_busy: BusyPolicy::Queue,
        unattended: UnattendedPolicy::Wait,
        idle_after: std::time::Duration::from_secs(600),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sub_agent_continues_beyond_a_limit_and_none_is_left_behind(
        tokens in prop::sample::select(vec![0, 100, 250]),
        steps in steps(),
    ) {
        let mut simulation = Simulation::new(policy(tokens), None);
        steps.into_iter().for_each(|step| simulation.apply_step(step));
        simulation.settle_agents();
    }
}
