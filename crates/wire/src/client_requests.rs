//! Encodes our requests to a client (files, terminals, forms) and decodes its answers.
//!
//! Only in version 1 can a client offer its files and terminals to the agent.

use agent_client_protocol_schema::v1 as acp;
use domain::SessionId;
use domain::editor::{
    EditorError, Elicitation, Elicited, Form, LineRange, TerminalExit, TerminalOutput, TerminalRequest,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::PathBuf;

use crate::rpc::RpcError;
use crate::v1::encode::value;

pub fn read_text(session: &SessionId, path: PathBuf, lines: Option<LineRange>) -> Value {
    let line = lines.and_then(|lines| lines.first);
    let limit = lines.and_then(|lines| lines.count);
    value(&acp::ReadTextFileRequest::new(session.to_string(), path).line(line).limit(limit))
}

pub fn write_text(session: &SessionId, path: PathBuf, text: String) -> Value {
    value(&acp::WriteTextFileRequest::new(session.to_string(), path, text))
}

pub fn open_terminal(session: &SessionId, terminal: TerminalRequest) -> Value {
    let variables = terminal.environment.into_iter().map(|(name, value)| acp::EnvVariable::new(name, value));
    let request = acp::CreateTerminalRequest::new(session.to_string(), terminal.command)
        .args(terminal.args)
        .env(variables.collect())
        .cwd(terminal.cwd)
        .output_byte_limit(terminal.output_limit);
    value(&request)
}

/// The parameters of every request about one terminal.
pub fn terminal(session: &SessionId, terminal: &str) -> Value {
    value(&acp::TerminalOutputRequest::new(session.to_string(), terminal.to_owned()))
}

/// Parameters of `elicitation/create`, which asks the user. Returns `None` for a form whose fields
/// the protocol cannot express.
pub fn elicit(session: &SessionId, elicitation: Elicitation) -> Option<Value> {
    let call = elicitation.call.map(|call| acp::ToolCallId::new(call.to_string()));
    let scope = acp::ElicitationSessionScope::new(session.to_string()).tool_call_id(call);
    let mode = match elicitation.form {
        Form::Fields(schema) => {
            acp::ElicitationMode::from(acp::ElicitationFormMode::new(scope, serde_json::from_value(schema).ok()?))
        }
        Form::Page { url, id } => acp::ElicitationMode::from(acp::ElicitationUrlMode::new(scope, id, url)),
    };
    Some(value(&acp::CreateElicitationRequest::new(mode, elicitation.message)))
}

/// A client's answer, or the error that it sent instead.
pub type Answered = Result<Box<RawValue>, RpcError>;

pub fn text(answer: Answered) -> Result<String, EditorError> {
    read::<acp::ReadTextFileResponse>(answer).map(|answer| answer.content)
}

/// Decodes an answer without content.
pub fn done(answer: Answered) -> Result<(), EditorError> {
    answer.map(|_| ()).map_err(refused)
}

pub fn terminal_id(answer: Answered) -> Result<String, EditorError> {
    read::<acp::CreateTerminalResponse>(answer).map(|answer| answer.terminal_id.to_string())
}

pub fn terminal_output(answer: Answered) -> Result<TerminalOutput, EditorError> {
    read::<acp::TerminalOutputResponse>(answer).map(|answer| TerminalOutput {
        text: answer.output,
        truncated: answer.truncated,
        exit: answer.exit_status.map(exit),
    })
}

pub fn terminal_exit(answer: Answered) -> Result<TerminalExit, EditorError> {
    read::<acp::WaitForTerminalExitResponse>(answer).map(|answer| exit(answer.exit_status))
}

/// Decodes the user's answer to a form. An unknown action counts as cancelled.
pub fn elicited(answer: Answered) -> Result<Elicited, EditorError> {
    let answer: Value = read(answer)?;
    Ok(match answer.get("action").and_then(Value::as_str) {
        Some("accept") => Elicited::Accepted(answer.get("content").filter(|content| content.is_object()).cloned()),
        Some("decline") => Elicited::Declined,
        Some(_) | None => Elicited::Cancelled,
    })
}

fn exit(status: acp::TerminalExitStatus) -> TerminalExit {
    TerminalExit { code: status.exit_code, signal: status.signal }
}

fn read<T: DeserializeOwned>(answer: Answered) -> Result<T, EditorError> {
    let answer = answer.map_err(refused)?;
    serde_json::from_str(answer.get()).map_err(|error| EditorError::Refused(format!("its answer is invalid: {error}")))
}

fn refused(error: RpcError) -> EditorError {
    EditorError::Refused(error.message)
}
