//! What the operator's hooks and the notification command receive about calls and turns.

use super::{Outcome, ToolCard};
use crate::StopReason;

/// The points at which the operator's hooks run.
#[derive(Clone, Copy, Debug)]
pub enum HookPoint<'a> {
    /// The call is about to run. A refusal denies it.
    BeforeTool { card: &'a ToolCard },
    /// The call has ended. A refusal is sent to the model with the outcome.
    AfterTool { card: &'a ToolCard, outcome: &'a Outcome },
    /// The turn is about to end. If the model ended it, a refusal is sent to the model and the turn
    /// continues.
    TurnEnd { reason: &'a StopReason },
}

/// Whether hooks ran after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HooksRun {
    None,
    Some,
}

/// An event that a user who is not watching may want to know about.
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    pub event: NotificationKind,
    /// The title of the waiting call, or why the turn ended.
    pub about: &'a str,
    /// The title of the session.
    pub title: Option<&'a str>,
    /// Whether a client is attached.
    pub attended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationKind {
    /// A permission question is open.
    Waiting,
    TurnEnded,
}

impl NotificationKind {
    pub fn name(self) -> &'static str {
        match self {
            NotificationKind::Waiting => "waiting",
            NotificationKind::TurnEnded => "turn_ended",
        }
    }
}
