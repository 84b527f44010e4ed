//! The tool calls of a turn, and the executors that run them.

use std::time::Duration;

use super::moves::Move;
use super::{BusyPolicy, Executor, Simulation};
use crate::event::RequestedCall;
use crate::session::input::{CallReport, Input, TurnReport};
use crate::session::{AgentLimits, SessionPolicy, UnattendedPolicy};
use crate::tool::ToolRequest;
use crate::{Access, CallId, EventKind, Millis, Outcome, ToolCard, ToolKind};

impl Simulation {
    pub(super) fn call(&mut self, wanted: impl Fn(&Executor) -> bool, report: CallReport) {
        let Some(call) = self.work.calls.iter().find(|(_, executor)| wanted(executor)).map(|(call, _)| call.clone())
        else {
            return;
        };
        if let (CallReport::Planned { .. }, Some(executor)) = (&report, self.work.calls.get_mut(&call)) {
            executor.planned = true;
        }
        self.deliver(Input::Call { call, report });
    }

    /// Delivers what an executor has sent before it was dropped.
    pub(super) fn report_stale_call(&mut self) {
        let Some(call) = self.old_call.clone().filter(|call| !self.work.calls.contains_key(call)) else { return };
        for report in [planned(Access::Free), CallReport::Ended(Outcome::completed("")), CallReport::Died] {
            let effects = self.machine.step(Input::Call { call: call.clone(), report }, Millis(1));
            assert!(effects.is_empty(), "a call that is over reports");
        }
    }

    /// One response makes two calls, of which the second waits for the first.
    pub(super) fn queue_call(&mut self) {
        let Some(turn) = self.work.backend.clone().filter(|_| !self.is_silent()) else { return };
        let [first, second] = [(); 2].map(|()| (CallId::new(), request()));
        let requested = |(call, request): &(CallId, ToolRequest)| RequestedCall {
            call: call.clone(),
            tool: request.tool.clone(),
            input: request.input.clone(),
            origin: None,
        };
        let calls = vec![requested(&first), requested(&second)];
        self.work.queued.extend([first, second]);
        self.deliver(Input::Turn { turn, report: TurnReport::Requested { message: "m".into(), calls } });
        self.call_next();
    }

    /// The turn makes the call that waited for the others.
    pub(super) fn call_next(&mut self) {
        let Some(turn) = self.work.backend.clone().filter(|_| self.work.calls.is_empty()) else { return };
        if let Some((call, request)) = self.work.queued.pop_front() {
            self.deliver(Input::Turn { turn, report: TurnReport::Called { call, message: "m".into(), request } });
        }
    }
}

pub(super) fn called() -> TurnReport {
    TurnReport::Called { call: CallId::new(), message: "m".into(), request: request() }
}

fn request() -> ToolRequest {
    ToolRequest { tool: "edit".to_owned(), input: serde_json::Value::Null }
}

pub(super) fn planned(access: Access) -> CallReport {
    let card = ToolCard {
        tool: "edit".to_owned(),
        title: "edit a".to_owned(),
        kind: ToolKind::Edit,
        locations: Vec::new(),
        input: serde_json::Value::Null,
        preview: Vec::new(),
        access,
    };
    CallReport::Planned { card, rule: None }
}

#[test]
fn a_message_waits_for_all_calls_of_a_response_from_before_a_crash() {
    use Move::*;
    let policy = SessionPolicy {
        agents: AgentLimits::default(),
        spending: crate::budget::SpendingLimits::default(),
        when_busy: BusyPolicy::Refuse,
        unattended: UnattendedPolicy::Wait,
        idle_after: Duration::from_secs(600),
    };
    let mut simulation = Simulation::new(policy, None);
    let is_inserted = |simulation: &Simulation| {
        simulation.log.iter().any(|event| matches!(event.kind, EventKind::UserMessage { steering: Some(_), .. }))
    };
    // Two questions are open, and one of them is answered after the crash.
    let before = [Prompt, Expanded, TurnCallsTwice, Planned, Planned, Crash, Allow];
    let answered = [PlannedFree, Steer, SteeringExpanded, CallEnds];
    before.into_iter().chain(answered).for_each(|step| simulation.apply(step));
    assert!(!is_inserted(&simulation), "a call of the response still waits for its answer");
    [Allow, PlannedFree, CallEnds].into_iter().for_each(|step| simulation.apply(step));
    assert!(is_inserted(&simulation));
    simulation.settle();
}
