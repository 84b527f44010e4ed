//! Copies the events of one session to another in bounded steps.
//!
//! Values are copied as they are stored, because they do not name their session; only a run of text
//! that goes on after the last number is cut. The copy has no summary, so it cannot be found before
//! it is complete, and it is marked as a leftover until it gets one. The committer runs the steps
//! between its commits.

use domain::SessionId;
use domain::history::{CommitLevel, HistoryError, Record};

use crate::batch_builder::SessionCache;
use crate::database::{Database, DatabaseError};
use crate::job::Step;
use crate::keys;
use crate::text_run::TextRun;

/// The approximate number of bytes that one step copies.
const STEP: usize = 1 << 20;

pub(crate) struct CopyJob {
    record: Record,
    from: SessionId,
    last: u64,
    /// The key at which the next step begins.
    next: Vec<u8>,
    /// The last number that was copied.
    carried: u64,
}

impl CopyJob {
    pub(crate) fn new(record: Record, from: SessionId, last: u64) -> Self {
        let next = keys::events_of(&from);
        Self { record, from, last, next, carried: 0 }
    }

    pub(crate) fn step(&mut self, database: &Database, cache: &mut SessionCache) -> Result<Step, DatabaseError> {
        cache.forget_events_of(&self.record.session);
        let to = &self.record.session;
        let mut batch = sled::Batch::default();
        batch.insert(keys::leftover(to), &[]);
        let mut size = 0;
        let end = keys::event(&self.from, self.last, u32::MAX);
        for entry in database.db.range(self.next.clone()..=end) {
            let (key, value) = entry?;
            let Some((number, part)) = keys::number_and_part(&key) else { continue };
            if size >= STEP {
                self.next = key.to_vec();
                database.apply(batch)?;
                return Ok(Step::More);
            }
            size += value.len();
            self.carried = number;
            batch.insert(keys::event(to, number, part), value);
        }
        if self.carried < self.last {
            self.copy_beginning_of_run(database, &mut batch)?;
        }
        if self.carried == self.last {
            database.apply(batch)?;
            return Ok(Step::Done(Ok(CommitLevel::Written)));
        }
        // The original has been deleted in the meantime.
        Ok(Step::Done(Err(HistoryError::Read("the session that was to be copied is gone".to_owned()))))
    }

    /// Copies the beginning of the run that contains the last number and goes on after it.
    fn copy_beginning_of_run(&mut self, database: &Database, batch: &mut sled::Batch) -> Result<(), DatabaseError> {
        let rest = keys::event(&self.from, self.last, u32::MAX)..=keys::event(&self.from, u64::MAX, u32::MAX);
        let Some((_, value)) = database.db.range(rest).next().transpose()? else { return Ok(()) };
        let Some(events) = TextRun::decode(&value) else { return Ok(()) };
        let mut runs = events.iter().take_while(|event| event.number <= self.last).filter_map(TextRun::of);
        let Some(mut beginning) = runs.next() else { return Ok(()) };
        for next in runs {
            if beginning.join(next).is_err() {
                return Ok(());
            }
        }
        self.carried = beginning.last();
        batch.insert(keys::event(&self.record.session, beginning.last(), 0), beginning.encode());
        Ok(())
    }

    /// The session that the copy creates.
    pub(crate) fn makes(&self) -> &SessionId {
        &self.record.session
    }

    pub(crate) fn into_record(self) -> Record {
        self.record
    }
}
