//! How far the task has come: each direction beside the calls that were made for it.
//!
//! Pure. Directions are carried out one after another, one call an answer. Calls are matched to directions by the name
//! of their tool alone, in order, since a tool may have written its input anew.

use domain::PlanEntry;
use domain::tool::{PlanStatus, Priority};

use super::directions::Direction;
use super::task::{MadeCall, Task};
use super::wording;
use super::work::{self, Call, Next};

#[derive(Debug, PartialEq)]
pub(super) enum Stage<'a> {
    Done {
        /// What the last call brought.
        answer: &'a str,
    },
    Failed {
        reason: &'a str,
    },
    /// A tool that it needs is not offered.
    Missing {
        tool: &'static str,
    },
    /// Its next call is due.
    Due(Call),
    /// Comes after the one that is due.
    Waiting,
}

pub(super) struct Progress<'a> {
    directions: &'a [Direction],
    /// One for each direction.
    stages: Vec<Stage<'a>>,
    /// The direction that the latest call was for.
    latest: Option<usize>,
}

impl<'a> Progress<'a> {
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

    pub(super) fn due(&self) -> Option<&Call> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Due(call) => Some(call),
            Stage::Done { .. } | Stage::Failed { .. } | Stage::Missing { .. } | Stage::Waiting => None,
        })
    }

    /// What has come to an end since the latest call was made, and so was not told yet.
    pub(super) fn news(&self) -> impl Iterator<Item = (&'a Direction, &Stage<'a>)> {
        let from = self.latest.unwrap_or(0);
        let ended = self.directions.iter().zip(&self.stages).skip(from);
        ended.filter(|(_, stage)| match stage {
            Stage::Done { .. } | Stage::Failed { .. } | Stage::Missing { .. } => true,
            Stage::Due(_) | Stage::Waiting => false,
        })
    }

    /// The plan as it stands. A direction that failed is shown as not done, which is what it is.
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

/// Follows one direction through the calls that are left, and takes those that were made for it.
fn stage_of<'a>(direction: &Direction, calls: &mut &'a [MadeCall<'a>], offered: &impl Fn(&str) -> bool) -> Stage<'a> {
    let mut heard = Vec::new();
    loop {
        let call = match work::next(direction, &heard) {
            Next::Call(call) => call,
            Next::Done(answer) => return Stage::Done { answer },
            Next::Failed(reason) => return Stage::Failed { reason },
        };
        let Some(at) = calls.iter().position(|made| made.tool == call.tool) else {
            // Half a direction is worth nothing, so all of its tools must be there before it begins.
            let all = if heard.is_empty() { work::tools(direction) } else { &[] };
            let missing = all.iter().chain([&call.tool]).find(|tool| !offered(tool));
            return match missing {
                Some(tool) => Stage::Missing { tool },
                None => Stage::Due(call),
            };
        };
        heard.push(match calls[at].result {
            Some(result) if !result.failed => Ok(result.text.as_str()),
            Some(result) => Err(result.text.as_str()),
            None => Err("the conversation does not say what became of it"),
        });
        *calls = &calls[at + 1..];
    }
}
