//! Deletes a session in bounded steps.
//!
//! The first step hides the session: it deletes its summary and index entries and marks it as a
//! leftover. The other steps delete its events. If the process ends in between, the session is
//! already invisible, and the rest is deleted as a leftover after the next start. The committer
//! runs the steps between its commits.

use domain::history::{CommitLevel, HistoryError, Record};

use crate::batch_builder::{BatchBuilder, SessionCache};
use crate::database::{Database, DatabaseError};
use crate::job::Step;
use crate::keys;

/// How many keys one step deletes.
const STEP: usize = 4096;

pub(crate) struct DeleteJob {
    record: Record,
    /// What the receipt reports: success or, if this deletes the remains of a failed copy, why the
    /// copy failed.
    outcome: Result<CommitLevel, HistoryError>,
    hidden: bool,
}

impl DeleteJob {
    pub(crate) fn new(record: Record) -> Self {
        Self { record, outcome: Ok(CommitLevel::Written), hidden: false }
    }

    /// Deletes what a failed copy has written.
    pub(crate) fn failed_copy(record: Record, error: HistoryError) -> Self {
        Self { record, outcome: Err(error), hidden: false }
    }

    pub(crate) fn step(&mut self, database: &Database, cache: &mut SessionCache) -> Result<Step, DatabaseError> {
        let session = &self.record.session;
        if !self.hidden {
            let mut batch = BatchBuilder::new(database, cache);
            batch.hide(session)?;
            batch.finish()?;
            self.hidden = true;
            return Ok(Step::More);
        }
        let mut batch = sled::Batch::default();
        let mut count = 0;
        for key in database.db.scan_prefix(keys::events_of(session)).keys().take(STEP) {
            batch.remove(key?);
            count += 1;
        }
        let is_done = count < STEP;
        if is_done {
            batch.remove(keys::leftover(session));
        }
        database.apply(batch)?;
        Ok(if is_done { Step::Done(self.outcome.clone()) } else { Step::More })
    }

    pub(crate) fn into_record(self) -> Record {
        self.record
    }
}
