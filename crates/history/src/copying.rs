//! Copies the events of one session to another, inside the store and a bounded part at a time.
//!
//! Values are carried over as they are stored, which is once: they do not name their session. The copy has no summary, so
//! that nobody finds it before it is complete, and it is marked as a leftover until it gets one. Made and driven by the
//! committer, between its commits.

use domain::SessionId;
use domain::history::{HistoryError, Record, Settled};

use crate::disk::{Disk, Fault};
use crate::job::Step;
use crate::keys;

/// Bytes that one step carries over, about.
const STEP: usize = 1 << 20;

pub(crate) struct Copying {
    record: Record,
    from: SessionId,
    last: u64,
    /// The key to go on with.
    next: Vec<u8>,
    /// The last number that was carried over.
    carried: u64,
}

impl Copying {
    pub(crate) fn new(record: Record, from: SessionId, last: u64) -> Self {
        let next = keys::events_of(&from);
        Self { record, from, last, next, carried: 0 }
    }

    pub(crate) fn step(&mut self, disk: &Disk) -> Result<Step, Fault> {
        let to = &self.record.session;
        let mut batch = sled::Batch::default();
        batch.insert(keys::leftover(to), &[]);
        let mut size = 0;
        let end = keys::event(&self.from, self.last, u32::MAX);
        for entry in disk.db.range(self.next.clone()..=end) {
            let (key, value) = entry?;
            let Some((number, part)) = keys::number_and_part(&key) else { continue };
            if size >= STEP {
                self.next = key.to_vec();
                disk.apply(batch)?;
                return Ok(Step::More);
            }
            size += value.len();
            self.carried = number;
            batch.insert(keys::event(to, number, part), value);
        }
        if self.carried == self.last {
            disk.apply(batch)?;
            return Ok(Step::Done(Ok(Settled::Written)));
        }
        // The original was deleted meanwhile.
        Ok(Step::Done(Err(HistoryError::Read("the session that was to be copied is gone".to_owned()))))
    }

    /// The session that comes of it.
    pub(crate) fn makes(&self) -> &SessionId {
        &self.record.session
    }

    pub(crate) fn into_record(self) -> Record {
        self.record
    }
}
