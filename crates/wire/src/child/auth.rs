//! Reads the authentication methods of a child agent.

use serde_json::Value;

/// One authentication method of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthMethod {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub by: LoginBy,
}

/// Who performs a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginBy {
    /// The agent itself, when it receives `authenticate`.
    Agent,
    /// The agent's program, run in a terminal with these additional arguments and variables. If
    /// there is a `command`, it runs instead of the agent's program and its usual arguments.
    Terminal { command: Option<String>, args: Vec<String>, env: Vec<(String, String)> },
    /// A kind of login that acpd does not know, by its name.
    Other(String),
}

/// Reads the field `authMethods` of the answer to `initialize`. Entries that are not methods are
/// skipped.
pub fn read_auth_methods(methods: &Value) -> Vec<AuthMethod> {
    methods.as_array().into_iter().flatten().filter_map(read).collect()
}

fn read(method: &Value) -> Option<AuthMethod> {
    let id = text(method, "id").or_else(|| text(method, "methodId"))?;
    // The form that is older than terminal logins in the protocol: the whole command is in the
    // metadata.
    let old = &method["_meta"]["terminal-auth"];
    let command = text(old, "command");
    let by = match method["type"].as_str() {
        Some("terminal") => {
            LoginBy::Terminal { command: None, args: list(&method["args"]), env: pairs(&method["env"]) }
        }
        None | Some("agent") if command.is_some() => {
            LoginBy::Terminal { command, args: list(&old["args"]), env: pairs(&old["env"]) }
        }
        None | Some("agent") => LoginBy::Agent,
        Some(other) => LoginBy::Other(other.to_owned()),
    };
    let name = text(method, "name").unwrap_or_else(|| id.clone());
    Some(AuthMethod { id, name, description: text(method, "description"), by })
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads environment variables: an object in version 1, a list of names and values elsewhere.
fn pairs(value: &Value) -> Vec<(String, String)> {
    let object = value.as_object().into_iter().flatten();
    let of_object = object.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let list = value.as_array().into_iter().flatten();
    of_object.chain(list.filter_map(|pair| Some((text(pair, "name")?, text(pair, "value")?)))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_login_is_by_the_agent_or_in_a_terminal() {
        let methods = read_auth_methods(&json!([
            { "id": "browser", "name": "Browser" },
            { "id": "tui", "name": "Terminal", "type": "terminal", "args": ["--setup"], "env": { "A": "1" } },
            { "id": "old", "name": "Old", "_meta": { "terminal-auth": { "command": "node", "args": ["cli.js"] } } },
            { "id": "key", "name": "Key", "type": "env_var" },
            { "name": "no id" },
        ]));
        let by: Vec<&LoginBy> = methods.iter().map(|method| &method.by).collect();
        let terminal = |command: Option<&str>, arg: &str, env: &[(&str, &str)]| LoginBy::Terminal {
            command: command.map(str::to_owned),
            args: vec![arg.to_owned()],
            env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        };
        let expected = [
            &LoginBy::Agent,
            &terminal(None, "--setup", &[("A", "1")]),
            &terminal(Some("node"), "cli.js", &[]),
            &LoginBy::Other("env_var".to_owned()),
        ];
        assert_eq!(by, expected);
    }
}
