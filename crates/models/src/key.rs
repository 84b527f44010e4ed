//! Looks up a provider's key in the session's environment, a command, a systemd credential and a
//! file, in that order.
//!
//! Files are checked and read on blocking threads and within a deadline, because a folder may be on
//! a network that is gone. This module knows nothing of HTTP or of providers. A key leaves it only
//! as a `Secret` with the name of its source, and errors and logs contain only that name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use domain::{Environment, redact};
use serde::{Deserialize, Deserializer, de};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::{Mutex, watch};

use crate::secret::Secret;

/// The largest key file in bytes. A key is one line, so a larger file is the wrong one.
const LONGEST_KEY: u64 = 64 << 10;

/// How long the output of a key command is valid, because such keys may be short-lived.
const COMMAND_VALIDITY: Duration = Duration::from_secs(3600);

/// How long a check of the key files may take.
const FILE_DEADLINE: Duration = Duration::from_secs(5);

/// The places of a key, in lookup order. A missing key is skipped; a broken source is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table that says where the key is, such as { env = \"NAME\" }; the key itself does not belong here: \
                 `acpd login` keeps it"
)]
pub struct KeyConfig {
    /// A variable in the session's environment.
    #[serde(deserialize_with = "variable_name")]
    pub env: Option<String>,
    /// A command for `sh -c` that prints the key.
    pub command: Option<String>,
    /// The timeout of the command in seconds.
    pub command_seconds: Option<u64>,
    /// A name in `$CREDENTIALS_DIRECTORY`.
    #[serde(deserialize_with = "name")]
    pub credential: Option<String>,
    /// A file that only its owner may read.
    #[serde(deserialize_with = "path")]
    pub file: Option<PathBuf>,
}

/// The error for a key in the wrong place. It omits the value, which may be the key.
const KEY_IN_PLACE: &str = "looks like the key itself, which does not belong here: `acpd login` keeps it";

fn variable_name<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(source)?;
    let is_name = !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match (is_name, redact::looks_secret(&name)) {
        (_, true) => Err(de::Error::custom(KEY_IN_PLACE)),
        (false, false) => Err(de::Error::custom("must be the name of an environment variable, and not the key itself")),
        (true, false) => Ok(Some(name)),
    }
}

fn name<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(source)?;
    if redact::looks_secret(&name) { Err(de::Error::custom(KEY_IN_PLACE)) } else { Ok(Some(name)) }
}

fn path<'de, D: Deserializer<'de>>(source: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(source)?;
    let bare = path.to_str().filter(|text| !text.contains('/'));
    if bare.is_some_and(redact::looks_secret) { Err(de::Error::custom(KEY_IN_PLACE)) } else { Ok(Some(path)) }
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) secret: Secret,
    /// A description of the source, such as `environment variable OPENAI_API_KEY`.
    pub(crate) source: String,
    pub(crate) from_environment: bool,
    /// Whether it is a token instead of a key, which is sent in another header.
    pub(crate) is_token: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("the key command `{0}` {1}")]
    Command(String, String),
    #[error("the {0} {1}")]
    File(String, String),
}

/// The sources of one provider's key, and the last output of its command.
#[derive(Debug)]
pub(crate) struct KeySources {
    config: KeyConfig,
    /// A second variable that may hold a key, and whether that is a token.
    also: Option<(&'static str, bool)>,
    /// The key that `acpd login` or `authenticate` stored, which comes last.
    stored: Option<PathBuf>,
    /// `$CREDENTIALS_DIRECTORY` of this process.
    credentials: Option<PathBuf>,
    outputs: CommandOutputs,
    /// The result of the last check of the files.
    file_check: watch::Sender<FileCheckState>,
    /// Held while the files are read, so that a folder that does not answer blocks only one thread.
    reading: Arc<Mutex<()>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FileCheckState {
    /// Whether there is a key file.
    exists: bool,
    /// Whether a check is running.
    busy: bool,
}

/// Ends a check, even one that was dropped with its runtime.
struct FileCheck {
    file_check: watch::Sender<FileCheckState>,
    exists: Option<bool>,
}

impl Drop for FileCheck {
    fn drop(&mut self) {
        let exists = self.exists;
        self.file_check.send_modify(|file_check| {
            file_check.exists = exists.unwrap_or(file_check.exists);
            file_check.busy = false;
        });
    }
}

/// The last outputs of the key command, by the environment that it ran in, because the output may
/// depend on it.
#[derive(Debug, Default)]
struct CommandOutputs {
    by_environment: std::sync::Mutex<HashMap<u64, Arc<CommandOutput>>>,
    hashing: RandomState,
}

/// A lock around the command, so that a command that prompts for a password prompts once.
type CommandOutput = Mutex<Option<(Instant, Secret)>>;

/// The number of environments that are remembered. In any other one the command is simply run
/// again.
const MAX_ENVIRONMENTS: usize = 64;

impl CommandOutputs {
    fn of(&self, environment: &Environment) -> Arc<CommandOutput> {
        let name = self.hashing.hash_one(environment.iter().collect::<Vec<_>>());
        let mut outputs = self.by_environment.lock().unwrap_or_else(PoisonError::into_inner);
        if outputs.len() >= MAX_ENVIRONMENTS && !outputs.contains_key(&name) {
            // Entries in use stay. Which of the others will be needed next is unknown.
            outputs.retain(|_, output| Arc::strong_count(output) > 1);
        }
        outputs.entry(name).or_default().clone()
    }
}

impl KeySources {
    pub(crate) fn new(config: KeyConfig, stored: Option<PathBuf>) -> Self {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let (file_check, reading) = (watch::Sender::default(), Arc::default());
        Self { config, also: None, stored, credentials, outputs: CommandOutputs::default(), file_check, reading }
    }

    /// Adds a second variable to check after the first.
    #[must_use]
    pub(crate) fn or_variable(self, name: &'static str, is_token: bool) -> Self {
        Self { also: Some((name, is_token)), ..self }
    }

    /// Whether any place is configured. If so, a missing key is an error.
    pub(crate) fn expects_key(&self) -> bool {
        let KeyConfig { env, command, command_seconds: _, credential, file } = &self.config;
        env.is_some() || command.is_some() || credential.is_some() || file.is_some()
    }

    /// Whether a lookup would find a key, without reading or running anything. For files it uses
    /// the result of the last `check_files`.
    pub(crate) fn is_likely(&self, environment: &Environment) -> bool {
        self.variable(environment).is_some() || self.config.command.is_some() || self.file_check.borrow().exists
    }

    /// Checks whether there is a key file. If the check does not finish in time, the previous
    /// result stands.
    pub(crate) async fn check_files(&self) {
        let mut file_check = self.file_check.subscribe();
        let files: Vec<PathBuf> = self.files().map(|(path, _)| path).collect();
        let begins = !files.is_empty()
            && self.file_check.send_if_modified(|file_check| !std::mem::replace(&mut file_check.busy, true));
        if begins {
            let look = FileCheck { file_check: self.file_check.clone(), exists: None };
            tokio::task::spawn_blocking(move || {
                // The closure takes the whole value, so that it is dropped when the check ends.
                let mut look = look;
                look.exists = Some(files.iter().any(|path| path.symlink_metadata().is_ok()));
            });
        }
        // `self` owns the sender, so the wait can only time out.
        let _ = tokio::time::timeout(FILE_DEADLINE, file_check.wait_for(|file_check| !file_check.busy)).await;
    }

    /// Lists the variables that may hold the key.
    pub(crate) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.config.env.as_deref().into_iter().chain(self.also.map(|(name, _)| name))
    }

    /// Describes every place that was checked.
    pub(crate) fn describe(&self) -> String {
        let env = self.variable_names().map(|name| format!("environment variable {name}"));
        let command = self.config.command.as_ref().map(|command| format!("key command `{}`", program(command)));
        env.chain(command).chain(self.files().map(|(_, source)| source)).collect::<Vec<_>>().join(", ")
    }

    pub(crate) async fn find(&self, environment: &Environment) -> Result<Option<Key>, KeyError> {
        if let Some((name, value)) = self.variable(environment) {
            let source = format!("environment variable {name}");
            let is_token = self.also.is_some_and(|(also, is_token)| also == name && is_token);
            return Ok(Some(Key { secret: Secret::new(value), source, from_environment: true, is_token }));
        }
        if let Some(command) = &self.config.command {
            let secret = self.ask_command(command, environment).await?;
            let source = format!("key command `{}`", program(command));
            return Ok(Some(Key { secret, source, from_environment: false, is_token: false }));
        }
        let files: Vec<(PathBuf, String)> = self.files().collect();
        if files.is_empty() {
            return Ok(None);
        }
        let read = move || -> Result<Option<Key>, KeyError> {
            for (path, source) in files {
                if let Some(secret) = read_file(&path).map_err(|why| KeyError::File(source.clone(), why))? {
                    return Ok(Some(Key { secret, source, from_environment: false, is_token: false }));
                }
            }
            Ok(None)
        };
        let reading = self.reading.clone().lock_owned();
        let found = tokio::time::timeout(FILE_DEADLINE, async move {
            let reading = reading.await;
            tokio::task::spawn_blocking(move || {
                let _reading = reading;
                read()
            })
            .await
        });
        match found.await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(KeyError::File("key file".to_owned(), "could not be read".to_owned())),
            Err(_) => {
                let why = format!("could not be read within {} s", FILE_DEADLINE.as_secs());
                Err(KeyError::File("key file".to_owned(), why))
            }
        }
    }

    /// Forgets the command's output in this environment, after the provider refused it. Returns
    /// whether there was any.
    pub(crate) async fn forget(&self, environment: &Environment) -> bool {
        self.outputs.of(environment).lock().await.take().is_some()
    }

    fn variable<'a>(&'a self, environment: &'a Environment) -> Option<(&'a str, &'a str)> {
        self.variable_names().find_map(|name| {
            let value = environment.get(name)?.trim();
            (!value.is_empty()).then_some((name, value))
        })
    }

    fn files(&self) -> impl Iterator<Item = (PathBuf, String)> {
        let plain = |name: &&String| Path::new(name).file_name() == Some(OsStr::new(name));
        let credential = self.config.credential.as_ref().filter(plain).zip(self.credentials.as_ref());
        let credential = credential.map(|(name, folder)| (folder.join(name), format!("systemd credential {name}")));
        let file = self.config.file.as_ref().map(|path| (path.clone(), format!("key file {}", path.display())));
        let stored = self.stored.as_ref().map(|path| (path.clone(), format!("stored key {}", path.display())));
        credential.into_iter().chain(file).chain(stored)
    }

    async fn ask_command(&self, command: &str, environment: &Environment) -> Result<Secret, KeyError> {
        let output = self.outputs.of(environment);
        let mut output = output.lock().await;
        if let Some((at, secret)) = &*output
            && at.elapsed() < COMMAND_VALIDITY
        {
            return Ok(secret.clone());
        }
        let deadline = Duration::from_secs(self.config.command_seconds.unwrap_or(30));
        let secret = run(command, environment, deadline).await;
        let secret = secret.map_err(|why| KeyError::Command(program(command).to_owned(), why))?;
        *output = Some((Instant::now(), secret.clone()));
        Ok(secret)
    }
}

/// Returns the first word of a command, because its arguments may be secret.
fn program(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

async fn run(command: &str, environment: &Environment, deadline: Duration) -> Result<Secret, String> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stderr(Stdio::null()).process_group(0).kill_on_drop(true);
    if !environment.is_empty() {
        shell.env_clear().envs(environment.iter());
    }
    let mut child = shell.stdout(Stdio::piped()).spawn().map_err(|error| format!("does not start: {error}"))?;
    let _group = ProcessGroup(child.id());
    let mut printed = Vec::new();
    let output = tokio::time::timeout(deadline, async {
        if let Some(stdout) = child.stdout.take() {
            stdout.take(LONGEST_KEY + 1).read_to_end(&mut printed).await?;
        }
        // A command that prints more than a key is not waited for; `ProcessGroup` ends it.
        if printed.len() as u64 > LONGEST_KEY { Ok(None) } else { child.wait().await.map(Some) }
    });
    let status = output.await.map_err(|_| format!("took longer than {} s", deadline.as_secs()))?;
    match status.map_err(|error: std::io::Error| format!("failed: {error}"))? {
        Some(status) if !status.success() => Err(format!("failed with {status}")),
        Some(_) | None => as_key(&printed),
    }
}

/// The process group of the shell, which is killed when the lookup ends or is dropped.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(leader) = leader {
            // The group has usually exited by itself, and then there is nothing to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// Reads the key from a file that only its owner may read; None if there is no such file.
fn read_file(path: &Path) -> Result<Option<Secret>, String> {
    let open = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path);
    let file: File = match open {
        Ok(file) => file,
        // A file in place of a folder is reported once, by the code that needs the folder, and not
        // for every key.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let facts = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if !facts.is_file() {
        return Err("is not a file".to_owned());
    }
    if facts.mode() & 0o077 != 0 {
        let mode = facts.mode() & 0o777;
        return Err(format!("may be read by others (mode {mode:04o}); make it private with chmod 600"));
    }
    let mut text = Vec::new();
    file.take(LONGEST_KEY + 1).read_to_end(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    as_key(&text).map(Some)
}

fn as_key(text: &[u8]) -> Result<Secret, String> {
    let text = std::str::from_utf8(text).map_err(|_| "holds no text")?.trim();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() as u64 > LONGEST_KEY || text.contains(char::is_control) {
        return Err("holds more than one line".to_owned());
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests;
