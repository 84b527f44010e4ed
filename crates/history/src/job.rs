//! Work that is too long for one commit: copies and deletions.
//!
//! The committer runs one step of the oldest job after each commit, so a long job delays no other
//! session.

use domain::SessionId;
use domain::history::{CommitLevel, HistoryError, Record, RecordEntry};

use crate::batch_builder::SessionCache;
use crate::copy_job::CopyJob;
use crate::database::{Database, DatabaseError};
use crate::delete_job::DeleteJob;

pub(crate) enum CommitterJob {
    Copy(CopyJob),
    Delete(DeleteJob),
}

pub(crate) enum Step {
    More,
    Done(Result<CommitLevel, HistoryError>),
}

impl CommitterJob {
    /// Whether a record needs a job. All others are done by a commit.
    pub(crate) fn is_for(record: &Record) -> bool {
        match &record.entry {
            RecordEntry::Copy { .. } | RecordEntry::Delete => true,
            RecordEntry::Append { .. } | RecordEntry::Prepare { .. } => false,
        }
    }

    pub(crate) fn new(record: Record) -> Option<Self> {
        match &record.entry {
            RecordEntry::Copy { from, last } => {
                let (from, last) = (from.clone(), *last);
                Some(Self::Copy(CopyJob::new(record, from, last)))
            }
            RecordEntry::Delete => Some(Self::Delete(DeleteJob::new(record))),
            RecordEntry::Append { .. } | RecordEntry::Prepare { .. } => None,
        }
    }

    pub(crate) fn step(&mut self, database: &Database, cache: &mut SessionCache) -> Result<Step, DatabaseError> {
        match self {
            Self::Copy(copy) => copy.step(database, cache),
            Self::Delete(deletion) => deletion.step(database, cache),
        }
    }

    /// Whether this is a copy that creates `session`.
    pub(crate) fn makes(&self, session: &SessionId) -> bool {
        match self {
            Self::Copy(copy) => copy.makes() == session,
            Self::Delete(_) => false,
        }
    }

    /// The record whose receipt reports the outcome.
    pub(crate) fn into_record(self) -> Record {
        match self {
            Self::Copy(copy) => copy.into_record(),
            Self::Delete(deletion) => deletion.into_record(),
        }
    }
}
