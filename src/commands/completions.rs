//! `acpd completions`: prints a short script for the shell, which runs this program to complete a
//! line. Completions therefore match the installed version. Session ids and the models that
//! providers have listed come from the running daemon; configured models, providers and agents come
//! from the configuration, the stored keys and the environment of the shell. No provider is
//! queried, because a completion must be quick and must not run a command that fetches a key.
#![allow(clippy::print_stdout, reason = "the script is printed")]

use std::ffi::OsStr;
use std::time::Duration;

use agents::NATIVE;
use anyhow::Context;
use clap::{Arg, Command, CommandFactory};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use clap_complete::{CompleteEnv, CompletionCandidate};
use domain::model::Catalogue;
use serde_json::{Value, json};
use terminal::table::one_line;
use wire::extension::ModelsResult;
use wire::method;

use super::ctl::DaemonClient;
use super::{Ending, session_lookup};
use crate::assemble::accounts;
use crate::cli::{Cli, CompletionsArgs, Shell};
use crate::config::{Config, Layers};
use crate::launch;
use crate::paths::Paths;

/// The variable that the shell's script sets to request completions.
const VARIABLE: &str = "ACPD_COMPLETE";

/// How long to wait for the daemon. A completion must be quick; without an answer it offers less.
const DEADLINE: Duration = Duration::from_millis(500);

pub fn run(args: &CompletionsArgs) -> anyhow::Result<Ending> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.to_str().context("the path of this program is not Unicode")?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "acpd", "acpd", program, &mut script)?;
    print!("{}", String::from_utf8(script)?);
    Ok(Ending::Done)
}

/// Prints completions and ends the process if a shell requests them. Otherwise does nothing.
pub fn answer_shell() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(offered).var(VARIABLE).complete();
    }
}

/// Returns the commands to complete. Before a word is begun, options are offered only where there
/// is nothing else.
fn offered() -> Command {
    let words: Vec<_> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    // Without an index, as from fish, the last word is completed.
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse::<usize>().ok());
    let word = index.map_or(words.last(), |index| words.get(index));
    if word.is_some_and(|word| !word.is_empty()) { Cli::command() } else { without_options(Cli::command()) }
}

/// Hides options. Hidden ones are offered if a command has nothing else.
fn without_options(command: Command) -> Command {
    let hidden = |arg: Arg| if arg.is_positional() { arg } else { arg.hide(true) };
    command.disable_help_flag(true).disable_version_flag(true).mut_args(hidden).mut_subcommands(without_options)
}

/// Returns the sessions whose ids begin with the typed text, or else whose ids' last groups, which
/// tables show, begin with it: those in memory, and the newest stored ones.
pub(crate) fn session_ids(typed: &OsStr) -> Vec<CompletionCandidate> {
    parts_of_ids(typed, sessions_of_daemon().unwrap_or_default())
}

/// Returns the sessions with an open question, by the same rules.
pub(crate) fn asking_sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let asking = visit_daemon(async |daemon| {
        daemon.introduce().await?;
        let live = session_lookup::in_memory(&mut daemon.client).await?;
        let asking =
            live.into_iter().filter_map(|card| Some((card.id.to_string(), card.questions.first()?.title.clone())));
        Ok(asking.collect())
    });
    parts_of_ids(typed, asking.unwrap_or_default())
}

fn parts_of_ids(typed: &OsStr, found: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let is_whole = found.iter().any(|(id, _)| id.starts_with(typed));
    let part = |id: &str| if is_whole { id.to_owned() } else { id.rsplit('-').next().unwrap_or(id).to_owned() };
    let parts = found.into_iter().map(|(id, title)| (part(&id), title));
    let fitting = parts.filter(|(id, _)| id.starts_with(typed));
    fitting.map(|(id, title)| CompletionCandidate::new(id).help(Some(one_line(&title).into()))).collect()
}

/// Returns the models whose ids begin with the typed text or contain it: those that the daemon
/// knows, the configured ones, and the well-known ones of providers that have a key.
pub(crate) fn models(typed: &OsStr) -> Vec<CompletionCandidate> {
    let configured = configured().and_then(|(places, config)| {
        let providers = accounts::providers(&places, &config)?;
        Ok(providers.list_known(&launch::environment().collect()))
    });
    let configured = configured.unwrap_or_default().into_iter().map(|model| (model.id.to_string(), model.name));
    let mut models = models_of_daemon().unwrap_or_default();
    for model in configured {
        if !models.iter().any(|(id, _)| *id == model.0) {
            models.push(model);
        }
    }
    fitting(typed, models.into_iter())
}

/// Returns the providers for which a key can be stored.
pub(crate) fn providers(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = configured().and_then(|(places, config)| Ok(accounts::providers(&places, &config)?.names()));
    fitting(typed, found.unwrap_or_default().into_iter().map(|name| (name, String::new())))
}

/// Returns the providers that have a stored key.
pub(crate) fn stored_providers(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = Paths::find(None).map(|places| accounts::stored(&places).names());
    fitting(typed, found.unwrap_or_default().into_iter().map(|name| (name, String::new())))
}

/// Returns the agents that can answer sessions, including acpd itself.
pub(crate) fn agents(typed: &OsStr) -> Vec<CompletionCandidate> {
    let native = (NATIVE.to_owned(), "acpd itself".to_owned());
    fitting(typed, configured_agents().into_iter().chain([native]))
}

/// Returns the agents in the configuration.
pub(crate) fn hosted_agents(typed: &OsStr) -> Vec<CompletionCandidate> {
    fitting(typed, configured_agents().into_iter())
}

/// Returns the agents that acpd can add by their names.
pub(crate) fn known_agents(typed: &OsStr) -> Vec<CompletionCandidate> {
    fitting(typed, super::agents::known_names())
}

/// Returns the MCP servers of the configuration that have a URL, to which users can log in.
pub(crate) fn mcp_servers(typed: &OsStr) -> Vec<CompletionCandidate> {
    let servers = configured().map(|(_, config)| config.mcp.servers).unwrap_or_default();
    let remote = servers.into_iter().filter(|(_, server)| server.is_remote());
    fitting(typed, remote.map(|(name, _)| (name, String::new())))
}

fn configured_agents() -> Vec<(String, String)> {
    let entries = configured().map(|(_, config)| config.agents.entries).unwrap_or_default();
    entries.into_iter().map(|(name, agent)| (name, agent.command)).collect()
}

fn configured() -> anyhow::Result<(Paths, Config)> {
    let places = Paths::find(None)?;
    let config = Layers::read(&places.config, launch::environment(), &[])?.check()?;
    Ok((places, config))
}

/// Returns the names that begin with the typed text or, if there are none, those that contain it.
/// Each has a description.
fn fitting(typed: &OsStr, names: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let all: Vec<(String, String)> = names.collect();
    let begins = all.iter().any(|(name, _)| name.starts_with(typed));
    let fits = |name: &str| if begins { name.starts_with(typed) } else { name.contains(typed) };
    let found = all.into_iter().filter(|(name, _)| fits(name));
    let described = |about: String| (!about.is_empty()).then(|| one_line(&about).into());
    found.map(|(name, about)| CompletionCandidate::new(name).help(described(about))).collect()
}

/// Requests the ids and titles of sessions from the daemon.
fn sessions_of_daemon() -> anyhow::Result<Vec<(String, String)>> {
    visit_daemon(async |daemon| {
        daemon.introduce().await?;
        let live = session_lookup::in_memory(&mut daemon.client).await?;
        let mut found: Vec<(String, String)> =
            live.into_iter().map(|card| (card.id.to_string(), card.title.unwrap_or_default())).collect();
        let (stored, _) = session_lookup::page(&mut daemon.client, None, &Value::Null).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for session in stored.iter().map(|session| (text(&session["sessionId"]), text(&session["title"]))) {
            if !found.iter().any(|(id, _)| *id == session.0) {
                found.push(session);
            }
        }
        Ok(found)
    })
}

/// Requests the ids and names of the models that the daemon knows.
fn models_of_daemon() -> anyhow::Result<Vec<(String, String)>> {
    visit_daemon(async |daemon| {
        let known: ModelsResult = daemon.client.call(method::MODELS, json!({})).await?;
        Ok(known.models.into_iter().map(|model| (model.id.to_string(), model.name)).collect())
    })
}

/// Runs requests at the daemon, if one is running and answers soon.
fn visit_daemon<T>(requests: impl AsyncFnOnce(&mut DaemonClient) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let places = Paths::find(None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut daemon = DaemonClient::begin(&places, false)?;
        tokio::time::timeout(DEADLINE, requests(&mut daemon)).await?
    })
}
