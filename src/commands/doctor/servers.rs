//! Checks whether the programs of the configured MCP servers exist. It starts none of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::Finding;
use super::machine::which;
use crate::config::ShownSetting;

/// The prefix of the servers' keys in the configuration.
const PREFIX: &str = "mcp.servers.";

pub(super) fn check(overview: &[ShownSetting], path: Option<&str>) -> Vec<Finding> {
    let mut servers: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
    for shown in overview {
        if let Some((name, key)) = shown.key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')) {
            servers.entry(name).or_default().insert(key, &shown.value);
        }
    }
    if servers.is_empty() {
        return vec![Finding::ok("mcp", "no servers are configured; editors can add their own")];
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
        (None, Some(url)) => Finding::ok("mcp", format!("{name}: {} (not asked)", without_query(url))),
        (None, None) => Finding::ok("mcp", name.to_owned()),
    }
}

/// Removes the query and the user information from an address. They may contain a key, and users
/// show findings to others.
fn without_query(url: &str) -> String {
    let path_ends = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..path_ends];
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host_ends = rest.find('/').unwrap_or(rest.len());
    let host_begins = rest[..host_ends].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host_begins..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (given, shown) in [
            ("https://mcp.example/v1", "https://mcp.example/v1"),
            ("https://mcp.example/v1?key=secret", "https://mcp.example/v1"),
            ("https://mcp.example#secret", "https://mcp.example"),
            ("https://me:secret@mcp.example/a@b?key=secret", "https://mcp.example/a@b"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(without_query(given), shown);
        }
    }
}
