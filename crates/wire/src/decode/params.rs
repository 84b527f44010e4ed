//! The parameters of one request, read field by field. Every error names its field.

use std::path::PathBuf;

use domain::SessionId;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::servers;
use crate::request::{OpenSession, WantedWorktree};
use crate::rpc::RpcError;

pub(crate) struct Params(Map<String, Value>);

impl Params {
    /// Reads the parameters. Missing ones, and the empty list that some libraries send instead,
    /// count as an empty object.
    pub(crate) fn read(params: Option<&RawValue>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Ok(Self(Map::new())) };
        match serde_json::from_str(params.get()) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(Value::Null) => Ok(Self(Map::new())),
            Ok(Value::Array(items)) if items.is_empty() => Ok(Self(Map::new())),
            Ok(_) => Err(RpcError::invalid_params("params", "Must be an object")),
            // The text was valid JSON, so it nests too deeply or holds a broken escape.
            Err(error) => Err(RpcError::invalid_params("params", &error.to_string())),
        }
    }

    /// Takes a field out. `null` counts as missing.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, RpcError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(RpcError::invalid_params(name, "Must be a string")),
        }
    }

    /// Takes out a required text that may have any of these names; errors use the first.
    pub(crate) fn required<const N: usize>(&mut self, names: [&str; N]) -> Result<String, RpcError> {
        for name in names {
            if let Some(text) = self.text(name)? {
                return Ok(text);
            }
        }
        Err(RpcError::invalid_params(names.first().copied().unwrap_or("params"), "Required"))
    }

    pub(crate) fn session(&mut self) -> Result<SessionId, RpcError> {
        self.required(["sessionId"]).map(SessionId::from)
    }

    /// Takes out acpd's own options for a new session: the agent that is to answer, and a
    /// worktree.
    pub(crate) fn acpd_options(&mut self) -> Result<(Option<String>, Option<WantedWorktree>), RpcError> {
        let meta = self.take("_meta").unwrap_or_default();
        let agent = match meta.pointer("/acpd/agent") {
            None | Some(Value::Null) => None,
            Some(Value::String(agent)) => Some(agent.clone()),
            Some(_) => return Err(RpcError::invalid_params("_meta.acpd.agent", "Must be a string")),
        };
        let worktree = match meta.pointer("/acpd/worktree") {
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(WantedWorktree::Any),
            Some(Value::String(name)) => Some(WantedWorktree::Named(name.clone())),
            Some(_) => {
                return Err(RpcError::invalid_params("_meta.acpd.worktree", "Must be true or a worktree's name"));
            }
        };
        Ok((agent, worktree))
    }

    /// Takes out the fields that all requests for an existing session have in common.
    pub(crate) fn open_session(mut self) -> Result<OpenSession, RpcError> {
        Ok(OpenSession {
            session: self.session()?,
            cwd: self.path("cwd")?,
            extra_roots: self.paths("additionalDirectories")?.unwrap_or_default(),
            servers: servers::read(self.take("mcpServers"))?,
        })
    }

    /// Takes out an absolute path. An empty one counts as missing.
    pub(crate) fn path(&mut self, name: &str) -> Result<Option<PathBuf>, RpcError> {
        self.text(name)?.filter(|path| !path.is_empty()).map(|path| absolute(name, path)).transpose()
    }

    pub(crate) fn paths(&mut self, name: &str) -> Result<Option<Vec<PathBuf>>, RpcError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let wrong = || RpcError::invalid_params(name, "Must be a list of absolute paths");
        let Value::Array(items) = value else { return Err(wrong()) };
        let paths = items.into_iter().map(|item| match item {
            Value::String(path) => absolute(name, path),
            _ => Err(wrong()),
        });
        paths.collect::<Result<_, _>>().map(Some)
    }
}

fn absolute(name: &str, path: String) -> Result<PathBuf, RpcError> {
    let path = PathBuf::from(path);
    if path.is_absolute() { Ok(path) } else { Err(RpcError::invalid_params(name, "Must be an absolute path")) }
}
