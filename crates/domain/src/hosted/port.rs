//! The port to child agents: how a session starts one, which requests it makes, and what the child
//! reports.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;

use super::{AgentSetting, CallFields, Offer, OfferPart};
use crate::editor::Editor;
use crate::mcp::McpServer;
use crate::permission::AgentOption;
use crate::turn::FailureKind;
use crate::{
    CallId, CallSite, Content, Cost, Environment, MessageId, PlanEntry, QuestionId, SessionId, StopReason, ToolCard,
    TurnFailure, Usage,
};

/// The agents of the configuration.
pub trait Agents: Send + Sync + 'static {
    /// Returns the agent for sessions whose client does not name one; None for the native engine.
    fn default_agent(&self) -> Option<String>;

    fn names(&self) -> Vec<String>;

    /// Starts an agent for one session and returns at once. A failure is reported in the stream.
    fn start(&self, launch: AgentLaunch) -> StartedAgent;
}

/// Decides which requests of a child acpd carries out as its client: reading and writing files, and
/// running commands.
pub trait ClientRules: Send + Sync + 'static {
    /// Returns why acpd refuses the request, or None if it is allowed. The card describes the
    /// request as a call of acpd's own tools; the location of a command is its working folder.
    fn refusal(&self, card: ToolCard, site: Arc<CallSite>) -> BoxFuture<'static, Option<String>>;
}

/// What an agent is launched with: the session that it works for.
#[derive(Clone)]
pub struct AgentLaunch {
    /// The agent's name in the configuration.
    pub agent: String,
    pub session: SessionId,
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub environment: Arc<Environment>,
    /// The MCP servers that the client passed.
    pub servers: Vec<McpServer>,
    /// The child's id of the session that it had before, if it had one.
    pub earlier: Option<String>,
    /// The choices that were current in that session.
    pub chosen: Offer,
    /// A summary of the conversation so far, for a child that has to begin a new session.
    pub summary: Option<String>,
}

pub struct StartedAgent {
    /// Dropping it ends the child.
    pub link: Box<dyn AgentLink>,
    /// Ends after `AgentReport::Gone`.
    pub reports: BoxStream<'static, AgentReport>,
}

/// The requests that a session makes to its agent. No method blocks.
pub trait AgentLink: Send + 'static {
    /// Sends a prompt as soon as the child's session is open. `AgentReport::Ended` is the reply.
    /// Returns false if the child is gone.
    fn prompt(&self, content: Vec<Content>, editor: Option<Arc<dyn Editor>>) -> bool;

    /// Asks the child to end the running prompt. A child that does not comply is killed after a
    /// while.
    fn cancel(&self);

    /// Answers a question of the child: with the id of one of its options, or with None if it is
    /// cancelled.
    fn answer(&self, question: QuestionId, option: Option<String>);

    /// Resolves when the child has accepted the setting, with what it changed.
    fn configure(&self, setting: AgentSetting) -> BoxFuture<'static, Result<Option<OfferPart>, AgentFailure>>;
}

/// A report of what a child agent does.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentReport {
    /// The child's session is open. `fresh` means that the child knows nothing of an earlier
    /// session.
    Opened {
        session: String,
        offer: Offer,
        fresh: bool,
    },
    Text {
        message: MessageId,
        text: String,
    },
    Thought {
        message: MessageId,
        text: String,
    },
    Called {
        call: CallId,
        message: MessageId,
        /// Whether this report announces the call.
        first: bool,
        fields: CallFields,
    },
    Planned {
        message: MessageId,
        entries: Vec<PlanEntry>,
    },
    Offered(OfferPart),
    Titled(String),
    Usage {
        window_used: u64,
        window: u64,
        cost: Option<Cost>,
    },
    /// An update that acpd does not interpret, and the version of the protocol that it belongs to.
    Relayed {
        update: Value,
        version: i64,
    },
    /// The child asks the user for permission.
    Asked {
        question: QuestionId,
        /// The call that needs permission. The child has reported it before.
        call: CallId,
        options: Vec<AgentOption>,
    },
    /// The child no longer needs the answer.
    Withdrew(QuestionId),
    /// The child waits for the user to fill in a form or to open a page, or has stopped waiting.
    Waits(bool),
    /// A sentence for the user.
    Notice(String),
    /// The running prompt has ended.
    Ended {
        reason: StopReason,
        usage: Option<Usage>,
    },
    /// The child is gone, or could not be started.
    Gone(AgentFailure),
}

/// Why a child cannot be used, in words for the user at the editor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct AgentFailure {
    pub kind: AgentFailureKind,
    pub message: String,
    /// What the user can do, and the error that the child returned.
    pub data: Value,
    /// Whether a prompt was being sent, and the child cannot have seen it.
    pub prompt_unseen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFailureKind {
    /// The user has to log in to the child first.
    Authentication,
    /// The child refused the request.
    Refused,
    /// The child could not be started, died, or broke the protocol.
    Broken,
}

impl AgentFailure {
    pub fn broken(message: impl Into<String>) -> Self {
        Self { kind: AgentFailureKind::Broken, message: message.into(), data: Value::Null, prompt_unseen: false }
    }

    /// The failure of a turn for this reason.
    pub fn of_turn(self) -> TurnFailure {
        let kind = match self.kind {
            AgentFailureKind::Authentication => FailureKind::Authentication,
            AgentFailureKind::Refused | AgentFailureKind::Broken => FailureKind::Internal,
        };
        TurnFailure { kind, message: self.message, data: self.data }
    }
}

impl AgentReport {
    /// Estimates how many bytes a report of the child's work takes in the log. None for a report
    /// about the child itself, which is not part of its work.
    pub fn work_weight(&self) -> Option<usize> {
        match self {
            AgentReport::Text { text, .. } | AgentReport::Thought { text, .. } => Some(text.len()),
            AgentReport::Called { fields, .. } => Some(fields.weight()),
            AgentReport::Planned { entries, .. } => Some(entries.iter().map(|entry| entry.content.len()).sum()),
            AgentReport::Relayed { update, .. } => Some(crate::event::json_weight(update)),
            AgentReport::Opened { .. }
            | AgentReport::Offered(_)
            | AgentReport::Titled(_)
            | AgentReport::Usage { .. }
            | AgentReport::Asked { .. }
            | AgentReport::Withdrew(_)
            | AgentReport::Waits(_)
            | AgentReport::Notice(_)
            | AgentReport::Ended { .. }
            | AgentReport::Gone(_) => None,
        }
    }
}

/// A configuration without agents.
pub struct NoAgents;

impl Agents for NoAgents {
    fn default_agent(&self) -> Option<String> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn start(&self, launch: AgentLaunch) -> StartedAgent {
        let failure = AgentFailure::broken(format!("there is no agent `{}` in the configuration", launch.agent));
        StartedAgent { link: Box::new(NoLink), reports: stream::iter([AgentReport::Gone(failure)]).boxed() }
    }
}

/// The link to an agent that could not be started.
struct NoLink;

impl AgentLink for NoLink {
    fn prompt(&self, _: Vec<Content>, _: Option<Arc<dyn Editor>>) -> bool {
        true
    }

    fn cancel(&self) {}

    fn answer(&self, _: QuestionId, _: Option<String>) {}

    fn configure(&self, _: AgentSetting) -> BoxFuture<'static, Result<Option<OfferPart>, AgentFailure>> {
        Box::pin(std::future::ready(Err(AgentFailure::broken("the agent is not running"))))
    }
}
