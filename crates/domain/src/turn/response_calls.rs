//! The tool calls of one response: which of them are carried out together, which one after another,
//! and which not at all. The `Turn` actor adds the calls as the model writes them, reports what
//! `next` returns to its session, and notes each end. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use super::repeated_calls::RepeatedCalls;
use crate::event::RequestedCall;
use crate::plan::read_plan;
use crate::tool::{AGENT, ToolRequest, ToolSpec, UPDATE_PLAN};
use crate::{CallId, PlanEntry};

/// The calls of one response, and how far they have got.
#[derive(Debug, Default)]
pub struct ResponseCalls {
    /// The calls of this response as the model requested them.
    requested: Vec<RequestedCall>,
    /// Calls of this response that have not been handed to the session yet, in the model's order.
    waiting: VecDeque<(CallId, ToolRequest)>,
    /// Why no call of this response is carried out, if that is so.
    refusal: Option<String>,
    /// Calls that have been handed to the session and have no outcome yet.
    running: Vec<(CallId, ToolRequest)>,
    repeated: RepeatedCalls,
}

/// What the turn does next.
#[derive(Debug, PartialEq)]
pub enum NextStep {
    /// Wait: calls are running.
    Wait,
    /// Hand over these calls, in this order. They may run side by side.
    StartCalls(Vec<NextCall>),
    /// Ask the model: every call has its outcome.
    AskModel,
}

#[derive(Debug, PartialEq)]
pub struct NextCall {
    pub call: CallId,
    pub request: ToolRequest,
    pub step: CallStep,
}

/// How a call is carried out.
#[derive(Debug, PartialEq)]
pub enum CallStep {
    Run,
    /// A plan only affects what users see, and therefore needs no tool.
    ShowPlan(Vec<PlanEntry>),
    /// The model receives this text instead of an outcome.
    Refuse(String),
}

/// Which other calls a call may run beside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concurrency {
    WithReads,
    WithSubAgents,
    Alone,
}

impl ResponseCalls {
    /// Adds a call that the model has written.
    pub fn request(&mut self, requested: RequestedCall) {
        let RequestedCall { call, tool, input, .. } = requested.clone();
        self.waiting.push_back((call, ToolRequest { tool, input }));
        self.requested.push(requested);
    }

    /// Refuses the calls of this response, with this reason for the model.
    pub fn refuse_waiting(&mut self, reason: &str) {
        self.refusal = Some(reason.to_owned());
    }

    /// Forgets the calls of a response that broke off.
    pub fn abandon(&mut self) {
        self.waiting.clear();
        self.requested.clear();
    }

    /// Continues with the calls of a response that was made before the daemon restarted.
    pub fn restore(&mut self, open: Vec<(CallId, ToolRequest)>, queued: Vec<(CallId, ToolRequest)>) {
        (self.running, self.waiting) = (open, queued.into());
    }

    /// Returns the calls as the model requested them, once.
    pub fn take_requested(&mut self) -> Vec<RequestedCall> {
        std::mem::take(&mut self.requested)
    }

    /// Takes the next call, together with those that follow it as long as all of them only read, or
    /// all of them are for sub-agents, which the session schedules itself. Nothing is taken while a
    /// call runs.
    pub fn next(&mut self, tools: &[Arc<ToolSpec>]) -> NextStep {
        if !self.running.is_empty() {
            return NextStep::Wait;
        }
        let mut batch = Vec::new();
        let mut concurrency = None;
        while let Some((call, request)) = self.waiting.pop_front() {
            let own = Concurrency::of(&request.tool, tools);
            if *concurrency.get_or_insert(own) != own {
                self.waiting.push_front((call, request));
                break;
            }
            self.running.push((call.clone(), request.clone()));
            let step = self.step(&request);
            batch.push(NextCall { call, request, step });
            if own == Concurrency::Alone {
                break;
            }
        }
        if batch.is_empty() {
            self.refusal = None;
            return NextStep::AskModel;
        }
        NextStep::StartCalls(batch)
    }

    fn step(&self, request: &ToolRequest) -> CallStep {
        if let Some(reason) = self.refusal.clone().or_else(|| self.repeated.refusal(request)) {
            return CallStep::Refuse(reason);
        }
        match (request.tool == UPDATE_PLAN).then(|| read_plan(&request.input)) {
            Some(Ok(entries)) => CallStep::ShowPlan(entries),
            Some(Err(reason)) => CallStep::Refuse(reason),
            None => CallStep::Run,
        }
    }

    /// Notes that a call has its outcome.
    pub fn end(&mut self, call: &CallId, failed: bool, outcome: &str, tools: &[Arc<ToolSpec>]) {
        if let Some(at) = self.running.iter().position(|(running, _)| running == call) {
            let (_, request) = self.running.remove(at);
            let reads = only_reads(&request.tool, tools);
            self.repeated.note(request, failed, reads, outcome);
        }
    }
}

impl Concurrency {
    fn of(tool: &str, tools: &[Arc<ToolSpec>]) -> Self {
        match tool {
            AGENT => Self::WithSubAgents,
            UPDATE_PLAN => Self::WithReads,
            tool if only_reads(tool, tools) => Self::WithReads,
            _ => Self::Alone,
        }
    }
}

fn only_reads(tool: &str, tools: &[Arc<ToolSpec>]) -> bool {
    tools.iter().any(|spec| spec.name == tool && spec.read_only)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const READ: &str = "read_file";
    const EDIT: &str = "edit_file";

    fn tools() -> Vec<Arc<ToolSpec>> {
        let spec = |name: &str, read_only| {
            Arc::new(ToolSpec { name: name.to_owned(), description: String::new(), schema: json!({}), read_only })
        };
        vec![spec(READ, true), spec(EDIT, false)]
    }

    fn requested(number: usize, tool: &str) -> RequestedCall {
        let call = CallId::from(number.to_string().as_str());
        RequestedCall { call, tool: tool.to_owned(), input: json!({ "entries": [] }), origin: None }
    }

    fn take(calls: &mut ResponseCalls) -> Vec<(String, CallStep)> {
        match calls.next(&tools()) {
            NextStep::StartCalls(batch) => batch.into_iter().map(|next| (next.call.to_string(), next.step)).collect(),
            NextStep::Wait | NextStep::AskModel => Vec::new(),
        }
    }

    #[test]
    fn a_call_that_failed_three_times_is_refused_until_something_changes() {
        let mut calls = ResponseCalls::default();
        let mut round = |tool: &str, failed: bool| {
            calls.request(requested(0, tool));
            let taken = take(&mut calls);
            calls.end(&"0".into(), failed, "", &tools());
            taken.into_iter().next().map(|(_, step)| step)
        };
        for _ in 0..3 {
            assert_eq!(round(READ, true), Some(CallStep::Run));
        }
        assert!(matches!(round(READ, true), Some(CallStep::Refuse(reason)) if reason.contains("failed 3 times")));
        assert_eq!(round(EDIT, false), Some(CallStep::Run));
        assert_eq!(round(READ, true), Some(CallStep::Run));
    }

    #[test]
    fn the_calls_of_a_response_that_broke_off_are_forgotten() {
        let mut calls = ResponseCalls::default();
        calls.request(requested(1, EDIT));
        calls.abandon();
        assert!(calls.take_requested().is_empty());
        assert_eq!(calls.next(&tools()), NextStep::AskModel);
    }

    proptest! {
        #[test]
        fn calls_are_taken_in_the_models_order_and_one_that_may_write_runs_alone(
            names in prop::collection::vec(prop::sample::select(vec![READ, EDIT, AGENT, UPDATE_PLAN, "unknown"]), 0..12),
            ends in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 12),
        ) {
            let tools = tools();
            let mut calls = ResponseCalls::default();
            for (number, tool) in names.iter().enumerate() {
                calls.request(requested(number, tool));
            }
            prop_assert_eq!(calls.take_requested().len(), names.len());
            let (mut taken, mut running, mut ends) = (Vec::new(), Vec::new(), ends.into_iter());
            loop {
                match calls.next(&tools) {
                    NextStep::Wait => {
                        prop_assert!(!running.is_empty(), "the turn waits for nothing");
                        let (which, failed) = ends.next().expect("one end per call");
                        let call: CallId = running.remove(which.index(running.len()));
                        calls.end(&call, failed, "", &tools);
                    }
                    NextStep::StartCalls(batch) => {
                        prop_assert!(running.is_empty(), "calls start beside others");
                        let kind = |tool: &str| match tool { READ | UPDATE_PLAN => 0, AGENT => 1, _ => 2 };
                        let first = kind(&batch[0].request.tool);
                        prop_assert!(batch.iter().all(|next| kind(&next.request.tool) == first), "{:?}", batch);
                        prop_assert!(first != 2 || batch.len() == 1, "a call that may write has company: {:?}", batch);
                        running.extend(batch.iter().map(|next| next.call.clone()));
                        taken.extend(batch.into_iter().map(|next| next.call.to_string()));
                    }
                    NextStep::AskModel => break,
                }
            }
            prop_assert!(running.is_empty(), "the model is asked before all calls have their outcomes");
            prop_assert_eq!(taken, (0..names.len()).map(|number| number.to_string()).collect::<Vec<_>>());
        }
    }
}
