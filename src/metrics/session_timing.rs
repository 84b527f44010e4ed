//! Folds the events of a session into facts that can be counted, with their durations.
//!
//! Pure. It receives every record of every session, and some records twice, because a record that
//! was not written is submitted again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::tool::OutcomeKind;
use domain::{CallId, Event, EventKind, LogPosition, Millis, SessionId, Usage};

#[derive(Debug, PartialEq)]
pub(super) enum Fact {
    /// `took` is unknown if another daemon started the turn.
    TurnEnded {
        end: &'static str,
        took: Option<Duration>,
    },
    FirstToken {
        after: Duration,
    },
    /// `took` is known if the call ran.
    ToolEnded {
        tool: String,
        outcome: &'static str,
        took: Option<Duration>,
    },
    Used(Usage),
}

#[derive(Default)]
pub(super) struct SessionTimings(HashMap<SessionId, SessionTiming>);

#[derive(Default)]
struct SessionTiming {
    /// The position of the last event that was counted.
    last: Option<LogPosition>,
    turn: Option<Turn>,
    calls: HashMap<CallId, TimedCall>,
}

struct Turn {
    started: Millis,
    has_spoken: bool,
}

struct TimedCall {
    tool: String,
    started: Option<Millis>,
}

impl SessionTimings {
    pub(super) fn follow(&mut self, session: &SessionId, events: &[Arc<Event>]) -> Vec<Fact> {
        let timing = self.0.entry(session.clone()).or_default();
        let mut facts = Vec::new();
        for event in events {
            if timing.last < Some(event.position()) {
                timing.last = Some(event.position());
                facts.extend(timing.note(event));
            }
        }
        facts
    }

    pub(super) fn forget(&mut self, session: &SessionId) {
        self.0.remove(session);
    }
}

fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(to.0.saturating_sub(from.0))
}

impl SessionTiming {
    fn note(&mut self, event: &Event) -> Option<Fact> {
        match &event.kind {
            EventKind::TurnStarted { .. } => {
                self.turn = Some(Turn { started: event.at, has_spoken: false });
                None
            }
            EventKind::AgentText { .. } | EventKind::AgentThought { .. } => {
                let turn = self.turn.as_mut().filter(|turn| !turn.has_spoken)?;
                turn.has_spoken = true;
                Some(Fact::FirstToken { after: between(turn.started, event.at) })
            }
            EventKind::ToolCalled { call, card, .. } => {
                self.calls.insert(call.clone(), TimedCall { tool: card.tool.clone(), started: None });
                None
            }
            EventKind::ToolStarted { call } => {
                self.calls.get_mut(call)?.started = Some(event.at);
                None
            }
            EventKind::ToolEnded { call, outcome } => {
                let call = self.calls.remove(call)?;
                let took = call.started.map(|started| between(started, event.at));
                Some(Fact::ToolEnded { tool: call.tool, outcome: name(outcome.verdict), took })
            }
            EventKind::Used { usage, .. } => Some(Fact::Used(*usage)),
            EventKind::TurnEnded { reason, .. } => {
                let took = self.turn.take().map(|turn| between(turn.started, event.at));
                self.calls.clear();
                Some(Fact::TurnEnded { end: reason.name(), took })
            }
            _ => None,
        }
    }
}

fn name(verdict: OutcomeKind) -> &'static str {
    match verdict {
        OutcomeKind::Completed => "completed",
        OutcomeKind::Failed => "failed",
        OutcomeKind::Denied => "denied",
        OutcomeKind::Cancelled => "cancelled",
        OutcomeKind::Interrupted => "interrupted",
    }
}

#[cfg(test)]
mod tests {
    use domain::{Outcome, PromptOrigin, StopReason, TurnId};

    use super::*;

    fn log(kinds: Vec<EventKind>) -> Vec<Arc<Event>> {
        let events = kinds.into_iter().zip(1..);
        events.map(|(kind, number)| Arc::new(Event { life: 1, number, at: Millis(1000 * number), kind })).collect()
    }

    fn ended(turn: &str) -> EventKind {
        let (reason, usage) = (StopReason::EndTurn, Usage::default());
        let (turn, steering) = (TurnId::from(turn), Vec::new());
        EventKind::TurnEnded { turn, origin: None, message: None, reason, usage, steering }
    }

    #[test]
    fn a_turn_is_counted_once_however_often_it_is_submitted() {
        let origin = PromptOrigin { connection: "c".into(), bridge: None, request: "1".to_owned() };
        let text = |text: &str| EventKind::AgentText { message: "m".into(), text: text.to_owned() };
        let events = log(vec![
            EventKind::TurnStarted { turn: "t".into(), origin },
            text("a"),
            text("b"),
            EventKind::ToolStarted { call: "unknown".into() },
            ended("t"),
        ]);
        let (mut timings, session) = (SessionTimings::default(), SessionId::from("s"));
        assert_eq!(timings.follow(&session, &events[..2]), [Fact::FirstToken { after: Duration::from_secs(1) }]);
        let end = Fact::TurnEnded { end: "end_turn", took: Some(Duration::from_secs(4)) };
        assert_eq!(timings.follow(&session, &events), [end]);
        assert_eq!(timings.follow(&session, &events), []);
    }

    #[test]
    fn a_turn_begun_by_another_daemon_has_no_duration() {
        let events = log(vec![
            EventKind::Reopened,
            EventKind::ToolEnded { call: "c".into(), outcome: Outcome::failed("x") },
            ended("t"),
        ]);
        let facts = SessionTimings::default().follow(&SessionId::from("s"), &events);
        assert_eq!(facts, [Fact::TurnEnded { end: "end_turn", took: None }]);
    }
}
