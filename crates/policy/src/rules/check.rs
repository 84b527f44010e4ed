//! Finds rules that can never match, such as one about a tool that does not exist. A denying rule
//! that never matches would look like protection, so it is an error.

use domain::ToolKind;

use super::{BadRule, Tool};
use crate::built_in;

/// The kinds of tools that a rule can name instead of a tool.
const KINDS: [&str; 7] = ["read", "search", "edit", "delete", "move", "execute", "fetch"];

/// The prefix of the names of tools of MCP servers.
const MCP_PREFIX: &str = "mcp__";

impl Tool {
    /// Checks a rule. `name` and `pattern` are its two parts.
    pub(super) fn check(&self, rule: &str, name: &str, pattern: Option<&str>) -> Result<(), BadRule> {
        let kinds: Vec<(&str, ToolKind)> =
            built_in::TOOLS.into_iter().filter(|(name, kind)| self.is(name, *kind)).collect();
        if kinds.is_empty() && !may_name_mcp_tool(name) {
            let names = built_in::TOOLS.map(|(name, _)| name);
            let advice = advice(name, &names);
            return Err(BadRule::NoSuchTool { rule: rule.to_owned(), tool: name.to_owned(), advice });
        }
        match pattern.and_then(|pattern| why_never_matches(pattern, &kinds)) {
            Some(reason) => Err(BadRule::NeverMatches { rule: rule.to_owned(), reason }),
            None => Ok(()),
        }
    }
}

/// Returns whether the name, which may be a glob, could match a tool of an MCP server. Those tools
/// are not known yet.
fn may_name_mcp_tool(name: &str) -> bool {
    let literal = name.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
    literal.starts_with(MCP_PREFIX) || (literal.len() < name.len() && MCP_PREFIX.starts_with(literal))
}

fn advice(name: &str, tools: &[&str]) -> String {
    let known: Vec<&str> = KINDS.iter().chain(tools).copied().collect();
    match similar::get_close_matches(name.to_lowercase().as_str(), &known, 1, 0.6).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "the tools are {}, those of MCP servers ({MCP_PREFIX}*), and by what they do {}",
            tools.join(", "),
            KINDS.join(", ")
        ),
    }
}

/// Returns the reason why a pattern cannot match for any of these tools; None if it can match for
/// some of them.
fn why_never_matches(pattern: &str, tools: &[(&str, ToolKind)]) -> Option<&'static str> {
    if matches!(pattern, "*" | "**") {
        return None;
    }
    let mut reasons = tools.iter().map(|(name, kind)| match (*name, kind) {
        ("bash", _) => {
            let is_glob = pattern.contains(['*', '?', '[']);
            (!is_glob && pattern.contains([';', '|', '&', '<', '>', '`', '\n']))
                .then_some("the pattern names one command, or has a `*`")
        }
        (_, ToolKind::Fetch) => {
            let is_host = pattern.starts_with('[') || !pattern.contains([':', '/']);
            (!is_host).then_some("the pattern is a host, without a scheme, a port and a path")
        }
        (_, ToolKind::Read | ToolKind::Search | ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => {
            pattern.split('/').any(|part| part == "..").then_some("paths are compared as they are without `..`")
        }
        (_, ToolKind::Execute | ToolKind::Think | ToolKind::SwitchMode | ToolKind::Other) => Some(TAKES_NO_PATTERN),
    });
    let first = reasons.next().unwrap_or(Some(TAKES_NO_PATTERN))?;
    // The reason of a tool that accepts patterns is more helpful than the first one.
    let mut best = Some(first);
    for reason in reasons {
        best = Some(match reason? {
            TAKES_NO_PATTERN => best?,
            specific => specific,
        });
    }
    best
}

const TAKES_NO_PATTERN: &str = "calls of this tool touch nothing that a pattern could name; leave out the parentheses";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::rules::{Rule, Rules};

    #[test]
    fn a_broken_rule_is_an_error_that_names_it() {
        let reason = |rule: &str| Rule::try_from(rule.to_owned()).unwrap_err().to_string();
        assert_eq!(reason("bash(x"), "the rule `bash(x` must look like `tool` or `tool(pattern)`");
        assert_eq!(reason("bash()"), "the rule `bash()` must look like `tool` or `tool(pattern)`");
        assert_eq!(reason("edit(~/x)"), "the rule `edit(~/x)` has a pattern that starts with `~`; write the path out");
        assert!(reason("edit([)").starts_with("the rule `edit([)` has a bad pattern: "));
        for (rule, expected) in [
            ("bsh(ls)", "there is no tool `bsh`; did you mean `bash`?"),
            ("Bash(ls)", "there is no tool `Bash`; did you mean `bash`?"),
            ("WebFetch", "there is no tool `WebFetch`; did you mean `web_fetch`?"),
            ("raed(.env)", "there is no tool `raed`; did you mean `read`?"),
            ("b?sh_out", "there is no tool `b?sh_out`; did you mean `bash_output`?"),
            ("agent(x)", "calls of this tool touch nothing that a pattern could name; leave out the parentheses"),
            (
                "mcp__github__*(x)",
                "calls of this tool touch nothing that a pattern could name; leave out the parentheses",
            ),
            ("fetch(https://a.example/b)", "the pattern is a host, without a scheme, a port and a path"),
            ("edit(../x)", "paths are compared as they are without `..`"),
            ("bash(ls; rm)", "the pattern names one command, or has a `*`"),
        ] {
            assert_eq!(reason(rule), format!("the rule `{rule}` can never match: {expected}"));
        }
        assert!(reason("zzzz").contains("there is no tool `zzzz`; the tools are read_file, "), "{}", reason("zzzz"));
        for rule in
            ["mcp__github__search", "mcp__*", "*", "*_file(x)", "execute(ls)", "fetch([::1])", "bash(*; rm *)", "m*"]
        {
            assert!(Rule::try_from(rule.to_owned()).is_ok(), "{rule}");
        }
        assert!(serde_json::from_value::<Rules>(json!({"alow": []})).is_err());
    }
}
