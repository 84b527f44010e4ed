//! A daemon in this process, with a store whose disk syncs are counted.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use acpd::assemble::assemble;
use acpd::config;
use acpd::paths::Paths;
use acpd_actors::{Peer, Runtime, Transport};
use history::{Store, StoreSettings, SyncFile};
use tempfile::TempDir;

use crate::client::Client;
use crate::flood::Flood;

/// The capacity of a client's pipe in bytes.
const PIPE: usize = 256 << 10;

pub(crate) struct Daemon {
    folder: TempDir,
    runtime: Runtime,
    store: Arc<Store>,
    syncs: Arc<AtomicU64>,
}

impl Daemon {
    /// Starts a daemon in a temporary home, whose default model answers with this flood.
    pub(crate) fn start(flood: Flood) -> Self {
        let folder = tempfile::Builder::new().prefix("acpd-").tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let home = folder.path().join("home");
        flood.start(&home);
        let paths = Paths {
            socket: folder.path().join("run/acpd.sock"),
            state: home.join(".local/state/acpd"),
            config: home.join(".config/acpd/config.toml"),
            named_config: None,
            home,
            is_named: true,
        };
        fs::create_dir_all(&paths.state).unwrap();
        let config = config::load(&paths.config, [], &[]).unwrap();
        let assembled = assemble(&paths, &config).unwrap();
        let syncs = Arc::new(AtomicU64::new(0));
        let counter = syncs.clone();
        let sync = SyncFile::new(move |file: &File| {
            counter.fetch_add(1, Ordering::Relaxed);
            file.sync_data()
        });
        assembled.store.close();
        // No timer commits what nothing waits for, so a slow turn makes no more commits than a fast
        // one.
        let settings = StoreSettings { soon: Duration::from_secs(3600), sync, ..StoreSettings::default() };
        let store = Arc::new(Store::open(paths.history(), settings));
        let mut ports = assembled.ports;
        ports.history = store.clone();
        Self { runtime: Runtime::open(ports, Vec::new()), folder, store, syncs }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns the number of disk syncs so far.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Connects a client and initializes it.
    pub(crate) async fn client(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(theirs);
        let (mut client, writer) = Client::new(ours, writer);
        self.runtime.connect(reader, writer, Peer { transport: Transport::Pipe, pid: None });
        client.initialize().await;
        client
    }

    /// Ends the sessions and closes the store.
    pub(crate) async fn stop(self) {
        self.runtime.drain(Duration::from_secs(60)).await;
        self.store.close();
    }
}
