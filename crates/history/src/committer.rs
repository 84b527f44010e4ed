//! The one thread that writes: it opens the store, gathers what all sessions submit, and commits it in batches.
//!
//! Started by `Store::open`, it ends when the queue is closed and empty. A panic ends one commit, never the thread: the
//! receipts that were lost in it say so by themselves. It alone changes `Shared`, and it decides when the database must
//! be opened again.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::history::{Entry, HistoryError, Record, Settled, StoreStatus};
use domain::{Durability, SessionId};

use crate::disk::{Disk, Fault, Identity, guarded};
use crate::draft::{Draft, Listed};
use crate::job::{Job, Step};
use crate::nudge::Nudge;
use crate::opening::{self, Opened, Scrutiny};
use crate::queue::Queue;
use crate::removing::Removing;
use crate::reserve;
use crate::shared::{Phase, Shared};
use crate::stored::{self, Encoded};

/// An opening that takes longer is worth a line in the log.
const SLOW: Duration = Duration::from_secs(2);

pub(crate) struct Committer {
    folder: PathBuf,
    cache_bytes: u64,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    nudge: Option<Nudge>,
    listed: Listed,
    /// Copies and deletions that are under way. One step of the oldest follows each commit.
    jobs: VecDeque<Job>,
    /// The database that was opened. Another one, or none, in its place means that somebody removed it.
    identity: Option<Identity>,
    /// How to open the store next time.
    scrutiny: Scrutiny,
    moved_aside: Option<PathBuf>,
    /// Whether the reserve is there. Without it the disk counts as full.
    has_reserve: bool,
}

impl Committer {
    pub(crate) fn new(folder: PathBuf, cache_bytes: u64, queue: Arc<Queue>, shared: Arc<Shared>) -> Self {
        Self {
            folder,
            cache_bytes,
            queue,
            shared,
            nudge: None,
            listed: Listed::default(),
            jobs: VecDeque::new(),
            identity: None,
            scrutiny: Scrutiny::Glance,
            moved_aside: None,
            has_reserve: true,
        }
    }

    /// The body of the thread.
    pub(crate) fn run(mut self) {
        self.nudge =
            Nudge::start().inspect_err(|error| tracing::warn!(%error, "commits to the history are not watched")).ok();
        while panic::catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() {
            tracing::error!("the committer of the history panicked; it goes on with the next records");
            self.scrutiny = Scrutiny::Thorough;
            self.let_go(Phase::Opening);
        }
        self.let_go(Phase::Shut("it is closed".to_owned()));
        self.shared.set_status(StoreStatus::Failing { reason: "the store is closed".to_owned() });
    }

    fn serve(&mut self) {
        self.open();
        self.wake_for_jobs();
        while let Some(records) = self.queue.take() {
            self.commit(records);
            self.do_step();
            self.wake_for_jobs();
        }
        if let Phase::Open(disk) = self.shared.phase()
            && let Err(fault) = guarded("closing", || disk.settle(true))
        {
            tracing::error!(%fault, "the last sync of the history failed");
        }
    }

    fn commit(&mut self, records: Vec<Record>) {
        let disk = match self.ready() {
            Ok(disk) => disk,
            Err(error) => return stamp(records, &Err(error)),
        };
        let records = self.set_jobs_apart(records);
        let (records, drafts) = encode(records);
        if records.is_empty() {
            return;
        }
        let synced = records.iter().any(|record| record.durability() == Durability::Synced);
        self.shared.begin(records.iter());
        match self.write(&disk, &records, drafts, synced) {
            Ok(()) => {
                self.shared.end();
                self.report(None);
                let settled = if synced { Settled::Synced } else { Settled::Written };
                stamp(records, &Ok(settled));
            }
            Err(fault) => {
                drop(disk);
                self.fail(&fault, records);
            }
        }
    }

    /// The database, if it is open or opens now and the disk has room.
    fn ready(&mut self) -> Result<Arc<Disk>, HistoryError> {
        if let Phase::Shut(_) = self.shared.phase() {
            self.shared.enter(Phase::Opening);
            self.open();
        }
        let disk = match self.shared.phase() {
            Phase::Open(disk) => disk,
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
        Ok(disk)
    }

    fn write(&mut self, disk: &Arc<Disk>, records: &[Record], drafts: Vec<Encoded>, synced: bool) -> Result<(), Fault> {
        self.watched(disk, |listed| {
            let mut draft = Draft::new(disk, listed);
            for (record, encoded) in records.iter().zip(drafts) {
                draft.add(&record.session, encoded)?;
            }
            draft.finish()?;
            disk.settle(synced)
        })
    }

    /// Does something that writes, with somebody to wake it up if sled forgets it.
    fn watched<T>(&mut self, disk: &Arc<Disk>, work: impl FnOnce(&mut Listed) -> Result<T, Fault>) -> Result<T, Fault> {
        let Self { listed, nudge, .. } = self;
        guarded("writing", || match nudge {
            Some(nudge) => nudge.during(disk, || work(listed)),
            None => work(listed),
        })
    }

    fn set_jobs_apart(&mut self, records: Vec<Record>) -> Vec<Record> {
        let (jobs, others): (Vec<Record>, Vec<Record>) = records.into_iter().partition(Job::is_for);
        for record in jobs {
            if matches!(record.entry, Entry::Delete) {
                self.give_up_copy(&record.session);
            }
            self.jobs.extend(Job::new(record));
        }
        others
    }

    /// What is deleted while it is copied must not come back.
    fn give_up_copy(&mut self, session: &SessionId) {
        for job in std::mem::take(&mut self.jobs) {
            if job.makes(session) {
                stamp([job.into_record()], &Err(HistoryError::Lost));
            } else {
                self.jobs.push_back(job);
            }
        }
    }

    /// Jobs wait in no queue, so the committer has to wake itself for them.
    fn wake_for_jobs(&self) {
        if !self.jobs.is_empty() {
            self.queue.knock();
        }
    }

    /// One step of the oldest job. What waits for the committer meanwhile is looked at before the next one.
    fn do_step(&mut self) {
        let Some(mut job) = self.jobs.pop_front() else { return };
        let disk = match self.ready() {
            Ok(disk) => disk,
            Err(error) => return stamp([job.into_record()], &Err(error)),
        };
        let step = self.watched(&disk, |listed| {
            let step = job.step(&disk, listed)?;
            disk.settle(false)?;
            Ok(step)
        });
        match step {
            Ok(Step::More) => self.jobs.push_front(job),
            Ok(Step::Done(outcome)) => match (job, outcome) {
                (Job::Copy(copy), Err(error)) => {
                    self.jobs.push_front(Job::Remove(Removing::failed_copy(copy.into_record(), error)));
                }
                (job, outcome) => stamp([job.into_record()], &outcome),
            },
            Err(fault) => {
                drop(disk);
                self.fail(&fault, vec![job.into_record()]);
            }
        }
    }

    /// sled's handle is of no use after a failure, so the database is opened again; what was not settled is not in it.
    fn fail(&mut self, fault: &Fault, records: Vec<Record>) {
        self.report(Some(fault.to_string()));
        self.scrutiny = match fault {
            Fault::Refused(_) | Fault::Unreadable(_) | Fault::Removed(_) => Scrutiny::Glance,
            Fault::Broken(_) => Scrutiny::Thorough,
        };
        self.let_go(Phase::Opening);
        stamp(records, &Err(HistoryError::Write(fault.to_string())));
        reserve::spend(&self.folder);
        self.has_reserve = false;
        self.open();
    }

    /// Drops the database. The phase changes before the note of what is unsettled goes, so that no reader takes what it
    /// saw of a failed commit for settled.
    fn let_go(&mut self, next: Phase) {
        let last = self.shared.phase();
        self.shared.enter(next);
        self.shared.end();
        self.listed.forget();
        // sled syncs when it is dropped, and panics when that fails.
        let dropped = guarded("letting go of the store", || {
            drop(last);
            Ok(())
        });
        if let Err(fault) = dropped {
            tracing::error!(%fault, "the history was not put away in good order");
        }
    }

    /// Leaves the phase `Opening` for one of the others.
    fn open(&mut self) {
        let since = Instant::now();
        let is_removed = self.identity.is_some() && self.identity != Identity::of(&self.folder);
        let opened = match is_removed {
            // A new, empty store would take the next events of sessions whose beginning is gone.
            true => Err(Fault::Removed(self.folder.clone())),
            false => guarded("opening", || opening::open(&self.folder, self.cache_bytes, self.scrutiny)),
        };
        if since.elapsed() > SLOW {
            tracing::warn!(took = ?since.elapsed(), "the history took unusually long to open");
        }
        match opened {
            Ok(Opened { disk, moved_aside }) => {
                self.scrutiny = Scrutiny::Glance;
                self.moved_aside = moved_aside.or(self.moved_aside.take());
                self.identity = Some(disk.identity);
                self.shared.enter(Phase::Open(Arc::new(disk)));
                self.after_opening();
            }
            Err(fault) => {
                self.report(Some(fault.to_string()));
                self.shared.enter(Phase::Shut(fault.to_string()));
            }
        }
    }

    /// After a failure the status stays as it is until something was written again.
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

    /// Tells the status, and the log when it is another one.
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

/// The records in their stored form. One that has none is refused without harm to the others.
fn encode(records: Vec<Record>) -> (Vec<Record>, Vec<Encoded>) {
    let mut storable = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len()));
    for record in records {
        match stored::encode(&record) {
            Ok(encoded) => storable.extend([(record, encoded)]),
            Err(error) => stamp(vec![record], &Err(error)),
        }
    }
    storable
}

/// Receipts run other people's code; what panics there must not cost the others their answer.
fn stamp(records: impl IntoIterator<Item = Record>, outcome: &Result<Settled, HistoryError>) {
    for record in records {
        let outcome = outcome.clone();
        if panic::catch_unwind(AssertUnwindSafe(|| record.receipt.stamp(outcome))).is_err() {
            tracing::error!(session = %record.session, "the receipt of a record panicked");
        }
    }
}
