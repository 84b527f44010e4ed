//! Notices calls of a turn that lead nowhere: those that keep failing, and those that are made
//! again and again with the same outcome. Pure.

use crate::tool::{AGENT, ToolRequest, UPDATE_PLAN};

/// How often the same call may fail, with no change in between, before the model must try something
/// else.
const SAME_FAILURES: u32 = 3;

/// How often the same call may have the same outcome in a row.
const SAME_OUTCOMES: u32 = 4;

/// Tools that are called again to wait for something.
const POLLING_TOOLS: [&str; 3] = ["bash_output", AGENT, UPDATE_PLAN];

#[derive(Debug, Default)]
pub(super) struct RepeatedCalls {
    /// Calls that have failed since the last change, and how often.
    failures: Vec<(ToolRequest, u32)>,
    /// The last call that succeeded, its outcome, and how often it was made in a row.
    last: Option<(ToolRequest, String, u32)>,
}

impl RepeatedCalls {
    /// The message that the model receives instead of an outcome, if this call should not run.
    pub(super) fn refusal(&self, request: &ToolRequest) -> Option<String> {
        if self.failures.iter().any(|(failed, times)| failed == request && *times >= SAME_FAILURES) {
            return Some(format!(
                "This call has failed {SAME_FAILURES} times with the same input, and nothing was changed in between. It was \
                 not run again. Do something else, or tell the user what is in the way."
            ));
        }
        let is_stuck = self.last.as_ref().is_some_and(|(last, _, times)| last == request && *times >= SAME_OUTCOMES);
        is_stuck.then(|| {
            format!(
                "This call has had the same outcome {SAME_OUTCOMES} times in a row. It was not run again. Use the outcome that \
                 you have, do something else, or tell the user what is in the way."
            )
        })
    }

    /// Notes the outcome of a call. A call that was not run changes nothing.
    pub(super) fn note(&mut self, request: ToolRequest, failed: bool, only_reads: bool, outcome: &str) {
        if self.refusal(&request).is_some() {
            return;
        }
        if failed {
            self.last = None;
            match self.failures.iter_mut().find(|(before, _)| *before == request) {
                Some((_, times)) => *times += 1,
                None => self.failures.push((request, 1)),
            }
            return;
        }
        if only_reads {
            self.failures.retain(|(before, _)| *before != request);
        } else {
            // A change may let a call succeed that failed before.
            self.failures.clear();
        }
        self.last = match self.last.take() {
            Some((last, same, times)) if last == request && same == outcome => Some((last, same, times + 1)),
            Some(_) | None if POLLING_TOOLS.contains(&request.tool.as_str()) => None,
            Some(_) | None => Some((request, outcome.to_owned(), 1)),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(tool: &str, n: u32) -> ToolRequest {
        ToolRequest { tool: tool.to_owned(), input: json!({ "n": n }) }
    }

    #[test]
    fn the_same_call_with_the_same_outcome_is_stopped_after_four_times_in_a_row() {
        let mut calls = RepeatedCalls::default();
        for _ in 0..4 {
            assert_eq!(calls.refusal(&request("bash", 1)), None);
            calls.note(request("bash", 1), false, false, "out");
        }
        assert!(calls.refusal(&request("bash", 1)).is_some());
        assert_eq!(calls.refusal(&request("bash", 2)), None);
        calls.note(request("bash", 1), true, false, "was not run");
        assert!(calls.refusal(&request("bash", 1)).is_some(), "it stays stopped");
        calls.note(request("read_file", 1), false, true, "text");
        assert_eq!(calls.refusal(&request("bash", 1)), None, "another call came in between");
    }

    #[test]
    fn another_outcome_or_a_tool_that_waits_is_not_a_loop() {
        let mut calls = RepeatedCalls::default();
        for n in 0..9 {
            calls.note(request("bash", 1), false, false, &n.to_string());
            assert_eq!(calls.refusal(&request("bash", 1)), None);
        }
        for _ in 0..9 {
            calls.note(request("bash_output", 1), false, true, "nothing new");
            assert_eq!(calls.refusal(&request("bash_output", 1)), None);
        }
    }
}
