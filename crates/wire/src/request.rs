//! What a client can ask for, in the domain's words.

use std::path::PathBuf;

use domain::checkpoint::RestoreDirection;
use domain::mcp::Server;
use domain::{Choice, ClientInfo, Content, Environment, Event, MessageId, Place, QuestionId, SessionId};

use crate::method;
use crate::rpc::Id;

/// A request, checked and made whole.
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
    /// `session/set_mode`, `session/set_model`, `session/set_config_option` and `config/set`, all of which set one option.
    Configure(Configure),
    Authenticate {
        method: String,
    },
    Logout,
    /// `session/cancel` sent as a request.
    Cancel {
        session: SessionId,
    },
    Hello(Hello),
    /// `_acpd/resume`: goes on after a place that the client has seen.
    Resume {
        open: OpenSession,
        after: Place,
    },
    /// `_acpd/cancel`, `_acpd/answer`, `_acpd/close`, `_acpd/delete` and `_acpd/rename`: `ctl` steers a session that it has
    /// not opened.
    Steer {
        session: SessionId,
        how: Steer,
    },
    /// `_acpd/export`: a page of a session's log, from this number on.
    Export {
        session: SessionId,
        from: u64,
    },
    /// `_acpd/import`: a new session with a log from elsewhere, or a part of it.
    Import(Import),
    /// `_acpd/wait`: answered when a session that the client has open leaves memory.
    Wait {
        session: SessionId,
    },
    /// `_acpd/undo`: puts files back to what they were before the last turn that changed any, or forth again.
    Undo {
        session: SessionId,
        way: RestoreDirection,
    },
    /// `_acpd/mcp`: the MCP servers of a session, or of all that are in memory.
    DescribeServers {
        session: Option<SessionId>,
    },
    /// `_acpd/permissions`: what decides about a session's calls.
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
    /// `_acpd/stop`: the daemon ends in good order.
    Stop,
    /// `_acpd/restart`: the daemon becomes the installed program, after the running turns or `now`.
    Reload,
    Restart {
        now: bool,
    },
}

/// A part of a log.
#[derive(Debug)]
pub struct Import {
    pub events: Vec<Event>,
    /// The import that it goes on with; none if it is the first part.
    pub into: Option<SessionId>,
    /// Whether another part follows.
    pub more: bool,
}

/// What `ctl` can do to a session.
#[derive(Debug, PartialEq)]
pub enum Steer {
    Cancel,
    /// Answers a permission question, or the only one that is open.
    Answer {
        question: Option<QuestionId>,
        choice: Choice,
    },
    Close,
    Delete,
    Rename {
        title: String,
    },
}

/// A notification.
#[derive(Debug)]
pub enum ClientNotification {
    CancelTurn {
        session: SessionId,
    },
    /// `$/cancel_request`: the client no longer wants an answer to this request of its own.
    CancelRequest {
        request: Id,
    },
    /// Anything else, which is ignored.
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

/// What a client can do for us.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientCapabilities {
    pub read_files: bool,
    pub write_files: bool,
    pub terminal: bool,
    /// Shows passing notices.
    pub notices: bool,
    /// Shows when older messages are replaced by a summary.
    pub compaction: bool,
    /// Opens an address that we ask it to.
    pub elicits_url: bool,
    /// Shows a form that we ask it to.
    pub elicits_form: bool,
    /// Runs a command of ours in a terminal to log in.
    pub terminal_login: bool,
}

#[derive(Debug, PartialEq)]
pub struct NewSession {
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub servers: Vec<Server>,
}

#[derive(Debug, PartialEq)]
pub struct OpenSession {
    pub session: SessionId,
    /// None where the client left it out: the session's own.
    pub cwd: Option<PathBuf>,
    /// Where the client left them out there are none.
    pub extra_roots: Vec<PathBuf>,
    /// None where the client left them out: the session's own.
    pub servers: Option<Vec<Server>>,
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
}

#[derive(Debug, PartialEq)]
pub struct Configure {
    pub session: SessionId,
    /// The option's id: `mode`, `model`, `approval`, ...
    pub option: String,
    pub value: String,
    pub answer: ConfigureAnswer,
}

/// What the method that was used answers with.
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
    pub home: Option<PathBuf>,
    /// The client comes for one prompt: its sessions need not stay in memory once it has left.
    pub one_shot: bool,
}
