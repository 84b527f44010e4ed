//! The versions of the protocol. `ProtocolVersion` has one method for everything that depends on
//! the version that a client speaks.

use domain::card::ActivityCard;
use domain::editor::Elicitation;
use domain::history::Page;
use domain::instructions::SlashCommandCard;
use domain::{Extra, ExtraSet, SessionId, StopReason, Usage};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer_data::{AgentInfo, SessionOptions};
use crate::client_requests;
use crate::decode::permission::{self, PermissionReply};
use crate::request::{ClientCapabilities, ClientRequest};
use crate::rpc::{Id, RpcError};
use crate::{v1, v2};

/// A version of the Agent Client Protocol that acpd speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolVersion {
    V1,
    V2,
}

impl ProtocolVersion {
    pub const ALL: [ProtocolVersion; 2] = [Self::V1, Self::V2];

    pub fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// Chooses the highest version that is enabled and not above the requested one.
    pub fn negotiate(requested: i64, on: &[u16]) -> Result<Self, RpcError> {
        let is_possible = |version: &Self| on.contains(&version.number()) && i64::from(version.number()) <= requested;
        Self::ALL.into_iter().rev().find(is_possible).ok_or_else(|| {
            RpcError::new(
                RpcError::UNSUPPORTED_VERSION,
                "Unsupported protocol version",
                json!({ "requested": requested, "supported": on }),
            )
        })
    }

    /// The capabilities that a client has in this version, given those that it claims.
    pub fn capabilities(self, claimed: ClientCapabilities) -> ClientCapabilities {
        match self {
            Self::V1 => claimed,
            // Clients have no files or terminals for the agent, and all of them receive these
            // updates.
            Self::V2 => ClientCapabilities {
                read_files: false,
                write_files: false,
                terminal: false,
                notices: true,
                compaction: true,
                switches: true,
                ..claimed
            },
        }
    }

    /// Whether the answer that opens a session lists its slash commands. If not, an update follows.
    pub fn lists_commands_when_opened(self) -> bool {
        match self {
            Self::V1 => false,
            Self::V2 => true,
        }
    }

    /// Whether closing a session that the client does not have open succeeds.
    pub fn allows_closing_unopened_sessions(self) -> bool {
        match self {
            Self::V1 => false,
            Self::V2 => true,
        }
    }

    /// The error as this version expresses it. `session` is the session that the request names.
    pub fn error(self, error: RpcError, session: Option<&SessionId>) -> RpcError {
        match (self, session) {
            (Self::V2, Some(session)) if error == RpcError::unknown_session() => {
                RpcError::new(RpcError::NOT_FOUND, "Session not found", json!({ "sessionId": session }))
            }
            (Self::V1 | Self::V2, _) => error,
        }
    }

    /// Decodes a request.
    pub fn request(self, method: &str, params: Option<&RawValue>) -> Result<ClientRequest, RpcError> {
        match self {
            Self::V1 => v1::decode::request(method, params),
            Self::V2 => v2::decode::request(method, params),
        }
    }

    /// Decodes a reply to a permission question.
    pub fn permission_answer(self, result: Result<&RawValue, &RpcError>) -> PermissionReply {
        match self {
            Self::V1 => permission::lenient(result),
            Self::V2 => v2::decode::permission_answer(result),
        }
    }

    /// The answer to `initialize`.
    pub fn initialized(self, info: &AgentInfo) -> Value {
        match self {
            Self::V1 => v1::encode::initialized(info),
            Self::V2 => v2::encode::initialized(info),
        }
    }

    /// The answer to a request that opened a session. `id` is present only for new sessions.
    pub fn session_opened(
        self,
        id: Option<&SessionId>,
        session_options: &SessionOptions,
        commands: &[SlashCommandCard],
    ) -> Value {
        match self {
            Self::V1 => v1::encode::session_opened(id, session_options),
            Self::V2 => v2::encode::session_opened(id, session_options, commands),
        }
    }

    /// A complete `session/update` notification that lists the slash commands.
    pub fn commands(self, session: &SessionId, commands: &[SlashCommandCard]) -> Vec<u8> {
        match self {
            Self::V1 => v1::encode::commands(session, commands),
            Self::V2 => v2::encode::commands(session, commands),
        }
    }

    /// All options of a session, as `configOptions` in an answer.
    pub fn config_options(self, session_options: &SessionOptions) -> Value {
        match self {
            Self::V1 => v1::encode::config_options(session_options),
            Self::V2 => v2::encode::session_options::options(session_options).into(),
        }
    }

    /// The answer to `session/list`.
    pub fn session_list(self, page: &Page, activity: impl Fn(&SessionId) -> ActivityCard) -> Value {
        match self {
            Self::V1 => v1::encode::session_list(page, activity),
            Self::V2 => v2::encode::session_list(page, activity),
        }
    }

    /// The answer to a prompt that the client withdrew before it started a turn.
    pub fn withdrawn_prompt(self, extras: ExtraSet) -> Result<Value, RpcError> {
        match self {
            Self::V1 => {
                let usage = extras.has(Extra::Usage).then(Usage::default);
                v1::encode::prompt_answer(&StopReason::Cancelled, usage.as_ref())
            }
            Self::V2 => Err(v2::encode::prompt_dropped(&StopReason::Cancelled)),
        }
    }

    /// Parameters that ask the client to open a URL while its request `id` is in progress.
    pub fn elicit_url(self, id: &Id, elicitation: &str, address: &str, message: &str) -> Value {
        match self {
            Self::V1 => v1::encode::elicit_url(id, elicitation, address, message),
            Self::V2 => v2::encode::elicit_url(id, elicitation, address, message),
        }
    }

    /// Parameters of `elicitation/create`, which asks the user. Returns `None` for a form whose
    /// fields the protocol cannot express.
    pub fn elicit(self, session: &SessionId, elicitation: Elicitation) -> Option<Value> {
        match self {
            Self::V1 => client_requests::elicit(session, elicitation),
            Self::V2 => Some(v2::encode::elicit(session, elicitation)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_at_or_below_the_requested_one_is_spoken() {
        let spoken = |requested, on: &[u16]| ProtocolVersion::negotiate(requested, on).map(ProtocolVersion::number);
        assert_eq!([spoken(1, &[1, 2]), spoken(2, &[1, 2]), spoken(i64::MAX, &[1, 2])], [Ok(1), Ok(2), Ok(2)]);
        assert_eq!([spoken(2, &[1]), spoken(7, &[2])], [Ok(1), Ok(2)]);
        for (requested, on) in [(0, [1, 2].as_slice()), (-5, &[1, 2]), (1, &[2])] {
            let error = spoken(requested, on).unwrap_err();
            assert_eq!(error.code, -32022);
            assert_eq!(error.data, Some(json!({ "requested": requested, "supported": on })));
        }
    }

    #[test]
    fn an_unknown_session_has_the_code_of_the_version() {
        let session = SessionId::from("s");
        let error_code = |version: ProtocolVersion| version.error(RpcError::unknown_session(), Some(&session)).code;
        assert_eq!([error_code(ProtocolVersion::V1), error_code(ProtocolVersion::V2)], [-32602, -32002]);
    }
}
