//! The names under which models and people know what servers have: `mcp__SERVER__TOOL` for tools, `SERVER:PROMPT` for the
//! commands that prompts become.

use std::collections::HashSet;

/// What providers take as the name of a tool: letters, digits, `_` and `-`, this many at most.
const LONGEST: usize = 64;

pub(super) const PREFIX: &str = "mcp__";

/// Hands out names, each once.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// The tool's own name as far as it can be told; what is too long, or there already, ends in a number of its own.
    pub(super) fn tool(&mut self, server: &str, tool: &str) -> String {
        let plain = format!("{PREFIX}{}__{}", sanitized(server), sanitized(tool));
        let name = if plain.len() <= LONGEST && !self.0.contains(&plain) {
            plain
        } else {
            let mark = format!("_{:08x}", fingerprint(server, tool));
            format!("{}{mark}", &plain[..plain.len().min(LONGEST - mark.len())])
        };
        self.0.insert(name.clone());
        name
    }
}

pub(super) fn command(server: &str, prompt: &str) -> String {
    let solid = |name: &str| name.replace(|c: char| c.is_whitespace() || c.is_control(), "_");
    format!("{}:{}", solid(server), solid(prompt))
}

fn sanitized(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

/// FNV-1a: the same in every life of the daemon, so that the model finds the names of an old conversation again.
fn fingerprint(server: &str, tool: &str) -> u32 {
    let bytes = server.bytes().chain([0]).chain(tool.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_providers_take_and_never_the_same_twice() {
        let mut names = Names::default();
        let long = "x".repeat(80);
        let given = [
            names.tool("everything", "get-sum"),
            names.tool("my server", "größe/prüfen"),
            names.tool("my_server", "gr__e/pr_fen"),
            names.tool("s", &long),
            names.tool("s", &format!("{long}y")),
        ];
        assert_eq!(given[0], "mcp__everything__get-sum");
        assert_eq!(given[1], "mcp__my_server__gr__e_pr_fen");
        assert!(given[2].starts_with("mcp__my_server__gr__e_pr_fen_"), "{}", given[2]);
        for name in &given {
            assert!(
                name.len() <= LONGEST && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
                "{name}"
            );
        }
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
    }

    #[test]
    fn a_command_is_one_word() {
        assert_eq!(command("my server", "say hello\n"), "my_server:say_hello_");
    }
}
