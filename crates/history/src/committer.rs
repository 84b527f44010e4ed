//! The only thread that writes: opens the store, collects the records of all sessions and commits
//! them in batches.
//!
//! `Store::open` starts it, and it ends when the queue is closed and empty. A panic ends one
//! commit, never the thread; receipts that are dropped on the way report their loss themselves.
//! Only this thread changes `Shared`, and it decides when to open the database again.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::history::{CommitLevel, HistoryError, Record, RecordEntry, StoreStatus};
use domain::{Durability, SessionId};

use crate::batch_builder::{BatchBuilder, SessionCache};
use crate::database::{Database, DatabaseError, Identity, guarded};
use crate::delete_job::DeleteJob;
use crate::flush_watchdog::FlushWatchdog;
use crate::job::{CommitterJob, Step};
use crate::opening::{self, CheckLevel, OpenedStore};
use crate::queue::Queue;
use crate::reserve;
use crate::shared::{Phase, Shared};
use crate::store::StoreSettings;
use crate::stored::{self, Encoded};

/// How long opening the store may take before it is logged.
const SLOW_OPENING: Duration = Duration::from_secs(2);

pub(crate) struct Committer {
    folder: PathBuf,
    settings: StoreSettings,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    watchdog: Option<FlushWatchdog>,
    cache: SessionCache,
    /// Copies and deletions in progress. The thread runs one step of the oldest after each commit.
    jobs: VecDeque<CommitterJob>,
    /// The file that was opened. If another file, or none, is at its path, it was removed.
    identity: Option<Identity>,
    /// How to open the store next time.
    check_level: CheckLevel,
    moved_aside: Option<PathBuf>,
    /// Whether the reserve file exists. Without it the disk counts as full.
    has_reserve: bool,
}

impl Committer {
    pub(crate) fn new(folder: PathBuf, settings: StoreSettings, queue: Arc<Queue>, shared: Arc<Shared>) -> Self {
        Self {
            folder,
            settings,
            queue,
            shared,
            watchdog: None,
            cache: SessionCache::default(),
            jobs: VecDeque::new(),
            identity: None,
            check_level: CheckLevel::Quick,
            moved_aside: None,
            has_reserve: true,
        }
    }

    /// The body of the thread.
    pub(crate) fn run(mut self) {
        self.watchdog = FlushWatchdog::start()
            .inspect_err(|error| tracing::warn!(%error, "slow commits to the history will not be reported"))
            .ok();
        while panic::catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() {
            tracing::error!("the committer of the history panicked; it continues with the next records");
            self.check_level = CheckLevel::Full;
            self.close_database(Phase::Opening);
        }
        self.close_database(Phase::Shut("it is closed".to_owned()));
        self.shared.set_status(StoreStatus::Failing { reason: "the store is closed".to_owned() });
    }

    fn serve(&mut self) {
        self.open();
        self.wake_for_jobs();
        while let Some(records) = self.queue.take() {
            self.commit(records);
            self.run_job_step();
            self.wake_for_jobs();
        }
        if let Phase::Open(database) = self.shared.phase()
            && let Err(error) = guarded("closing", || database.flush(true))
        {
            tracing::error!(%error, "the last sync of the history failed");
        }
    }

    fn commit(&mut self, records: Vec<Record>) {
        let database = match self.ready() {
            Ok(database) => database,
            Err(error) => return resolve(records, &Err(error)),
        };
        let records = self.take_jobs(records);
        let (records, encoded) = encode(records);
        if records.is_empty() {
            return;
        }
        let synced = records.iter().any(|record| record.durability() == Durability::Synced);
        self.shared.begin(records.iter());
        match self.write(&database, &records, encoded, synced) {
            Ok(()) => {
                self.shared.end();
                self.report(None);
                let settled = if synced { CommitLevel::Synced } else { CommitLevel::Written };
                resolve(records, &Ok(settled));
            }
            Err(error) => {
                drop(database);
                self.fail(&error, records);
            }
        }
    }

    /// Returns the database, which is opened if necessary. Fails if it does not open, or if the
    /// disk is full.
    fn ready(&mut self) -> Result<Arc<Database>, HistoryError> {
        if let Phase::Shut(_) = self.shared.phase() {
            self.shared.enter(Phase::Opening);
            self.open();
        }
        let database = match self.shared.phase() {
            Phase::Open(database) => database,
            Phase::Shut(reason) => return Err(HistoryError::Open(reason)),
            Phase::Opening => return Err(HistoryError::Open("it is not open".to_owned())),
        };
        if !self.has_reserve {
            reserve::keep(&self.folder).map_err(|error| {
                self.report(Some(error.to_string()));
                HistoryError::Write(error.to_string())
            })?;
            self.has_reserve = true;
        }
        Ok(database)
    }

    fn write(
        &mut self,
        database: &Arc<Database>,
        records: &[Record],
        encoded: Vec<Encoded>,
        synced: bool,
    ) -> Result<(), DatabaseError> {
        self.watched(database, |cache| {
            let mut batch = BatchBuilder::new(database, cache);
            for (record, encoded) in records.iter().zip(encoded) {
                batch.add(&record.session, encoded)?;
            }
            batch.finish()?;
            database.flush(synced)
        })
    }

    /// Runs `work`, which writes, while the watchdog watches it.
    fn watched<T>(
        &mut self,
        database: &Arc<Database>,
        work: impl FnOnce(&mut SessionCache) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let Self { cache, watchdog, .. } = self;
        guarded("writing", || match watchdog {
            Some(watchdog) => watchdog.during(database, || work(cache)),
            None => work(cache),
        })
    }

    fn take_jobs(&mut self, records: Vec<Record>) -> Vec<Record> {
        let (jobs, others): (Vec<Record>, Vec<Record>) = records.into_iter().partition(CommitterJob::is_for);
        for record in jobs {
            if matches!(record.entry, RecordEntry::Delete) {
                self.cancel_copies(&record.session);
            }
            self.jobs.extend(CommitterJob::new(record));
        }
        others
    }

    /// Cancels copies to a session that is deleted, so that it does not come back.
    fn cancel_copies(&mut self, session: &SessionId) {
        for job in std::mem::take(&mut self.jobs) {
            if job.makes(session) {
                resolve([job.into_record()], &Err(HistoryError::Lost));
            } else {
                self.jobs.push_back(job);
            }
        }
    }

    /// Wakes the committer if jobs are left, because jobs are not in the queue.
    fn wake_for_jobs(&self) {
        if !self.jobs.is_empty() {
            self.queue.wake_now();
        }
    }

    /// Runs one step of the oldest job. Records that arrive meanwhile are committed before the next
    /// step.
    fn run_job_step(&mut self) {
        let Some(mut job) = self.jobs.pop_front() else { return };
        let database = match self.ready() {
            Ok(database) => database,
            Err(error) => return resolve([job.into_record()], &Err(error)),
        };
        let step = self.watched(&database, |cache| {
            let step = job.step(&database, cache)?;
            database.flush(false)?;
            Ok(step)
        });
        match step {
            Ok(Step::More) => self.jobs.push_front(job),
            Ok(Step::Done(outcome)) => match (job, outcome) {
                (CommitterJob::Copy(copy), Err(error)) => {
                    self.jobs.push_front(CommitterJob::Delete(DeleteJob::failed_copy(copy.into_record(), error)));
                }
                (job, outcome) => resolve([job.into_record()], &outcome),
            },
            Err(error) => {
                drop(database);
                self.fail(&error, vec![job.into_record()]);
            }
        }
    }

    /// Handles a failed write: refuses its records and opens the database again, because sled's
    /// handle is useless after a failure. The reopened database lacks what was not settled.
    fn fail(&mut self, error: &DatabaseError, records: Vec<Record>) {
        self.report(Some(error.to_string()));
        self.check_level = match error {
            DatabaseError::Refused(_) | DatabaseError::Unreadable(_) | DatabaseError::Removed(_) => CheckLevel::Quick,
            DatabaseError::Broken(_) => CheckLevel::Full,
        };
        self.close_database(Phase::Opening);
        resolve(records, &Err(HistoryError::Write(error.to_string())));
        reserve::spend(&self.folder);
        self.has_reserve = false;
        self.open();
    }

    /// Drops the database. The phase changes before the list of unsettled numbers is cleared;
    /// otherwise a reader could mistake events of a failed commit for settled ones.
    fn close_database(&mut self, next: Phase) {
        let last = self.shared.phase();
        self.shared.enter(next);
        self.shared.end();
        self.cache.clear();
        // sled syncs when it is dropped, and panics when that fails.
        let dropped = guarded("closing the store", || {
            drop(last);
            Ok(())
        });
        if let Err(error) = dropped {
            tracing::error!(%error, "closing the history failed");
        }
    }

    /// Opens the store, and changes the phase from `Opening` to `Open` or `Shut`.
    fn open(&mut self) {
        let since = Instant::now();
        let is_removed = self.identity.is_some() && self.identity != Identity::of(&self.folder);
        let opened = match is_removed {
            // A new, empty store would take the next events of sessions whose beginning is gone.
            true => Err(DatabaseError::Removed(self.folder.clone())),
            false => guarded("opening", || opening::open(&self.folder, &self.settings, self.check_level)),
        };
        if since.elapsed() > SLOW_OPENING {
            tracing::warn!(took = ?since.elapsed(), "the history took unusually long to open");
        }
        match opened {
            Ok(OpenedStore { database, moved_aside }) => {
                self.check_level = CheckLevel::Quick;
                self.moved_aside = moved_aside.or(self.moved_aside.take());
                self.identity = Some(database.identity);
                self.shared.enter(Phase::Open(Arc::new(database)));
                self.after_opening();
            }
            Err(error) => {
                self.report(Some(error.to_string()));
                self.shared.enter(Phase::Shut(error.to_string()));
            }
        }
    }

    /// Reports success, unless a write has failed: in that case the next successful write changes
    /// the status.
    fn after_opening(&mut self) {
        if !self.has_reserve {
            return;
        }
        match reserve::keep(&self.folder) {
            Ok(()) => self.report(None),
            Err(error) => {
                self.has_reserve = false;
                self.report(Some(error.to_string()));
            }
        }
    }

    /// Sets the status, and logs it if it changed.
    fn report(&self, failure: Option<String>) {
        let status = match failure.clone() {
            Some(reason) => StoreStatus::Failing { reason },
            None => StoreStatus::Open { moved_aside: self.moved_aside.clone() },
        };
        let before = self.shared.set_status(status.clone());
        if before == status {
            return;
        }
        match failure {
            Some(reason) => tracing::error!(reason, folder = %self.folder.display(), "the history cannot be written"),
            None => tracing::info!(folder = %self.folder.display(), "the history is open"),
        }
    }
}

/// Encodes the records. A record that cannot be encoded is refused, and the others are still
/// committed.
fn encode(records: Vec<Record>) -> (Vec<Record>, Vec<Encoded>) {
    let mut storable = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len()));
    for record in records {
        match stored::encode(&record) {
            Ok(encoded) => storable.extend([(record, encoded)]),
            Err(error) => resolve(vec![record], &Err(error)),
        }
    }
    storable
}

/// Completes receipts. They run code of the sessions, and a panic there must not affect other
/// receipts.
fn resolve(records: impl IntoIterator<Item = Record>, outcome: &Result<CommitLevel, HistoryError>) {
    for record in records {
        let outcome = outcome.clone();
        if panic::catch_unwind(AssertUnwindSafe(|| record.receipt.resolve(outcome))).is_err() {
            tracing::error!(session = %record.session, "the receipt of a record panicked");
        }
    }
}
