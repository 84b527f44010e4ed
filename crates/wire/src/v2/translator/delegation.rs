//! Determines which work waits for the user. The calls of a sub-agent belong to the call on which
//! it works, so a question may block a part of the work or all of it.

use std::collections::BTreeSet;

use domain::CallId;
use serde_json::{Value, json};

use super::Translator;

impl Translator {
    /// Whether a question is open among the calls of a sub-agent, or of the turn itself, and none
    /// of them can continue before the user has answered. Calls that have not started wait for
    /// those before them.
    pub(super) fn is_blocked(&self, within: Option<&CallId>) -> bool {
        let mut is_asked = false;
        for (id, call) in self.calls.iter().filter(|(id, _)| self.within.get(*id) == within) {
            if call.waits || self.questions.values().any(|asked| asked == id) || self.is_blocked(Some(id)) {
                is_asked = true;
            } else if call.is_started {
                return false;
            }
        }
        is_asked
    }

    /// The updates that show which calls wait for the user: a call that has started and cannot
    /// continue is paused.
    pub(super) fn pause(&mut self) -> Vec<Value> {
        let open = self.calls.iter().filter(|(id, call)| call.is_started && !self.hidden.contains(*id));
        let background = self.background.values().filter(|work| work.is_agent()).map(|work| &work.call);
        let shown: BTreeSet<&CallId> = open.map(|(id, _)| id).chain(background).collect();
        let waits = |id: &CallId| self.calls.get(id).is_some_and(|call| call.waits) || self.is_blocked(Some(id));
        let paused: BTreeSet<CallId> = shown.iter().filter(|id| waits(id)).map(|id| CallId::clone(id)).collect();
        let status = |id: &CallId, status: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status });
        let resumed =
            self.paused.difference(&paused).filter(|id| shown.contains(id)).map(|id| status(id, "in_progress"));
        let updates = resumed.chain(paused.difference(&self.paused).map(|id| status(id, "paused"))).collect();
        self.paused = paused;
        updates
    }
}
