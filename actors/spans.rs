//! The spans of the actors: `connection` > `session` > `turn` > `tool`. A span does not cross a
//! mailbox, so each actor has its own, with an explicit parent. The trace that a client names is
//! recorded in the span's fields.

use domain::{CallId, ConnectionId, SessionId, Trace};
use tracing::Span;
use tracing::field::Empty;

pub(crate) fn connection(id: &ConnectionId) -> Span {
    tracing::info_span!(parent: None, "connection", %id)
}

/// The span of a session. Its parent is the connection that opened it, which it outlives.
pub(crate) fn session(within: &Span, id: &SessionId, trace: Option<&Trace>) -> Span {
    traced(tracing::info_span!(parent: within, "session", %id, trace_id = Empty, parent_id = Empty), trace)
}

/// The span of a turn; `n` is the number of the event that began it.
pub(crate) fn turn(within: &Span, n: u64, trace: Option<&Trace>) -> Span {
    traced(tracing::info_span!(parent: within, "turn", n, trace_id = Empty, parent_id = Empty), trace)
}

pub(crate) fn tool(within: &Span, call: &CallId, name: &str) -> Span {
    tracing::info_span!(parent: within, "tool", %call, name)
}

fn traced(span: Span, trace: Option<&Trace>) -> Span {
    if let Some(Trace { id, parent }) = trace {
        span.record("trace_id", id).record("parent_id", parent);
    }
    span
}
