//! Decodes a client's requests and notifications, and checks them.
//!
//! It accepts several dialects (docs/protocol.md lists them), and its errors name the field. It does
//! not look at the disk, and does not know which sessions, models or options exist.

mod content;
mod extension;
mod params;
mod permission;
mod servers;

use serde_json::Value;
use serde_json::value::RawValue;

use domain::{ClientInfo, MessageId};

use self::params::Params;
use crate::method;
use crate::request::{
    ClientCapabilities, ClientNotification, ClientRequest, Configure, ConfigureAnswer, Hello, Initialize, ListSessions,
    NewSession, OpenSession, Prompt, Steer,
};
use crate::rpc::{Id, RpcError};
use crate::shallow;

pub use permission::{Answer, permission_answer};

/// Decodes a request.
pub fn request(method: &str, params: Option<&RawValue>) -> Result<ClientRequest, RpcError> {
    let read = || Params::read(params);
    match method {
        method::INITIALIZE => read().and_then(initialize),
        method::AUTHENTICATE => authenticate(read()?),
        method::LOGOUT => read().map(|_| ClientRequest::Logout),
        method::SESSION_NEW => read().and_then(new_session),
        method::SESSION_LOAD => Ok(ClientRequest::LoadSession(open_session(read()?)?)),
        method::SESSION_RESUME => Ok(ClientRequest::ResumeSession(open_session(read()?)?)),
        method::SESSION_FORK => Ok(ClientRequest::ForkSession(open_session(read()?)?)),
        method::SESSION_LIST | method::SESSIONS_LIST => read().and_then(list_sessions),
        method::SESSION_PROMPT => read().and_then(prompt),
        method::SESSION_CLOSE => Ok(ClientRequest::CloseSession { session: read()?.session()? }),
        method::SESSION_DELETE => Ok(ClientRequest::DeleteSession { session: read()?.session()? }),
        method::SESSION_SET_MODE => set_one(read()?, "mode", ["modeId", "mode"]),
        method::SESSION_SET_MODEL => set_one(read()?, "model", ["modelId", "model"]),
        method::SESSION_SET_CONFIG_OPTION | method::CONFIG_SET => read().and_then(set_config_option),
        method::HELLO => read().and_then(hello),
        method::SESSIONS => Ok(ClientRequest::DescribeSessions),
        method::CONNECTIONS => Ok(ClientRequest::DescribeConnections),
        method::STATUS => Ok(ClientRequest::DescribeStatus),
        method::STOP => Ok(ClientRequest::Stop),
        method::RELOAD => Ok(ClientRequest::Reload),
        method::RESTART => read().and_then(extension::restart),
        // A notification in the protocol; some clients send it as a request and wait for an answer.
        method::SESSION_CANCEL => Ok(ClientRequest::Cancel { session: read()?.session()? }),
        method::RESUME => read().and_then(extension::resume),
        method::CANCEL => extension::steer(read()?, |_| Ok(Steer::Cancel)),
        method::ANSWER => extension::steer(read()?, extension::answer),
        method::CLOSE => extension::steer(read()?, |_| Ok(Steer::Close)),
        method::DELETE => extension::steer(read()?, |_| Ok(Steer::Delete)),
        method::RENAME => extension::steer(read()?, extension::rename),
        method::EXPORT => read().and_then(extension::export),
        method::UNDO => read().and_then(extension::undo),
        method::SESSION => Ok(ClientRequest::DescribeSession { session: read()?.session()? }),
        method::MCP => Ok(ClientRequest::DescribeServers { session: read()?.text("sessionId")?.map(Into::into) }),
        method::PERMISSIONS => Ok(ClientRequest::DescribePermissions { session: read()?.session()? }),
        method::IMPORT => read().and_then(extension::import),
        method::WAIT => read().and_then(extension::wait),
        _ => Err(RpcError::method_not_found(method)),
    }
}

/// Decodes a notification. A malformed one counts as unknown and is ignored, because notifications have no answer.
pub fn notification(method: &str, params: Option<&RawValue>) -> ClientNotification {
    let known = match method {
        method::SESSION_CANCEL => cancel_turn(params),
        method::CANCEL_REQUEST => cancel_request(params),
        _ => None,
    };
    known.unwrap_or_else(|| ClientNotification::Unknown { method: method.to_owned() })
}

fn cancel_turn(params: Option<&RawValue>) -> Option<ClientNotification> {
    let [session] = shallow::fields(params?.get(), ["sessionId"]).ok()?;
    Some(ClientNotification::CancelTurn { session: shallow::text(session?)?.as_ref().into() })
}

fn cancel_request(params: Option<&RawValue>) -> Option<ClientNotification> {
    let [request] = shallow::fields(params?.get(), ["requestId"]).ok()?;
    Some(ClientNotification::CancelRequest { request: Id::from_raw(request?).ok()? })
}

fn initialize(mut params: Params) -> Result<ClientRequest, RpcError> {
    let version = match params.take("protocolVersion") {
        None => return Err(RpcError::invalid_params("protocolVersion", "Required")),
        Some(version) => {
            integer(&version).ok_or_else(|| RpcError::invalid_params("protocolVersion", "Must be an integer"))?
        }
    };
    let client = params.take("clientInfo").and_then(|info| {
        let name = info.get("name")?.as_str()?.to_owned();
        let version = info.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(ClientInfo { name, version })
    });
    let can = params.take("clientCapabilities").unwrap_or_default();
    let yes = |pointer: &str| can.pointer(pointer) == Some(&Value::Bool(true));
    // Newer capabilities are objects, of which `{}` says yes.
    let has =
        |pointer: &str| can.pointer(pointer).is_some_and(|found| found.is_object() || *found == Value::Bool(true));
    let capabilities = ClientCapabilities {
        read_files: yes("/fs/readTextFile"),
        write_files: yes("/fs/writeTextFile"),
        terminal: yes("/terminal"),
        notices: has("/session/notices"),
        compaction: has("/session/compaction"),
        elicits_url: has("/elicitation/url"),
        elicits_form: has("/elicitation/form"),
        terminal_login: has("/auth/terminal"),
    };
    Ok(ClientRequest::Initialize(Initialize { version, client, capabilities }))
}

/// Accepts `1`, `1.0` and numbers of any size, but not `1.5`.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        // The cast saturates, which is what a number beyond all versions should do.
        #[expect(clippy::cast_possible_truncation)]
        Some(number as i64)
    })
}

fn authenticate(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Authenticate { method: params.required(["methodId", "authMethodId"])? })
}

fn new_session(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::NewSession(NewSession {
        cwd: params.path("cwd")?.ok_or_else(|| RpcError::invalid_params("cwd", "Required"))?,
        extra_roots: params.paths("additionalDirectories")?.unwrap_or_default(),
        servers: servers::read(params.take("mcpServers"))?.unwrap_or_default(),
    }))
}

fn open_session(mut params: Params) -> Result<OpenSession, RpcError> {
    Ok(OpenSession {
        session: params.session()?,
        cwd: params.path("cwd")?,
        extra_roots: params.paths("additionalDirectories")?.unwrap_or_default(),
        servers: servers::read(params.take("mcpServers"))?,
    })
}

fn list_sessions(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::ListSessions(ListSessions { cwd: params.path("cwd")?, cursor: params.text("cursor")? }))
}

fn prompt(mut params: Params) -> Result<ClientRequest, RpcError> {
    let session = params.session()?;
    let content = content::read(params.take("prompt"))?;
    let message = params.text("messageId")?.filter(|id| !id.is_empty()).map(MessageId::from);
    Ok(ClientRequest::Prompt(Prompt { session, content, message }))
}

fn set_one(mut params: Params, option: &str, names: [&str; 2]) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Configure(Configure {
        session: params.session()?,
        option: option.to_owned(),
        value: params.required(names)?,
        answer: ConfigureAnswer::Empty,
    }))
}

fn set_config_option(mut params: Params) -> Result<ClientRequest, RpcError> {
    let session = params.session()?;
    let option = params.required(["configId"])?;
    // One dialect sends booleans and numbers. All our values are names, so they are compared as written.
    let value = match params.take("value") {
        Some(Value::String(value)) => value,
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err(RpcError::invalid_params("value", "Must be a string"));
        }
        None => return Err(RpcError::invalid_params("value", "Required")),
    };
    Ok(ClientRequest::Configure(Configure { session, option, value, answer: ConfigureAnswer::Options }))
}

fn hello(mut params: Params) -> Result<ClientRequest, RpcError> {
    let environment = match params.take("environment") {
        Some(Value::Object(variables)) => variables
            .into_iter()
            .filter_map(|(name, value)| match value {
                Value::String(value) => Some((name, value)),
                _ => None,
            })
            .collect(),
        Some(_) => return Err(RpcError::invalid_params("environment", "Must be an object")),
        None => domain::Environment::default(),
    };
    Ok(ClientRequest::Hello(Hello {
        version: params.required(["version"])?,
        bridge: params.text("bridge")?,
        environment,
        folders: domain::DaemonFolders {
            home: params.path("home")?,
            state: params.path("state")?,
            config: params.path("config")?,
        },
        one_shot: params.take("oneShot") == Some(Value::Bool(true)),
    }))
}

#[cfg(test)]
mod tests;
