//! The names under which models and users see what servers offer: `mcp__SERVER__TOOL` for tools,
//! and `SERVER:PROMPT` for the slash commands of prompts.
//!
//! The server's part of a tool's name is unique among the servers of the session, connected or not,
//! so a permission for the tool of one server never covers another server.

use std::collections::HashSet;

/// The longest tool name. Providers accept letters, digits, `_` and `-`.
const MAX_TOOL_NAME: usize = 64;

pub const PREFIX: &str = "mcp__";

/// The most characters of a tool name that stand for the server.
const LONGEST_SERVER: usize = 40;

/// Assigns the names of one server's tools, each only once.
#[derive(Default)]
pub(crate) struct ToolNames(HashSet<String>);

impl ToolNames {
    /// Returns the name for a tool. A name that is too long or already taken gets a number at its
    /// end. Returns None if even that one is taken.
    pub(crate) fn tool(&mut self, server: &str, tool: &str) -> Option<String> {
        let plain = format!("{PREFIX}{}__{}", key(server), sanitized(tool));
        let name = if plain.len() <= MAX_TOOL_NAME && !self.0.contains(&plain) {
            plain
        } else {
            let mark = format!("_{:08x}", fingerprint(tool));
            format!("{}{mark}", &plain[..plain.len().min(MAX_TOOL_NAME - mark.len())])
        };
        self.0.insert(name.clone()).then_some(name)
    }
}

/// Returns the part of a tool name that stands for a server. It contains no `__`, because that
/// separates it from the tool.
pub(crate) fn key(server: &str) -> String {
    let mut key = String::new();
    for c in sanitized(server).chars() {
        if c != '_' || !key.ends_with('_') {
            key.push(c);
        }
    }
    key.truncate(key.trim_end_matches('_').len());
    if key.len() > LONGEST_SERVER {
        let mark = format!("_{:08x}", fingerprint(&key));
        key.truncate(LONGEST_SERVER - mark.len());
        key.truncate(key.trim_end_matches('_').len());
        key.push_str(&mark);
    }
    key
}

/// Returns the slash command of a prompt: one word with one `:` and no `/`, which would look like a
/// path.
pub(crate) fn command(server: &str, prompt: &str) -> String {
    let solid = |name: &str| name.replace(|c: char| c.is_whitespace() || c.is_control() || "/:".contains(c), "_");
    format!("{}:{}", solid(server), solid(prompt))
}

fn sanitized(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

/// Hashes a name with FNV-1a, which never changes, so the names in an old conversation stay valid
/// after a restart.
fn fingerprint(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_for_providers_and_unique() {
        let mut names = ToolNames::default();
        let long = "x".repeat(80);
        let tools = ["get-sum", "größe/prüfen", "gr__e/pr_fen", &long, &format!("{long}y")];
        let given: Vec<String> = tools.iter().map(|tool| names.tool("my server", tool).unwrap()).collect();
        assert_eq!(given[0], "mcp__my_server__get-sum");
        assert_eq!(given[1], "mcp__my_server__gr__e_pr_fen");
        assert!(given[2].starts_with("mcp__my_server__gr__e_pr_fen_"), "{}", given[2]);
        for name in &given {
            assert!(
                name.len() <= MAX_TOOL_NAME && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
                "{name}"
            );
        }
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
        assert_eq!(names.tool("my server", &long), None, "the same tool once more");
    }

    #[test]
    fn a_tools_name_identifies_its_server_among_all_others() {
        let long = "s".repeat(80);
        let servers = ["a", "a__b", "a_", "_a", "a-b", &long, &format!("{long}t")];
        let tools = ["b__c", "c", "_c", "b_c", &long];
        for server in servers {
            for tool in tools {
                let name = ToolNames::default().tool(server, tool).unwrap();
                let found = servers.map(key).into_iter().find(|key| name.starts_with(&format!("{PREFIX}{key}__")));
                assert_eq!(found, Some(key(server)), "{name}");
            }
        }
        assert_eq!(key("my server"), key("my_server"), "such servers are not both taken");
        assert!(key(&long).len() <= LONGEST_SERVER && key(&long) != key(&format!("{long}t")));
    }

    #[test]
    fn a_command_is_one_word() {
        assert_eq!(command("my server", "say hello\n"), "my_server:say_hello_");
        assert_eq!(command("@org/docs:new", "a/b:c"), "@org_docs_new:a_b_c");
    }
}
