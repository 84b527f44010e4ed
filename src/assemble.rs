//! Configuration -> the ports of the actors. The only file that names concrete models, tools and stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpd_actors::{Ports, Settings};
use anyhow::Context;
use domain::BaseEnvironment;
use domain::model::Model;
use history::Store;
use models::{Providers, Rehearsal};
use tools::Registry;

use crate::accounts::Keys;
use crate::config::Config;
use crate::folders::LocalFolders;
use crate::launch;
use crate::paths::Places;

/// What the daemon holds on to: the ports, and the store behind one of them, which it closes at the end.
pub struct Assembled {
    pub ports: Ports,
    pub store: Arc<Store>,
    /// What the login shell's environment replaces once it has answered.
    pub base: Arc<BaseEnvironment>,
}

/// Returns at once; the store opens on its own thread, and providers are asked what they offer in the background.
pub fn assemble(places: &Places, config: &Config) -> anyhow::Result<Assembled> {
    // Together with the time that a session gathers text this stays within 200 ms.
    let soon = Duration::from_millis(150);
    let store = history::Settings { cache_bytes: config.history.cache, soon };
    let store = Arc::new(Store::open(places.history(), store));
    let stored = Arc::new(models::Accounts::new(places.keys()));
    let built_in: Vec<Arc<dyn Model>> = vec![Arc::new(Rehearsal::new())];
    let providers = Providers::new(&config.models, Some(&stored), built_in);
    let providers = Arc::new(providers.context("the configuration under [models] cannot be used")?);
    let base = Arc::new(BaseEnvironment::new(launch::base_environment().collect()));
    providers.warm(&base.get());
    let mut tool_settings = tools::Settings::new(runner());
    tool_settings.owner = launch::owner(places);
    tool_settings.hidden_variables.extend(providers.key_variables());
    tool_settings.permissions = config.permissions.clone();
    tool_settings.hooks = config.hooks.clone();
    tool_settings.notify = config.notify.clone();
    let ports = Ports {
        models: providers.clone(),
        toolbox: Arc::new(Registry::new(tool_settings)),
        history: store.clone(),
        folders: Arc::new(LocalFolders),
        briefing: Arc::new(tools::Notes {
            names: config.session.notes.clone(),
            own: Some(places.config.with_file_name("AGENTS.md")),
        }),
        accounts: Arc::new(Keys { providers: providers.clone(), stored, github: config.login.github.clone() }),
        settings: Settings {
            mode: config.session.mode,
            approval: config.session.approval,
            when_busy: config.session.when_busy,
            unattended: config.session.unattended,
            max_requests: config.session.max_requests,
            frame_limit: config.limits.frame,
            outbox_limit: config.limits.outbox,
            strict: config.protocol.strict,
            version: env!("CARGO_PKG_VERSION"),
            home: Some(launch::home(places)),
            base: base.clone(),
            ..Settings::default()
        },
    };
    Ok(Assembled { ports, store, base })
}

/// The program under which tools run: this very one, also after another was installed in its place.
pub fn runner() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { launch::own_program().unwrap_or_else(|_| "acpd".into()) }
}
