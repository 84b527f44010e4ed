//! Lists every key in force with its value and its source. Secrets are hidden.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use domain::redact::{self, HIDDEN};
use serde::Serialize;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::key_position;
use super::layers::{LayerOrigin, Layers, variable_of};

/// Tables whose members are secret; below, names of keys whose values are secret.
const SECRET_TABLES: [&str; 2] = ["headers", "env"];
const SECRET_NAMES: [&str; 5] = ["token", "password", "secret", "client_secret", "authorization"];

type Values = BTreeMap<String, (Value, String)>;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownSetting {
    pub key: String,
    pub value: Value,
    /// The source of the value: `default`, a file with its line, a variable, or `--set`.
    pub source: String,
}

impl Layers {
    /// Lists all keys, sorted by name. The layers must have been checked.
    pub fn overview(&self) -> Vec<ShownSetting> {
        let shown = self.values().into_iter().map(|(key, (value, source))| {
            let (above, name) = key.rsplit_once('.').unwrap_or(("", &key));
            ShownSetting { value: visible(above, name, value), key, source }
        });
        shown.collect()
    }

    /// Returns the keys that differ or exist on one side only.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let (mine, theirs) = (self.values(), other.values());
        let keys: BTreeSet<&String> = mine.keys().chain(theirs.keys()).collect();
        let value = |values: &Values, key: &String| values.get(key).map(|(value, _)| value.clone());
        keys.into_iter().filter(|key| value(&mine, key) != value(&theirs, key)).cloned().collect()
    }

    /// Returns every key with its value, secrets included, and its source.
    fn values(&self) -> Values {
        let mut found = Values::new();
        for layer in self.iter() {
            let Ok(root) = DeTable::parse(&layer.text) else { continue };
            let mut leaves = Vec::new();
            gather(root.get_ref(), "", &mut leaves);
            for (key, value) in leaves {
                let source = match &layer.origin {
                    LayerOrigin::Defaults => "default".to_owned(),
                    LayerOrigin::File(path) => match key_position::line_of(&layer.text, &key) {
                        Some(line) => format!("{}:{line}", path.display()),
                        None => path.display().to_string(),
                    },
                    LayerOrigin::Environment => variable_of(&key),
                    LayerOrigin::Flags => "--set".to_owned(),
                };
                found.insert(key, (value, source));
            }
        }
        found
    }
}

/// Removes secrets from an error message about TOML text: values of secret keys, and values that
/// look like secrets.
pub(super) fn without_secrets(complaint: &str, text: &str) -> String {
    let mut leaves = Vec::new();
    if let Ok(root) = DeTable::parse(text) {
        gather(root.get_ref(), "", &mut leaves);
    }
    let mut shown = complaint.to_owned();
    for (key, value) in leaves {
        let (above, name) = key.rsplit_once('.').unwrap_or(("", &key));
        if let Value::String(value) = &value
            && !value.is_empty()
            && (name == "key" || is_secret(above, name))
        {
            shown = shown.replace(&format!("`{value}`"), HIDDEN).replace(&format!("{value:?}"), HIDDEN);
        }
    }
    redact::secrets(&shown).into_owned()
}

/// Whether the value of a key is secret.
fn is_secret(above: &str, name: &str) -> bool {
    let table = above.rsplit('.').next().unwrap_or_default();
    SECRET_TABLES.contains(&table) || SECRET_NAMES.contains(&name)
}

fn gather(table: &DeTable<'_>, above: &str, leaves: &mut Vec<(String, Value)>) {
    for (name, value) in table {
        let name = name.get_ref();
        let key = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
        match value.get_ref() {
            DeValue::Table(inner) => gather(inner, &key, leaves),
            other => leaves.push((key, as_json(other))),
        }
    }
}

/// Hides secrets in a value. A list of tables is one value, so its members are checked here.
fn visible(above: &str, name: &str, value: Value) -> Value {
    let table = above.rsplit('.').next().unwrap_or_default();
    match value {
        Value::Object(members) => {
            let above = format!("{above}.{name}");
            members.into_iter().map(|(name, value)| (name.clone(), visible(&above, &name, value))).collect()
        }
        Value::Array(members) => members.into_iter().map(|member| visible(above, name, member)).collect(),
        value if value == "" => value,
        _ if is_secret(above, name) => HIDDEN.into(),
        Value::String(address) if table == "network" && name == "proxy" => network::without_password(&address).into(),
        // The arguments of a command that prints a key may be secret; its name is not.
        Value::String(command) if table == "key" && name == "command" => {
            let program = command.split_whitespace().next().unwrap_or_default();
            if program.len() < command.len() { format!("{program} {HIDDEN}").into() } else { command.into() }
        }
        Value::String(text) => redact::secrets(&without_login(&text)).into(),
        other => other,
    }
}

/// Hides the user name and password in an address.
fn without_login(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return Cow::Borrowed(text) };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match host.rsplit_once('@') {
        Some((login, _)) => Cow::Owned(format!("{scheme}://{HIDDEN}{}", &rest[login.len()..])),
        None => Cow::Borrowed(text),
    }
}

fn as_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(truth) => (*truth).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(members) => members.iter().map(|member| as_json(member.get_ref())).collect(),
        DeValue::Table(members) => {
            members.iter().map(|(name, value)| (name.get_ref().to_string(), as_json(value.get_ref()))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;

    use super::*;

    #[test]
    fn every_value_is_shown_with_its_source_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let text = "[session]\nmode = \"safe\"\napproval = \"never\"\n\
                    [models.providers.p]\nkind = \"openai\"\nheaders = { X = \"hush\" }\n\
                    key = { command = \"pass show hush\", env = \"P_KEY\" }\n\
                    base_url = \"https://me:hush@x.example/v1\"\n\
                    [mcp.servers.s]\ncommand = \"s\"\nargs = [\"--token\", \"sk-hush-12345\"]\n\
                    [[permissions.project]]\nfolder = \"/a\"\ndeny = [\"bash\"]\n\
                    [mcp.servers.t]\nurl = \"https://t.example\"\n\
                    oauth = { client_id = \"me\", client_secret = \"hush\" }\n";
        fs::write(&file, text).unwrap();
        let environment = [("ACPD__SESSION__APPROVAL".to_owned(), "accept-edits".to_owned())];
        let flags = ["permissions.deny=[\"bash(rm)\"]".to_owned(), "log.filter=warn,acpd=debug".to_owned()];
        let layers = Layers::read(&file, environment, &flags).unwrap();
        layers.check().unwrap();
        let changed = layers.overview().into_iter().filter(|shown| shown.source != "default");
        let lines = changed.map(|shown| format!("{} = {}  {}\n", shown.key, shown.value, shown.source));
        let text = lines.collect::<String>().replace(&folder.path().display().to_string(), "DIR");
        expect![[r#"
            log.filter = "warn,acpd=debug"  --set
            mcp.servers.s.args = ["--token","(hidden)"]  DIR/config.toml:11
            mcp.servers.s.command = "s"  DIR/config.toml:10
            mcp.servers.t.oauth.client_id = "me"  DIR/config.toml:17
            mcp.servers.t.oauth.client_secret = "(hidden)"  DIR/config.toml:17
            mcp.servers.t.url = "https://t.example"  DIR/config.toml:16
            models.providers.p.base_url = "https://(hidden)@x.example/v1"  DIR/config.toml:8
            models.providers.p.headers.X = "(hidden)"  DIR/config.toml:6
            models.providers.p.key.command = "pass (hidden)"  DIR/config.toml:7
            models.providers.p.key.env = "P_KEY"  DIR/config.toml:7
            models.providers.p.kind = "openai"  DIR/config.toml:5
            permissions.deny = ["bash(rm)"]  --set
            permissions.project = [{"deny":["bash"],"folder":"/a"}]  DIR/config.toml:12
            session.approval = "accept-edits"  ACPD__SESSION__APPROVAL
            session.mode = "safe"  DIR/config.toml:2
        "#]]
        .assert_eq(&text);
        assert!(!text.contains("hush"));
    }
}
