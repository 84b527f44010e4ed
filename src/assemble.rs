//! Builds the ports of the actors from the configuration. Only this file names concrete models,
//! tools and stores.

pub mod accounts;
mod folders;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpd_actors::{Ports, Settings};
use anyhow::Context;
use domain::model::Model;
use domain::{BaseEnvironment, DaemonFolders, Swap};
use history::Store;
use models::{Providers, Rehearsal};
use project::Notes;
use tools::Registry;

use crate::config::{Config, ResolvedNetwork};
use crate::launch;
use crate::paths::Places;

use self::accounts::KeyAccounts;
use self::folders::LocalFolders;

/// The parts of a daemon: the ports, and the store behind one of them, which it closes at the end.
pub struct Assembled {
    pub ports: Ports,
    pub store: Arc<Store>,
    /// The base environment of sessions, which the login shell's environment replaces.
    pub base: Arc<BaseEnvironment>,
    /// The parts that a reload changes.
    pub parts: Parts,
}

/// Builds the parts of a daemon. Returns at once: the store opens on its own thread, and the lists
/// of models are fetched in the background.
pub fn assemble(places: &Places, config: &Config) -> anyhow::Result<Assembled> {
    // Together with the time that a session gathers text this stays within 200 ms.
    let soon = Duration::from_millis(150);
    let store = history::Settings { cache_bytes: config.history.cache, soon };
    let store = Arc::new(Store::open(places.history(), store));
    let base = Arc::new(BaseEnvironment::new(launch::base_environment().collect()));
    let parts = Parts::new(places, config, base.clone())?;
    let ports = Ports {
        models: parts.providers.clone(),
        toolbox: parts.toolbox.clone(),
        history: store.clone(),
        folders: Arc::new(LocalFolders),
        briefing: parts.notes.clone(),
        backlog: Arc::default(),
        accounts: parts.keys.clone(),
        settings: settings(places, config, &base),
    };
    Ok(Assembled { ports, store, base, parts })
}

/// Checks whether a daemon could start with this configuration, as far as possible without starting
/// one.
pub fn check(places: &Places, config: &Config) -> anyhow::Result<()> {
    providers(places, config)?;
    Ok(acpd_http::check_files(&config.http)?)
}

/// The ports that follow the configuration while the daemon runs. Sessions share them and see every
/// change.
pub struct Parts {
    providers: Arc<Swap<Providers>>,
    toolbox: Arc<Registry>,
    notes: Arc<Swap<Notes>>,
    keys: Arc<Swap<KeyAccounts>>,
    base: Arc<BaseEnvironment>,
}

impl Parts {
    fn new(places: &Places, config: &Config, base: Arc<BaseEnvironment>) -> anyhow::Result<Self> {
        let (providers, keys) = providers(places, config)?;
        providers.warm(&base.get());
        let toolbox = Arc::new(Registry::new(tool_settings(places, config, &providers)));
        Ok(Self {
            notes: Arc::new(Swap::new(notes(places, config, &toolbox))),
            toolbox,
            providers: Arc::new(Swap::from(providers)),
            keys: Arc::new(Swap::new(keys)),
            base,
        })
    }

    /// Applies a configuration, all or nothing. Returns the settings for sessions and connections
    /// that are opened from now on.
    pub fn renew(&self, places: &Places, config: &Config) -> anyhow::Result<Settings> {
        let (providers, keys) = providers(places, config)?;
        ResolvedNetwork::of(&config.network, &launch::environment().collect(), &self.base.get()).install();
        providers.warm(&self.base.get());
        self.toolbox.reload(tool_settings(places, config, &providers));
        self.notes.replace(notes(places, config, &self.toolbox));
        self.providers.replace(providers);
        self.keys.replace(keys);
        Ok(settings(places, config, &self.base))
    }
}

fn providers(places: &Places, config: &Config) -> anyhow::Result<(Arc<Providers>, KeyAccounts)> {
    let stored = Arc::new(models::Accounts::new(places.keys()));
    let built_in: Vec<Arc<dyn Model>> = vec![Arc::new(Rehearsal::new())];
    let providers = Providers::new(&config.models, Some(&stored), built_in);
    let providers = Arc::new(providers.context("the configuration under [models] cannot be used")?);
    let keys = KeyAccounts { providers: providers.clone(), stored, github: config.login.github.clone() };
    Ok((providers, keys))
}

fn tool_settings(places: &Places, config: &Config, providers: &Providers) -> tools::Settings {
    let mut settings = tools::Settings::new(runner());
    settings.bash.terminal_parent = Some(launch::own_program().unwrap_or_else(|_| runner()));
    settings.launcher.environment.owner = launch::owner(places);
    settings.launcher.environment.hidden.extend(providers.key_variables());
    config.tools.apply(&mut settings);
    config.sandbox.apply(&mut settings);
    config.web.apply(&mut settings);
    settings.protected_paths = protected_paths(places, config);
    settings.permissions = config.permissions.clone();
    settings.hooks = config.hooks.clone();
    settings.notify = config.notify.clone();
    settings.mcp = config.mcp.clone();
    settings.stored_servers = Some(places.kept_servers());
    settings
}

/// Returns the files and folders that tools must not touch: acpd's own, and those that hold its
/// keys.
fn protected_paths(places: &Places, config: &Config) -> Vec<PathBuf> {
    let keys = config.models.providers.values().filter_map(|provider| provider.key.file.clone());
    let mut own = places.own();
    own.extend(keys.chain(config.http.token_file.clone()).chain(config.http.tls_key.clone()));
    own.retain(|path| path.is_absolute());
    own
}

fn notes(places: &Places, config: &Config, toolbox: &Registry) -> Notes {
    Notes {
        names: config.session.notes.clone(),
        own: Some(places.config.with_file_name("AGENTS.md")),
        protected_paths: protected_paths(places, config),
        rules: Some(toolbox.rules()),
    }
}

fn settings(places: &Places, config: &Config, base: &Arc<BaseEnvironment>) -> Settings {
    Settings {
        mode: config.session.mode,
        approval: config.session.approval,
        when_busy: config.session.when_busy,
        unattended: config.session.unattended,
        idle_after: config.session.idle_after,
        max_requests: config.session.max_requests,
        agent_requests: config.tools.agent_requests,
        frame_limit: config.limits.frame,
        outbox_limit: config.limits.outbox,
        extras: config.protocol.policy(),
        version: env!("CARGO_PKG_VERSION"),
        folders: daemon_folders(places),
        base: base.clone(),
        ..Settings::default()
    }
}

/// Returns the folders that clients must expect of this daemon. A configuration file that was named
/// on the command line is not compared with theirs.
fn daemon_folders(places: &Places) -> DaemonFolders {
    let folders = launch::expected_folders(places);
    DaemonFolders { config: folders.config.filter(|_| places.named_config.is_none()), ..folders }
}

/// Returns the program that runs tools: this one, even after another was installed in its place.
pub fn runner() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { launch::own_program().unwrap_or_else(|_| "acpd".into()) }
}
