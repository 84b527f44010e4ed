//! Configuration -> the ports of the actors. The only file that names concrete models, tools and stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpd_actors::{Ports, Settings};
use domain::BaseEnvironment;
use history::Store;
use models::{Rehearsal, Shelf};
use tools::Registry;

use crate::config::Config;
use crate::folders::LocalFolders;
use crate::launch;
use crate::paths::Places;

/// What the daemon holds on to: the ports, and the store behind one of them, which it closes at the end.
pub struct Assembled {
    pub ports: Ports,
    pub store: Arc<Store>,
}

/// Returns at once; the store opens on its own thread.
pub fn assemble(places: &Places, config: &Config) -> Assembled {
    // Together with the time that a session gathers text this stays within 200 ms.
    let soon = Duration::from_millis(150);
    let store = history::Settings { cache_bytes: config.history.cache, soon };
    let store = Arc::new(Store::open(places.history(), store));
    let ports = Ports {
        models: Arc::new(Shelf::new(vec![Arc::new(Rehearsal::new())], Rehearsal::ID)),
        toolbox: Arc::new(Registry::new(tools::Settings::new(runner()))),
        history: store.clone(),
        folders: Arc::new(LocalFolders),
        settings: Settings {
            mode: config.session.mode,
            approval: config.session.approval,
            max_requests: config.session.max_requests,
            frame_limit: config.limits.frame,
            outbox_limit: config.limits.outbox,
            version: env!("CARGO_PKG_VERSION"),
            home: Some(places.home.clone()),
            base: Arc::new(BaseEnvironment::new(launch::environment().collect())),
            ..Settings::default()
        },
    };
    Assembled { ports, store }
}

/// The program under which tools run: this very one, also after another was installed in its place.
fn runner() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { launch::own_program().unwrap_or_else(|_| "acpd".into()) }
}
