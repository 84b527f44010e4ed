//! Opens the store, whatever state it is in.
//!
//! A store that cannot be read is moved aside, never deleted, and `salvage` copies what is readable to a new one. A store
//! that the environment refuses stays where it is. Runs on the committer's thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::database::{self, Database, Fault, guarded};
use crate::keys::{self, ListPosition};
use crate::salvage::salvage;
use crate::stored;

/// How much is read before a store counts as intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckLevel {
    /// Its format, its first page of sessions, and both ends of the tree.
    Quick,
    /// Everything, after sled failed on the contents.
    Full,
}

pub(crate) struct Opened {
    pub(crate) database: Database,
    /// Where an unreadable previous store was moved to.
    pub(crate) moved_aside: Option<PathBuf>,
}

/// How many summaries a quick check reads.
const QUICK_CHECK: usize = 100;

/// A database that was just made is smaller than one of sled's segments.
const SEGMENT: u64 = 512 * 1024;

pub(crate) fn open(folder: &Path, cache_bytes: u64, check_level: CheckLevel) -> Result<Opened, Fault> {
    let reason = match open_sound(folder, cache_bytes, check_level) {
        Ok(database) => return Ok(Opened { database, moved_aside: None }),
        Err(fault @ (Fault::Refused(_) | Fault::Unreadable(_) | Fault::Removed(_))) => return Err(fault),
        Err(Fault::Broken(reason)) => reason,
    };
    let aside = move_aside(folder)?;
    tracing::error!(reason, moved_to = %aside.display(), "the history cannot be read; starting a new one");
    let database = open_sound(folder, cache_bytes, CheckLevel::Quick)?;
    salvage(&aside, &database);
    Ok(Opened { database, moved_aside: Some(aside) })
}

/// Opens the database and checks it. The handle is closed again if the check fails.
fn open_sound(folder: &Path, cache_bytes: u64, check_level: CheckLevel) -> Result<Database, Fault> {
    let before = fs::metadata(folder.join("db")).map_or(0, |found| found.len());
    let database = Database::open(folder, cache_bytes)?;
    match guarded("checking", || check(&database, before, check_level)) {
        Ok(()) => Ok(database),
        Err(fault) => guarded("closing a broken store", || {
            drop(database);
            Ok(())
        })
        .and(Err(fault)),
    }
}

fn check(database: &Database, size_before: u64, check_level: CheckLevel) -> Result<(), Fault> {
    match database.db.get(keys::FORMAT)?.as_deref() {
        Some([stored::FORMAT]) => {}
        // Older formats are read as they are; what is written from now on is of the new one.
        Some(&[older]) if older < stored::FORMAT => write_format(database)?,
        Some(&[newer]) => {
            return Err(Fault::Refused(format!(
                "a newer acpd wrote it (format {newer}, and this one knows {})",
                stored::FORMAT
            )));
        }
        Some(_) => return Err(Fault::Broken("its format is not a number".to_owned())),
        // sled takes some damage for an empty database. A file of more than a segment was not empty.
        None if size_before > SEGMENT || !database.db.is_empty() || database.had_damaged_parameters => {
            return Err(Fault::Broken("its contents are gone".to_owned()));
        }
        None => write_format(database)?,
    }
    match check_level {
        CheckLevel::Quick => {
            database.db.first()?;
            database.db.last()?;
            for key in database.db.scan_prefix(keys::all()).keys().take(QUICK_CHECK) {
                let Some(place) = ListPosition::from_key(&keys::all(), &key?) else { continue };
                database.db.get(keys::meta(&place.session, 0))?;
            }
        }
        CheckLevel::Full => {
            for entry in database.db.iter() {
                entry?;
            }
        }
    }
    Ok(())
}

fn write_format(database: &Database) -> Result<(), Fault> {
    let mut batch = sled::Batch::default();
    batch.insert(keys::FORMAT, &[stored::FORMAT]);
    database.apply(batch)?;
    database.settle(true)
}

fn move_aside(folder: &Path) -> Result<PathBuf, Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut name = folder.as_os_str().to_owned();
    name.push(format!(".broken-{now}"));
    let mut aside = PathBuf::from(&name);
    for again in 1.. {
        if !aside.exists() {
            break;
        }
        let mut next = name.clone();
        next.push(format!("-{again}"));
        aside = PathBuf::from(next);
    }
    fs::rename(folder, &aside)?;
    folder.parent().map_or(Ok(()), database::sync_folder)?;
    Ok(aside)
}
