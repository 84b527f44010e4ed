//! Classifies the editor's requests by their effect, as far as the bridge needs.

use wire::method;

/// The effect of a request, which matters if the answer is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Has no effect, so it can be sent again.
    ReadOnly,
    /// Opens a session that the answer names.
    Open,
    /// Opens this session. Sending it again is safe: it replays the session from the start, as the
    /// first attempt would have.
    Load(String),
    Prompt(String),
    /// Closes or deletes this session.
    Close(String),
    /// May have had an effect.
    Effect,
}

impl RequestKind {
    pub(super) fn of(method: &str, session: String) -> Self {
        match method {
            method::INITIALIZE
            | method::SESSION_LIST
            | method::SESSIONS_LIST
            | method::STATUS
            | method::SESSIONS
            | method::CONNECTIONS
            | method::MODELS => Self::ReadOnly,
            method::SESSION_NEW | method::SESSION_FORK => Self::Open,
            method::SESSION_LOAD | method::SESSION_RESUME => Self::Load(session),
            method::SESSION_PROMPT => Self::Prompt(session),
            method::SESSION_CLOSE | method::SESSION_DELETE => Self::Close(session),
            _ => Self::Effect,
        }
    }

    pub(super) fn loads(&self) -> Option<&str> {
        match self {
            RequestKind::Load(session) => Some(session),
            RequestKind::ReadOnly
            | RequestKind::Open
            | RequestKind::Prompt(_)
            | RequestKind::Close(_)
            | RequestKind::Effect => None,
        }
    }

    pub(super) fn prompts(&self) -> Option<&str> {
        match self {
            RequestKind::Prompt(session) => Some(session),
            RequestKind::ReadOnly
            | RequestKind::Open
            | RequestKind::Load(_)
            | RequestKind::Close(_)
            | RequestKind::Effect => None,
        }
    }
}
