//! The MCP servers of the configuration: whether their programs are there. None is started.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::Finding;
use super::machine::which;
use crate::config::Shown;

/// Where the configuration names them.
const PREFIX: &str = "mcp.servers.";

pub(super) fn check(overview: &[Shown], path: Option<&str>) -> Vec<Finding> {
    let mut servers: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
    for shown in overview {
        if let Some((name, key)) = shown.key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')) {
            servers.entry(name).or_default().insert(key, &shown.value);
        }
    }
    if servers.is_empty() {
        return vec![Finding::ok("mcp", "no servers are configured; editors may bring their own")];
    }
    servers.into_iter().map(|(name, server)| judge(name, &server, path)).collect()
}

fn judge(name: &str, server: &BTreeMap<&str, &Value>, path: Option<&str>) -> Finding {
    let text = |key: &str| server.get(key).and_then(|value| value.as_str());
    match (text("command"), text("url")) {
        (Some(command), _) => match which(command, path) {
            Some(program) => Finding::ok("mcp", format!("{name}: {}", program.display())),
            None => {
                let says = format!("{name}: there is no program `{command}` on the PATH of this terminal");
                Finding::warn("mcp", says, format!("install it, or give its full path in mcp.servers.{name}.command"))
            }
        },
        (None, Some(url)) => Finding::ok("mcp", format!("{name}: {url} (not asked)")),
        (None, None) => Finding::ok("mcp", name.to_owned()),
    }
}
