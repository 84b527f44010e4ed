//! The requests and notifications of clients, decoded and independent of the protocol's version.

use std::path::PathBuf;

use domain::checkpoint::RestoreDirection;
use domain::hosted::OptionValue;
use domain::mcp::McpServer;
use domain::session::BusyPolicy;
use domain::{
    CallId, ClientInfo, Content, DaemonFolders, Environment, Event, LogPosition, MessageId, QuestionId, Selection,
    SessionId,
};

use crate::method;
use crate::rpc::Id;

/// A decoded and checked request.
#[derive(Debug)]
pub enum ClientRequest {
    Initialize(Initialize),
    NewSession(NewSession),
    LoadSession(OpenSession),
    ListSessions(ListSessions),
    Prompt(Prompt),
    CloseSession {
        session: SessionId,
    },
    DeleteSession {
        session: SessionId,
    },
    ResumeSession(OpenSession),
    ForkSession(OpenSession),
    /// Sets one option: `session/set_mode`, `session/set_model`, `session/set_config_option`,
    /// `config/set`.
    Configure(Configure),
    Authenticate {
        method: String,
    },
    Logout,
    /// `session/cancel` sent as a request.
    Cancel {
        session: SessionId,
    },
    /// Ends one piece of work of a session: `tool_call/cancel`, `terminal/cancel`.
    CancelWork {
        session: SessionId,
        work: RunningWork,
    },
    Hello(Hello),
    /// `_acpd/resume`: continues after the last position that the client received.
    Resume {
        open: OpenSession,
        after: LogPosition,
    },
    /// `_acpd/cancel`, `_acpd/answer`, `_acpd/close`, `_acpd/delete`, `_acpd/rename`: `ctl` acts on
    /// a session without opening it.
    SessionAction {
        session: SessionId,
        how: SessionAction,
    },
    /// `_acpd/export`: a page of a session's log, starting at this number.
    Export {
        session: SessionId,
        from: u64,
    },
    /// `_acpd/import`: creates a session from an exported log, or adds a part of one.
    Import(Import),
    /// `_acpd/wait`: answered when a session that the client has open is evicted from memory.
    Wait {
        session: SessionId,
    },
    /// `_acpd/undo`: restores the files to their state before the last turn that changed any, or
    /// reverses such a restoration.
    Undo {
        session: SessionId,
        way: RestoreDirection,
    },
    /// `_acpd/mcp`: the MCP servers of one session, or of all sessions in memory.
    DescribeServers {
        session: Option<SessionId>,
    },
    /// `_acpd/permissions`: the rules and grants that decide about a session's calls.
    DescribePermissions {
        session: SessionId,
    },
    /// `_acpd/session`: one session in detail.
    DescribeSession {
        session: SessionId,
    },
    /// `_acpd/sessions`: the live sessions, for `ctl`.
    DescribeSessions,
    DescribeConnections,
    DescribeStatus,
    /// `_acpd/models`: the models that the daemon knows, without asking a provider.
    DescribeModels,
    /// `_acpd/stop`: shuts the daemon down.
    Stop,
    /// `_acpd/reload`: reads the configuration again.
    Reload,
    /// `_acpd/restart`: replaces the daemon by the installed program, after the running turns or
    /// `now`.
    Restart {
        now: bool,
    },
}

/// A piece of work that a client can cancel, under the id that the client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunningWork {
    Call(CallId),
    /// The command of this call, in the foreground or in the background.
    Terminal(CallId),
}

impl ClientRequest {
    /// The session that the request is about and that must exist.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::LoadSession(open)
            | Self::ResumeSession(open)
            | Self::ForkSession(open)
            | Self::Resume { open, .. } => Some(&open.session),
            Self::Prompt(prompt) => Some(&prompt.session),
            Self::Configure(configure) => Some(&configure.session),
            Self::CloseSession { session }
            | Self::DeleteSession { session }
            | Self::Cancel { session }
            | Self::CancelWork { session, .. }
            | Self::SessionAction { session, .. }
            | Self::Export { session, .. }
            | Self::Wait { session }
            | Self::Undo { session, .. }
            | Self::DescribePermissions { session }
            | Self::DescribeSession { session } => Some(session),
            Self::DescribeServers { session } => session.as_ref(),
            Self::Initialize(_)
            | Self::NewSession(_)
            | Self::ListSessions(_)
            | Self::Authenticate { .. }
            | Self::Logout
            | Self::Hello(_)
            | Self::Import(_)
            | Self::DescribeSessions
            | Self::DescribeConnections
            | Self::DescribeStatus
            | Self::DescribeModels
            | Self::Stop
            | Self::Reload
            | Self::Restart { .. } => None,
        }
    }
}

/// Events to import: a whole log, or a part of one.
#[derive(Debug)]
pub struct Import {
    pub events: Vec<Event>,
    /// The import to continue, or `None` for the first part.
    pub into: Option<SessionId>,
    /// Whether another part follows.
    pub more: bool,
}

/// What `ctl` can do with a session.
#[derive(Debug, PartialEq)]
pub enum SessionAction {
    Cancel,
    /// Answers this question, or the only open one if none is given.
    Answer {
        question: Option<QuestionId>,
        selection: Selection,
        words: Option<String>,
    },
    Close,
    Delete,
    Rename {
        title: String,
    },
}

/// A decoded notification.
#[derive(Debug)]
pub enum ClientNotification {
    CancelTurn {
        session: SessionId,
    },
    /// `$/cancel_request`: the client no longer wants an answer to this earlier request.
    CancelRequest {
        request: Id,
    },
    /// Any other notification, which is ignored.
    Unknown {
        method: String,
    },
}

impl ClientNotification {
    pub fn method(&self) -> &str {
        match self {
            ClientNotification::CancelTurn { .. } => method::SESSION_CANCEL,
            ClientNotification::CancelRequest { .. } => method::CANCEL_REQUEST,
            ClientNotification::Unknown { method } => method,
        }
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Initialize {
    pub version: i64,
    pub client: Option<ClientInfo>,
    pub capabilities: ClientCapabilities,
}

/// The client's capabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientCapabilities {
    pub read_files: bool,
    pub write_files: bool,
    pub terminal: bool,
    /// Shows passing notices.
    pub notices: bool,
    /// Shows that older messages were replaced by a summary.
    pub compaction: bool,
    /// Opens a URL on request.
    pub elicits_url: bool,
    /// Shows a form on request.
    pub elicits_form: bool,
    /// Runs a login command in a terminal.
    pub terminal_login: bool,
    /// Shows options that are on or off.
    pub switches: bool,
    /// Sends words with the answer to a permission question.
    pub words: bool,
}

#[derive(Debug, PartialEq)]
pub struct NewSession {
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub servers: Vec<McpServer>,
    /// The agent that the client wants to answer, from `_meta.acpd.agent`. `native` is the engine
    /// of acpd itself.
    pub agent: Option<String>,
    /// The git worktree in which the session is to work, from `_meta.acpd.worktree`.
    pub worktree: Option<WantedWorktree>,
}

/// The worktree that a client wants for a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedWorktree {
    /// A new one, whose name does not matter.
    Any,
    Named(String),
}

#[derive(Debug, PartialEq)]
pub struct OpenSession {
    pub session: SessionId,
    /// `None` if the client omitted it; the session keeps its own.
    pub cwd: Option<PathBuf>,
    /// Empty if the client omitted them.
    pub extra_roots: Vec<PathBuf>,
    /// `None` if the client omitted them; the session keeps its own.
    pub servers: Option<Vec<McpServer>>,
}

#[derive(Debug, Default, PartialEq)]
pub struct ListSessions {
    pub cwd: Option<PathBuf>,
    pub cursor: Option<String>,
}

#[derive(Debug, PartialEq)]
pub struct Prompt {
    pub session: SessionId,
    pub content: Vec<Content>,
    pub message: Option<MessageId>,
    pub delivery: Delivery,
}

/// How a prompt was sent. That decides what happens while a turn runs, and when the request is
/// answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// `session/prompt`, answered when its turn has ended. `when_busy` is what the client asks for
    /// in `_meta`.
    Prompt { when_busy: Option<BusyPolicy> },
    /// `session/prompt` of version 2: joins the running turn, and is answered when the message is
    /// in the log. A prompt that is cancelled before that adds no message.
    Insertion,
    /// `_session/steering`, answered when the message has been inserted.
    Steering {
        /// Whether the message is refused if no turn runs. The client then sends it as a prompt.
        needs_turn: bool,
    },
}

#[derive(Debug, PartialEq)]
pub struct Configure {
    pub session: SessionId,
    /// The option's id: `mode`, `model`, `approval`, ...
    pub option: String,
    pub value: OptionValue,
    pub answer: ConfigureAnswer,
}

/// The form of the answer, which depends on the method that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigureAnswer {
    /// `{}`.
    Empty,
    /// The complete list of options.
    Options,
}

/// How a bridge, `ask` or `ctl` introduces itself.
#[derive(Debug, PartialEq)]
pub struct Hello {
    pub version: String,
    pub bridge: Option<String>,
    pub environment: Environment,
    /// The folders that the client expects the daemon to use.
    pub folders: DaemonFolders,
    /// The client sends one prompt; its sessions may be evicted as soon as it disconnects.
    pub one_shot: bool,
    /// The agent that answers its sessions.
    pub agent: Option<String>,
}
