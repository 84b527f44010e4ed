//! The progress of a task: each direction with the calls that were made for it.
//!
//! Pure. Directions are carried out in order, one call per answer. Calls are matched to directions
//! only by the name of their tool, in order, because a tool may have rewritten its input.

use domain::PlanEntry;
use domain::tool::{PlanStatus, Priority};

use super::directions::Direction;
use super::task::{MadeCall, Task};
use super::wording;
use super::work::{self, Next, RehearsedCall};

#[derive(Debug, PartialEq)]
pub(super) enum Stage<'a> {
    Done {
        /// The output of the last call.
        answer: &'a str,
    },
    Failed {
        reason: &'a str,
    },
    /// A required tool is not offered.
    Missing {
        tool: &'static str,
    },
    /// The next call is due.
    Due(RehearsedCall),
    /// The direction comes after the one that is due.
    Waiting,
}

pub(super) struct TaskProgress<'a> {
    directions: &'a [Direction],
    /// One stage for each direction.
    stages: Vec<Stage<'a>>,
    /// The direction that the latest call was for.
    latest: Option<usize>,
}

impl<'a> TaskProgress<'a> {
    pub(super) fn of(task: &'a Task<'a>, offered: impl Fn(&str) -> bool) -> Self {
        let directions = &task.understanding.directions;
        let mut calls = task.calls.as_slice();
        let mut stages = Vec::with_capacity(directions.len());
        let mut latest = None;
        let mut due = false;
        for (index, direction) in directions.iter().enumerate() {
            if due {
                stages.push(Stage::Waiting);
                continue;
            }
            let before = calls.len();
            let stage = stage_of(direction, &mut calls, &offered);
            if calls.len() < before {
                latest = Some(index);
            }
            due = matches!(stage, Stage::Due(_));
            stages.push(stage);
        }
        Self { directions, stages, latest }
    }

    pub(super) fn due(&self) -> Option<&RehearsedCall> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Due(call) => Some(call),
            Stage::Done { .. } | Stage::Failed { .. } | Stage::Missing { .. } | Stage::Waiting => None,
        })
    }

    /// Iterates over the directions that ended since the latest call, which have not been reported
    /// yet.
    pub(super) fn news(&self) -> impl Iterator<Item = (&'a Direction, &Stage<'a>)> {
        let from = self.latest.unwrap_or(0);
        let ended = self.directions.iter().zip(&self.stages).skip(from);
        ended.filter(|(_, stage)| match stage {
            Stage::Done { .. } | Stage::Failed { .. } | Stage::Missing { .. } => true,
            Stage::Due(_) | Stage::Waiting => false,
        })
    }

    /// Returns the current plan. A direction that failed is shown as not done.
    pub(super) fn plan(&self) -> Vec<PlanEntry> {
        let entry = |(direction, stage): (&Direction, &Stage<'_>)| PlanEntry {
            content: wording::title(direction),
            priority: Priority::Medium,
            status: match stage {
                Stage::Done { .. } => PlanStatus::Completed,
                Stage::Due(_) => PlanStatus::InProgress,
                Stage::Failed { .. } | Stage::Missing { .. } | Stage::Waiting => PlanStatus::Pending,
            },
        };
        self.directions.iter().zip(&self.stages).map(entry).collect()
    }
}

/// Follows one direction through the remaining calls, and consumes those that were made for it.
fn stage_of<'a>(direction: &Direction, calls: &mut &'a [MadeCall<'a>], offered: &impl Fn(&str) -> bool) -> Stage<'a> {
    let mut outcomes = Vec::new();
    loop {
        let call = match work::next(direction, &outcomes) {
            Next::Call(call) => call,
            Next::Done(answer) => return Stage::Done { answer },
            Next::Failed(reason) => return Stage::Failed { reason },
        };
        let Some(at) = calls.iter().position(|made| made.tool == call.tool) else {
            // A partial direction is worthless, so all of its tools must be offered before it
            // begins.
            let all = if outcomes.is_empty() { work::tools(direction) } else { &[] };
            let missing = all.iter().chain([&call.tool]).find(|tool| !offered(tool));
            return match missing {
                Some(tool) => Stage::Missing { tool },
                None => Stage::Due(call),
            };
        };
        outcomes.push(match calls[at].result {
            Some(result) if !result.failed => Ok(result.text.as_str()),
            Some(result) => Err(result.text.as_str()),
            None => Err("the conversation does not say what became of it"),
        });
        *calls = &calls[at + 1..];
    }
}
