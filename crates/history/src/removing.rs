//! Deletes a session, a bounded part at a time.
//!
//! The first step hides the session: its summary and its places in the indexes go at once, and it is marked as a leftover.
//! The others delete its events. A deletion that is cut off by the end of the process has therefore happened for everyone
//! who looks, and what is left of it is swept away later. Made and driven by the committer, between its commits.

use domain::history::{HistoryError, Record, Settled};

use crate::disk::{Disk, Fault};
use crate::draft::{Draft, Listed};
use crate::job::Step;
use crate::keys;

/// Keys that one step deletes.
const STEP: usize = 4096;

pub(crate) struct Removing {
    record: Record,
    /// What to report in the end: success, or why a copy failed whose beginning is deleted here.
    outcome: Result<Settled, HistoryError>,
    hidden: bool,
}

impl Removing {
    pub(crate) fn new(record: Record) -> Self {
        Self { record, outcome: Ok(Settled::Written), hidden: false }
    }

    /// Deletes what a failed copy has made so far.
    pub(crate) fn failed_copy(record: Record, error: HistoryError) -> Self {
        Self { record, outcome: Err(error), hidden: false }
    }

    pub(crate) fn step(&mut self, disk: &Disk, listed: &mut Listed) -> Result<Step, Fault> {
        let session = &self.record.session;
        if !self.hidden {
            let mut draft = Draft::new(disk, listed);
            draft.hide(session)?;
            draft.finish()?;
            self.hidden = true;
            return Ok(Step::More);
        }
        let mut batch = sled::Batch::default();
        let mut count = 0;
        for key in disk.db.scan_prefix(keys::events_of(session)).keys().take(STEP) {
            batch.remove(key?);
            count += 1;
        }
        let is_done = count < STEP;
        if is_done {
            batch.remove(keys::leftover(session));
        }
        disk.apply(batch)?;
        Ok(if is_done { Step::Done(self.outcome.clone()) } else { Step::More })
    }

    pub(crate) fn into_record(self) -> Record {
        self.record
    }
}
