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

use crate::copying::{Copying, Step};
use crate::disk::{Disk, Fault, guarded};
use crate::draft::{Draft, Listed};
use crate::nudge::Nudge;
use crate::opening::{self, Opened, Scrutiny};
use crate::queue::Queue;
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
    /// Copies that are under way. One step of one of them follows each commit, so that nobody waits for a long one.
    copying: VecDeque<Copying>,
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
            copying: VecDeque::new(),
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
        self.wake_for_copies();
        while let Some(records) = self.queue.take() {
            self.commit(records);
            self.copy_on();
            self.wake_for_copies();
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
        let records = self.set_copies_apart(records);
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

    fn set_copies_apart(&mut self, records: Vec<Record>) -> Vec<Record> {
        let (copies, others) = records.into_iter().partition(|record| matches!(record.entry, Entry::Copy { .. }));
        let copies: Vec<Record> = copies;
        self.copying.extend(copies.into_iter().filter_map(Copying::new));
        let others: Vec<Record> = others;
        for record in others.iter().filter(|record| matches!(record.entry, Entry::Delete)) {
            self.give_up_copy(&record.session);
        }
        others
    }

    /// What is deleted while it is copied must not come back.
    fn give_up_copy(&mut self, session: &SessionId) {
        for copy in std::mem::take(&mut self.copying) {
            if copy.makes() == session {
                copy.stamp(Err(HistoryError::Lost));
            } else {
                self.copying.push_back(copy);
            }
        }
    }

    /// Copies wait in no queue, so the committer has to wake itself for them.
    fn wake_for_copies(&self) {
        if !self.copying.is_empty() {
            self.queue.knock();
        }
    }

    /// One step of the oldest copy. What waits for the committer meanwhile is looked at before the next one.
    fn copy_on(&mut self) {
        let Some(mut copy) = self.copying.pop_front() else { return };
        let disk = match self.ready() {
            Ok(disk) => disk,
            Err(error) => return copy.stamp(Err(error)),
        };
        let step = self.watched(&disk, |listed| {
            let step = copy.step(&disk, listed)?;
            disk.settle(false)?;
            Ok(step)
        });
        match step {
            Ok(Step::More) => self.copying.push_front(copy),
            Ok(Step::Done(outcome)) => copy.stamp(outcome),
            Err(fault) => {
                drop(disk);
                self.fail(&fault, vec![copy.into_record()]);
            }
        }
    }

    /// sled's handle is of no use after a failure, so the database is opened again; what was not settled is not in it.
    fn fail(&mut self, fault: &Fault, records: Vec<Record>) {
        self.report(Some(fault.to_string()));
        self.scrutiny = match fault {
            Fault::Refused(_) | Fault::Unreadable(_) => Scrutiny::Glance,
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
        let opened = guarded("opening", || opening::open(&self.folder, self.cache_bytes, self.scrutiny));
        if since.elapsed() > SLOW {
            tracing::warn!(took = ?since.elapsed(), "the history took unusually long to open");
        }
        match opened {
            Ok(Opened { disk, moved_aside }) => {
                self.scrutiny = Scrutiny::Glance;
                self.moved_aside = moved_aside.or(self.moved_aside.take());
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
fn stamp(records: Vec<Record>, outcome: &Result<Settled, HistoryError>) {
    for record in records {
        let outcome = outcome.clone();
        if panic::catch_unwind(AssertUnwindSafe(|| record.receipt.stamp(outcome))).is_err() {
            tracing::error!(session = %record.session, "the receipt of a record panicked");
        }
    }
}
