//! Builds the ports of the actors from the configuration. Only this file names concrete models,
//! tools and stores.

pub mod accounts;
mod folders;
mod ledger;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpd_actors::{Ports, RuntimeSettings};
use agents::{AgentHostSettings, HostedAgents};
use anyhow::Context;
use attachments::Converter;
use domain::model::Model;
use domain::{BaseEnvironment, DaemonFolders, Swap};
use history::Store;
use models::{Providers, Rehearsal};
use process::Launcher;
use project::{GitWorktrees, Library, Notes};
use tools::Registry;

use crate::config::{Config, ResolvedNetwork};
use crate::launch;
use crate::paths::Paths;

use self::accounts::KeyAccounts;
use self::folders::LocalFolders;
use self::ledger::FileLedger;

/// The parts of a daemon: the ports, and the store behind one of them, which the daemon closes at
/// its end.
pub struct Assembled {
    pub ports: Ports,
    pub store: Arc<Store>,
    /// The base environment of sessions. The login shell's environment replaces it later.
    pub base: Arc<BaseEnvironment>,
    /// The parts that a reload changes.
    pub parts: ReloadableParts,
}

/// Builds the parts of a daemon. Returns at once: the store opens on its own thread, and the lists
/// of models are fetched in the background.
pub fn assemble(paths: &Paths, config: &Config) -> anyhow::Result<Assembled> {
    // A session gathers text for a moment before it submits it; both delays together stay within
    // 200 ms.
    let soon = Duration::from_millis(150);
    let store = history::StoreSettings { cache_bytes: config.history.cache, soon, ..history::StoreSettings::default() };
    let store = Arc::new(Store::open(paths.history(), store));
    let base = Arc::new(BaseEnvironment::new(launch::base_environment().collect()));
    let parts = ReloadableParts::new(paths, config, base.clone())?;
    let ports = Ports {
        models: parts.providers.clone(),
        toolbox: parts.toolbox.clone(),
        history: store.clone(),
        agents: parts.agents.clone(),
        folders: Arc::new(LocalFolders),
        worktrees: parts.worktrees.clone(),
        instructions: parts.notes.clone(),
        ledger: Arc::new(FileLedger::open(paths.spending())),
        backlog: Arc::default(),
        accounts: parts.keys.clone(),
        settings: settings(paths, config, &base),
    };
    Ok(Assembled { ports, store, base, parts })
}

/// Checks whether a daemon could start with this configuration, as far as possible without starting
/// one.
pub fn check(paths: &Paths, config: &Config) -> anyhow::Result<()> {
    providers(paths, config)?;
    Ok(acpd_http::check_files(&config.http)?)
}

/// The ports that follow the configuration while the daemon runs. Sessions share them and see every
/// change.
pub struct ReloadableParts {
    providers: Arc<Swap<Providers>>,
    toolbox: Arc<Registry>,
    agents: Arc<HostedAgents>,
    notes: Arc<Swap<Notes>>,
    worktrees: Arc<Swap<GitWorktrees>>,
    keys: Arc<Swap<KeyAccounts>>,
    base: Arc<BaseEnvironment>,
}

impl ReloadableParts {
    fn new(paths: &Paths, config: &Config, base: Arc<BaseEnvironment>) -> anyhow::Result<Self> {
        let (providers, keys) = providers(paths, config)?;
        providers.warm(&base.get());
        let tools = tool_settings(paths, config, &providers);
        let mut hosting = host_settings(config, &tools);
        let toolbox = Arc::new(Registry::new(tools));
        hosting.rules = Some(toolbox.clone());
        let agents = Arc::new(HostedAgents::new(hosting));
        Ok(Self {
            notes: Arc::new(Swap::new(notes(paths, config, &toolbox, &providers))),
            worktrees: Arc::new(Swap::new(worktrees(paths, config, &providers))),
            toolbox,
            agents,
            providers: Arc::new(Swap::from(providers)),
            keys: Arc::new(Swap::new(keys)),
            base,
        })
    }

    /// Applies a configuration, all or nothing. Returns the settings for sessions and connections
    /// that are opened from now on.
    pub fn renew(&self, paths: &Paths, config: &Config) -> anyhow::Result<RuntimeSettings> {
        let (providers, keys) = providers(paths, config)?;
        ResolvedNetwork::of(&config.network, &launch::environment().collect(), &self.base.get()).install();
        providers.warm(&self.base.get());
        let tools = tool_settings(paths, config, &providers);
        let mut hosting = host_settings(config, &tools);
        hosting.rules = Some(self.toolbox.clone());
        self.agents.reload(hosting);
        self.toolbox.reload(tools);
        self.notes.replace(notes(paths, config, &self.toolbox, &providers));
        self.worktrees.replace(worktrees(paths, config, &providers));
        self.providers.replace(providers);
        self.keys.replace(keys);
        Ok(settings(paths, config, &self.base))
    }
}

fn providers(paths: &Paths, config: &Config) -> anyhow::Result<(Arc<Providers>, KeyAccounts)> {
    let stored = Arc::new(models::KeyStore::new(paths.keys()));
    let built_in: Vec<Arc<dyn Model>> = vec![Arc::new(Rehearsal::new())];
    let providers = Providers::new(&config.models, Some(&stored), built_in);
    let providers = providers.context("the configuration under [models] cannot be used")?;
    let providers = Arc::new(providers.with_converter(Converter::new(runner())));
    let keys = KeyAccounts { providers: providers.clone(), stored, github: config.login.github.clone() };
    Ok((providers, keys))
}

fn tool_settings(paths: &Paths, config: &Config, providers: &Providers) -> tools::ToolSettings {
    let mut settings = tools::ToolSettings::new(runner());
    settings.bash.terminal_parent = Some(launch::own_program().unwrap_or_else(|_| runner()));
    settings.launcher = launcher(paths, providers);
    config.tools.apply(&mut settings);
    config.sandbox.apply(&mut settings);
    config.web.apply(&mut settings);
    settings.protected_paths = protected_paths(paths, config);
    settings.permissions = config.permissions.clone();
    settings.hooks = config.hooks.clone();
    settings.notify = config.notify.clone();
    settings.mcp = config.mcp.clone();
    settings.stored_servers = Some(paths.kept_servers());
    settings.mcp_logins = Some(paths.mcp_logins());
    settings.library = library(paths, config);
    settings.outputs = Some(paths.outputs());
    settings.note_names = config.session.notes.clone();
    settings.diagnostics = Arc::new(diagnostics(config));
    settings.memory = Some(paths.config.with_file_name(project::MEMORY));
    settings
}

/// Returns the language servers and the folders in which they may be started.
fn diagnostics(config: &Config) -> lsp::Settings {
    lsp::Settings { trusted: config.mcp.trusted_projects.clone(), ..config.diagnostics.clone() }
}

/// Returns the settings of child agents, for subcommands that start one without a daemon.
pub fn hosts(paths: &Paths, config: &Config) -> anyhow::Result<AgentHostSettings> {
    let (providers, _) = providers(paths, config)?;
    Ok(host_settings(config, &tool_settings(paths, config, &providers)))
}

/// Returns the settings of child agents, some of which come from the settings of tools.
fn host_settings(config: &Config, tools: &tools::ToolSettings) -> AgentHostSettings {
    let mut settings = AgentHostSettings::new(tools.launcher.clone());
    settings.agents = config.agents.clone();
    settings.protected_paths = Arc::new(tools.protected_paths.clone());
    settings.sandbox_reads = tools.sandbox.reads.clone();
    settings.terminal_parent = tools.bash.terminal_parent.clone();
    settings
}

/// Returns the launcher that starts programs on behalf of sessions.
fn launcher(paths: &Paths, providers: &Providers) -> Launcher {
    let mut launcher = Launcher::new(runner());
    launcher.environment.owner = launch::owner(paths);
    launcher.environment.hidden.extend(providers.key_variables());
    launcher
}

fn worktrees(paths: &Paths, config: &Config, providers: &Providers) -> GitWorktrees {
    GitWorktrees::new(launcher(paths, providers), protected_paths(paths, config))
}

/// Returns the files and folders that tools must not touch: acpd's own, and those that hold its
/// keys.
fn protected_paths(paths: &Paths, config: &Config) -> Vec<PathBuf> {
    let keys = config.models.providers.values().filter_map(|provider| provider.key.file.clone());
    let mut own = paths.own();
    own.extend(keys.chain(config.http.token_file.clone()).chain(config.http.tls_key.clone()));
    own.retain(|path| path.is_absolute());
    own
}

/// Returns the folders of skills and custom agents.
fn library(paths: &Paths, config: &Config) -> Library {
    let in_home = |folder: &PathBuf| match folder.strip_prefix("~") {
        Ok(below) => paths.home.join(below),
        Err(_) => folder.clone(),
    };
    Library {
        own: paths.config.parent().map(Path::to_owned),
        skill_folders: config.tools.skill_folders.iter().map(in_home).collect(),
        trusted: config.mcp.trusted_projects.clone(),
        protected_paths: protected_paths(paths, config),
    }
}

fn notes(paths: &Paths, config: &Config, toolbox: &Registry, providers: &Providers) -> Notes {
    Notes {
        names: config.session.notes.clone(),
        own: Some(paths.config.with_file_name("AGENTS.md")),
        home: Some(paths.home.clone()),
        protected_paths: protected_paths(paths, config),
        rules: Some(toolbox.rules()),
        library: library(paths, config),
        launcher: Some(launcher(paths, providers)),
    }
}

fn settings(paths: &Paths, config: &Config, base: &Arc<BaseEnvironment>) -> RuntimeSettings {
    RuntimeSettings {
        mode: config.session.mode,
        approval: config.session.approval,
        when_busy: config.session.when_busy,
        unattended: config.session.unattended,
        idle_after: config.session.idle_after,
        max_requests: config.session.max_requests,
        compact_tokens: config.session.compact_tokens,
        spending: config.budget.limits(),
        agents: config.tools.agents(),
        frame_limit: config.limits.frame,
        outbox_limit: config.limits.outbox,
        protocol_versions: config.protocol.versions.clone(),
        extras: config.protocol.policy(),
        version: env!("CARGO_PKG_VERSION"),
        folders: daemon_folders(paths),
        base: base.clone(),
        ..RuntimeSettings::default()
    }
}

/// Returns the folders of this daemon, which its clients must expect. A configuration file that was
/// named on the command line is not compared.
fn daemon_folders(paths: &Paths) -> DaemonFolders {
    let folders = launch::expected_folders(paths);
    DaemonFolders { config: folders.config.filter(|_| paths.named_config.is_none()), ..folders }
}

/// Returns the program that runs tools: the running one, even after another was installed in its
/// place.
pub fn runner() -> PathBuf {
    let running = system::running_program().ok();
    running.or_else(|| launch::own_program().ok()).unwrap_or_else(|| "acpd".into())
}
