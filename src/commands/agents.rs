//! `acpd agents`: lists, adds, checks and removes the agents that can answer sessions.
//!
//! It reads and writes the configuration file; no daemon is needed. Only `check` starts a program.

#![allow(clippy::print_stdout, reason = "the answer is printed")]

mod check;
mod config_text;
mod known;
mod registry;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;

use agents::{AgentSettings, NATIVE};
use anyhow::{Context, bail, ensure};
use serde_json::json;
use terminal::style::visible_text;
use toml::{Table, Value};

use self::known::{KNOWN_AGENTS, KnownAgent};
use crate::cli::{AgentsAction, AgentsArgs};
use crate::commands::json_output::print_indented;
use crate::commands::{Ending, file_replacement};
use crate::config::{self, Config};
use crate::launch;
use crate::paths::Paths;

use self::check::shell_line;
pub use check::log_in;

/// The largest description of an agent, in bytes.
const DESCRIPTION_LIMIT: u64 = 1 << 20;

pub fn run(places: &Paths, args: &AgentsArgs) -> anyhow::Result<Ending> {
    match &args.action {
        None => list(places, false),
        Some(AgentsAction::List { json }) => list(places, *json),
        Some(AgentsAction::Add { name, from, command, yes }) => {
            add(places, &candidate(name.as_deref(), from.as_deref(), command)?, *yes)
        }
        Some(AgentsAction::Check { name, json }) => check::run(places, name, *json),
        Some(AgentsAction::Remove { name, yes }) => remove(places, name, *yes),
    }
}

fn load(places: &Paths) -> anyhow::Result<Config> {
    config::load(&places.config, launch::environment(), &[])
}

/// Returns an error with advice if there is no such agent. `native` is one.
pub(super) fn find(places: &Paths, name: &str) -> anyhow::Result<()> {
    let config = load(places)?;
    if name == NATIVE || config.agents.entries.contains_key(name) {
        return Ok(());
    }
    let advice = if known::find(name).is_some() { format!("add {name}") } else { "list".to_owned() };
    bail!("there is no agent `{name}` in the configuration; see `acpd agents {advice}`")
}

/// An agent that may be added.
#[derive(Debug)]
struct Candidate {
    name: String,
    title: String,
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    install: String,
}

impl Candidate {
    /// Returns the command line that sessions will run.
    fn line(&self) -> String {
        shell_line(&self.command, &self.args)
    }

    /// Returns the agent's table for the configuration.
    fn entry(&self) -> Table {
        let mut entry = Table::new();
        entry.insert("command".to_owned(), Value::from(self.command.clone()));
        if !self.args.is_empty() {
            entry.insert("args".to_owned(), Value::from(self.args.clone()));
        }
        if !self.env.is_empty() {
            let env: Table = self.env.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
            entry.insert("env".to_owned(), Value::Table(env));
        }
        entry
    }
}

impl From<&KnownAgent> for Candidate {
    fn from(known: &KnownAgent) -> Self {
        Self {
            name: known.name.to_owned(),
            title: known.title.to_owned(),
            command: known.command.to_owned(),
            args: known.args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::new(),
            install: known.install.to_owned(),
        }
    }
}

fn candidate(name: Option<&str>, from: Option<&Path>, command: &[String]) -> anyhow::Result<Candidate> {
    ensure!(from.is_none() || command.is_empty(), "--from names the command; give either the file or a command");
    let candidate = match (name, from, command.split_first()) {
        (_, Some(file), _) => {
            let text = read_description(file).with_context(|| format!("cannot read {}", file.display()))?;
            let read = registry::read(&text, &registry::platform()).with_context(|| file.display().to_string())?;
            Candidate { name: name.map_or(read.name, str::to_owned), ..read }
        }
        (Some(name), None, Some((command, args))) => Candidate {
            name: name.to_owned(),
            title: name.to_owned(),
            command: command.clone(),
            args: args.to_vec(),
            env: BTreeMap::new(),
            install: String::new(),
        },
        (Some(name), None, None) => {
            let names: Vec<&str> = KNOWN_AGENTS.iter().map(|known| known.name).collect();
            let known = known::find(name).with_context(|| {
                let names = names.join(", ");
                format!("acpd does not know `{name}`; name one of {names}, or give its command after `--`")
            })?;
            Candidate::from(known)
        }
        (None, None, _) => bail!("name an agent"),
    };
    config_text::check_name(&candidate.name)?;
    Ok(candidate)
}

/// Reads the description of an agent, which is a regular file of a sensible size.
fn read_description(file: &Path) -> anyhow::Result<String> {
    // The check comes before the file is opened, because opening a pipe waits for its writer.
    ensure!(fs::metadata(file)?.is_file(), "it is not a regular file");
    let mut text = String::new();
    fs::File::open(file)?.take(DESCRIPTION_LIMIT + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= DESCRIPTION_LIMIT, "it is larger than 1 MiB");
    Ok(text)
}

fn add(places: &Paths, candidate: &Candidate, yes: bool) -> anyhow::Result<Ending> {
    let added = || config_text::add(&read(&places.config)?, &candidate.name, &candidate.entry());
    added()?;
    let Candidate { name, title, install, .. } = candidate;
    println!("{}", visible_text(&format!("{title}: sessions will run `{}`", candidate.line())));
    if !is_on_path(&candidate.command) {
        println!("{}", visible_text(&format!("`{}` is not on your PATH yet", candidate.command)));
    }
    if !install.is_empty() {
        println!("{}", visible_text(&format!("to install it: {install}")));
    }
    let table = config_text::table(name, &candidate.entry());
    print!("\nto be added to {}:\n\n{}\n", places.config.display(), visible_text(&table));
    if !confirm("Add it?", yes)? {
        return Ok(Ending::Cancelled);
    }
    // The file may have changed while the question was open.
    let _lock = file_replacement::lock(&places.config)?;
    write(&places.config, &added()?)?;
    println!("added; `acpd agents check {name}` tries it, and a running daemon has it after `acpd ctl reload`");
    println!("to use it: `acpd setup EDITOR --agent {name}`, or `default = \"{name}\"` under [agents]");
    Ok(Ending::Done)
}

fn remove(places: &Paths, name: &str, yes: bool) -> anyhow::Result<Ending> {
    let (_, removed) = config_text::remove(&read(&places.config)?, name)?;
    print!("to be removed from {}:\n\n{}\n", places.config.display(), visible_text(&removed));
    if !confirm("Remove it?", yes)? {
        return Ok(Ending::Cancelled);
    }
    let _lock = file_replacement::lock(&places.config)?;
    let (after, removed_now) = config_text::remove(&read(&places.config)?, name)?;
    ensure!(removed_now == removed, "`{name}` has changed meanwhile; nothing was removed");
    write(&places.config, &after)?;
    println!("removed; its sessions stay in the history, and cannot be continued without it");
    Ok(Ending::Done)
}

fn list(places: &Paths, json: bool) -> anyhow::Result<Ending> {
    let config = load(places)?;
    let default = config.agents.default.as_deref().unwrap_or(NATIVE);
    let entries = &config.agents.entries;
    let others: Vec<&KnownAgent> = KNOWN_AGENTS.iter().filter(|known| !entries.contains_key(known.name)).collect();
    if json {
        let configured = entries.iter().map(|(name, entry)| {
            json!({ "name": name, "command": entry.command, "args": entry.args, "found": is_on_path(&entry.command) })
        });
        let known = others.iter().map(|known| {
            json!({ "name": known.name, "title": known.title, "command": known.command, "args": known.args,
                    "install": known.install, "found": is_on_path(known.command) })
        });
        let (configured, known): (Vec<_>, Vec<_>) = (configured.collect(), known.collect());
        let all = json!({ "default": default, "configured": configured, "known": known });
        print_indented(&all);
        return Ok(Ending::Done);
    }
    let mark = |name: &str| if name == default { "*" } else { " " };
    println!("{} {:<12} acpd's own engine", mark(NATIVE), NATIVE);
    for (name, entry) in entries {
        println!("{} {name:<12} {}", mark(name), visible_text(&describe(entry)));
    }
    if !others.is_empty() {
        println!("\nKnown, to be added with `acpd agents add NAME`:");
    }
    for known in others {
        let line = Candidate::from(known).line();
        let found = if is_on_path(known.command) { "installed" } else { known.install };
        println!("  {:<12} {line:<20} {found}", known.name);
    }
    Ok(Ending::Done)
}

fn describe(entry: &AgentSettings) -> String {
    let missing = if is_on_path(&entry.command) { "" } else { "  (not found)" };
    format!("{}{missing}", shell_line(&entry.command, &entry.args))
}

/// Whether a command names a program that exists. A command with a slash is a path.
fn is_on_path(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn read(file: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    // The configuration file may be a link to a file elsewhere; the link stays.
    let path = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    file_replacement::replace(&path, text)
}

/// Asks for confirmation at a terminal. Without a terminal, `--yes` is required.
fn confirm(question: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    ensure!(io::stdin().is_terminal(), "nothing was changed; --yes does it without a question");
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read from stdin")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Returns the names and titles of the agents that acpd knows.
pub(super) fn known_names() -> impl Iterator<Item = (String, String)> {
    KNOWN_AGENTS.iter().map(|known| (known.name.to_owned(), known.title.to_owned()))
}
