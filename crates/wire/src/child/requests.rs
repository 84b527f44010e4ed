//! Reads the requests of a child agent.

use std::path::PathBuf;

use domain::editor::{Elicitation, Form, LineRange};
use domain::hosted::CallFields;
use domain::permission::AgentOption;
use domain::{CallId, Choice};
use serde_json::Value;

use super::update::{call_fields, call_id};
use crate::method;
use crate::rpc::RpcError;

/// A request of a child to its client.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildRequest {
    Permission(Box<PermissionRequest>),
    ReadFile(ReadFile),
    WriteFile(WriteFile),
    CreateTerminal(CreateTerminal),
    TerminalOutput(String),
    WaitForExit(String),
    KillTerminal(String),
    ReleaseTerminal(String),
    Elicit(Elicitation),
}

#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRequest {
    pub call: CallId,
    pub fields: CallFields,
    pub options: Vec<AgentOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReadFile {
    pub path: PathBuf,
    pub lines: LineRange,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WriteFile {
    pub path: PathBuf,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTerminal {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: Option<PathBuf>,
    pub output_limit: Option<u64>,
}

/// The maximum number of options in one question.
const OPTIONS: usize = 32;

/// The maximum length of a question's message to the user, in characters.
const LONGEST_MESSAGE: usize = 4000;

/// The maximum size of a form's schema, or of a URL, in bytes.
const LARGEST_FORM: usize = 64 << 10;

/// The maximum length of a child's id for a question, in bytes.
const LONGEST_ID: usize = 1000;

impl ChildRequest {
    /// Reads a request, and checks that it is about the child's session.
    pub fn read(method: &str, params: &Value, session: &str) -> Result<Self, RpcError> {
        let request = match method {
            "session/request_permission" => permission(params).map(Box::new).map(Self::Permission),
            "fs/read_text_file" => read_file(params).map(Self::ReadFile),
            "fs/write_text_file" => write_file(params).map(Self::WriteFile),
            "terminal/create" => create_terminal(params).map(Self::CreateTerminal),
            "terminal/output" => text(params, "terminalId").map(Self::TerminalOutput),
            "terminal/wait_for_exit" => text(params, "terminalId").map(Self::WaitForExit),
            "terminal/kill" => text(params, "terminalId").map(Self::KillTerminal),
            "terminal/release" => text(params, "terminalId").map(Self::ReleaseTerminal),
            method::ELICITATION_CREATE => elicitation(params).map(Self::Elicit),
            _ => return Err(RpcError::method_not_found(method)),
        }?;
        // A question to the user may be about a request instead of a session.
        let may_lack_session = matches!(request, Self::Elicit(_)) && params["sessionId"].is_null();
        if !may_lack_session && params["sessionId"].as_str() != Some(session) {
            return Err(RpcError::invalid_params("sessionId", "Must be the session that is open"));
        }
        Ok(request)
    }
}

fn text(params: &Value, name: &str) -> Result<String, RpcError> {
    params[name].as_str().map(str::to_owned).ok_or_else(|| RpcError::invalid_params(name, "Must be a string"))
}

fn path(params: &Value, name: &str) -> Result<PathBuf, RpcError> {
    let path = PathBuf::from(text(params, name)?);
    path.is_absolute().then_some(path).ok_or_else(|| RpcError::invalid_params(name, "Must be an absolute path"))
}

fn permission(params: &Value) -> Result<PermissionRequest, RpcError> {
    let call = &params["toolCall"];
    let id = call_id(call).ok_or_else(|| RpcError::invalid_params("toolCall.toolCallId", "Required"))?;
    let options = params["options"].as_array().ok_or_else(|| RpcError::invalid_params("options", "Must be a list"))?;
    let options: Option<Vec<AgentOption>> = options.iter().take(OPTIONS).map(option).collect();
    let options = options.ok_or_else(|| RpcError::invalid_params("options", "Must have optionId, name and kind"))?;
    if options.is_empty() {
        return Err(RpcError::invalid_params("options", "Must not be empty"));
    }
    Ok(PermissionRequest { call: id, fields: call_fields(call), options })
}

fn option(option: &Value) -> Option<AgentOption> {
    Some(AgentOption {
        id: option.get("optionId")?.as_str()?.to_owned(),
        name: option.get("name")?.as_str()?.to_owned(),
        kind: Choice::from_id(option.get("kind")?.as_str()?)?,
    })
}

/// Reads a question to the user. The limits are the same as for questions of MCP servers.
fn elicitation(params: &Value) -> Result<Elicitation, RpcError> {
    let message = domain::text::cut(&text(params, "message")?, LONGEST_MESSAGE);
    let form = match params["mode"].as_str() {
        Some("form") => {
            let schema = &params["requestedSchema"];
            if !schema.is_object() || schema.to_string().len() > LARGEST_FORM {
                return Err(RpcError::invalid_params("requestedSchema", "Must be an object of at most 64 KiB"));
            }
            Form::Fields(schema.clone())
        }
        Some("url") => {
            let (url, id) = (text(params, "url")?, text(params, "elicitationId")?);
            // The user must be able to see where the link leads.
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            if !is_web || url.len() > LARGEST_FORM || id.len() > LONGEST_ID {
                return Err(RpcError::invalid_params("url", "Must be an address of the web"));
            }
            Form::Page { url, id }
        }
        Some(_) | None => return Err(RpcError::invalid_params("mode", "Must be `form` or `url`")),
    };
    let call = params["toolCallId"].as_str().map(CallId::from);
    Ok(Elicitation { call, message, form })
}

fn read_file(params: &Value) -> Result<ReadFile, RpcError> {
    let number = |name: &str| params[name].as_u64().and_then(|number| u32::try_from(number).ok());
    Ok(ReadFile { path: path(params, "path")?, lines: LineRange { first: number("line"), count: number("limit") } })
}

fn write_file(params: &Value) -> Result<WriteFile, RpcError> {
    Ok(WriteFile { path: path(params, "path")?, text: text(params, "content")? })
}

fn create_terminal(params: &Value) -> Result<CreateTerminal, RpcError> {
    let args = params["args"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let pair = |variable: &Value| {
        Some((variable.get("name")?.as_str()?.to_owned(), variable.get("value")?.as_str()?.to_owned()))
    };
    Ok(CreateTerminal {
        command: text(params, "command")?,
        args: args.collect(),
        env: params["env"].as_array().into_iter().flatten().filter_map(pair).collect(),
        cwd: if params["cwd"].is_null() { None } else { Some(path(params, "cwd")?) },
        output_limit: params["outputByteLimit"].as_u64(),
    })
}
