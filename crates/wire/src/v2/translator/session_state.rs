//! The state of a session according to its log: whether it is idle, running, or blocked on the
//! user, and what runs in the background.

use domain::state::BackgroundWork;
use domain::{CallId, StopReason};
use serde_json::{Value, json};

use super::Translator;
use crate::v2::encode;

/// A snapshot of the foreground and the background, as `state_update` reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    foreground: Foreground,
    background: Vec<Background>,
}

/// A piece of work in the background, by the id that the client knows.
#[derive(Clone, Debug, PartialEq)]
enum Background {
    Terminal(CallId),
    /// Work without its own process.
    Call(CallId),
}

impl Background {
    fn of(work: &BackgroundWork) -> Self {
        match work.card.command() {
            "" => Self::Call(work.call.clone()),
            _ => Self::Terminal(work.call.clone()),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Terminal(terminal) => json!({ "type": "terminal", "terminalId": terminal }),
            Self::Call(call) => json!({ "type": "tool_call", "toolCallId": call }),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Foreground {
    /// No turn runs. The reason is why the last one ended.
    Idle(Option<StopReason>),
    Running,
    /// Nothing can continue before the user has answered.
    RequiresAction,
}

impl Default for Foreground {
    fn default() -> Self {
        Self::Idle(None)
    }
}

impl State {
    pub(super) fn update(&self) -> Value {
        let background: Vec<Value> = self.background.iter().map(Background::json).collect();
        let mut update = json!({ "sessionUpdate": "state_update", "background": background });
        update["state"] = json!(match &self.foreground {
            Foreground::Idle(_) => "idle",
            Foreground::Running => "running",
            Foreground::RequiresAction => "requires_action",
        });
        if let (Foreground::Idle(Some(reason)), Some(fields)) = (&self.foreground, update.as_object_mut()) {
            fields.extend(encode::stop_reason(reason));
        }
        update
    }
}

impl Translator {
    /// The state after the events translated so far.
    pub(super) fn state(&self) -> State {
        let foreground = match &self.turn {
            None => Foreground::Idle(self.stopped.clone()),
            // A child agent does not report which of its calls continues while the user fills in a
            // form.
            Some(turn) if turn.is_paused || self.is_blocked(None) => Foreground::RequiresAction,
            Some(_) => Foreground::Running,
        };
        State { foreground, background: self.background.values().map(Background::of).collect() }
    }
}
