//! The client side of version 1: what acpd sends to a child agent and reads from it.
//! [`SecondVersion`] translates for children of version 2.
//!
//! acpd is the client here. Reading is lenient: an update that acpd does not understand is passed
//! on unchanged, and a request that makes no sense is refused with a reason.

mod auth;
mod requests;
mod second_version;
mod update;

use domain::hosted::{AgentSetting, Offer, OptionValue};
use domain::instructions::SlashCommandCard;
use domain::mcp::{McpServer, McpTransport};
use domain::{Content, StopReason, Usage};
use serde_json::{Map, Value, json};

use crate::method;
use crate::rpc::RpcError;
use crate::v1::encode;

pub use auth::{AuthMethod, LoginBy, read_auth_methods};
pub use requests::{ChildRequest, CreateTerminal, PermissionRequest, ReadFile, WriteFile};
pub use second_version::SecondVersion;
pub use update::{Update, is_of_first_version, read_update};

/// The capabilities of a child, from its answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildCapabilities {
    /// The version of the protocol that the child speaks, if it is 1 or 2, and otherwise the number
    /// that it sent.
    pub version: i64,
    pub load: bool,
    pub resume: bool,
    pub close: bool,
    /// Whether its sessions can have more folders than one.
    pub folders: bool,
    pub mcp_stdio: bool,
    pub mcp_http: bool,
    pub mcp_sse: bool,
    pub images: bool,
    pub audio: bool,
    pub embedded: bool,
    /// Its title or name, followed by its version.
    pub name: Option<String>,
    /// Its authentication methods, as it sent them.
    pub auth_methods: Value,
}

/// Parameters of `initialize`, which offer this version of the protocol. An offer of version 2 has
/// the fields of both versions, because a child of version 1 reads its own and answers with its
/// number.
pub fn initialize(version: &str, offered: i64) -> Value {
    let info = json!({ "name": "acpd", "title": "acpd", "version": version });
    let elicitation = json!({ "form": {}, "url": {} });
    let mut params = json!({
        "protocolVersion": offered,
        "clientCapabilities": {
            "fs": { "readTextFile": true, "writeTextFile": true },
            "terminal": true,
            "auth": { "terminal": true },
            "elicitation": elicitation,
            // Announces terminal logins to agents that are older than terminal logins in the
            // protocol.
            "_meta": { "terminal-auth": true },
            // Agents send boolean options only to clients that announce this.
            "session": { "configOptions": { "boolean": {} } },
        },
        "clientInfo": info,
    });
    if offered >= 2 {
        params["capabilities"] = json!({ "auth": { "terminal": {} }, "elicitation": elicitation });
        params["info"] = info;
    }
    params
}

pub fn read_initialized(answer: &Value) -> ChildCapabilities {
    // Some children of version 1 repeat the number that they are offered.
    let version = match answer["protocolVersion"].as_i64() {
        Some(2) if answer.get("agentCapabilities").is_some() || !answer["info"].is_object() => 1,
        Some(version) => version,
        None => 0,
    };
    if version == 2 {
        return read_initialized_second(answer);
    }
    let capabilities = &answer["agentCapabilities"];
    let is = |path: &str| capabilities.pointer(path).is_some_and(|value| *value == Value::Bool(true));
    let has = |path: &str| has(capabilities, path);
    ChildCapabilities {
        version,
        load: is("/loadSession"),
        resume: has("/sessionCapabilities/resume"),
        close: has("/sessionCapabilities/close"),
        folders: true,
        mcp_stdio: true,
        mcp_http: is("/mcpCapabilities/http"),
        mcp_sse: is("/mcpCapabilities/sse"),
        images: is("/promptCapabilities/image"),
        audio: is("/promptCapabilities/audio"),
        embedded: is("/promptCapabilities/embeddedContext"),
        name: name(&answer["agentInfo"]),
        auth_methods: answer["authMethods"].clone(),
    }
}

/// The version to offer to a child that refused this one, if it may speak the other.
pub fn other_version(refused: i64, error: &RpcError) -> Option<i64> {
    match refused {
        1 => (error.code == RpcError::UNSUPPORTED_VERSION).then_some(2),
        // A child of version 1 answers with its own version; but version 2 is new, and not every
        // child knows that.
        _ => (error.code != RpcError::AUTHENTICATION_REQUIRED).then_some(1),
    }
}

/// Reads the answer of a child that speaks version 2. Every such child can resume and close its
/// sessions.
fn read_initialized_second(answer: &Value) -> ChildCapabilities {
    let has = |path: &str| has(&answer["capabilities"]["session"], path);
    let mut auth_methods = answer["authMethods"].clone();
    second_version::rename(&mut auth_methods, "methodId", "id");
    ChildCapabilities {
        version: 2,
        load: false,
        resume: true,
        close: true,
        folders: has("/additionalDirectories"),
        mcp_stdio: has("/mcp/stdio"),
        mcp_http: has("/mcp/http"),
        mcp_sse: false,
        images: has("/prompt/image"),
        audio: has("/prompt/audio"),
        embedded: has("/prompt/embeddedContext"),
        name: name(&answer["info"]),
        auth_methods,
    }
}

fn has(capabilities: &Value, path: &str) -> bool {
    capabilities.pointer(path).is_some_and(|value| !value.is_null() && *value != json!(false))
}

/// The title or name of a program, followed by its version.
fn name(info: &Value) -> Option<String> {
    let name = info["title"].as_str().or(info["name"].as_str())?;
    Some(match info["version"].as_str() {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    })
}

/// Parameters of `session/new`, or of `session/load` and `session/resume` with the id of an earlier
/// session. Also returns what was omitted: servers whose transport the child does not support, by
/// name, and folders.
pub fn open_session(
    session: Option<&str>,
    cwd: &std::path::Path,
    extra_roots: &[std::path::PathBuf],
    servers: &[McpServer],
    capabilities: &ChildCapabilities,
) -> (Value, Vec<String>) {
    let is_reachable = |server: &&McpServer| match server.transport {
        McpTransport::Stdio { .. } => capabilities.mcp_stdio,
        McpTransport::Http { .. } => capabilities.mcp_http,
        McpTransport::Sse { .. } => capabilities.mcp_sse,
    };
    let (reachable, left_out): (Vec<&McpServer>, Vec<&McpServer>) = servers.iter().partition(is_reachable);
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let mut params = json!({
        "cwd": path(cwd),
        "mcpServers": reachable.into_iter().map(server).collect::<Vec<_>>(),
    });
    let mut left_out: Vec<String> = left_out.into_iter().map(|server| server.name.clone()).collect();
    let folders: Vec<String> = extra_roots.iter().map(|root| path(root)).collect();
    if !capabilities.folders {
        left_out.extend(folders);
    } else if !folders.is_empty() {
        params["additionalDirectories"] = json!(folders);
    }
    if let Some(session) = session {
        params["sessionId"] = json!(session);
    }
    (params, left_out)
}

fn server(server: &McpServer) -> Value {
    let pairs = |pairs: &[(String, String)]| {
        pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>()
    };
    match &server.transport {
        McpTransport::Stdio { command, args, env, .. } => {
            json!({ "name": server.name, "command": command, "args": args, "env": pairs(env) })
        }
        McpTransport::Http { url, headers } => {
            json!({ "type": "http", "name": server.name, "url": url, "headers": pairs(headers) })
        }
        McpTransport::Sse { url, headers } => {
            json!({ "type": "sse", "name": server.name, "url": url, "headers": pairs(headers) })
        }
    }
}

/// The id that a child gave a new session, from its answer.
pub fn read_session_id(answer: &Value) -> Option<String> {
    Some(answer.get("sessionId")?.as_str()?.to_owned())
}

/// The modes, models and options that a child offers, from its answer to a request that opened a
/// session.
pub fn read_offer(answer: &Value) -> Offer {
    let part = |name: &str| answer.get(name).filter(|value| !value.is_null()).cloned();
    Offer {
        modes: part("modes").filter(Value::is_object),
        models: part("models").filter(Value::is_object),
        options: read_options(answer),
        commands: None,
    }
}

/// Parameters of `session/prompt`. Blocks that the child does not support become text.
pub fn prompt(session: &str, content: &[Content], capabilities: &ChildCapabilities) -> Value {
    let blocks: Vec<Value> = content.iter().map(|block| prompt_block(block, capabilities)).collect();
    json!({ "sessionId": session, "prompt": blocks })
}

fn prompt_block(content: &Content, capabilities: &ChildCapabilities) -> Value {
    let mut block = encode::value(&encode::content::block(content));
    let kind = block["type"].as_str().unwrap_or_default();
    match kind {
        "image" if !capabilities.images => {
            json!({ "type": "text", "text": "[an image, which this agent does not take]" })
        }
        "audio" if !capabilities.audio => json!({ "type": "text", "text": "[audio, which this agent does not take]" }),
        "resource" if !capabilities.embedded => {
            let resource = block["resource"].take();
            let uri = resource["uri"].as_str().unwrap_or_default();
            match resource["text"].as_str() {
                Some(text) => json!({ "type": "text", "text": format!("{uri}:\n{text}") }),
                None => json!({ "type": "resource_link", "uri": uri, "name": uri }),
            }
        }
        _ => block,
    }
}

/// Reads how a prompt ended, and its token usage if the child reports one.
pub fn read_prompt_answer(answer: &Value) -> (StopReason, Option<Usage>) {
    let reason = match answer["stopReason"].as_str() {
        Some("max_tokens") => StopReason::MaxTokens,
        Some("max_turn_requests") => StopReason::MaxTurnRequests,
        Some("refusal") => StopReason::Refusal,
        Some("cancelled") => StopReason::Cancelled,
        Some(_) | None => StopReason::EndTurn,
    };
    let usage = answer.get("usage").filter(|usage| usage.is_object()).map(|usage| {
        let tokens = |name: &str| usage[name].as_u64().unwrap_or(0);
        Usage {
            input: tokens("inputTokens"),
            output: tokens("outputTokens"),
            cached_read: tokens("cachedReadTokens"),
            cached_write: tokens("cachedWriteTokens"),
            thought: tokens("thoughtTokens"),
        }
    });
    (reason, usage)
}

/// The request that sets an option: its method and parameters.
pub fn setting(session: &str, setting: &AgentSetting) -> (&'static str, Value) {
    match setting {
        AgentSetting::Mode(mode) => (method::SESSION_SET_MODE, json!({ "sessionId": session, "modeId": mode })),
        AgentSetting::Model(model) => (method::SESSION_SET_MODEL, json!({ "sessionId": session, "modelId": model })),
        AgentSetting::Option { id, value } => {
            let mut params = json!({ "sessionId": session, "configId": id });
            match value {
                OptionValue::Id(value) => params["value"] = json!(value),
                OptionValue::Switch(on) => {
                    params["type"] = json!("boolean");
                    params["value"] = json!(on);
                }
            }
            (method::SESSION_SET_CONFIG_OPTION, params)
        }
    }
}

/// All options, from the answer to a request that opened a session or set an option.
pub fn read_options(answer: &Value) -> Option<Value> {
    let mut options = answer.get("configOptions").filter(|options| options.is_array())?.clone();
    second_version::rename(&mut options, "configId", "id");
    Some(options)
}

/// The answer to `session/request_permission`.
pub fn permission_answer(option: Option<&str>) -> Value {
    match option {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

/// Reads a child's list of slash commands.
pub fn read_commands(commands: &Value) -> Vec<SlashCommandCard> {
    let one = |command: &Value| {
        let text = |path: &str| command.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Some(SlashCommandCard {
            name: text("/name")?,
            description: text("/description").unwrap_or_default(),
            hint: text("/input/hint"),
        })
    };
    commands.as_array().into_iter().flatten().filter_map(one).collect()
}

fn object(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

#[cfg(test)]
mod tests;
