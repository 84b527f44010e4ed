//! Reads the configuration: merges defaults, file, environment and flags into one checked `Config`.
//!
//! The daemon reads it when it starts and on a reload. An invalid value is an error that names the
//! key and its source: the file and line, the variable or the flag. It is never replaced by a
//! default. `paths` finds the file.

mod budget;
#[cfg(test)]
mod defaults_tests;
mod key_position;
mod layers;
mod network;
mod overview;
mod protocol;
mod resolved_network;
mod tools;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::hooks::{Hooks, Notify};
use ::mcp::McpSettings;
use ::policy::Permissions;
use acpd_actors::{BusyPolicy, UnattendedPolicy};
use agents::AgentsSettings;
use domain::{Approval, Mode};
use models::ModelsConfig;
use serde::{Deserialize, Deserializer, de};

pub use budget::BudgetConfig;
pub use layers::Layers;
pub use network::NetworkConfig;
pub use overview::ShownSetting;
pub use protocol::ProtocolConfig;
pub use resolved_network::{ResolvedNetwork, Source};
pub use tools::{SandboxConfig, ToolsConfig, WebConfig};

pub const DEFAULTS: &str = include_str!("defaults.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub session: SessionConfig,
    pub budget: BudgetConfig,
    pub protocol: ProtocolConfig,
    #[serde(default)]
    pub models: ModelsConfig,
    #[serde(default)]
    pub permissions: Permissions,
    #[serde(default)]
    pub hooks: Hooks,
    #[serde(default)]
    pub notify: Notify,
    #[serde(default)]
    pub mcp: McpSettings,
    #[serde(default)]
    pub agents: AgentsSettings,
    pub diagnostics: lsp::Settings,
    pub network: NetworkConfig,
    pub tools: ToolsConfig,
    pub sandbox: SandboxConfig,
    pub web: WebConfig,
    pub login: LoginConfig,
    pub daemon: DaemonConfig,
    pub http: acpd_http::HttpSettings,
    pub limits: LimitsConfig,
    pub history: HistoryConfig,
    pub log: LogConfig,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    #[serde(deserialize_with = "mode")]
    pub mode: Mode,
    #[serde(deserialize_with = "approval")]
    pub approval: Approval,
    pub max_requests: u32,
    pub compact_tokens: u64,
    pub notes: Vec<String>,
    #[serde(deserialize_with = "when_busy")]
    pub when_busy: BusyPolicy,
    #[serde(deserialize_with = "unattended")]
    pub unattended: UnattendedPolicy,
    #[serde(deserialize_with = "time")]
    pub idle_after: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    #[serde(deserialize_with = "exit_when_idle")]
    pub exit_when_idle: ExitWhenIdle,
}

/// When a daemon exits while no client is connected and no session is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitWhenIdle {
    /// After an hour if a service manager holds the socket and HTTP is off; otherwise never.
    Auto,
    Off,
    After(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginConfig {
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
pub struct LimitsConfig {
    pub frame: usize,
    pub outbox: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryConfig {
    pub cache: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    pub filter: String,
}

fn mode<'de, D: Deserializer<'de>>(value: D) -> Result<Mode, D::Error> {
    one_of(value, Mode::from_id, Mode::ALL.map(Mode::id))
}

fn approval<'de, D: Deserializer<'de>>(value: D) -> Result<Approval, D::Error> {
    one_of(value, Approval::from_id, Approval::ALL.map(Approval::id))
}

fn when_busy<'de, D: Deserializer<'de>>(value: D) -> Result<BusyPolicy, D::Error> {
    one_of(value, BusyPolicy::from_id, BusyPolicy::ALL.map(BusyPolicy::id))
}

/// Parses `auto`, `off`, or a time.
fn exit_when_idle<'de, D: Deserializer<'de>>(value: D) -> Result<ExitWhenIdle, D::Error> {
    let known = |given: &str| match given {
        "auto" => Some(ExitWhenIdle::Auto),
        "off" => Some(ExitWhenIdle::Off),
        time => duration(time).map(ExitWhenIdle::After),
    };
    one_of(value, known, ["auto", "off", "a time such as 30m"])
}

/// Parses a whole number of seconds, minutes or hours: `90s`, `30m`, `2h`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_secs)
}

fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    one_of(value, duration, ["a time such as 90s, 30m or 2h"])
}

/// Parses `wait`, `deny`, or a time.
fn unattended<'de, D: Deserializer<'de>>(value: D) -> Result<UnattendedPolicy, D::Error> {
    let known = |given: &str| match given {
        "wait" => Some(UnattendedPolicy::Wait),
        "deny" => Some(UnattendedPolicy::Deny),
        time => duration(time).map(UnattendedPolicy::DenyAfter),
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

/// Reads the file (a missing one is empty), then the environment, then `KEY=VALUE` flags. Later
/// values win.
pub fn load(
    file: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[String],
) -> anyhow::Result<Config> {
    Layers::read(file, environment, flags)?.check()
}

/// A configuration, and its sources, from which it can be read again.
#[derive(Clone)]
pub struct Loaded {
    pub config: Config,
    layers: Layers,
    file: PathBuf,
    environment: Vec<(String, String)>,
    flags: Vec<String>,
}

impl Loaded {
    pub fn read(file: &Path, environment: Vec<(String, String)>, flags: Vec<String>) -> anyhow::Result<Self> {
        let layers = Layers::read(file, environment.iter().cloned(), &flags)?;
        Ok(Self { config: layers.check()?, layers, file: file.to_owned(), environment, flags })
    }

    /// Reads the same sources again.
    pub fn again(&self) -> anyhow::Result<Self> {
        Self::read(&self.file, self.environment.clone(), self.flags.clone())
    }

    /// Returns the keys whose values differ.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        self.layers.differences(&other.layers)
    }
}

impl Config {
    /// Returns the first key whose value has the right type but is invalid, and the reason.
    fn invalid_value(&self) -> Option<(&'static str, String)> {
        let least = [
            ("session.max_requests", u64::from(self.session.max_requests), 1),
            ("limits.frame", self.limits.frame as u64, 4096),
            ("limits.outbox", self.limits.outbox as u64, 65_536),
            ("history.cache", self.history.cache, 1 << 20),
            ("http.detach_seconds", self.http.detach_seconds, 1),
            ("mcp.connect_seconds", self.mcp.connect_seconds, 1),
            ("mcp.call_seconds", self.mcp.call_seconds, 1),
        ];
        for (key, value, least) in least.into_iter().chain(self.tools.least()).chain(self.web.least()) {
            if value < least {
                return Some((key, format!("must be at least {least}, is {value}")));
            }
        }
        if let Some(wrong) = self
            .budget
            .invalid_value()
            .or_else(|| self.tools.invalid_value())
            .or_else(|| self.sandbox.invalid_value())
            .or_else(|| self.network.invalid_value())
        {
            return Some(wrong);
        }
        if let Some(folder) = self.mcp.trusted_projects.iter().find(|folder| !folder.is_absolute()) {
            return Some(("mcp.trusted_projects", format!("`{}` must be an absolute path", folder.display())));
        }
        let filter = self.log.filter.parse::<tracing_subscriber::EnvFilter>();
        filter.err().map(|error| ("log.filter", error.to_string()))
    }

    /// Returns the first key that contradicts another key, which may be in another layer, and the
    /// reason.
    fn inconsistency(&self) -> Option<(&'static str, String)> {
        self.http.check().err().or_else(|| self.agents.inconsistency())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    /// The text of a file, the variables, and the flags.
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
            SessionConfig {
                mode: Mode::Full,
                approval: Approval::Ask,
                max_requests: 100,
                compact_tokens: 200_000,
                notes: ::project::NOTE_NAMES.map(str::to_owned).to_vec(),
                when_busy: BusyPolicy::Refuse,
                unattended: UnattendedPolicy::Wait,
                idle_after: Duration::from_secs(600),
            }
        );
        assert_eq!(config.limits, LimitsConfig { frame: 64 << 20, outbox: 8 << 20 });
    }

    #[test]
    fn later_layers_win() {
        let text = "[session]\nmode = \"safe\"\napproval = \"never\"\nmax_requests = 3\n";
        let environment = [("ACPD__SESSION__APPROVAL", "accept-edits"), ("ACPD__SESSION__MAX_REQUESTS", "4")];
        let config = load_text(text, &environment, &["session.max_requests=5"]).unwrap();
        assert_eq!(
            config.session,
            SessionConfig {
                mode: Mode::Safe,
                approval: Approval::AcceptEdits,
                max_requests: 5,
                compact_tokens: 200_000,
                notes: ::project::NOTE_NAMES.map(str::to_owned).to_vec(),
                when_busy: BusyPolicy::Refuse,
                unattended: UnattendedPolicy::Wait,
                idle_after: Duration::from_secs(600),
            }
        );
    }

    #[test]
    fn other_variables_of_acpd_are_not_configuration() {
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
            ("[permissions]\ndeny = [\n  \"bash(rm)\",\n  \"bsh(ls)\",\n]\n", &[], &[]),
            (
                "[[permissions.project]]\nfolder = \"/a\"\n[[permissions.project]]\nfolder = \"/b\"\ndeny = [\"\"]\n",
                &[],
                &[],
            ),
            ("[session\n", &[], &[]),
        ]);
        expect![[r#"
            DIR/config.toml:3: session.mdoe: unknown key; did you mean `mode`?
            DIR/config.toml:2: session.mode: unknown value `fulll`, expected full, read-only, safe, sandbox, plan
            DIR/config.toml:3: limits.frame: expected a whole number, found a string
            DIR/config.toml:2: limits.frame: must be at least 4096, is 1
            DIR/config.toml:1: limits.frame: expected a whole number that is not negative, found a number
            DIR/config.toml:1: sesion: unknown key; did you mean `session`?
            DIR/config.toml:2: log.filter: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5
            DIR/config.toml:2: permissions.allow[0]: the rule `bash(ls` must look like `tool` or `tool(pattern)`
            DIR/config.toml:2: permissions.alow: unknown key; did you mean `allow`?
            DIR/config.toml:4: permissions.deny[1]: the rule `bsh(ls)` can never match: there is no tool `bsh`; did you mean `bash`?
            DIR/config.toml:5: permissions.project[1].deny[0]: the rule `` must look like `tool` or `tool(pattern)`
            DIR/config.toml:1: unclosed table, expected `]`"#]].assert_eq(&said);
    }

    #[test]
    fn related_keys_are_checked_across_layers_and_the_faulty_layer_is_named() {
        let cert = "[http]\nlisten = \"0.0.0.0:1\"\ntls_cert = \"/c\"\n";
        load_text(cert, &[("ACPD__HTTP__TLS_KEY", "/k")], &[]).unwrap();
        let said = complaints(&[
            (cert, &[], &[]),
            (cert, &[("ACPD__HTTP__TLS_CERT", "")], &[]),
            ("", &[("ACPD__HTTP__TLS_KEY", "/k")], &["http.listen=127.0.0.1:1"]),
            ("", &[], &["http.listen=0.0.0.0:1"]),
        ]);
        expect![[r#"
            DIR/config.toml:3: http.tls_cert: needs http.tls_key, too
            DIR/config.toml:2: http.listen: 0.0.0.0:1 can be reached from other machines, which needs TLS: set http.tls_cert and http.tls_key
            ACPD__HTTP__TLS_KEY: http.tls_key: needs http.tls_cert, too
            --set: http.listen: 0.0.0.0:1 can be reached from other machines, which needs TLS: set http.tls_cert and http.tls_key"#]]
        .assert_eq(&said);
    }

    #[test]
    fn errors_use_the_words_of_the_file() {
        let said = complaints(&[
            ("[models.providers.p]\nkind = \"gopher\"\n", &[], &[]),
            ("[models.providers.p]\nbase_url = \"http://x\"\n", &[], &[]),
            ("[[hooks.before_tool]]\ntool = \"bash\"\n", &[], &[]),
            ("[notify]\nwhen = \"sometimes\"\n", &[], &[]),
            ("[sandbox]\nfile_writes = \"maybe\"\n", &[], &[]),
            ("[models.providers.p]\nkind = \"openai\"\n[[models.providers.p.models]]\nthinking = \"deep\"\n", &[], &[]),
            ("[models]\nproviders = \"p\"\n", &[], &[]),
            ("session = 5\n", &[], &[]),
            ("[session]\nnotes = \"AGENTS.md\"\n", &[], &[]),
            ("[protocol]\nstrict = \"perhaps\"\n", &[], &[]),
        ]);
        expect![[r#"
            DIR/config.toml:2: models.providers.p.kind: unknown value `gopher`, expected one of anthropic, openai, openai_responses, vertex, gemini, ollama
            DIR/config.toml:1: models.providers.p.kind: is missing
            DIR/config.toml:1: hooks.before_tool[0].command: is missing
            DIR/config.toml:2: notify.when: unknown value `sometimes`, expected unattended or always
            DIR/config.toml:2: sandbox.file_writes: unknown value `maybe`, expected allow, ask, deny
            DIR/config.toml:4: models.providers.p.models[0].thinking: unknown value `deep`, expected budget or adaptive
            DIR/config.toml:2: models.providers: expected a table, found a string
            DIR/config.toml:1: session: expected a table, found a number
            DIR/config.toml:2: session.notes: expected a list, found a string
            DIR/config.toml:2: protocol.strict: expected true or false, found a string"#]]
        .assert_eq(&said);
    }

    #[test]
    fn no_configuration_error_quotes_a_possible_key() {
        const KEY: &str = "sk-ant-0123456789abcdef";
        let provider = |line: &str| format!("[models.providers.p]\nkind = \"openai\"\n{line}\n");
        let texts = [
            provider(&format!("key = \"{KEY}\"")),
            provider(&format!("key = [\"{KEY}\"]")),
            provider(&format!("key = {KEY}")),
            provider(&format!("key = \"{KEY}")),
            provider(&format!("key = {{ env = \"{KEY}\" }}")),
            provider(&format!("key = {{ file = \"{KEY}\" }}")),
            provider(&format!("key = {{ credential = \"{KEY}\" }}")),
            provider(&format!("key = {{ \"{KEY}\" = true }}")),
            provider(&format!("api_key = \"{KEY}\"")),
            provider(&format!("headers = \"{KEY}\"")),
            provider(&format!("headers = [\"Authorization: {KEY}\"]")),
            format!("[models.providers.p]\nkind = \"{KEY}\"\n"),
            format!("[models.providers]\np = \"{KEY}\"\n"),
            format!("[mcp.servers.s]\nurl = \"http://x\"\nheaders = \"{KEY}\"\n"),
            format!("[mcp.servers.s]\ncommand = \"x\"\nenv = \"TOKEN={KEY}\"\n"),
            format!("[mcp.servers.s]\nurl = \"http://x\"\ntransport = \"{KEY}\"\n"),
            format!("[session]\nmode = \"{KEY}\"\n"),
            format!("{KEY}\n"),
            format!("[\"{KEY}\"]\n"),
        ];
        let mut said: Vec<String> = texts.iter().map(|text| load_text(text, &[], &[]).expect_err(text)).collect();
        said.push(load_text("", &[("ACPD__MODELS__PROVIDERS__P__KEY", KEY)], &[]).unwrap_err());
        for flag in [format!("models.providers.p.key={KEY}"), KEY.to_owned(), format!("={KEY}")] {
            said.push(load_text("", &[], &[&flag]).unwrap_err());
        }
        for complaint in &said {
            assert!(!complaint.contains("0123456789"), "{complaint}");
        }
        // The first message explains where a key belongs.
        assert!(said[0].contains("the key itself does not belong here: `acpd login` keeps it"), "{}", said[0]);
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
            ACPD__SESSION__MDOE: session.mdoe: unknown key; did you mean `mode`?
            ACPD__LIMITS__FRAME: limits.frame: expected a whole number, found a string
            --set: session.mode: unknown value `x`, expected full, read-only, safe, sandbox, plan
            --set session.mode: must have the form KEY=VALUE"#]]
        .assert_eq(&said);
    }
}
