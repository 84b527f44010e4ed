//! Encodes answers to clients as JSON.
//!
//! Everything is built from the schema crate's types, so it validates; the one exception is
//! `models`, which the schema does not have (see docs/protocol.md). Updates about a session come
//! from `translator`, not from here.

mod auth;
pub(crate) mod content;
pub(crate) mod permission;
pub(crate) mod session_options;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;
use domain::card::ActivityCard;
use domain::history::{Page, SessionMeta};
use domain::instructions::SlashCommandCard;
use domain::turn::FailureKind;
use domain::{Extra, ExtraSet, SessionId, StopReason, TurnFailure, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answer_data::AgentInfo;
use crate::method;
use crate::rpc::{self, RpcError};

pub use auth::elicit_url;
pub(crate) use auth::variable as key_variable;
pub use session_options::{config_options, session_opened};

/// The answer to `initialize`, with the capabilities of this build.
pub fn initialized(info: &AgentInfo) -> Value {
    let prompt = acp::PromptCapabilities::new().image(info.images).audio(info.audio).embedded_context(true);
    let capabilities = acp::AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompt)
        .mcp_capabilities(acp::McpCapabilities::new().http(true).sse(true))
        .session_capabilities(session_capabilities(info.extras))
        .auth(acp::AgentAuthCapabilities::new().logout(acp::LogoutCapabilities::new()))
        .meta(acpd_meta(json!({ "extensions": method::EXTENSIONS, "versions": info.versions })));
    let agent = acp::Implementation::new("acpd", info.version).title("acpd".to_owned());
    value(
        &acp::InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(agent)
            .meta(steering_offer())
            .auth_methods(auth::methods(info)),
    )
}

/// Announces `_session/steering` as other agents do.
fn steering_offer() -> Map<String, Value> {
    Map::from_iter([("steering".to_owned(), json!({ "supported": true }))])
}

fn session_capabilities(extras: ExtraSet) -> acp::SessionCapabilities {
    acp::SessionCapabilities::new()
        .list(acp::SessionListCapabilities::new())
        .resume(acp::SessionResumeCapabilities::new())
        .close(acp::SessionCloseCapabilities::new())
        .delete(acp::SessionDeleteCapabilities::new())
        .fork(extras.has(Extra::Fork).then(acp::SessionForkCapabilities::new))
        .additional_directories(acp::SessionAdditionalDirectoriesCapabilities::new())
}

/// The answer to `session/list`.
pub fn session_list(page: &Page, activity: impl Fn(&SessionId) -> ActivityCard) -> Value {
    let sessions = page.sessions.iter().map(|meta| session_info(meta, activity(&meta.id))).collect();
    value(&acp::ListSessionsResponse::new(sessions).next_cursor(page.next.clone()))
}

fn session_info(meta: &SessionMeta, activity: ActivityCard) -> acp::SessionInfo {
    acp::SessionInfo::new(meta.id.to_string(), content::path(&meta.cwd))
        .additional_directories(meta.extra_roots.iter().map(|root| content::path(root)).collect())
        .title(meta.title.clone())
        .updated_at(meta.updated.to_rfc3339())
        .meta(acpd_meta(session_facts(meta, activity)))
}

/// What acpd reports about a session in addition to the protocol's fields.
pub(crate) fn session_facts(meta: &SessionMeta, activity: ActivityCard) -> Value {
    let mut facts = json!({
        "createdAt": meta.created.to_rfc3339(),
        "state": activity.name(),
        "messageCount": meta.messages,
    });
    if let Some(agent) = &meta.agent {
        facts["agent"] = json!(agent);
    }
    if let Some(worktree) = &meta.worktree {
        facts["worktree"] = json!(worktree);
    }
    facts
}

/// The answer to `session/prompt`. `usage` is one of the extras.
pub fn prompt_answer(reason: &StopReason, usage: Option<&Usage>) -> Result<Value, RpcError> {
    let reason = match reason {
        StopReason::EndTurn => acp::StopReason::EndTurn,
        StopReason::MaxTokens => acp::StopReason::MaxTokens,
        StopReason::MaxTurnRequests => acp::StopReason::MaxTurnRequests,
        StopReason::Refusal => acp::StopReason::Refusal,
        StopReason::Cancelled => acp::StopReason::Cancelled,
        StopReason::Interrupted => {
            return Err(RpcError::retry("The daemon ended before the turn did"));
        }
        StopReason::Failed(failure) => return Err(turn_error(failure)),
    };
    let some = |tokens: u64| (tokens > 0).then_some(tokens);
    let usage = usage.map(|usage| {
        acp::Usage::new(usage.total(), usage.input, usage.output)
            .thought_tokens(some(usage.thought))
            .cached_read_tokens(some(usage.cached_read))
            .cached_write_tokens(some(usage.cached_write))
    });
    Ok(value(&acp::PromptResponse::new(reason).usage(usage)))
}

fn turn_error(failure: &TurnFailure) -> RpcError {
    let code = match failure.kind {
        FailureKind::Authentication => RpcError::AUTHENTICATION_REQUIRED,
        FailureKind::Internal
        | FailureKind::Model
        | FailureKind::UnknownModel
        | FailureKind::Overflow
        | FailureKind::History => RpcError::INTERNAL,
    };
    let data = match &failure.data {
        Value::Null => json!({ "advice": "send the prompt again; if it fails again, see the daemon's log" }),
        data => data.clone(),
    };
    RpcError::new(code, &failure.message, data)
}

/// A complete `session/update` notification that lists the slash commands.
pub fn commands(session: &SessionId, commands: &[SlashCommandCard]) -> Vec<u8> {
    let commands = commands.iter().map(|SlashCommandCard { name, description, hint }| {
        let input = hint.as_ref().map(acp::UnstructuredCommandInput::new);
        acp::AvailableCommand::new(name, description).input(input.map(acp::AvailableCommandInput::Unstructured))
    });
    let update = acp::AvailableCommandsUpdate::new(commands.collect());
    let update = acp::SessionUpdate::AvailableCommandsUpdate(update);
    rpc::notification(method::SESSION_UPDATE, &acp::SessionNotification::new(session.to_string(), update))
}

/// A `_meta` object with acpd's own data under the key `acpd`.
pub(crate) fn acpd_meta(what: Value) -> Map<String, Value> {
    Map::from_iter([("acpd".to_owned(), what)])
}

pub(crate) fn value(what: &impl Serialize) -> Value {
    serde_json::to_value(what).expect("the schema's types have string keys, and all paths in them were made UTF-8")
}

#[cfg(test)]
mod tests;
