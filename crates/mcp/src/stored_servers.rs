//! Stores the servers that clients passed for sessions, so that a session has them again after it
//! was closed or the daemon restarted.
//!
//! There is one private file per session, beside the stored keys. Variables, headers, arguments and
//! addresses may contain secrets, so none of this is in the log of a session or in an export.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::SessionId;
use domain::mcp::{McpServer, McpTransport};
use serde::{Deserialize, Serialize};

use crate::private_file::{self, DRAFT};

/// The largest list of one session, in bytes.
const MAX_LIST_BYTES: usize = 1 << 20;

/// How long the disk may take to respond.
const DISK_DEADLINE: Duration = Duration::from_secs(5);

const SUFFIX: &str = "json";

/// Where the lists are stored: in a folder, or only in memory.
pub(crate) enum StoredServers {
    Folder(PathBuf),
    Memory(Mutex<HashMap<SessionId, Vec<McpServer>>>),
}

#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error("the list of servers is larger than {} KiB", MAX_LIST_BYTES >> 10)]
    TooLarge,
    #[error("the disk did not answer within {} s", DISK_DEADLINE.as_secs())]
    Late,
    #[error("`{0}` is not a session id")]
    Id(SessionId),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl StoredServers {
    pub(crate) fn new(folder: Option<PathBuf>) -> Arc<Self> {
        Arc::new(folder.map_or_else(|| Self::Memory(Mutex::default()), Self::Folder))
    }

    /// Stores a list in place of the previous one. Returns a notice for the user if that fails.
    pub(crate) async fn keep(self: Arc<Self>, session: SessionId, servers: Vec<McpServer>) -> Option<String> {
        let stored = self.work(move |this| this.write(&session, servers)).await;
        let error = stored.err()?;
        tracing::warn!(%error, "the MCP servers of a session could not be stored");
        Some(format!("The session's MCP servers work now, but could not be stored for the next time: {error}."))
    }

    pub(crate) async fn of(self: Arc<Self>, session: SessionId) -> Vec<McpServer> {
        self.work(move |this| this.read(&session)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the MCP servers stored for a session cannot be read");
            Vec::new()
        })
    }

    /// Returns the sessions that have a stored list.
    pub(crate) async fn sessions(self: Arc<Self>) -> Vec<SessionId> {
        self.work(|this| this.list()).await.unwrap_or_default()
    }

    /// Runs work on a blocking thread.
    async fn work<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = tokio::task::spawn_blocking(move || work(&self));
        match tokio::time::timeout(DISK_DEADLINE, work).await {
            Ok(done) => done.unwrap_or_else(|error| Err(io::Error::other(error).into())),
            Err(_) => Err(StoreError::Late),
        }
    }

    fn write(&self, session: &SessionId, servers: Vec<McpServer>) -> Result<(), StoreError> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Memory(lists) => {
                let mut lists = lock(lists);
                lists.remove(session);
                if !servers.is_empty() {
                    lists.insert(session.clone(), servers);
                }
                return Ok(());
            }
        };
        // Two writers could overwrite each other's temporary file. Writes are small and rare, so
        // one lock suffices.
        static WRITING: Mutex<()> = Mutex::new(());
        let _writing = lock(&WRITING);
        let path = path(folder, session)?;
        if servers.is_empty() {
            private_file::remove(&path)?;
            return Ok(());
        }
        let text = serde_json::to_vec(&StoredList { servers: servers.into_iter().map(StoredServer::from).collect() })?;
        if text.len() > MAX_LIST_BYTES {
            // No list is better than an outdated one.
            let _ = private_file::remove(&path);
            return Err(StoreError::TooLarge);
        }
        Ok(private_file::write(folder, &path, &text)?)
    }

    fn read(&self, session: &SessionId) -> Result<Vec<McpServer>, StoreError> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Memory(lists) => return Ok(lock(lists).get(session).cloned().unwrap_or_default()),
        };
        let file = match File::open(path(folder, session)?) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut text = Vec::new();
        file.take(MAX_LIST_BYTES as u64 + 1).read_to_end(&mut text)?;
        if text.len() > MAX_LIST_BYTES {
            return Err(StoreError::TooLarge);
        }
        let list: StoredList = serde_json::from_slice(&text)?;
        Ok(list.servers.into_iter().map(McpServer::from).collect())
    }

    fn list(&self) -> Result<Vec<SessionId>, StoreError> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Memory(lists) => return Ok(lock(lists).keys().cloned().collect()),
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let id = |path: PathBuf| {
            let is_ours = path.extension().is_some_and(|suffix| suffix == SUFFIX || suffix == DRAFT);
            path.file_stem().filter(|_| is_ours)?.to_str().map(SessionId::from)
        };
        Ok(entries.flatten().filter_map(|entry| id(entry.path())).collect())
    }
}

/// Returns the path of a session's file. The id comes from a client and must not lead to another
/// folder.
fn path(folder: &Path, session: &SessionId) -> Result<PathBuf, StoreError> {
    let id = session.as_str();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if id.is_empty() || id.len() > 100 || !id.chars().all(plain) {
        return Err(StoreError::Id(session.clone()));
    }
    Ok(folder.join(format!("{id}.{SUFFIX}")))
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every operation leaves the map consistent, so a poisoned lock is harmless.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stored format.
#[derive(Serialize, Deserialize)]
struct StoredList {
    servers: Vec<StoredServer>,
}

#[derive(Serialize, Deserialize)]
struct StoredServer {
    name: String,
    #[serde(flatten)]
    transport: StoredTransport,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StoredTransport {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    Http { url: String, headers: Vec<(String, String)> },
    Sse { url: String, headers: Vec<(String, String)> },
}

impl From<McpServer> for StoredServer {
    fn from(McpServer { name, transport }: McpServer) -> Self {
        let transport = match transport {
            McpTransport::Stdio { command, args, env, cwd } => StoredTransport::Stdio { command, args, env, cwd },
            McpTransport::Http { url, headers } => StoredTransport::Http { url, headers },
            McpTransport::Sse { url, headers } => StoredTransport::Sse { url, headers },
        };
        Self { name, transport }
    }
}

impl From<StoredServer> for McpServer {
    fn from(StoredServer { name, transport }: StoredServer) -> Self {
        let transport = match transport {
            StoredTransport::Stdio { command, args, env, cwd } => McpTransport::Stdio { command, args, env, cwd },
            StoredTransport::Http { url, headers } => McpTransport::Http { url, headers },
            StoredTransport::Sse { url, headers } => McpTransport::Sse { url, headers },
        };
        Self { name, transport }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn servers() -> Vec<McpServer> {
        let pair = |name: &str| vec![(name.to_owned(), "hush".to_owned())];
        let stdio = McpTransport::Stdio {
            command: "a".into(),
            args: vec!["-x".into()],
            env: pair("K"),
            cwd: Some("sub".into()),
        };
        let http = McpTransport::Http { url: "https://a.example/mcp".into(), headers: pair("Authorization") };
        let sse = McpTransport::Sse { url: "https://b.example/sse".into(), headers: Vec::new() };
        let named = |(name, transport): (&str, McpTransport)| McpServer { name: name.to_owned(), transport };
        [("one", stdio), ("two", http), ("three", sse)].map(named).to_vec()
    }

    #[tokio::test]
    async fn a_list_is_kept_privately_replaced_and_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("state/keys/mcp");
        let stored = StoredServers::new(Some(folder.clone()));
        let session = SessionId::new();
        assert!(stored.clone().of(session.clone()).await.is_empty());
        assert_eq!(stored.clone().keep(session.clone(), servers()).await, None);
        assert_eq!(stored.clone().of(session.clone()).await, servers());
        assert_eq!(stored.clone().sessions().await, std::slice::from_ref(&session));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path(&folder, &session).unwrap())), (0o700, 0o600));
        assert_eq!(stored.clone().keep(session.clone(), servers().split_off(2)).await, None);
        assert_eq!(stored.clone().of(session.clone()).await, servers().split_off(2));
        assert_eq!(stored.clone().keep(session.clone(), Vec::new()).await, None);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_stored_id_cannot_escape_its_folder_and_errors_reveal_no_value() {
        let home = tempfile::tempdir().unwrap();
        let stored = StoredServers::new(Some(home.path().join("mcp")));
        for id in ["../x", "", "a/b", "."] {
            assert!(stored.clone().keep(SessionId::from(id), servers()).await.is_some(), "{id}");
            assert!(stored.clone().of(SessionId::from(id)).await.is_empty());
        }
        fs::write(home.path().join("file"), "").unwrap();
        let notice =
            StoredServers::new(Some(home.path().join("file"))).keep(SessionId::new(), servers()).await.unwrap();
        assert!(notice.starts_with("The session's MCP servers work now, but could not be stored"), "{notice}");
        assert!(!notice.contains("hush"), "{notice}");
    }
}
