//! The activity of a session. There is one at a time: the variants of [`Activity`] exclude each
//! other.

use std::collections::BTreeMap;

use super::effect::Purpose;
use super::hosted::AgentTurn;
use super::input::PromptMessage;
use super::spending::HeldWork;
use super::sub_agents::SubAgents;
use crate::budget::Costs;
use crate::checkpoint::{Checkpoint, RestoreDirection};
use crate::tool::ToolRequest;
use crate::{CallId, MessageId, Mode, StopReason, TurnId, Usage};

/// What a session is doing. Each variant excludes all others.
#[derive(Debug, Default)]
pub enum Activity {
    /// Nothing; a prompt starts at once.
    #[default]
    Idle,
    /// A prompt's references are being read: a slash command of the project, or resources of MCP
    /// servers.
    Expanding(PromptMessage),
    /// A built-in slash command runs.
    SlashCommand(RunningSlashCommand),
    /// A backend works on a turn: it answers a prompt or compacts the conversation.
    Turn(RunningTurn),
    /// Files are being restored, for `/undo` and `/redo` or for `ctl undo`.
    Restoring(Restoration),
    /// A turn was restored from the log with an open question. Nothing is planned and no model is
    /// asked until it is answered.
    Waiting(TurnId),
    /// The daemon stops. Questions stay open in the log, and running calls are being ended.
    Suspending(RunningTurn),
    /// The turn ends for this reason as soon as its calls have ended.
    Stopping(RunningTurn, StopReason),
    /// The clean mark of the log is being written; then the session leaves memory.
    Closing,
}

/// A turn with the calls and sub-agents that work for it.
#[derive(Debug)]
pub struct RunningTurn {
    pub id: TurnId,
    pub purpose: Purpose,
    pub calls: BTreeMap<CallId, RunningCall>,
    pub agents: SubAgents,
    /// Why the model has ended the turn, while the hooks decide.
    pub ending: Option<StopReason>,
    /// How often hooks have sent the turn back to work.
    pub sent_back: u32,
    /// Whether a default model has been replaced, because its provider does not know it.
    pub fell_back: bool,
    /// Set until the child agent has ended its prompt. None in a session of the native engine.
    pub agent: Option<AgentTurn>,
    /// The usage that the child reports for the prompt.
    pub agent_usage: Usage,
    /// What the session had cost when the turn began.
    pub costs_before: Costs,
    /// How often the user has agreed to continue beyond the limits of a turn.
    pub granted: u32,
    /// What is held back until the user agrees to continue beyond a limit.
    pub held: Vec<HeldWork>,
}

/// A built-in slash command. Most end at once; one that runs git can take minutes.
#[derive(Debug)]
pub struct RunningSlashCommand {
    pub turn: TurnId,
    /// Why the command was asked to stop, if it was. It ends when its work is in a consistent
    /// state.
    pub stopped: Option<StopReason>,
}

impl RunningSlashCommand {
    pub(super) fn new(turn: TurnId) -> Self {
        Self { turn, stopped: None }
    }
}

/// A tool call that has an executor.
#[derive(Clone, Debug)]
pub struct RunningCall {
    pub message: MessageId,
    pub request: ToolRequest,
    /// The turn of the sub-agent that makes the call.
    pub agent: Option<TurnId>,
    /// The session's mode when the call was planned.
    pub mode: Mode,
    /// Whether the user has allowed the call as the log shows it. A new plan that does something
    /// else is not covered.
    pub allowed: bool,
}

/// An undo or redo in progress.
#[derive(Debug)]
pub struct Restoration {
    /// The turn of the prompt that asked for it; `ctl undo` has none.
    pub turn: Option<TurnId>,
    pub checkpoint: Checkpoint,
    pub direction: RestoreDirection,
    /// Why the restoration must stop after the current file, if it must.
    pub stopped: Option<StopReason>,
}

impl RunningTurn {
    pub(super) fn new(id: TurnId, purpose: Purpose) -> Self {
        Self {
            id,
            purpose,
            calls: BTreeMap::new(),
            agents: SubAgents::default(),
            ending: None,
            sent_back: 0,
            fell_back: false,
            agent: None,
            agent_usage: Usage::default(),
            costs_before: Costs::default(),
            granted: 0,
            held: Vec::new(),
        }
    }
}

impl Activity {
    pub fn is_idle(&self) -> bool {
        matches!(self, Activity::Idle)
    }

    /// The id of the turn that the activity belongs to.
    pub fn turn_id(&self) -> Option<&TurnId> {
        match self {
            Activity::Idle | Activity::Closing => None,
            Activity::Expanding(message) => Some(&message.turn),
            Activity::SlashCommand(running) => Some(&running.turn),
            Activity::Waiting(turn) => Some(turn),
            Activity::Turn(turn) | Activity::Suspending(turn) | Activity::Stopping(turn, _) => Some(&turn.id),
            Activity::Restoring(restoration) => restoration.turn.as_ref(),
        }
    }

    pub(super) fn running(&self) -> Option<&RunningTurn> {
        match self {
            Activity::Turn(turn) | Activity::Suspending(turn) | Activity::Stopping(turn, _) => Some(turn),
            Activity::Idle
            | Activity::Expanding(_)
            | Activity::SlashCommand(_)
            | Activity::Restoring(_)
            | Activity::Waiting(_)
            | Activity::Closing => None,
        }
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut RunningTurn> {
        match self {
            Activity::Turn(turn) | Activity::Suspending(turn) | Activity::Stopping(turn, _) => Some(turn),
            Activity::Idle
            | Activity::Expanding(_)
            | Activity::SlashCommand(_)
            | Activity::Restoring(_)
            | Activity::Waiting(_)
            | Activity::Closing => None,
        }
    }
}
