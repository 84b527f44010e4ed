//! The port to the store of all sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Durability, Event, Millis, SessionId, Worktree};

/// The summary of a session for lists, stored beside its events and in the same batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMeta {
    pub id: SessionId,
    /// The folder in which it was opened.
    pub cwd: PathBuf,
    /// The worktree in which it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Box<Worktree>>,
    /// The real path of `cwd` when the session began. Older logs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_cwd: Option<PathBuf>,
    #[serde(default)]
    pub extra_roots: Vec<PathBuf>,
    #[serde(default)]
    pub title: Option<String>,
    pub created: Millis,
    pub updated: Millis,
    /// The agent that answers in place of the native engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The number of messages of the user and of the model.
    pub messages: u64,
    /// The number of the last event.
    pub last: u64,
    pub life: u32,
    /// Whether a turn waits for the answer to a permission question. The daemon opens such a
    /// session when it starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// Whether the session was evicted cleanly. If not, it starts a new life when it is opened.
    pub clean: bool,
}

impl SessionMeta {
    /// Returns the folder under which the session is listed.
    pub fn folder(&self) -> &Path {
        self.real_cwd.as_deref().unwrap_or(&self.cwd)
    }
}

/// A change to store, and the receipt that reports when it is stored.
pub struct Record {
    pub session: SessionId,
    pub entry: RecordEntry,
    pub receipt: Receipt,
}

/// The change that a record makes to the store.
pub enum RecordEntry {
    /// Appends events in order, and replaces the summary with the one after the last event.
    Append { events: Vec<Arc<Event>>, meta: SessionMeta },
    /// Stores events of a session that is not visible yet. The session appears as a whole with its
    /// first `Append`.
    Prepare { events: Vec<Arc<Event>> },
    /// Like `Prepare`, with the stored events of another session up to this number.
    Copy { from: SessionId, last: u64 },
    /// Deletes the session's events and its summary.
    Delete,
}

impl Record {
    /// Returns the strongest durability that its events require.
    pub fn durability(&self) -> Durability {
        match &self.entry {
            RecordEntry::Append { events, .. } => {
                events.iter().map(|event| event.kind.durability()).max().unwrap_or(Durability::Written)
            }
            RecordEntry::Prepare { .. } | RecordEntry::Copy { .. } | RecordEntry::Delete => Durability::Written,
        }
    }
}

/// How durable a record is once its receipt is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitLevel {
    /// Survives the end of the process.
    Written,
    /// Survives the loss of power.
    Synced,
}

/// Reports the result of a record exactly once. A record that is dropped on its way reports `Lost`.
pub struct Receipt(Option<Report>);

type Report = Box<dyn FnOnce(Result<CommitLevel, HistoryError>) + Send>;

impl Receipt {
    pub fn new(report: impl FnOnce(Result<CommitLevel, HistoryError>) + Send + 'static) -> Self {
        Self(Some(Box::new(report)))
    }

    pub fn resolve(mut self, result: Result<CommitLevel, HistoryError>) {
        if let Some(report) = self.0.take() {
            report(result);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(report) = self.0.take() {
            report(Err(HistoryError::Lost));
        }
    }
}

/// Why the store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The disk failed. Records that were not acknowledged may be submitted again.
    #[error("cannot write the history: {0}")]
    Write(String),
    #[error("cannot read the history: {0}")]
    Read(String),
    #[error("the store could not be opened: {0}")]
    Open(String),
    /// The record was dropped on its way to the store.
    #[error("the record was lost on its way to the history")]
    Lost,
    #[error("unknown cursor")]
    UnknownCursor,
}

/// Which sessions to list, newest first.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Lists only the sessions of this folder, by its real path.
    pub cwd: Option<PathBuf>,
    /// The cursor that the previous page returned.
    pub cursor: Option<String>,
    pub limit: usize,
}

/// One page of a list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub sessions: Vec<SessionMeta>,
    pub next: Option<String>,
}

/// The state of the store, for `ctl status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum StoreStatus {
    Opening,
    Open {
        /// Where an unreadable predecessor was moved to, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_aside: Option<PathBuf>,
    },
    /// The last write failed; the next one tries again.
    Failing {
        reason: String,
    },
}

/// The store of sessions. Only `submit` and `status` return at once; everything that may wait for
/// the disk is async.
pub trait History: Send + Sync + 'static {
    /// Queues a record for the committer and returns at once. Records of one session are stored in
    /// the order of submission; submitting an event again replaces it.
    fn submit(&self, record: Record);

    /// Reads committed events from number `from` on, in order: as many as fit into about `budget`
    /// bytes, and at least one if there is one.
    fn read(
        &self,
        session: SessionId,
        from: u64,
        budget: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, HistoryError>>;

    fn find(&self, session: SessionId) -> BoxFuture<'static, Result<Option<SessionMeta>, HistoryError>>;

    fn list(&self, query: ListQuery) -> BoxFuture<'static, Result<Page, HistoryError>>;

    /// Lists the sessions that never had a prompt, and those that were prepared and never appeared.
    fn leftovers(&self) -> BoxFuture<'static, Result<Vec<SessionId>, HistoryError>>;

    fn status(&self) -> StoreStatus;
}
