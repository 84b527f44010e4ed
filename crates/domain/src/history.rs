//! The port to the store of all sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Durability, Event, Millis, SessionId};

/// The summary of a session for lists, stored beside its events and in the same batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMeta {
    pub id: SessionId,
    pub cwd: PathBuf,
    /// Where `cwd` led when the session began. An older log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_cwd: Option<PathBuf>,
    #[serde(default)]
    pub extra_roots: Vec<PathBuf>,
    #[serde(default)]
    pub title: Option<String>,
    pub created: Millis,
    pub updated: Millis,
    /// Messages of the user and of the model.
    pub messages: u64,
    /// The number of the last event.
    pub last: u64,
    pub life: u32,
    /// Whether a turn waits for the answer to a permission question. Such a session is opened when the daemon starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// Whether the session was evicted in good order. One that was not starts a new life when it is opened.
    pub clean: bool,
}

impl SessionMeta {
    /// The folder under which it is listed.
    pub fn folder(&self) -> &Path {
        self.real_cwd.as_deref().unwrap_or(&self.cwd)
    }
}

/// Something to keep, with the place to report to when it is kept.
pub struct Record {
    pub session: SessionId,
    pub entry: Entry,
    pub receipt: Receipt,
}

pub enum Entry {
    /// Events in order, and the summary as it is after the last of them.
    Append { events: Vec<Arc<Event>>, meta: SessionMeta },
    /// Events of a session that cannot be found yet: it appears as a whole with its first `Append`.
    Prepare { events: Vec<Arc<Event>> },
    /// The same with the events of another session up to this number, as they are stored.
    Copy { from: SessionId, last: u64 },
    /// All of the session's events and its summary go.
    Delete,
}

impl Record {
    /// The strongest wish among its events.
    pub fn durability(&self) -> Durability {
        match &self.entry {
            Entry::Append { events, .. } => {
                events.iter().map(|event| event.kind.durability()).max().unwrap_or(Durability::Written)
            }
            Entry::Prepare { .. } | Entry::Copy { .. } | Entry::Delete => Durability::Written,
        }
    }
}

/// How safe a record is once its receipt is stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settled {
    /// Survives the end of the process.
    Written,
    /// Survives the loss of power.
    Synced,
}

/// Reports what became of a record, exactly once: a record that is dropped on its way reports `Lost`.
pub struct Receipt(Option<Report>);

type Report = Box<dyn FnOnce(Result<Settled, HistoryError>) + Send>;

impl Receipt {
    pub fn new(report: impl FnOnce(Result<Settled, HistoryError>) + Send + 'static) -> Self {
        Self(Some(Box::new(report)))
    }

    pub fn stamp(mut self, result: Result<Settled, HistoryError>) {
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The disk refused; what was not acknowledged may be submitted again.
    #[error("cannot write the history: {0}")]
    Write(String),
    #[error("cannot read the history: {0}")]
    Read(String),
    #[error("the store could not be opened: {0}")]
    Open(String),
    /// Dropped on its way to the store.
    #[error("the record was lost on its way to the history")]
    Lost,
    #[error("unknown cursor")]
    UnknownCursor,
}

/// Which sessions to list, newest first.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only those of this folder, by its real path.
    pub cwd: Option<PathBuf>,
    /// Where the last page ended, as that page said.
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub sessions: Vec<SessionMeta>,
    pub next: Option<String>,
}

/// How the store is, for `ctl status`.
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

/// The store. Only `submit` and `status` return at once; everything that may wait for the disk is async.
pub trait History: Send + Sync + 'static {
    /// Takes a record for the committer and returns at once. Records of one session are kept in the order in which
    /// they were submitted; submitting an event again replaces it.
    fn submit(&self, record: Record);

    /// Committed events from number `from` on, in order, as many as fit into about `budget` bytes but at least one if
    /// there is one.
    fn read(
        &self,
        session: SessionId,
        from: u64,
        budget: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, HistoryError>>;

    fn find(&self, session: SessionId) -> BoxFuture<'static, Result<Option<SessionMeta>, HistoryError>>;

    fn list(&self, query: ListQuery) -> BoxFuture<'static, Result<Page, HistoryError>>;

    /// Sessions that never had a prompt, and those that were prepared and nothing came of.
    fn leftovers(&self) -> BoxFuture<'static, Result<Vec<SessionId>, HistoryError>>;

    fn status(&self) -> StoreStatus;
}
