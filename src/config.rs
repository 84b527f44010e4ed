//! Configuration: defaults, file, environment and flags become one checked `Config`.
//!
//! Read once, when the daemon starts; the other programs have none. A broken configuration is an error that names the
//! file and line, the variable or the flag, and the key; it never becomes a default. `paths` says where the file is.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use acpd_actors::{Unattended, WhenBusy};
use anyhow::Context;
use config::builder::DefaultState;
use config::{ConfigBuilder, ConfigError, FileFormat};
use domain::{Approval, Mode};
use models::ModelsConfig;
use serde::{Deserialize, Deserializer, de};
use tools::hooks::Hooks;
use tools::notify::Notify;
use tools::rules::Permissions;

const DEFAULTS: &str = include_str!("defaults.toml");
const PREFIX: &str = "ACPD";
const SEPARATOR: &str = "__";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub session: Session,
    pub protocol: Protocol,
    #[serde(default)]
    pub models: ModelsConfig,
    #[serde(default)]
    pub permissions: Permissions,
    #[serde(default)]
    pub hooks: Hooks,
    #[serde(default)]
    pub notify: Notify,
    pub login: Login,
    pub limits: Limits,
    pub history: History,
    pub log: Log,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    #[serde(deserialize_with = "mode")]
    pub mode: Mode,
    #[serde(deserialize_with = "approval")]
    pub approval: Approval,
    pub max_requests: u32,
    pub notes: Vec<String>,
    #[serde(deserialize_with = "when_busy")]
    pub when_busy: WhenBusy,
    #[serde(deserialize_with = "unattended")]
    pub unattended: Unattended,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    pub strict: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    pub github: GithubLogin,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GithubLogin {
    pub client_id: String,
    pub device_url: String,
    pub token_url: String,
    pub scope: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub frame: usize,
    pub outbox: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    pub cache: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub filter: String,
}

fn mode<'de, D: Deserializer<'de>>(value: D) -> Result<Mode, D::Error> {
    one_of(value, Mode::from_id, Mode::ALL.map(Mode::id))
}

fn approval<'de, D: Deserializer<'de>>(value: D) -> Result<Approval, D::Error> {
    one_of(value, Approval::from_id, Approval::ALL.map(Approval::id))
}

fn when_busy<'de, D: Deserializer<'de>>(value: D) -> Result<WhenBusy, D::Error> {
    let known = |given: &str| match given {
        "refuse" => Some(WhenBusy::Refuse),
        "queue" => Some(WhenBusy::Queue),
        _ => None,
    };
    one_of(value, known, ["refuse", "queue"])
}

/// `wait`, `deny`, or a number of seconds such as `90s`.
fn unattended<'de, D: Deserializer<'de>>(value: D) -> Result<Unattended, D::Error> {
    let known = |given: &str| match given {
        "wait" => Some(Unattended::Wait),
        "deny" => Some(Unattended::Deny),
        limit => {
            let seconds = limit.strip_suffix('s').and_then(|number| number.parse().ok());
            seconds.map(|seconds| Unattended::DenyAfter(Duration::from_secs(seconds)))
        }
    };
    one_of(value, known, ["wait", "deny", "a time such as 90s"])
}

fn one_of<'de, D: Deserializer<'de>, T, const N: usize>(
    value: D,
    find: fn(&str) -> Option<T>,
    known: [&str; N],
) -> Result<T, D::Error> {
    let given = String::deserialize(value)?;
    find(&given).ok_or_else(|| de::Error::custom(format!("unknown value `{given}`, expected {}", known.join(", "))))
}

/// Where a wrong value came from, for the person who must mend it.
enum Layer<'a> {
    File { path: &'a Path, text: &'a str },
    Environment,
    Flags,
}

type Builder = ConfigBuilder<DefaultState>;

/// Reads the file (a missing one is empty), then the environment, then `KEY=VALUE` from flags; later ones win.
pub fn load(
    file: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[String],
) -> anyhow::Result<Config> {
    let text = read_or_empty(file)?;
    let environment = ours(environment);
    let flags = split_flags(flags)?;
    let from_file = |builder: Builder| builder.add_source(config::File::from_str(&text, FileFormat::Toml));
    let from_environment = |builder: Builder| {
        let variables = config::Environment::with_prefix(PREFIX).prefix_separator(SEPARATOR).separator(SEPARATOR);
        builder.add_source(variables.try_parsing(true).source(Some(environment.clone())))
    };
    let from_flags = |builder: Builder| with_flags(builder, &flags);

    // Each layer is checked over the defaults by itself, so that a complaint can say which layer is at fault.
    let file_layer = Layer::File { path: file, text: &text };
    checked(from_file(defaults())).map_err(|fault| file_layer.blame(&fault))?;
    checked(from_environment(defaults())).map_err(|fault| Layer::Environment.blame(&fault))?;
    checked(from_flags(defaults())).map_err(|fault| Layer::Flags.blame(&fault))?;
    checked(from_flags(from_environment(from_file(defaults())))).map_err(|fault| Layer::Flags.blame(&fault))
}

fn defaults() -> Builder {
    config::Config::builder().add_source(config::File::from_str(DEFAULTS, FileFormat::Toml))
}

fn read_or_empty(file: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read the configuration {}", file.display())),
    }
}

fn ours(environment: impl IntoIterator<Item = (String, String)>) -> HashMap<String, String> {
    let prefix = format!("{PREFIX}{SEPARATOR}");
    environment.into_iter().filter(|(name, _)| name.starts_with(&prefix)).collect()
}

fn split_flags(flags: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let split = |flag: &String| {
        let (key, value) = flag.split_once('=').with_context(|| format!("--set {flag}: not of the form KEY=VALUE"))?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    flags.iter().map(split).collect()
}

fn with_flags(builder: Builder, flags: &[(String, String)]) -> Builder {
    // The crate's own overrides cannot be told apart from other text, so flags travel as one more environment.
    let pairs = flags.iter().map(|(key, value)| (format!("{PREFIX}.{key}"), value.clone())).collect();
    let source = config::Environment::with_prefix(PREFIX).prefix_separator(".").separator(".").try_parsing(true);
    builder.add_source(source.source(Some(pairs)))
}

/// What is wrong, and with which key if that is known.
struct Fault {
    key: Option<String>,
    why: String,
}

fn checked(builder: Builder) -> Result<Config, Fault> {
    let config: Config = builder.build().and_then(config::Config::try_deserialize).map_err(|error| fault(&error))?;
    let at_least = |key: &str, value: u64, least: u64| {
        let why = format!("must be at least {least}, is {value}");
        if value < least { Err(Fault { key: Some(key.to_owned()), why }) } else { Ok(()) }
    };
    at_least("session.max_requests", u64::from(config.session.max_requests), 1)?;
    at_least("limits.frame", config.limits.frame as u64, 4096)?;
    at_least("limits.outbox", config.limits.outbox as u64, 65_536)?;
    at_least("history.cache", config.history.cache, 1 << 20)?;
    if let Err(error) = config.log.filter.parse::<tracing_subscriber::EnvFilter>() {
        return Err(Fault { key: Some("log.filter".to_owned()), why: error.to_string() });
    }
    Ok(config)
}

fn fault(error: &ConfigError) -> Fault {
    match error {
        ConfigError::Type { unexpected, expected, key, .. } => {
            Fault { key: key.clone(), why: format!("expected {expected}, found {unexpected}") }
        }
        ConfigError::At { error, key, .. } => {
            let inner = fault(error);
            let key = [key.clone(), inner.key].into_iter().flatten().collect::<Vec<_>>().join(".");
            Fault { key: Some(key), why: inner.why }
        }
        // Serde names an unknown field in its text only; the key so far is that of the section around it.
        ConfigError::Message(text) => {
            match text.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
                Some((field, rest)) => Fault { key: Some(field.to_owned()), why: format!("unknown key{rest}") },
                None => Fault { key: None, why: text.clone() },
            }
        }
        ConfigError::FileParse { cause, .. } => Fault { key: None, why: cause.to_string() },
        other => Fault { key: None, why: other.to_string() },
    }
}

impl Layer<'_> {
    fn blame(&self, fault: &Fault) -> anyhow::Error {
        let mut place = match self {
            Self::File { path, text } => match fault.key.as_deref().and_then(|key| line_of(text, key)) {
                Some(line) => format!("{}:{line}", path.display()),
                None => path.display().to_string(),
            },
            Self::Environment => match &fault.key {
                Some(key) => format!("{PREFIX}{SEPARATOR}{}", key.replace('.', SEPARATOR).to_uppercase()),
                None => "the environment".to_owned(),
            },
            Self::Flags => "--set".to_owned(),
        };
        if let Some(key) = &fault.key {
            let _ = write!(place, ": {key}");
        }
        anyhow::anyhow!("{place}: {}", fault.why.trim_end())
    }
}

/// The line on which a dotted key stands. The parser is done with lines by the time a value turns out to be wrong, so
/// this looks again; it need only find what the parser has accepted.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut section = String::new();
    let mut lists: HashMap<String, usize> = HashMap::new();
    for (line, line_number) in text.lines().zip(1..) {
        let line = line.trim();
        if let Some((header, _)) = line.strip_prefix("[[").and_then(|rest| rest.split_once("]]")) {
            // The parser counts the tables of a list in its keys.
            let number = lists.entry(header.trim().to_owned()).and_modify(|number| *number += 1).or_insert(0);
            section = format!("{}[{number}]", header.trim());
            if section == key {
                return Some(line_number);
            }
        } else if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = header.0.trim().to_owned();
            if section == key {
                return Some(line_number);
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let name = name.trim().trim_matches('"');
            let full = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            // An inline table holds the keys below it on the same line, and a list its members.
            if full == key || key.strip_prefix(&full).is_some_and(|below| below.starts_with(['.', '['])) {
                return Some(line_number);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn load_text(text: &str, environment: &[(&str, &str)], flags: &[&str]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, text).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        load(&file, environment, &flags)
            .map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "DIR"))
    }

    /// The text of a file, variables, and flags.
    type Layers<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

    fn complaints(broken: &[Layers]) -> String {
        let complaint = |(text, environment, flags): &Layers| load_text(text, environment, flags).unwrap_err();
        broken.iter().map(complaint).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn no_file_means_the_defaults() {
        let config = load(Path::new("/nowhere/config.toml"), [], &[]).unwrap();
        assert_eq!(
            config.session,
            Session {
                mode: Mode::Full,
                approval: Approval::Ask,
                max_requests: 100,
                notes: vec!["AGENTS.md".to_owned()],
                when_busy: WhenBusy::Refuse,
                unattended: Unattended::Wait
            }
        );
        assert_eq!(config.limits, Limits { frame: 64 << 20, outbox: 8 << 20 });
    }

    #[test]
    fn later_layers_win() {
        let text = "[session]\nmode = \"safe\"\napproval = \"never\"\nmax_requests = 3\n";
        let environment = [("ACPD__SESSION__APPROVAL", "accept-edits"), ("ACPD__SESSION__MAX_REQUESTS", "4")];
        let config = load_text(text, &environment, &["session.max_requests=5"]).unwrap();
        assert_eq!(
            config.session,
            Session {
                mode: Mode::Safe,
                approval: Approval::AcceptEdits,
                max_requests: 5,
                notes: vec!["AGENTS.md".to_owned()],
                when_busy: WhenBusy::Refuse,
                unattended: Unattended::Wait
            }
        );
    }

    #[test]
    fn other_variables_of_ours_are_not_configuration() {
        load_text("", &[("ACPD_SOCKET", "/x"), ("PATH", "/bin")], &[]).unwrap();
    }

    #[test]
    fn a_broken_file_is_named_with_line_and_key() {
        let said = complaints(&[
            ("[session]\n\nmdoe = \"full\"\n", &[], &[]),
            ("[session]\nmode = \"fulll\"\n", &[], &[]),
            ("[limits]\n# how much\nframe = \"much\"\n", &[], &[]),
            ("[limits]\nframe = 1\n", &[], &[]),
            ("limits = { frame = -1 }\n", &[], &[]),
            ("[sesion]\nmode = \"full\"\n", &[], &[]),
            ("[log]\nfilter = \"a=b=c\"\n", &[], &[]),
            ("[permissions]\nallow = [\"bash(ls\"]\n", &[], &[]),
            ("[permissions]\nalow = []\n", &[], &[]),
            (
                "[[permissions.project]]\nfolder = \"/a\"\n[[permissions.project]]\nfolder = \"/b\"\ndeny = [\"\"]\n",
                &[],
                &[],
            ),
            ("[session\n", &[], &[]),
        ]);
        expect![[r#"
            DIR/config.toml:3: session.mdoe: unknown key, expected one of `mode`, `approval`, `max_requests`, `notes`, `when_busy`, `unattended`
            DIR/config.toml:2: session.mode: unknown value `fulll`, expected full, read-only, safe, sandbox
            DIR/config.toml:3: limits.frame: expected an integer, found string "much"
            DIR/config.toml:2: limits.frame: must be at least 4096, is 1
            DIR/config.toml:1: limits.frame: expected an unsigned 64 bit or less integer, found 64-bit integer `-1`
            DIR/config.toml:1: sesion: unknown key, expected one of `session`, `protocol`, `models`, `permissions`, `hooks`, `notify`, `login`, `limits`, `history`, `log`
            DIR/config.toml:2: log.filter: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5
            DIR/config.toml:2: permissions.allow[0]: the rule `bash(ls` must look like `tool` or `tool(pattern)`
            DIR/config.toml:2: permissions.alow: unknown key, expected one of `allow`, `ask`, `deny`, `project`
            DIR/config.toml: permissions.project[1]deny[0]: the rule `` must look like `tool` or `tool(pattern)`
            DIR/config.toml: TOML parse error at line 1, column 9
              |
            1 | [session
              |         ^
            unclosed table, expected `]`"#]].assert_eq(&said);
    }

    #[test]
    fn a_broken_variable_or_flag_is_named() {
        let said = complaints(&[
            ("", &[("ACPD__SESSION__MDOE", "x")], &[]),
            ("", &[("ACPD__LIMITS__FRAME", "x")], &[]),
            ("", &[], &["session.mode=x"]),
            ("", &[], &["session.mode"]),
        ]);
        expect![[r#"
            ACPD__SESSION__MDOE: session.mdoe: unknown key, expected one of `mode`, `approval`, `max_requests`, `notes`, `when_busy`, `unattended`
            ACPD__LIMITS__FRAME: limits.frame: expected an integer, found string "x"
            --set: session.mode: unknown value `x`, expected full, read-only, safe, sandbox
            --set session.mode: not of the form KEY=VALUE"#]]
        .assert_eq(&said);
    }
}
