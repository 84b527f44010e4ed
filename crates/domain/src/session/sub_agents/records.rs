//! The sub-agents that have ended and can be continued: who they are and what they may use. Their
//! conversations are kept by the actor.

use std::collections::VecDeque;

use crate::tool::SubAgentTask;
use crate::{AgentId, CallId, Mode, ModelId};

/// How many ended sub-agents can be continued.
pub(super) const CONTINUED: usize = 8;

/// The sub-agents that have ended and can be continued.
#[derive(Debug, Default)]
pub(in crate::session) struct AgentRecords {
    pub(super) ended: VecDeque<AgentRecord>,
    /// The number in the last id.
    pub(super) last: u64,
}

#[derive(Clone, Debug)]
pub(super) struct AgentRecord {
    pub(super) id: AgentId,
    pub(super) mode: Mode,
    pub(super) tools: Option<Vec<String>>,
    pub(super) model: Option<ModelId>,
    pub(super) instructions: Option<String>,
    /// The calls that started and continued it.
    pub(super) calls: Vec<CallId>,
}

impl AgentRecords {
    /// Keeps a sub-agent that has ended. Returns the oldest if there are too many.
    pub(super) fn keep(&mut self, record: AgentRecord) -> Option<AgentId> {
        self.ended.push_back(record);
        if self.ended.len() > CONTINUED { self.ended.pop_front().map(|oldest| oldest.id) } else { None }
    }
}

impl AgentRecord {
    /// The task of a call that continues this sub-agent, with no more rights than it had.
    pub(super) fn continued_by(&self, task: SubAgentTask) -> SubAgentTask {
        SubAgentTask {
            mode: task.mode.within(self.mode),
            tools: both(task.tools, self.tools.as_deref()),
            model: task.model.or_else(|| self.model.clone()),
            instructions: self.instructions.clone(),
            ..task
        }
    }
}

/// The tools that both lists allow; None allows all tools.
pub(super) fn both(one: Option<Vec<String>>, other: Option<&[String]>) -> Option<Vec<String>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.into_iter().filter(|name| other.contains(name)).collect()),
        (Some(list), None) => Some(list),
        (None, other) => other.map(<[String]>::to_vec),
    }
}
