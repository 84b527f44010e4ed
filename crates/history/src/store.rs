//! The handle to the history: passes records to the committer thread and reads on tokio's blocking
//! threads.
//!
//! The daemon has one. It owns the committer thread and ends it when it is closed or dropped. Only
//! `close` blocks the caller.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain::history::{History, HistoryError, ListQuery, Page, Record, SessionMeta, StoreStatus};
use domain::{Event, SessionId};

use crate::committer::Committer;
use crate::database::{Database, DatabaseError, SyncFile, guarded};
use crate::keys::ListPosition;
use crate::queue::Queue;
use crate::read;
use crate::shared::{Phase, Shared};

#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The size of sled's cache. It is approximate: sled checks it after every 64 accesses to one
    /// of 256 shards.
    pub cache_bytes: u64,
    /// How long streamed text may wait to be committed together with other records.
    pub soon: Duration,
    /// How the database's file is synced.
    pub sync: SyncFile,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { cache_bytes: 16 << 20, soon: Duration::from_millis(200), sync: SyncFile::default() }
    }
}

pub struct Store {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Starts the store's thread, which opens or creates the store, and returns at once. `status`
    /// reports the result.
    pub fn open(folder: PathBuf, settings: StoreSettings) -> Self {
        let queue = Arc::new(Queue::new(settings.soon));
        let shared = Arc::new(Shared::new());
        let committer = Committer::new(folder, settings, Arc::clone(&queue), Arc::clone(&shared));
        let spawned = thread::Builder::new().name("history".to_owned()).spawn(move || committer.run());
        let committer = spawned.map_err(|error| {
            let reason = format!("its thread did not start: {error}");
            queue.close();
            shared.enter(Phase::Shut(reason.clone()));
            shared.set_status(StoreStatus::Failing { reason });
        });
        Self { queue, shared, committer: Mutex::new(committer.ok()) }
    }

    /// Commits what is queued, syncs it and ends the thread. Blocks until that is done. A second
    /// call does nothing.
    pub fn close(&self) {
        self.queue.close();
        let committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if committer.is_some_and(|committer| committer.join().is_err()) {
            tracing::error!("the committer of the history ended in a panic");
        }
    }

    /// Reads on a blocking thread. If the database was opened again meanwhile, the answer may come
    /// from a failed commit, so the query is repeated.
    async fn query<T: Send + 'static>(
        shared: Arc<Shared>,
        queue: Arc<Queue>,
        query: impl Fn(&Shared, &Database) -> Result<T, DatabaseError> + Send + Sync + 'static,
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
                        query(&shared, &database)
                    })
                }
            });
            let answer = answered.await.map_err(|error| HistoryError::Read(error.to_string()))?;
            if let Err(error) = &answer {
                shared.until_settled().await;
                if let DatabaseError::Removed(_) = error {
                    shared.set_status(StoreStatus::Failing { reason: error.to_string() });
                }
            }
            if shared.is_current(&database) {
                return answer.map_err(|error| HistoryError::Read(error.to_string()));
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

type Reading<T> = Pin<Box<dyn Future<Output = Result<T, HistoryError>> + Send>>;

impl History for Store {
    fn submit(&self, record: Record) {
        if let Some(record) = self.queue.push(record) {
            record.receipt.resolve(Err(HistoryError::Write("the store is closed".to_owned())));
        }
    }

    fn read(&self, session: SessionId, from: u64, budget: usize) -> Reading<Vec<Arc<Event>>> {
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), move |shared, database| {
            let mut events = read::events(&database.db, &session, from, budget)?;
            if let Some(unsettled) = shared.unsettled(&session) {
                events.retain(|event| event.number < unsettled);
            }
            Ok(events)
        }))
    }

    fn find(&self, session: SessionId) -> Reading<Option<SessionMeta>> {
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), move |_, database| {
            database.between_batches(|db| read::meta(db, &session))
        }))
    }

    fn list(&self, query: ListQuery) -> Reading<Page> {
        let ListQuery { cwd, cursor, limit } = query;
        let Ok(after) = cursor.map(|cursor| ListPosition::from_cursor(&cursor).ok_or(cursor)).transpose() else {
            return Box::pin(std::future::ready(Err(HistoryError::UnknownCursor)));
        };
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), move |_, database| {
            database.between_batches(|db| read::page(db, cwd.clone(), after.clone(), limit))
        }))
    }

    fn leftovers(&self) -> Reading<Vec<SessionId>> {
        Box::pin(Self::query(Arc::clone(&self.shared), Arc::clone(&self.queue), |_, database| {
            database.between_batches(read::leftovers)
        }))
    }

    fn status(&self) -> StoreStatus {
        self.shared.status()
    }
}

#[cfg(test)]
mod tests {
    use domain::history::{Receipt, RecordEntry};
    use tempfile::tempdir;

    use super::*;
    use crate::salvage::tests::{append, meta, prompt};

    /// A store without a committer, for which the test commits.
    fn store(database: &Arc<Database>) -> Store {
        let shared = Arc::new(Shared::new());
        shared.enter(Phase::Open(Arc::clone(database)));
        Store { queue: Arc::new(Queue::new(Duration::ZERO)), shared, committer: Mutex::new(None) }
    }

    /// The numbers that a reader of the session sees.
    async fn seen(store: &Store, session: &str) -> Vec<u64> {
        let events = store.read(SessionId::from(session), 0, usize::MAX).await.unwrap();
        events.iter().map(|event| event.number).collect()
    }

    fn record(session: &str, events: Vec<Arc<Event>>) -> Record {
        let meta = meta(session, events.last().unwrap().number);
        let entry = RecordEntry::Append { events, meta };
        Record { session: SessionId::from(session), entry, receipt: Receipt::new(|_| {}) }
    }

    #[tokio::test]
    async fn a_reader_sees_nothing_of_a_commit_before_it_is_settled() {
        let home = tempdir().unwrap();
        let database = Arc::new(Database::open(&home.path().join("a"), &StoreSettings::default()).unwrap());
        let store = store(&database);
        append(&database, meta("a", 1), &[prompt(1, "settled")]);
        append(&database, meta("b", 1), &[prompt(1, "of another session")]);
        let under_way = [prompt(2, "not yet"), prompt(3, "not yet")];
        store.shared.begin([record("a", under_way.to_vec())].iter());
        append(&database, meta("a", 3), &under_way);
        assert_eq!((seen(&store, "a").await, seen(&store, "b").await), (vec![1], vec![1]));
        store.shared.end();
        assert_eq!(seen(&store, "a").await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn after_a_failed_commit_readers_use_the_reopened_database() {
        let home = tempdir().unwrap();
        let failed = Arc::new(Database::open(&home.path().join("a"), &StoreSettings::default()).unwrap());
        let next = Arc::new(Database::open(&home.path().join("b"), &StoreSettings::default()).unwrap());
        let store = store(&failed);
        append(&next, meta("a", 1), &[prompt(1, "settled")]);
        let lost = [prompt(1, "settled"), prompt(2, "lost")];
        append(&failed, meta("a", 2), &lost);
        // The reader already has its answer when the committer replaces the failed database.
        let reads = std::sync::atomic::AtomicUsize::new(0);
        let query = Store::query(Arc::clone(&store.shared), Arc::clone(&store.queue), move |shared, database| {
            let events = read::events(&database.db, &SessionId::from("a"), 0, usize::MAX)?;
            if reads.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
                shared.enter(Phase::Open(Arc::clone(&next)));
                shared.end();
            }
            Ok(events.len())
        });
        assert_eq!(query.await.unwrap(), 1);
    }
}
