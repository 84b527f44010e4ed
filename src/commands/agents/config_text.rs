//! Adds an agent's table to the text of a configuration file, and removes it. Everything else stays
//! unchanged, including comments and layout.
//!
//! The result is parsed and compared with the expected configuration, so a file in an unusual form
//! is refused instead of damaged.

use anyhow::{Context, bail, ensure};
use toml::{Table, Value};

/// Returns an error if the name is not valid for an agent.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    ensure!(!name.is_empty() && name.chars().all(is_plain), "`{name}` must consist of letters, digits, `-` and `_`");
    ensure!(!["native", "default"].contains(&name), "`{name}` has another meaning under [agents]");
    Ok(())
}

/// Returns the lines of an agent's table.
pub(super) fn table(name: &str, entry: &Table) -> String {
    let mut text = format!("[agents.{name}]\n");
    for key in ["command", "args", "env"] {
        if let Some(value) = entry.get(key) {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    text
}

pub(super) fn add(text: &str, name: &str, entry: &Table) -> anyhow::Result<String> {
    let mut wanted = read(text)?;
    let agents = wanted.entry("agents").or_insert_with(|| Value::Table(Table::new()));
    let agents = agents.as_table_mut().context("`agents` is not a table")?;
    ensure!(!agents.contains_key(name), "the configuration has an agent `{name}` already; remove it first");
    agents.insert(name.to_owned(), Value::Table(entry.clone()));
    let gap = match text {
        "" => "",
        _ if text.ends_with("\n\n") => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let after = format!("{text}{gap}{}", table(name, entry));
    let is_right = read(&after).is_ok_and(|now| now == wanted);
    ensure!(is_right, "`agents` is written in a form that acpd does not change; add the table by hand");
    Ok(after)
}

/// Returns the text without the agent's table, and the removed lines.
pub(super) fn remove(text: &str, name: &str) -> anyhow::Result<(String, String)> {
    let mut wanted = read(text)?;
    let agents = wanted.get_mut("agents").and_then(Value::as_table_mut);
    let Some(agents) = agents.filter(|agents| agents.contains_key(name)) else {
        bail!("the configuration file has no agent `{name}`");
    };
    let is_default = agents.get("default").and_then(Value::as_str) == Some(name);
    ensure!(!is_default, "`{name}` is agents.default; change that first");
    agents.remove(name);
    let (mut kept, mut removed) = (String::new(), String::new());
    let mut is_inside = false;
    // Blank lines and comments, which may belong to the next table.
    let mut pending = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(header) = header(line) {
            is_inside =
                header.first().is_some_and(|first| first == "agents") && header.get(1).is_some_and(|at| at == name);
            kept.push_str(&std::mem::take(&mut pending));
        }
        let is_remark = line.trim().is_empty() || line.trim_start().starts_with('#');
        if is_inside && is_remark {
            pending.push_str(line);
        } else if is_inside {
            removed.push_str(&std::mem::take(&mut pending));
            removed.push_str(line);
        } else {
            kept.push_str(line);
        }
    }
    kept.push_str(&pending);
    let is_empty = |agents: &Value| agents.as_table().is_some_and(Table::is_empty);
    let mut now = read(&kept).unwrap_or_default();
    // A table that contained only this agent is removed with the agent.
    for table in [&mut wanted, &mut now] {
        if table.get("agents").is_some_and(is_empty) {
            table.remove("agents");
        }
    }
    ensure!(now == wanted, "`{name}` is written in a form that acpd does not change; remove it by hand");
    Ok((kept, removed))
}

fn read(text: &str) -> anyhow::Result<Table> {
    text.parse::<Table>().map_err(|error| anyhow::anyhow!("the configuration is not valid TOML: {}", error.message()))
}

/// Returns the names in the header of a table, or None if the line is not a header.
fn header(line: &str) -> Option<Vec<String>> {
    if !line.trim_start().starts_with('[') {
        return None;
    }
    let mut names = Vec::new();
    let mut table = line.parse::<Table>().ok()?;
    while let Some((name, value)) = table.into_iter().next() {
        names.push(name);
        table = match value {
            Value::Table(table) => table,
            // The header of an array of tables, which ends here.
            Value::Array(_) => Table::new(),
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
                return None;
            }
        };
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn entry() -> Table {
        "command = \"codex-acp\"\nargs = [\"-v\"]".parse().unwrap()
    }

    const FILE: &str = "# Mine.\n[agents] # who answers\ndefault = \"other\"\n\n[agents.other]\ncommand = \"other\"\n\n\
                        # About codex.\n[agents.codex]\ncommand = \"codex-acp\"\n# keys\nargs = [\n  \"-v\",\n]\n\
                        [agents.codex.env]\nA = \"1\"\n\n# The log.\n[log]\nfilter = \"info\"\n";

    #[test]
    fn an_agent_is_added_after_the_existing_text() {
        assert_eq!(add("", "codex", &entry()).unwrap(), table("codex", &entry()));
        let text = add("# Mine.\n[agents] # who\ndefault = \"native\"", "codex", &entry()).unwrap();
        expect![[r#"
            # Mine.
            [agents] # who
            default = "native"

            [agents.codex]
            command = "codex-acp"
            args = ["-v"]
        "#]]
        .assert_eq(&text);
        assert!(add(&text, "codex", &entry()).is_err());
    }

    #[test]
    fn an_agent_is_removed_and_everything_else_stays() {
        let (kept, removed) = remove(FILE, "codex").unwrap();
        expect![[r#"
            # Mine.
            [agents] # who answers
            default = "other"

            [agents.other]
            command = "other"

            # About codex.

            # The log.
            [log]
            filter = "info"
        "#]]
        .assert_eq(&kept);
        assert!(removed.starts_with("[agents.codex]\n") && removed.ends_with("A = \"1\"\n"), "{removed}");
        assert_eq!(remove(&table("codex", &entry()), "codex").unwrap().0, "");
    }

    #[test]
    fn the_default_agent_and_unusual_forms_are_refused() {
        let refused = |text: &str, name: &str| remove(text, name).unwrap_err().to_string();
        assert!(refused(FILE, "other").contains("agents.default"));
        assert!(refused(FILE, "nobody").contains("has no agent"));
        assert!(refused("[agents]\ncodex = { command = \"x\" }\n", "codex").contains("by hand"));
        assert!(
            add("agents = { default = \"native\" }", "codex", &entry()).unwrap_err().to_string().contains("by hand")
        );
        assert!(check_name("a.b").is_err() && check_name("native").is_err() && check_name("claude-2").is_ok());
    }
}
