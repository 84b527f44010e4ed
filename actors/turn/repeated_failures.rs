//! The calls of a turn that have failed: the same one again and again is not worth another try. Pure.

use domain::tool::ToolRequest;

/// The same call may fail this often, with nothing changed in between, before the model is told to do something else.
const SAME_FAILURES: u32 = 3;

/// Calls that have failed since something was last changed, and how often.
#[derive(Default)]
pub(super) struct RepeatedFailures(Vec<(ToolRequest, u32)>);

impl RepeatedFailures {
    /// What the model is told in place of an outcome, if this call is not to be run.
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
            // Something may be otherwise now, so that what failed before may be worth another try.
            self.0.clear();
        }
    }
}
