//! Encodes answers to clients as JSON. Updates about a session come from `translator`, not from
//! here.

pub(crate) mod content;
pub(crate) mod session_options;

use domain::card::ActivityCard;
use domain::editor::{Elicitation, Form};
use domain::history::{Page, SessionMeta};
use domain::instructions::SlashCommandCard;
use domain::{SessionId, StopReason};
use serde_json::{Map, Value, json};

use crate::answer_data::{AgentInfo, ENV_METHOD, GITHUB_METHOD, SessionOptions, TERMINAL_METHOD};
use crate::method;
use crate::rpc::{self, Id, RpcError};
use crate::v1;

/// The number of this version.
const VERSION: u16 = 2;

/// The answer to `initialize`.
pub fn initialized(info: &AgentInfo) -> Value {
    let mut prompt = Map::from_iter([("embeddedContext".to_owned(), json!({}))]);
    for (name, can) in [("image", info.images), ("audio", info.audio)] {
        if can {
            prompt.insert(name.to_owned(), json!({}));
        }
    }
    json!({
        "protocolVersion": VERSION,
        "info": { "name": "acpd", "title": "acpd", "version": info.version },
        "capabilities": {
            "session": {
                "prompt": prompt,
                "mcp": { "stdio": {}, "http": {} },
                "delete": {},
                "additionalDirectories": {},
            },
            "auth": {},
            "_meta": { "acpd": { "extensions": method::EXTENSIONS, "versions": info.versions } },
        },
        "authMethods": auth_methods(info),
    })
}

fn auth_methods(info: &AgentInfo) -> Vec<Value> {
    let names: Vec<&str> = info.key_variables.iter().map(|variable| variable.name.as_str()).collect();
    let variables: Vec<Value> = info.key_variables.iter().map(v1::encode::key_variable).collect();
    let mut methods = vec![
        json!({
            "type": "agent",
            "methodId": ENV_METHOD,
            "name": "A key in the environment",
            "description": format!("One of {}", names.join(", ")),
            "_meta": { "acpd": { "variables": variables } },
        }),
        json!({
            "type": "agent",
            "methodId": GITHUB_METHOD,
            "name": "Log in to GitHub",
            "description": "For the models that GitHub offers; opens a page in the browser",
        }),
    ];
    if info.terminal_login {
        methods.push(json!({
            "type": "terminal",
            "methodId": TERMINAL_METHOD,
            "name": "Store a key",
            "description": "Asks for a provider and its key in a terminal",
            "args": ["--login"],
        }));
    }
    methods
}

/// The answer to a request that opened a session. `id` is present only for new sessions.
pub fn session_opened(
    id: Option<&SessionId>,
    session_options: &SessionOptions,
    commands: &[SlashCommandCard],
) -> Value {
    let mut opened = json!({});
    // The session of a child agent may have neither; empty lists are omitted.
    for (name, list) in
        [("configOptions", session_options::options(session_options)), ("availableCommands", available(commands))]
    {
        if !list.is_empty() {
            opened[name] = list.into();
        }
    }
    if let Some(id) = id {
        opened["sessionId"] = json!(id);
    }
    if let Some(agent) = &session_options.agent {
        opened["_meta"]["acpd"]["agent"] = json!(agent);
    }
    opened
}

/// A complete `session/update` notification that lists the slash commands.
pub fn commands(session: &SessionId, commands: &[SlashCommandCard]) -> Vec<u8> {
    let update = commands_update(commands);
    rpc::notification(method::SESSION_UPDATE, &json!({ "sessionId": session, "update": update }))
}

pub(crate) fn commands_update(commands: &[SlashCommandCard]) -> Value {
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": available(commands) })
}

fn available(commands: &[SlashCommandCard]) -> Vec<Value> {
    let one = |SlashCommandCard { name, description, hint }: &SlashCommandCard| {
        let mut command = json!({ "type": "command", "name": name, "description": description });
        if let Some(hint) = hint {
            command["input"] = json!({ "type": "text", "hint": hint });
        }
        command
    };
    commands.iter().map(one).collect()
}

/// The answer to `session/list`.
pub fn session_list(page: &Page, activity: impl Fn(&SessionId) -> ActivityCard) -> Value {
    let sessions: Vec<Value> = page.sessions.iter().map(|meta| session_info(meta, activity(&meta.id))).collect();
    let mut list = json!({ "sessions": sessions });
    if let Some(next) = &page.next {
        list["nextCursor"] = json!(next);
    }
    list
}

fn session_info(meta: &SessionMeta, activity: ActivityCard) -> Value {
    let mut info = json!({
        "sessionId": meta.id,
        "cwd": content::path(&meta.cwd),
        "updatedAt": meta.updated.to_rfc3339(),
        "_meta": { "acpd": v1::encode::session_facts(meta, activity) },
    });
    if !meta.extra_roots.is_empty() {
        info["additionalDirectories"] = meta.extra_roots.iter().map(|root| json!(content::path(root))).collect();
    }
    if let Some(title) = &meta.title {
        info["title"] = json!(title);
    }
    info
}

/// The answer to a prompt whose message is in the log.
pub fn prompt_inserted(message: &domain::MessageId) -> Value {
    json!({ "messageId": message })
}

/// The error for a prompt that ended before its message was in the log.
pub fn prompt_dropped(reason: &StopReason) -> RpcError {
    match v1::encode::prompt_answer(reason, None) {
        Err(error) => error,
        Ok(_) => RpcError::cancelled("the message is not in the conversation; send it again"),
    }
}

/// The stop reason of an idle state, with the fields of that reason.
pub(crate) fn stop_reason(reason: &StopReason) -> Map<String, Value> {
    let mut fields = Map::new();
    let word = match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::MaxTurnRequests => "max_turn_requests",
        StopReason::Refusal => "refusal",
        StopReason::Cancelled => "cancelled",
        StopReason::Interrupted | StopReason::Failed(_) => {
            if let Err(error) = v1::encode::prompt_answer(reason, None) {
                fields.insert("error".to_owned(), json!(error));
            }
            "error"
        }
    };
    fields.insert("stopReason".to_owned(), json!(word));
    fields
}

/// Parameters that ask the client to open a URL while its request `id` is in progress.
pub fn elicit_url(id: &Id, elicitation: &str, address: &str, message: &str) -> Value {
    json!({ "mode": "url", "requestId": id, "elicitationId": elicitation, "url": address, "message": message })
}

/// Parameters of `elicitation/create`, which asks the user.
pub fn elicit(session: &SessionId, elicitation: Elicitation) -> Value {
    let mut params = json!({ "sessionId": session, "message": elicitation.message });
    if let Some(call) = elicitation.call {
        params["toolCallId"] = json!(call);
    }
    match elicitation.form {
        Form::Fields(schema) => {
            params["mode"] = json!("form");
            params["requestedSchema"] = schema;
        }
        Form::Page { url, id } => {
            params["mode"] = json!("url");
            params["elicitationId"] = json!(id);
            params["url"] = json!(url);
        }
    }
    params
}
