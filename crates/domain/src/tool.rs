//! Tools as the actors see them: what is offered, what one call would do, and the port that carries it out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::briefing::Command;
use crate::checkpoint::{Restore, Restored};
use crate::mcp::{McpEvent, McpRequest, Prepared, Server, ServerCard};
use crate::permission::RuleTexts;
use crate::{Access, CallSite, ConnectionId, Content, Mode, ModelId, SessionId, StopReason, TurnId, Verdict};

/// The name under which the turn itself keeps the plan; the registry declares it, the turn carries it out.
pub const UPDATE_PLAN: &str = "update_plan";

/// The name under which the session itself runs a sub-agent; the registry declares and plans it.
pub const AGENT: &str = "agent";

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the input.
    pub schema: Value,
    /// Changes nothing, so that several such calls may run at once.
    pub read_only: bool,
}

/// What a model asked for, before anybody looked at it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRequest {
    pub tool: String,
    pub input: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    Read,
    Search,
    Edit,
    Delete,
    Move,
    Execute,
    Fetch,
    Think,
    SwitchMode,
    Other,
}

/// What one call would do, in words and pictures for the person who must allow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCard {
    pub tool: String,
    pub title: String,
    pub kind: ToolKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    pub input: Value,
    /// Shown before the call runs: the diff of an edit, the command of a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preview: Vec<ToolContent>,
    pub access: Access,
}

impl ToolCard {
    /// The card of a call that the model is still writing: nothing is known but its tool and title.
    pub fn begun(tool: &str, title: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            title: title.to_owned(),
            kind: ToolKind::Other,
            locations: Vec::new(),
            input: Value::Null,
            preview: Vec::new(),
            access: Access::Free,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Location {
    pub path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolContent {
    Text {
        text: String,
    },
    Diff {
        path: PathBuf,
        /// None for a new file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old: Option<String>,
        new: String,
    },
    Image {
        data: String,
        mime: String,
    },
    /// A resource, a link to one, or a sound. Models get the text that stands for it in the outcome.
    Block {
        block: Box<Content>,
    },
    /// A terminal of one editor, which only that editor can show, and only while it lives. Others get the text that
    /// stands beside it.
    Terminal {
        id: String,
        owner: ConnectionId,
    },
}

impl ToolContent {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    pub fn weight(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Diff { old, new, .. } => old.as_ref().map_or(0, String::len) + new.len(),
            Self::Image { data, .. } => data.len(),
            Self::Block { block } => block.weight(),
            Self::Terminal { id, .. } => id.len(),
        }
    }
}

/// How a call ended. A failure is an outcome that the model hears, not an error of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub verdict: OutcomeKind,
    /// What the model hears.
    pub text: String,
    /// What people see; empty means what the model hears.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ToolContent>,
    /// Facts for programs: exit status, sizes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub raw: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Completed,
    Failed,
    Denied,
    Cancelled,
    /// The daemon ended before the call did.
    Interrupted,
}

impl Outcome {
    pub fn completed(text: impl Into<String>) -> Self {
        Self::of(OutcomeKind::Completed, text)
    }

    pub fn failed(text: impl Into<String>) -> Self {
        Self::of(OutcomeKind::Failed, text)
    }

    pub fn denied() -> Self {
        Self::of(OutcomeKind::Denied, "Permission denied.")
    }

    /// Denied by somebody who says why.
    pub fn denied_because(reason: &str) -> Self {
        Self::of(OutcomeKind::Denied, format!("Permission denied: {reason}"))
    }

    pub fn cancelled() -> Self {
        Self::of(OutcomeKind::Cancelled, "Cancelled by the user.")
    }

    fn of(verdict: OutcomeKind, text: impl Into<String>) -> Self {
        Self { verdict, text: text.into(), content: Vec::new(), raw: Value::Null }
    }

    #[must_use]
    pub fn showing(mut self, content: Vec<ToolContent>) -> Self {
        self.content = content;
        self
    }

    #[must_use]
    pub fn with_raw(mut self, raw: Value) -> Self {
        self.raw = raw;
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    pub content: String,
    #[serde(default)]
    pub priority: Priority,
    #[serde(default)]
    pub status: PlanStatus,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    High,
    #[default]
    Medium,
    Low,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
}

/// When the operator's hooks are asked.
#[derive(Clone, Copy, Debug)]
pub enum HookPoint<'a> {
    /// The call is about to run; a refusal denies it.
    BeforeTool { card: &'a ToolCard },
    /// The call has ended; the model hears a refusal with the outcome.
    AfterTool { card: &'a ToolCard, outcome: &'a Outcome },
    /// The turn is about to end; if the model ends it, a refusal is said to the model, and the turn goes on.
    TurnEnd { reason: &'a StopReason },
}

/// Something that a person who is not looking may want to know.
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    pub event: NotificationKind,
    /// The call that waits, or why the turn ended.
    pub about: &'a str,
    /// The session's.
    pub title: Option<&'a str>,
    /// Whether a client is attached, and so somebody may be looking.
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

/// The tools of all sessions.
pub trait Toolbox: Send + Sync + 'static {
    /// What a mode offers to a session.
    fn offer(&self, session: &SessionId, mode: Mode) -> Vec<ToolSpec>;

    /// From now on the session has these servers of its own, in place of those before. They connect in the background, and
    /// what becomes of them comes by the stream, which must be read, and ends when the session is closed or equipped anew,
    /// or has no servers. Returns at once.
    fn set_servers(&self, _outfit: McpRequest) -> Option<BoxStream<'static, McpEvent>> {
        None
    }

    /// Keeps the servers that a client passed for a session beyond its time in memory; an empty list forgets them. If that
    /// fails, the answer is a sentence for the person. Resolves when they are written.
    fn keep_servers(&self, _session: &SessionId, _servers: Vec<Server>) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// The servers that are kept for a session.
    fn kept_servers(&self, _session: &SessionId) -> BoxFuture<'static, Vec<Server>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// The sessions for which servers are kept.
    fn sessions_with_servers(&self) -> BoxFuture<'static, Vec<SessionId>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What must happen before the model hears of this prompt: servers that still connect are waited for, a while, what the
    /// prompt names of theirs is fetched, and files that a rule denies or asks about are taken out. None if there is
    /// nothing to do. Dropping the future gives it up.
    fn prepare(&self, _session: &SessionId, _cwd: &Path, _prompt: &[Content]) -> Option<BoxFuture<'static, Prepared>> {
        None
    }

    /// What the person can type in a session beyond our own commands.
    fn commands(&self, _session: &SessionId) -> Vec<Command> {
        Vec::new()
    }

    /// How the session's servers are.
    fn servers(&self, _session: &SessionId) -> Vec<ServerCard> {
        Vec::new()
    }

    /// Looks at a request and says what it would do, without doing it. A refusal (unknown tool, bad input, a path
    /// outside the roots, a tool that the mode leaves out) is what the model hears.
    fn plan(&self, request: ToolRequest, site: Arc<CallSite>) -> BoxFuture<'static, Result<Box<dyn Job>, Refusal>>;

    /// Plans a call again that was planned before the daemon restarted, and that the log shows as this card. What the card
    /// shows of a file counts as seen by the model, which has read it before.
    fn plan_again(
        &self,
        request: ToolRequest,
        _recorded: ToolCard,
        site: Arc<CallSite>,
    ) -> BoxFuture<'static, Result<Box<dyn Job>, Refusal>> {
        self.plan(request, site)
    }

    /// What the operator's rules say of a call in a session that works in this folder; None if they do not speak of it.
    /// Must not wait for anything.
    fn rule(&self, _card: &ToolCard, _cwd: &Path) -> Option<Verdict> {
        None
    }

    /// The rules that count in this folder, those of its project included, which may have to be read first.
    fn rules(&self, _cwd: &Path) -> BoxFuture<'static, RuleTexts> {
        Box::pin(std::future::ready(RuleTexts::default()))
    }

    /// Asks the hooks for this moment; they refuse by a reason. None if there are none. Dropping the future ends the hook
    /// that runs.
    fn consult(&self, _moment: HookPoint<'_>, _site: &Arc<CallSite>) -> Option<BoxFuture<'static, Option<String>>> {
        None
    }

    /// Tells the person by whatever means the operator has set up. Returns at once.
    fn notify(&self, _news: Notification<'_>, _site: &Arc<CallSite>) {}

    /// Puts files back, each only if it holds what is expected; the others are left, with a reason.
    fn restore(&self, steps: Vec<Restore>, _site: Arc<CallSite>) -> BoxFuture<'static, Vec<Restored>> {
        let left = Some("these tools keep no files".to_owned());
        let left = steps.into_iter().map(|step| Restored { path: step.path, left: left.clone() }).collect();
        Box::pin(std::future::ready(left))
    }

    /// The commands that calls of this session have left running in the background, as people know them.
    fn background(&self, _session: &SessionId) -> Vec<String> {
        Vec::new()
    }

    /// The turn was cancelled: what its calls left running in the background is ended. Returns at once; everybody is
    /// gone within 2 seconds. What another turn started goes on.
    fn cancel_turn(&self, _session: &SessionId, _turn: &TurnId) {}

    /// The session leaves memory, or died: everything that its calls left running is ended, and forgotten. Returns at
    /// once; everybody is gone within 2 seconds.
    fn close(&self, _session: &SessionId) {}
}

/// One call, planned and ready to run.
pub trait Job: Send + 'static {
    fn card(&self) -> &ToolCard;

    /// Does it. When the desk says `cancelled`, the job ends what it started and returns; if its future is dropped
    /// instead, what it started must end too.
    fn run(self: Box<Self>, desk: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome>;
}

/// Why a request was not even planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub kind: ToolKind,
    pub title: String,
    pub reason: String,
}

/// A task for a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAgentTask {
    pub task: String,
    /// Which tools it has.
    pub mode: Mode,
    /// None for the session's.
    pub model: Option<ModelId>,
}

/// What a running tool may ask of its session.
pub trait ToolHost: Send + Sync + 'static {
    /// Has a sub-agent do a task and gives its report. Dropping the future ends the sub-agent.
    fn delegate(&self, _errand: SubAgentTask) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::failed("There are no sub-agents here.")))
    }

    /// Changes the session's mode, which the person has agreed to. It counts from the next step of the turn on.
    fn switch_mode(&self, _mode: Mode) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::failed("The mode cannot be changed here.")))
    }

    /// Shows how far the call has come; replaces what was shown before. Throttled by the caller's good sense.
    fn progress(&self, content: Vec<ToolContent>);

    /// Resolves when the call should end.
    fn cancelled(&self) -> BoxFuture<'static, ()>;
}
