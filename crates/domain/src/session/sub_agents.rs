//! Sub-agents of a turn: when they start, what they may use, and where their reports go.
//!
//! Read-only sub-agents work in parallel, up to a limit; a sub-agent that may do more works alone.
//! A sub-agent in the background does not block its call: its report is kept until the model asks
//! for it, and the turn does not end before.

mod records;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) use records::AgentRecords;
use records::{AgentRecord, CONTINUED, both};

use super::activity::Activity;
use super::effect::{Effect, StartSubAgent, SubAgentInput};
use super::machine::SessionMachine;
use super::policy::AgentLimits;
use super::spending::HeldWork;
use crate::recall::RecallReader;
use crate::tool::{
    AGENT, ASK_USER, BackgroundChange, BackgroundReport, OutcomeKind, PROPOSE_PLAN, SWITCH_MODE, SubAgentRequest,
    SubAgentTask,
};
use crate::{AgentId, CallId, EventKind, Mode, Outcome, ToolContent, TurnId};

/// How many steps of a sub-agent are shown.
const STEPS: usize = 20;

/// How many sub-agents may wait to be started.
const QUEUE: usize = 32;

/// The sub-agents of a running turn.
#[derive(Debug, Default)]
pub struct SubAgents {
    /// The working sub-agents, keyed by their turns.
    working: BTreeMap<TurnId, SubAgent>,
    queued: VecDeque<Queued>,
    /// Reports of background sub-agents that the model has not received yet.
    reports: Vec<(AgentId, Outcome)>,
    /// Whether the model has ended its turn and the turn waits for a report from the background.
    is_awaited: bool,
}

#[derive(Debug)]
pub struct SubAgent {
    pub id: AgentId,
    pub mode: Mode,
    /// The only tools that it may use; None for all tools of its mode.
    pub tools: Option<Vec<String>>,
    /// The nesting depth: 1 for a sub-agent of the main conversation, 2 for one that such a
    /// sub-agent started.
    depth: u32,
    /// The call that started it.
    call: CallId,
    /// The call that receives its report; None in the background, until a call collects the report.
    waiting: Option<CallId>,
    background: bool,
    parent: Option<TurnId>,
    /// The calls of its last response that have no outcome yet.
    requested: BTreeSet<CallId>,
    /// The titles of its calls so far.
    steps: Vec<String>,
    /// What is needed to continue it.
    record: AgentRecord,
}

#[derive(Debug)]
struct Queued {
    agent: SubAgent,
    task: SubAgentTask,
    resumes: bool,
}

impl SubAgent {
    /// What its calls of `recall` search.
    pub(super) fn reader(&self) -> RecallReader {
        RecallReader::SubAgent { calls: self.record.calls.clone() }
    }

    /// Returns why the sub-agent may not use a tool, as a text for its model.
    pub(super) fn refusal(&self, tool: &str, limits: AgentLimits) -> Option<String> {
        if tool == AGENT && self.depth >= limits.depth {
            return Some("a sub-agent has no sub-agents; do the work yourself".to_owned());
        }
        if tool == SWITCH_MODE {
            return Some("a sub-agent cannot change the session's mode; report what you could not do".to_owned());
        }
        if tool == ASK_USER || tool == PROPOSE_PLAN {
            return Some("a sub-agent cannot ask the user; report what has to be decided".to_owned());
        }
        let tools = self.tools.as_ref().filter(|tools| !tools.iter().any(|name| name == tool))?;
        Some(format!("this agent may not use `{tool}`; it has {}", tools.join(", ")))
    }
}

impl SubAgents {
    pub(super) fn get(&self, turn: &TurnId) -> Option<&SubAgent> {
        self.working.get(turn)
    }

    /// Releases the sub-agents of a call that has ended. Returns those that worked only for this
    /// call.
    pub(super) fn release(&mut self, call: &CallId) -> Vec<TurnId> {
        self.queued.retain(|queued| queued.agent.background || queued.agent.call != *call);
        for Queued { agent, .. } in &mut self.queued {
            agent.waiting.take_if(|waiting| waiting == call);
        }
        let mut dismissed = Vec::new();
        for (turn, sub) in &mut self.working {
            if sub.waiting.as_ref() == Some(call) {
                sub.waiting = None;
                if !sub.background {
                    dismissed.push(turn.clone());
                }
            }
        }
        dismissed
    }

    fn in_background(&self) -> bool {
        self.working.values().any(|sub| sub.background) || self.queued.iter().any(|queued| queued.agent.background)
    }

    fn find_mut(&mut self, id: &AgentId) -> Option<&mut SubAgent> {
        let queued = self.queued.iter_mut().map(|queued| &mut queued.agent);
        self.working.values_mut().chain(queued).find(|sub| sub.id == *id)
    }

    /// The call of the first queued sub-agent that may start.
    fn next_call(&self, limits: AgentLimits) -> Option<&CallId> {
        Some(&self.queued[self.next_at(limits)?].agent.call)
    }

    /// Takes the first queued sub-agent that may start.
    fn next(&mut self, limits: AgentLimits) -> Option<Queued> {
        self.queued.remove(self.next_at(limits)?)
    }

    /// The index in the queue of the first sub-agent that may start. Only sub-agents of the same
    /// depth are compared, because one that waits for its own sub-agent must not keep that one from
    /// starting.
    fn next_at(&self, limits: AgentLimits) -> Option<usize> {
        let has_room = |next: &SubAgent| {
            let mut peers = self.working.values().filter(|sub| sub.depth == next.depth);
            if next.mode.only_reads() {
                peers.clone().all(|sub| sub.mode.only_reads()) && peers.count() < limits.at_once
            } else {
                peers.next().is_none()
            }
        };
        (0..self.queued.len()).find(|at| {
            let next = &self.queued[*at].agent;
            let is_first = self.queued.range(..*at).all(|earlier| earlier.agent.depth != next.depth);
            is_first && has_room(next)
        })
    }

    /// Returns a sub-agent and, recursively, all sub-agents that work for it.
    fn with_descendants(&self, turn: &TurnId) -> Vec<TurnId> {
        let mut with_descendants = vec![turn.clone()];
        let mut at = 0;
        while at < with_descendants.len() {
            let parent = with_descendants[at].clone();
            let children = self.working.iter().filter(|(_, sub)| sub.parent.as_ref() == Some(&parent));
            with_descendants.extend(children.map(|(turn, _)| turn.clone()));
            at += 1;
        }
        with_descendants
    }
}

impl SessionMachine {
    /// Handles the request of a running call for a sub-agent, or for the report of one.
    pub(super) fn delegate(&mut self, call: CallId, request: SubAgentRequest) {
        let answer = match request {
            SubAgentRequest::Start(task) => self.enqueue_agent(&call, task),
            SubAgentRequest::Collect(id) => self.collect_report(&call, &id),
        };
        if let Some(outcome) = answer {
            self.effect(Effect::AnswerDelegation { call, outcome });
        }
        self.start_agents();
    }

    /// Queues a sub-agent. Returns the outcome of the call if it is known already.
    fn enqueue_agent(&mut self, call: &CallId, mut task: SubAgentTask) -> Option<Outcome> {
        let parent = self.agent_of(call);
        let limits = self.policy.agents;
        let Activity::Turn(running) = &self.activity else { return Some(Outcome::cancelled()) };
        let caller = parent.as_ref().and_then(|turn| running.agents.get(turn));
        let depth = caller.map_or(0, |caller| caller.depth) + 1;
        if depth > limits.depth {
            return Some(Outcome::failed("A sub-agent has no sub-agents; do the work yourself."));
        }
        if running.agents.queued.len() >= QUEUE {
            return Some(Outcome::failed("Too many sub-agents wait already; wait for their reports first."));
        }
        if let Some(caller) = caller {
            task.mode = task.mode.within(caller.mode);
            task.tools = both(task.tools.take(), caller.tools.as_deref());
        }
        // Only the main conversation can collect a report later.
        task.background &= caller.is_none();
        let continues = task.continues.clone();
        let mut calls = Vec::new();
        if let Some(id) = &continues {
            let Some(record) = self.agents.ended.iter().find(|record| record.id == *id) else {
                return Some(Outcome::failed(format!(
                    "There is no sub-agent `{id}` that could be continued. The last {CONTINUED} can, until the session \
                     leaves memory or the daemon restarts. Start a new one without `id`, and give it all that it has to \
                     know in its `task`."
                )));
            };
            task = record.continued_by(task);
            calls.clone_from(&record.calls);
        }
        if task.background && !task.mode.only_reads() {
            return Some(Outcome::failed("Only a sub-agent that may only read can work in the background."));
        }
        let id = continues.inspect(|id| self.agents.ended.retain(|record| record.id != *id));
        let id = id.unwrap_or_else(|| self.next_agent_id());
        let started = format!(
            "The sub-agent `{id}` works in the background. Go on with other work. A call with this `id` and no `task` waits \
             for its report; otherwise you get it before your turn ends."
        );
        let handle = task.background.then(|| id.to_string());
        let answer = handle.map(|handle| Outcome { background: Some(handle), ..Outcome::completed(started) });
        calls.push(call.clone());
        self.put_into_queue(parent, id, depth, task, calls);
        answer
    }

    /// Queues a sub-agent that the last of these calls starts or continues.
    fn put_into_queue(
        &mut self,
        parent: Option<TurnId>,
        id: AgentId,
        depth: u32,
        task: SubAgentTask,
        calls: Vec<CallId>,
    ) {
        let Activity::Turn(running) = &mut self.activity else { return };
        let Some(call) = calls.last().cloned() else { return };
        let resumes = calls.len() > 1;
        let record = AgentRecord {
            id: id.clone(),
            mode: task.mode,
            tools: task.tools.clone(),
            model: task.model.clone(),
            instructions: task.instructions.clone(),
            calls,
        };
        let agent = SubAgent {
            id,
            mode: task.mode,
            tools: task.tools.clone(),
            depth,
            waiting: (!task.background).then(|| call.clone()),
            call,
            background: task.background,
            parent,
            requested: BTreeSet::new(),
            steps: Vec::new(),
            record,
        };
        running.agents.queued.push_back(Queued { agent, task, resumes });
    }

    /// Returns a new id. It is unique in the session, even after a restart, because ids grow with
    /// the event numbers.
    fn next_agent_id(&mut self) -> AgentId {
        self.agents.last = (self.agents.last + 1).max(self.state.head.number);
        AgentId::from(format!("agent-{}", self.agents.last))
    }

    fn collect_report(&mut self, call: &CallId, id: &AgentId) -> Option<Outcome> {
        let is_of_agent = self.agent_of(call).is_some();
        let Activity::Turn(running) = &mut self.activity else { return Some(Outcome::cancelled()) };
        if let Some(at) = running.agents.reports.iter().position(|(reported, _)| reported == id) {
            return Some(running.agents.reports.remove(at).1);
        }
        match running.agents.find_mut(id) {
            Some(sub) if sub.background && sub.waiting.is_none() && !is_of_agent => {
                sub.waiting = Some(call.clone());
                None
            }
            Some(_) => Some(Outcome::failed(format!("Another call already waits for the report of `{id}`."))),
            None => Some(Outcome::failed(format!(
                "No sub-agent `{id}` is at work, and there is no report of it that you have not had. To ask it more, give \
                 a `task`, too."
            ))),
        }
    }

    /// Starts the sub-agents that may start, unless a spending limit is reached.
    pub(super) fn start_agents(&mut self) {
        let limits = self.policy.agents;
        let next = self.activity.running().and_then(|running| running.agents.next_call(limits)).cloned();
        if let Some(call) = next
            && let Some(reason) = self.limit_reached()
        {
            return self.ask_to_go_on(&reason, Some(call));
        }
        while let Activity::Turn(running) = &mut self.activity
            && let Some(Queued { agent, task, resumes }) = running.agents.next(limits)
        {
            let turn = TurnId::new();
            let start = StartSubAgent {
                turn: turn.clone(),
                id: agent.id.clone(),
                task,
                resumes,
                may_delegate: agent.depth < limits.depth,
            };
            running.agents.working.insert(turn, agent);
            self.effect(Effect::StartSubAgent(Box::new(start)));
        }
    }

    pub(super) fn note_requested(&mut self, agent: &TurnId, calls: Vec<CallId>) {
        let running = self.activity.running_mut();
        if let Some(sub) = running.and_then(|running| running.agents.working.get_mut(agent)) {
            sub.requested = calls.into_iter().collect();
        }
    }

    /// Continues the turn of a sub-agent. An input that leads to a request to its model is held
    /// back if a spending limit is reached.
    pub(super) fn send_to_agent(&mut self, agent: TurnId, input: SubAgentInput) {
        let running = self.activity.running_mut();
        let Some(sub) = running.and_then(|running| running.agents.working.get_mut(&agent)) else { return };
        if let SubAgentInput::CallEnded { call, .. } = &input {
            sub.requested.remove(call);
        }
        let (is_between_requests, within) = (sub.requested.is_empty(), sub.call.clone());
        match self.limit_reached().filter(|_| is_between_requests) {
            Some(reason) => self.hold(HeldWork::SubAgentInput { agent, input }, &reason, Some(within)),
            None => self.effect(Effect::SendToSubAgent { agent, input, at: self.sync_point }),
        }
    }

    /// Handles the end of a sub-agent: its report goes to the call that waits for it, or is kept
    /// for the model.
    pub(super) fn end_agent(&mut self, turn: &TurnId, mut outcome: Outcome, resumable: bool) {
        let Some(running) = self.activity.running_mut() else { return };
        let with_descendants = running.agents.with_descendants(turn);
        let Some(sub) = running.agents.working.remove(turn) else { return };
        let SubAgent { id, waiting, background, steps, record, .. } = sub;
        outcome = outcome.with_raw(serde_json::json!({ "steps": steps.len() }));
        if resumable {
            outcome.content = vec![ToolContent::text(outcome.text.clone())];
            outcome.text.push_str(&format!("\n\n[To ask this sub-agent more, give `id`: \"{id}\" and another task.]"));
        }
        self.hand_over(id.clone(), waiting, background, outcome);
        self.dismiss_agents(with_descendants);
        if resumable {
            if let Some(oldest) = self.agents.keep(record) {
                self.effect(Effect::ForgetAgent(oldest));
            }
        } else {
            self.effect(Effect::ForgetAgent(id));
        }
        self.start_agents();
        self.pass_on_reports();
    }

    /// Ends the background sub-agent that this call started, at a client's request. The model
    /// receives the cancellation in place of a report. Returns whether there was such a sub-agent.
    pub(super) fn cancel_agent(&mut self, call: &CallId) -> bool {
        let Activity::Turn(running) = &mut self.activity else { return false };
        let is_meant = |agent: &SubAgent| agent.background && agent.call == *call;
        let working = running.agents.working.iter().find(|(_, agent)| is_meant(agent)).map(|(turn, _)| turn.clone());
        if let Some(turn) = working {
            self.end_agent(&turn, Outcome::cancelled(), false);
            return true;
        }
        let Some(at) = running.agents.queued.iter().position(|queued| is_meant(&queued.agent)) else { return false };
        let Some(Queued { agent, .. }) = running.agents.queued.remove(at) else { return false };
        self.hand_over(agent.id, agent.waiting, true, Outcome::cancelled());
        self.start_agents();
        self.pass_on_reports();
        true
    }

    /// Gives the outcome of a sub-agent to the call that waits for it, or keeps it for the model.
    fn hand_over(&mut self, id: AgentId, waiting: Option<CallId>, background: bool, outcome: Outcome) {
        let Some(running) = self.activity.running_mut() else { return };
        let exit_code = exit_code(outcome.verdict);
        match waiting {
            Some(call) => self.effect(Effect::AnswerDelegation { call, outcome }),
            None => running.agents.reports.push((id.clone(), outcome)),
        }
        if background {
            let what = BackgroundChange::Ended { exit_code, signal: None };
            self.note_background(BackgroundReport { handle: id.to_string(), what });
        }
    }

    /// Whether a turn that the model has ended continues, because background sub-agents still work
    /// or have reports that the model has not received.
    pub(super) fn wait_for_agents(&mut self, turn: &TurnId) -> bool {
        let Activity::Turn(running) = &mut self.activity else { return false };
        if running.id != *turn || (running.agents.reports.is_empty() && !running.agents.in_background()) {
            return false;
        }
        running.agents.is_awaited = true;
        self.pass_on_reports();
        true
    }

    /// Passes the reports of background sub-agents to a turn that waits for them.
    fn pass_on_reports(&mut self) {
        let Activity::Turn(running) = &mut self.activity else { return };
        if !running.agents.is_awaited || running.agents.reports.is_empty() {
            return;
        }
        running.agents.is_awaited = false;
        let turn = running.id.clone();
        let reports = std::mem::take(&mut running.agents.reports);
        let summaries: Vec<String> = reports
            .into_iter()
            .map(|(id, outcome)| format!("The sub-agent `{id}` in the background has reported:\n{}", outcome.text))
            .collect();
        self.notice_passing("The model gets the reports of sub-agents that worked in the background.".to_owned());
        self.continue_with(turn, summaries.join("\n\n"));
    }

    /// Records a call of a sub-agent, and shows it as a step of the call that waits for the
    /// sub-agent.
    pub(super) fn record_step(&mut self, agent: &TurnId, call: &CallId, called: &EventKind) {
        let Some(running) = self.activity.running_mut() else { return };
        let Some(sub) = running.agents.working.get_mut(agent) else { return };
        if let EventKind::ToolCalled { card, .. } = called {
            sub.steps.push(format!("- {}", card.title));
        }
        let earlier = sub.steps.len().saturating_sub(STEPS);
        let mut shown = sub.steps[earlier..].join("\n");
        if earlier > 0 {
            shown = format!("[{earlier} steps before]\n{shown}");
        }
        let (within, waiting) = (sub.call.clone(), sub.waiting.clone());
        self.effect(Effect::RecordForAgent { agent: agent.clone(), kind: called.clone() });
        if let Some(call) = waiting {
            self.append(EventKind::ToolProgressed { call, content: vec![ToolContent::text(shown)] });
        }
        // Appended right before the call itself, so that no reader starts between the two.
        self.append(EventKind::Delegated { call: call.clone(), within });
    }

    /// Ends sub-agents whose reports are not needed any more, and their running calls.
    pub(super) fn dismiss_agents(&mut self, agents: Vec<TurnId>) {
        let Some(running) = self.activity.running_mut() else { return };
        let dismissed: Vec<TurnId> = agents.iter().flat_map(|turn| running.agents.with_descendants(turn)).collect();
        running.agents.working.retain(|turn, _| !dismissed.contains(turn));
        let is_dismissed = |turn: Option<&TurnId>| turn.is_some_and(|turn| dismissed.contains(turn));
        running.agents.queued.retain(|queued| !is_dismissed(queued.agent.parent.as_ref()));
        let theirs = running.calls.iter().filter(|(_, call)| is_dismissed(call.agent.as_ref()));
        let calls: Vec<CallId> = theirs.map(|(call, _)| call.clone()).collect();
        for agent in dismissed {
            self.effect(Effect::DropAgent(agent));
        }
        for call in calls {
            self.effect(Effect::CancelCall(call));
        }
        if !agents.is_empty() {
            self.start_agents();
        }
    }
}

/// The exit code that is recorded for the end of a background sub-agent.
fn exit_code(verdict: OutcomeKind) -> Option<i32> {
    match verdict {
        OutcomeKind::Completed => Some(0),
        OutcomeKind::Failed | OutcomeKind::Denied | OutcomeKind::Interrupted => Some(1),
        OutcomeKind::Cancelled => None,
    }
}
