//! The updates about compactions, which both versions write alike.

use domain::{MessageId, StopReason};
use serde_json::{Value, json};

/// The compaction that a client sees in progress, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    open: Option<MessageId>,
}

impl Compactions {
    /// The updates for the next piece of a compaction's summary. The first piece is empty and
    /// announces the compaction. A compaction that begins while another is in progress is a new
    /// attempt after the other one failed.
    pub(crate) fn progress(&mut self, compaction: &MessageId, text: &str) -> Vec<Value> {
        let earlier = self.open.replace(compaction.clone()).filter(|earlier| earlier != compaction);
        let failed = earlier.map(|earlier| ended(&earlier, "failed", Some("the request for the summary failed")));
        let update = match text {
            "" => json!({ "sessionUpdate": "compaction_update", "compactionId": compaction, "status": "in_progress" }),
            _ => json!({
                "sessionUpdate": "compaction_summary_chunk",
                "compactionId": compaction,
                "content": { "type": "text", "text": text },
            }),
        };
        failed.into_iter().chain([update]).collect()
    }

    /// The update for the end of a compaction, with the whole summary.
    pub(crate) fn completed(&mut self, compaction: &str, summary: &str) -> Value {
        self.open = None;
        json!({
            "sessionUpdate": "compaction_update",
            "compactionId": compaction,
            "status": "completed",
            "summary": [{ "type": "text", "text": summary }],
        })
    }

    /// The update that ends the compaction in progress, if there is one, together with its turn.
    pub(crate) fn turn_ended(&mut self, reason: &StopReason) -> Option<Value> {
        let open = self.open.take()?;
        Some(match reason {
            StopReason::Cancelled => ended(&open, "cancelled", None),
            StopReason::Failed(failure) => ended(&open, "failed", Some(&failure.message)),
            StopReason::EndTurn
            | StopReason::MaxTokens
            | StopReason::MaxTurnRequests
            | StopReason::Refusal
            | StopReason::Interrupted => ended(&open, "failed", None),
        })
    }
}

fn ended(compaction: &MessageId, status: &str, error: Option<&str>) -> Value {
    let mut update = json!({ "sessionUpdate": "compaction_update", "compactionId": compaction, "status": status });
    if let Some(error) = error {
        update["error"] = json!(error);
    }
    update
}
