//! The messages that acpd sends to a language server.

use std::path::Path;

use domain::resource_link::file_uri;
use serde_json::{Value, json};

pub(crate) const PUBLISHED: &str = "textDocument/publishDiagnostics";
pub(crate) const PROGRESS: &str = "$/progress";
pub(crate) const PULL: &str = "textDocument/diagnostic";

pub(crate) fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The parameters of `initialize`. acpd offers only what it needs for diagnostics.
pub(crate) fn initialize(folder: &Path) -> Value {
    let uri = file_uri(folder);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    json!({
        // A server exits when the process with this id does. That is not needed: `acpd __run` ends
        // it.
        "processId": null,
        "clientInfo": {"name": "acpd", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": uri,
        "workspaceFolders": [{"uri": uri, "name": name}],
        "capabilities": {
            "general": {"positionEncodings": ["utf-16"]},
            "window": {"workDoneProgress": true},
            "workspace": {"configuration": true, "workspaceFolders": true},
            "textDocument": {
                "synchronization": {"didSave": true},
                "publishDiagnostics": {"versionSupport": true},
                "diagnostic": {"relatedDocumentSupport": true}
            }
        }
    })
}

/// The answer to a request of the server.
pub(crate) fn answer(id: &Value, method: &str, params: &Value) -> Value {
    let result = match method {
        // One empty answer per setting that the server asks for, so it uses its defaults.
        "workspace/configuration" => {
            let wanted = params["items"].as_array().map_or(0, Vec::len).min(1000);
            Value::Array(vec![Value::Null; wanted])
        }
        "client/registerCapability" | "client/unregisterCapability" | "window/workDoneProgress/create" => Value::Null,
        "workspace/diagnostic/refresh" => Value::Null,
        _ => {
            let error = json!({"code": -32601, "message": "acpd does not offer this method"});
            return json!({"jsonrpc": "2.0", "id": id, "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(crate) fn opened(path: &Path, language: &str, text: &str) -> Value {
    let document = json!({"uri": file_uri(path), "languageId": language, "version": 1, "text": text});
    notification("textDocument/didOpen", json!({"textDocument": document}))
}

pub(crate) fn changed(path: &Path, version: i32, text: &str) -> Value {
    let document = json!({"uri": file_uri(path), "version": version});
    notification("textDocument/didChange", json!({"textDocument": document, "contentChanges": [{"text": text}]}))
}

pub(crate) fn saved(path: &Path) -> Value {
    notification("textDocument/didSave", json!({"textDocument": {"uri": file_uri(path)}}))
}

pub(crate) fn closed(path: &Path) -> Value {
    notification("textDocument/didClose", json!({"textDocument": {"uri": file_uri(path)}}))
}
