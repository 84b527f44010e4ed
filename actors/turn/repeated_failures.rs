//! Counts the failed calls of a turn, because a call that keeps failing is not worth another try.
//! Pure.

use domain::tool::ToolRequest;

/// How often the same call may fail, with no change in between, before the model must try something
/// else.
const SAME_FAILURES: u32 = 3;

/// Calls that have failed since the last change, and how often.
#[derive(Default)]
pub(super) struct RepeatedFailures(Vec<(ToolRequest, u32)>);

impl RepeatedFailures {
    /// The message that the model receives instead of an outcome, if this call should not run.
    pub(super) fn why_not(&self, request: &ToolRequest) -> Option<String> {
        let is_hopeless = self.0.iter().any(|(failed, times)| failed == request && *times >= SAME_FAILURES);
        is_hopeless.then(|| {
            format!(
                "This call has failed {SAME_FAILURES} times with the same input, and nothing was changed in between. It was \
                 not run again. Do something else, or tell the user what is in the way."
            )
        })
    }

    pub(super) fn note(&mut self, request: ToolRequest, failed: bool, only_reads: bool) {
        if failed {
            match self.0.iter_mut().find(|(before, _)| *before == request) {
                Some((_, times)) => *times += 1,
                None => self.0.push((request, 1)),
            }
        } else if only_reads {
            self.0.retain(|(before, _)| *before != request);
        } else {
            // A change may let a call succeed that failed before.
            self.0.clear();
        }
    }
}
