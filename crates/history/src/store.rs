//! The handle to the history: passes records to the committer thread and reads on tokio's blocking threads.
//!
//! The daemon has one. It owns the committer thread and ends it when it is closed or dropped. Only `close` blocks the
//! caller.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain::history::{History, HistoryError, ListQuery, Page, Record, SessionMeta, StoreStatus};
use domain::{Event, SessionId};

use crate::committer::Committer;
use crate::database::{Fault, guarded};
use crate::keys::ListPosition;
use crate::queue::Queue;
use crate::read;
use crate::shared::{Phase, Shared};

#[derive(Clone, Debug)]
pub struct Settings {
    /// The size of sled's cache. It is approximate: sled checks it after every 64 accesses to one of 256 shards.
    pub cache_bytes: u64,
    /// How long streamed text may wait to be committed together with other records.
    pub soon: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cache_bytes: 16 << 20, soon: Duration::from_millis(200) }
    }
}

pub struct Store {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Returns at once. The store's own thread opens or creates it; `status` reports the result.
    pub fn open(folder: PathBuf, settings: Settings) -> Self {
        let queue = Arc::new(Queue::new(settings.soon));
        let shared = Arc::new(Shared::new());
        let committer = Committer::new(folder, settings.cache_bytes, Arc::clone(&queue), Arc::clone(&shared));
        let spawned = thread::Builder::new().name("history".to_owned()).spawn(move || committer.run());
        let committer = spawned.map_err(|error| {
            let reason = format!("its thread did not start: {error}");
            queue.close();
            shared.enter(Phase::Shut(reason.clone()));
            shared.set_status(StoreStatus::Failing { reason });
        });
        Self { queue, shared, committer: Mutex::new(committer.ok()) }
    }

    /// Commits what is queued, syncs it and ends the thread. Blocks until then. A second call does nothing.
    pub fn close(&self) {
        self.queue.close();
        let committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if committer.is_some_and(|committer| committer.join().is_err()) {
            tracing::error!("the committer of the history ended in a panic");
        }
    }

    /// Reads on a blocking thread. If the database was opened again meanwhile, the answer may come from a failed commit,
    /// so the query is repeated.
    async fn query<T: Send + 'static>(
        shared: Arc<Shared>,
        queue: Arc<Queue>,
        query: impl Fn(&Shared, &sled::Db) -> Result<T, Fault> + Send + Sync + 'static,
    ) -> Result<T, HistoryError> {
        let query = Arc::new(query);
        loop {
            // A store that did not open is opened again, for the next query.
            let database = shared.database().await.inspect_err(|_| queue.wake_now())?;
            let answered = tokio::task::spawn_blocking({
                let (shared, database, query) = (Arc::clone(&shared), Arc::clone(&database), Arc::clone(&query));
                move || {
                    guarded("reading", || {
                        database.in_place()?;
                        query(&shared, &database.db)
                    })
                }
            });
            let answer = answered.await.map_err(|error| HistoryError::Read(error.to_string()))?;
            if let Err(fault) = &answer {
                shared.quiet().await;
                if let Fault::Removed(_) = fault {
                    shared.set_status(StoreStatus::Failing { reason: fault.to_string() });
                }
            }
            if shared.is_current(&database) {
                return answer.map_err(|fault| HistoryError::Read(fault.to_string()));
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, HistoryError>> + Send>>;

impl History for Store {
    fn submit(&self, record: Record) {
        if let Some(record) = self.queue.push(record) {
            record.receipt.stamp(Err(HistoryError::Write("the store is closed".to_owned())));
        }
    }

    fn read(&self, session: SessionId, from: u64, budget: usize) -> Answer<Vec<Arc<Event>>> {
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), move |shared, db| {
            let mut events = read::events(db, &session, from, budget)?;
            if let Some(unsettled) = shared.unsettled(&session) {
                events.retain(|event| event.number < unsettled);
            }
            Ok(events)
        }))
    }

    fn find(&self, session: SessionId) -> Answer<Option<SessionMeta>> {
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), move |_, db| read::meta(db, &session)))
    }

    fn list(&self, query: ListQuery) -> Answer<Page> {
        let ListQuery { cwd, cursor, limit } = query;
        let Ok(after) = cursor.map(|cursor| ListPosition::from_cursor(&cursor).ok_or(cursor)).transpose() else {
            return Box::pin(std::future::ready(Err(HistoryError::UnknownCursor)));
        };
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), move |_, db| {
            read::page(db, cwd.clone(), after.clone(), limit)
        }))
    }

    fn leftovers(&self) -> Answer<Vec<SessionId>> {
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), |_, db| read::leftovers(db)))
    }

    fn status(&self) -> StoreStatus {
        self.shared.status()
    }
}
