//! Work on the store that is longer than one commit may be: copies and deletions.
//!
//! The committer does one step of the oldest job after each commit, so that nobody waits for a long one.

use domain::SessionId;
use domain::history::{Entry, HistoryError, Record, Settled};

use crate::copying::Copying;
use crate::disk::{Disk, Fault};
use crate::draft::Listed;
use crate::removing::Removing;

pub(crate) enum Job {
    Copy(Copying),
    Remove(Removing),
}

pub(crate) enum Step {
    More,
    Done(Result<Settled, HistoryError>),
}

impl Job {
    /// Whether a record asks for a job. A commit does what the others ask for.
    pub(crate) fn is_for(record: &Record) -> bool {
        match &record.entry {
            Entry::Copy { .. } | Entry::Delete => true,
            Entry::Append { .. } | Entry::Prepare { .. } => false,
        }
    }

    pub(crate) fn new(record: Record) -> Option<Self> {
        match &record.entry {
            Entry::Copy { from, last } => {
                let (from, last) = (from.clone(), *last);
                Some(Self::Copy(Copying::new(record, from, last)))
            }
            Entry::Delete => Some(Self::Remove(Removing::new(record))),
            Entry::Append { .. } | Entry::Prepare { .. } => None,
        }
    }

    pub(crate) fn step(&mut self, disk: &Disk, listed: &mut Listed) -> Result<Step, Fault> {
        match self {
            Self::Copy(copy) => copy.step(disk),
            Self::Remove(removing) => removing.step(disk, listed),
        }
    }

    /// Whether this is a copy that makes `session`.
    pub(crate) fn makes(&self, session: &SessionId) -> bool {
        match self {
            Self::Copy(copy) => copy.makes() == session,
            Self::Remove(_) => false,
        }
    }

    /// The record to report to.
    pub(crate) fn into_record(self) -> Record {
        match self {
            Self::Copy(copy) => copy.into_record(),
            Self::Remove(removing) => removing.into_record(),
        }
    }
}
