//! The layers of the configuration: defaults, file, environment, flags. Later layers override
//! earlier ones.
//!
//! Every layer is TOML text, so all are read, checked and shown in the same way. An error names the
//! layer at fault: the file and line, the variable or the flag.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, ensure};
use config::builder::DefaultState;
use config::{ConfigBuilder, ConfigError, FileFormat};
use domain::{redact, serde_errors};

use super::{Config, DEFAULTS, key_position, overview};

const PREFIX: &str = "ACPD";
const SEPARATOR: &str = "__";

/// The layers in the order in which they were read. Later ones win.
#[derive(Clone, Debug)]
pub struct Layers(Vec<Layer>);

#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) origin: LayerOrigin,
    pub(super) text: String,
}

/// The source of a value, for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LayerOrigin {
    Defaults,
    File(PathBuf),
    Environment,
    Flags,
}

impl Layers {
    /// Reads the file (a missing one is empty), the variables of acpd, and `KEY=VALUE` from flags.
    pub fn read(
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[String],
    ) -> anyhow::Result<Self> {
        let variables = environment.into_iter().filter_map(|(name, value)| Some((key_of(&name)?, value)));
        Ok(Self(vec![
            Layer { origin: LayerOrigin::Defaults, text: DEFAULTS.to_owned() },
            Layer { origin: LayerOrigin::File(file.to_owned()), text: read_or_empty(file)? },
            Layer { origin: LayerOrigin::Environment, text: as_toml(variables.collect()) },
            Layer { origin: LayerOrigin::Flags, text: as_toml(split_flags(flags)?) },
        ]))
    }

    /// Replaces the text of the file, so that a change can be checked before it is written.
    #[must_use]
    pub fn with_file_text(mut self, text: String) -> Self {
        let file = self.0.iter_mut().find(|layer| matches!(layer.origin, LayerOrigin::File(_)));
        if let Some(file) = file {
            file.text = text;
        }
        self
    }

    /// Checks all layers and returns the merged configuration.
    ///
    /// Each layer is first checked alone over the defaults, so an error can name the layer at
    /// fault. Keys that must be consistent with each other may come from several layers, so these
    /// are checked at the end.
    pub fn check(&self) -> anyhow::Result<Config> {
        let (defaults, others) = self.0.split_first().context("there are no defaults")?;
        for layer in others {
            layer.check_syntax()?;
            checked(&[defaults, layer]).map_err(|fault| layer.blame(&fault))?;
        }
        let all: Vec<&Layer> = self.0.iter().collect();
        let config = checked(&all).map_err(|fault| self.blame(&fault))?;
        match config.inconsistency() {
            Some((key, why)) => Err(self.blame(&Fault { key: Some(key.to_owned()), why })),
            None => Ok(config),
        }
    }

    /// Returns the error for a fault in the merged configuration. Each layer is valid alone, so the
    /// last layer that sets the key is at fault.
    fn blame(&self, fault: &Fault) -> anyhow::Error {
        let says = |layer: &&Layer| fault.key.as_deref().is_some_and(|key| key_position::holds(&layer.text, key));
        match self.0.iter().rev().find(says).or(self.0.last()) {
            Some(layer) => layer.blame(fault),
            None => anyhow::anyhow!("{}", redact::secrets(&fault.why)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Layer> {
        self.0.iter()
    }
}

fn read_or_empty(file: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read the configuration {}", file.display())),
    }
}

/// Returns the key that a variable sets: `ACPD__SESSION__MODE` sets `session.mode`. Other variables
/// set none.
fn key_of(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX)?.strip_prefix(SEPARATOR)?;
    Some(name.to_lowercase().replace(SEPARATOR, "."))
}

pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{SEPARATOR}{}", key.replace('.', SEPARATOR).to_uppercase())
}

fn split_flags(flags: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for flag in flags {
        let wrong = || format!("--set {}: must have the form KEY=VALUE", redact::secrets(flag));
        let (key, value) = flag.split_once('=').with_context(wrong)?;
        ensure!(!key.trim().is_empty(), wrong());
        pairs.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(pairs)
}

/// Writes keys and values as TOML. A value that is not valid TOML, such as `safe`, becomes a
/// string.
fn as_toml(pairs: BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        let is_toml = format!("v = {value}").parse::<toml::Table>().is_ok_and(|table| table.len() == 1);
        let value = if is_toml { value } else { toml::Value::String(value).to_string() };
        let names = key.split('.').map(|name| toml::Value::String(name.to_owned()).to_string());
        let _ = writeln!(text, "{} = {value}", names.collect::<Vec<_>>().join("."));
    }
    text
}

/// A fault in the configuration, and its key if that is known.
struct Fault {
    key: Option<String>,
    why: String,
}

fn checked(layers: &[&Layer]) -> Result<Config, Fault> {
    let mut builder = ConfigBuilder::<DefaultState>::default();
    for layer in layers {
        builder = builder.add_source(config::File::from_str(&layer.text, FileFormat::Toml));
    }
    let config: Config = builder.build().and_then(config::Config::try_deserialize).map_err(|error| fault(&error))?;
    match config.invalid_value() {
        Some((key, why)) => Err(Fault { key: Some(key.to_owned()), why }),
        None => match config.agents.invalid_value() {
            Some((key, why)) => Err(Fault { key: Some(key), why }),
            None => Ok(config),
        },
    }
}

fn fault(error: &ConfigError) -> Fault {
    match error {
        // The value is named by its type and never quoted: it may be an API key in the wrong place.
        ConfigError::Type { unexpected, expected, key, .. } => Fault {
            key: key.clone().map(with_dots),
            why: format!(
                "expected {}, found {}",
                serde_errors::expected(expected),
                serde_errors::found(&unexpected.to_string())
            ),
        },
        ConfigError::NotFound(key) => Fault { key: Some(with_dots(key.clone())), why: "is missing".to_owned() },
        ConfigError::At { error, key, .. } => {
            let inner = fault(error);
            let key = [key.clone(), inner.key].into_iter().flatten().collect::<Vec<_>>().join(".");
            Fault { key: Some(with_dots(key)), why: inner.why }
        }
        // Serde names an unknown field only in the text of the error. The `At` error around it has
        // the key of the section.
        ConfigError::Message(text) => {
            match text.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
                Some((field, expected)) => Fault { key: Some(field.to_owned()), why: unknown(field, expected) },
                None => Fault { key: None, why: serde_errors::plain(text) },
            }
        }
        ConfigError::FileParse { cause, .. } => Fault { key: None, why: cause.to_string() },
        other => Fault { key: None, why: other.to_string() },
    }
}

/// Inserts dots: the `config` crate writes `list[0]name` instead of `list[0].name`.
fn with_dots(key: String) -> String {
    let mut dotted = String::with_capacity(key.len() + 1);
    for letter in key.chars() {
        if dotted.ends_with(']') && !matches!(letter, '.' | '[') {
            dotted.push('.');
        }
        dotted.push(letter);
    }
    dotted
}

/// Suggests the most similar name, or lists all names if none is similar. `expected` is what serde
/// prints after the field's name.
fn unknown(field: &str, expected: &str) -> String {
    let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    match similar::get_close_matches(field, &names, 1, 0.6).first() {
        Some(near) => format!("unknown key; did you mean `{near}`?"),
        None => format!("unknown key{expected}"),
    }
}

impl Layer {
    /// Checks the syntax first, because the `config` crate's error would span several lines.
    fn check_syntax(&self) -> anyhow::Result<()> {
        let Err(error) = toml::de::DeTable::parse(&self.text) else { return Ok(()) };
        let place = match (&self.origin, error.span()) {
            (LayerOrigin::File(path), Some(span)) => {
                format!("{}:{}", path.display(), key_position::line_at(&self.text, span.start))
            }
            (origin, _) => origin.place(None, ""),
        };
        Err(anyhow::anyhow!("{place}: {}", redact::secrets(error.message())))
    }

    fn blame(&self, fault: &Fault) -> anyhow::Error {
        let mut place = self.origin.place(fault.key.as_deref(), &self.text);
        if let Some(key) = &fault.key {
            let _ = write!(place, ": {}", redact::secrets(key));
        }
        anyhow::anyhow!("{place}: {}", overview::without_secrets(fault.why.trim_end(), &self.text))
    }
}

impl LayerOrigin {
    fn place(&self, key: Option<&str>, text: &str) -> String {
        match (self, key) {
            (Self::File(path), Some(key)) => match key_position::line_of(text, key) {
                Some(line) => format!("{}:{line}", path.display()),
                None => path.display().to_string(),
            },
            (Self::File(path), None) => path.display().to_string(),
            (Self::Environment, Some(key)) => redact::secrets(&variable_of(key)).into_owned(),
            (Self::Environment, None) => "the environment".to_owned(),
            (Self::Flags, _) => "--set".to_owned(),
            (Self::Defaults, _) => "the defaults".to_owned(),
        }
    }
}
