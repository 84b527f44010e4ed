//! Tools as the actors see them: the tools on offer, what a call would do, and the port that runs
//! it.

mod hooks;
mod host;
mod names;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::{Restore, Restored};
use crate::instructions::SlashCommandCard;
use crate::mcp::{McpEvent, McpRequest, McpServer, PreparedPrompt, ServerCard};
use crate::model::ModelInfo;
use crate::permission::RuleTexts;
use crate::{Access, AgentId, CallSite, ConnectionId, Content, Mode, ModelId, SessionId, TurnId, Verdict};

pub use hooks::{HookPoint, HooksRun, Notification, NotificationKind};
pub use host::ToolHost;
pub use names::{
    AGENT, APPLY_PATCH, ASK_USER, BASH, BASH_INPUT, DIAGNOSTICS, MEMORY, PROPOSE_PLAN, SWITCH_MODE, UPDATE_PLAN,
};

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// The JSON Schema of the input.
    pub schema: Value,
    /// The tool changes nothing, so several of its calls may run at once.
    pub read_only: bool,
}

impl ToolSpec {
    /// Whether the tool is offered to this model.
    pub fn suits(&self, model: &ModelInfo) -> bool {
        self.name != APPLY_PATCH || model.patches
    }
}

/// A call as the model requested it, before it is planned.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRequest {
    pub tool: String,
    pub input: Value,
}

/// What a tool does, for clients that show it and for rules.
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

/// A description of what one call would do, for the user who must allow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCard {
    pub tool: String,
    pub title: String,
    pub kind: ToolKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    pub input: Value,
    /// Content shown before the call runs: the diff of an edit, or the command of a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preview: Vec<ToolContent>,
    pub access: Access,
}

impl ToolCard {
    /// Builds the card of a call that the model is still writing, when only its tool and title are
    /// known.
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

impl ToolCard {
    /// The shell command that the call runs; empty if it runs none.
    pub fn command(&self) -> &str {
        let command = (self.tool == BASH).then(|| self.input.get("command")?.as_str());
        command.flatten().unwrap_or_default()
    }
}

/// A report of a command in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundReport {
    pub handle: String,
    pub what: BackgroundChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackgroundChange {
    Wrote(String),
    Ended { exit_code: Option<i32>, signal: Option<i32> },
}

/// A file that a call touches, and a line in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Location {
    pub path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// One piece of what a call shows to users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolContent {
    Text {
        text: String,
    },
    Diff {
        path: PathBuf,
        /// The old text; None for a new file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old: Option<String>,
        new: String,
    },
    Image {
        data: String,
        mime: String,
    },
    /// A resource, a link to one, or audio. Models get the outcome's text instead.
    Block {
        block: Box<Content>,
    },
    /// A terminal of one editor. Only that editor can show it, and only while the terminal exists;
    /// other clients get the text beside it.
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

/// How a call ended. A failure is an outcome for the model, not an error of acpd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub verdict: OutcomeKind,
    /// The text for the model.
    pub text: String,
    /// The content for people; if it is empty, they see `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ToolContent>,
    /// The handle of the command or sub-agent that the call started in the background, if there is
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// Data for programs, such as the exit status and sizes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub raw: Value,
    /// Whether an import brought these changes of files. They are then only what its exporter
    /// wrote, and cannot be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

/// How a call ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Completed,
    Failed,
    Denied,
    Cancelled,
    /// The daemon stopped before the call ended.
    Interrupted,
}

impl Outcome {
    pub fn completed(text: impl Into<String>) -> Self {
        Self::of(OutcomeKind::Completed, text)
    }

    pub fn failed(text: impl Into<String>) -> Self {
        Self::of(OutcomeKind::Failed, text)
    }

    /// Builds the outcome of a call that the user was asked about and declined, with what they
    /// wrote.
    pub fn declined(words: Option<&str>) -> Self {
        const DECLINED: &str = "Permission denied: the user declined this call.";
        Self::of(
            OutcomeKind::Denied,
            match words {
                Some(words) => format!("{DECLINED} The user wrote: {words}"),
                None => DECLINED.to_owned(),
            },
        )
    }

    /// Builds the outcome of a call that an earlier "never" answer of the user covers.
    pub(crate) fn declined_before() -> Self {
        Self::of(OutcomeKind::Denied, "Permission denied: the user has permanently declined calls like this one.")
    }

    pub fn denied() -> Self {
        Self::of(OutcomeKind::Denied, "Permission denied.")
    }

    /// Builds the outcome of a call that was denied with a reason.
    pub fn denied_because(reason: &str) -> Self {
        Self::of(OutcomeKind::Denied, format!("Permission denied: {reason}"))
    }

    pub fn cancelled() -> Self {
        Self::of(OutcomeKind::Cancelled, "Cancelled by the user.")
    }

    fn of(verdict: OutcomeKind, text: impl Into<String>) -> Self {
        Self { verdict, text: text.into(), content: Vec::new(), background: None, raw: Value::Null, imported: false }
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

/// One entry of the model's plan.
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

/// The tools of all sessions.
pub trait Toolbox: Send + Sync + 'static {
    /// Returns the tools that a mode offers to a session. They are shared, because every request to
    /// a model has all of them.
    fn offer(&self, session: &SessionId, mode: Mode) -> Vec<Arc<ToolSpec>>;

    /// Returns what the session's MCP servers tell models about their use, marked as their words;
    /// empty if they say nothing.
    fn server_instructions(&self, _session: &SessionId) -> String {
        String::new()
    }

    /// Replaces the session's own MCP servers and returns at once. The servers connect in the
    /// background. The stream reports their changes and must be read; it ends when the session is
    /// closed, when its servers are set again, or if it has none. A toolbox without MCP returns
    /// None.
    fn set_servers(&self, _request: McpRequest) -> Option<BoxStream<'static, McpEvent>> {
        None
    }

    /// Stores the servers that a client passed, so that they outlive the session's time in memory;
    /// an empty list deletes them. Resolves when they are written, with a sentence for the user
    /// if that failed.
    fn keep_servers(&self, _session: &SessionId, _servers: Vec<McpServer>) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the servers that are stored for a session.
    fn kept_servers(&self, _session: &SessionId) -> BoxFuture<'static, Vec<McpServer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Lists the sessions that have stored servers, or other data that `forget` deletes.
    fn sessions_with_servers(&self) -> BoxFuture<'static, Vec<SessionId>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Prepares a prompt for the model: waits a while for servers that are still connecting,
    /// fetches the resources and prompts of servers that it names, and removes files that a rule
    /// denies or asks about. None if there is nothing to do. Dropping the future cancels it.
    fn prepare(
        &self,
        _session: &SessionId,
        _cwd: &Path,
        _prompt: &[Content],
    ) -> Option<BoxFuture<'static, PreparedPrompt>> {
        None
    }

    /// Lists the slash commands of a session beyond acpd's own.
    fn commands(&self, _session: &SessionId) -> Vec<SlashCommandCard> {
        Vec::new()
    }

    /// Returns the status of the session's servers.
    fn servers(&self, _session: &SessionId) -> Vec<ServerCard> {
        Vec::new()
    }

    /// Plans a call: works out what it would do, without doing it. A refusal (unknown tool, bad
    /// input, a path outside the roots, a tool that the mode excludes) is returned to the model.
    fn plan(&self, request: ToolRequest, site: Arc<CallSite>) -> BoxFuture<'static, Result<Box<dyn Job>, PlanRefusal>>;

    /// Plans a call again that was planned before the daemon restarted and that the log shows as
    /// this card. The files that the card shows count as seen, because the model has read them
    /// before.
    fn plan_again(
        &self,
        request: ToolRequest,
        _recorded: ToolCard,
        site: Arc<CallSite>,
    ) -> BoxFuture<'static, Result<Box<dyn Job>, PlanRefusal>> {
        self.plan(request, site)
    }

    /// Returns the verdict of the rules on a planned call in a session that works in this folder,
    /// or None if no rule applies. Comparing a long command with many rules takes a while.
    fn rule(&self, _card: &ToolCard, _cwd: &Path) -> BoxFuture<'static, Option<Verdict>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the rules that apply in this folder, including those of its project, which may have
    /// to be read first.
    fn rules(&self, _cwd: &Path) -> BoxFuture<'static, RuleTexts> {
        Box::pin(std::future::ready(RuleTexts::default()))
    }

    /// Runs the hooks for this point. The result is the reason if a hook refuses. None if there are
    /// no hooks. Dropping the future ends the running hook.
    fn run_hooks(&self, _point: HookPoint<'_>, _site: &Arc<CallSite>) -> Option<BoxFuture<'static, Option<String>>> {
        None
    }

    /// Completes the outcome of a call after its hooks: adds the changes that the hooks made to the
    /// files that the call had changed, and the errors that the change caused. None if there is
    /// nothing to add. Dropping the future cancels this.
    fn complete(
        &self,
        _outcome: &Outcome,
        _hooks: HooksRun,
        _site: &Arc<CallSite>,
    ) -> Option<BoxFuture<'static, Outcome>> {
        None
    }

    /// Notifies the user by the means that the operator has configured. Returns at once.
    fn notify(&self, _notification: Notification<'_>, _site: &Arc<CallSite>) {}

    /// Restores files. A file that does not hold what is expected is left unchanged, with a reason.
    fn restore(&self, steps: Vec<Restore>, _site: Arc<CallSite>) -> BoxFuture<'static, Vec<Restored>> {
        let left = Some("these tools keep no files".to_owned());
        let left = steps.into_iter().map(|step| Restored { path: step.path, left: left.clone() }).collect();
        Box::pin(std::future::ready(left))
    }

    /// Lists the commands that this session's calls have left running in the background, as they
    /// are shown to users.
    fn background(&self, _session: &SessionId) -> Vec<String> {
        Vec::new()
    }

    /// Reports what this session's commands in the background write, and how they end. Asked for
    /// once per session; the stream must be read.
    fn background_reports(&self, _session: &SessionId) -> Option<BoxStream<'static, BackgroundReport>> {
        None
    }

    /// Ends a command in the background. Returns at once, and whether the command still ran.
    fn stop_background(&self, _session: &SessionId, _handle: &str) -> bool {
        false
    }

    /// Ends what the calls of a cancelled turn left running in the background. Returns at once; all
    /// processes are gone within 2 seconds. Those of other turns continue.
    fn cancel_turn(&self, _session: &SessionId, _turn: &TurnId) {}

    /// Deletes what is kept for a session outside its log, because the session was deleted. Returns
    /// at once.
    fn forget(&self, _session: &SessionId) {}

    /// Ends and forgets everything that a session's calls left running, because the session was
    /// evicted or died. Returns at once; all processes are gone within 2 seconds.
    fn close(&self, _session: &SessionId) {}

    /// Ends the session's language servers in this folder, and waits until they and all MCP servers
    /// there have ended. The session has moved its own MCP servers out of the folder before.
    /// Returns false if some still run.
    fn leave_folder(&self, _session: &SessionId, _folder: PathBuf) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// One call, planned and ready to run.
pub trait Job: Send + 'static {
    fn card(&self) -> &ToolCard;

    /// Runs the call. When the host reports `cancelled`, the job ends what it started and returns.
    /// If the future is dropped instead, what it started must end, too.
    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome>;
}

/// Why a request could not be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRefusal {
    pub kind: ToolKind,
    pub title: String,
    pub reason: String,
}

/// A request of a call to the session's sub-agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubAgentRequest {
    Start(SubAgentTask),
    /// Waits for the report of a sub-agent that works in the background.
    Collect(AgentId),
}

/// A task for a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAgentTask {
    pub task: String,
    /// The mode that selects its tools.
    pub mode: Mode,
    /// The only tools that it may use; None for all tools of its mode.
    pub tools: Option<Vec<String>>,
    /// The model to use; None for the session's.
    pub model: Option<ModelId>,
    /// Instructions in addition to the task, if a custom agent is used.
    pub instructions: Option<String>,
    /// The sub-agent whose conversation this task continues.
    pub continues: Option<AgentId>,
    /// Whether the call ends at once and the report is collected later.
    pub background: bool,
}
