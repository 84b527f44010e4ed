//! Checks which language servers are installed, and whether acpd may start them. It starts none.

use std::path::PathBuf;

use super::finding::{Finding, State};
use super::machine::which;

pub(super) fn check(settings: &lsp::Settings, trusted: &[PathBuf], path: Option<&str>) -> Finding {
    if !settings.enabled {
        return found("language servers are off (diagnostics.enabled)", None);
    }
    let installed =
        settings.servers.iter().filter(|(_, server)| server.enabled && which(&server.command, path).is_some());
    let installed = installed.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    if installed.is_empty() {
        return found("no known language server is on the PATH of this terminal", None);
    }
    if trusted.is_empty() {
        let says = format!("{installed} found, and not used, because no folder is trusted");
        return found(says, Some("list folders that you trust in mcp.trusted_projects"));
    }
    found(format!("{installed} found, and started in folders that you trust"), None)
}

fn found(says: impl Into<String>, advice: Option<&str>) -> Finding {
    Finding { check: "languages", state: State::Ok, says: says.into(), advice: advice.map(str::to_owned) }
}
