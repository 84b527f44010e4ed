//! Opens the store, whatever state it is in.
//!
//! A store that cannot be read is moved aside, never deleted, and `salvage` copies what is readable
//! to a new one. The new store names the broken one until all of it is copied, so an interrupted
//! salvage continues at the next start. Until the new store is there, a file beside it names the
//! broken one, so that a kill between the two loses nothing either. A store that the environment
//! refuses stays where it is. Runs on the committer's thread.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use domain::Millis;

use crate::database::{self, Database, DatabaseError, guarded};
use crate::keys::{self, ListPosition};
use crate::salvage::salvage;
use crate::store::StoreSettings;
use crate::stored;

/// How much is read before a store counts as intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckLevel {
    /// Its format, its first page of sessions, and both ends of the tree.
    Quick,
    /// Everything, after sled failed on the contents.
    Full,
}

pub(crate) struct OpenedStore {
    pub(crate) database: Database,
    /// Where an unreadable previous store was moved to.
    pub(crate) moved_aside: Option<PathBuf>,
}

/// How many summaries a quick check reads.
const QUICK_CHECK: usize = 100;

/// A database that was just made is smaller than one of sled's segments.
const SEGMENT: u64 = 512 * 1024;

pub(crate) fn open(
    folder: &Path,
    settings: &StoreSettings,
    check_level: CheckLevel,
) -> Result<OpenedStore, DatabaseError> {
    let reason = match open_sound(folder, settings, check_level, moved_before(folder).as_deref()) {
        Ok(database) => {
            forget_move(folder)?;
            return salvage_if_pending(database);
        }
        Err(error @ (DatabaseError::Refused(_) | DatabaseError::Unreadable(_) | DatabaseError::Removed(_))) => {
            return Err(error);
        }
        Err(DatabaseError::Broken(reason)) => reason,
    };
    let aside = move_aside(folder)?;
    tracing::error!(reason, moved_to = %aside.display(), "the history cannot be read; starting a new one");
    let database = open_sound(folder, settings, CheckLevel::Quick, Some(&aside))?;
    forget_move(folder)?;
    salvage_if_pending(database)
}

/// Salvages the broken store that this one names. It was moved aside just now, or in an earlier
/// start that was killed before it had salvaged everything.
fn salvage_if_pending(database: Database) -> Result<OpenedStore, DatabaseError> {
    let Some(path) = database.db.get(keys::SALVAGING)? else {
        return Ok(OpenedStore { database, moved_aside: None });
    };
    let aside = PathBuf::from(OsStr::from_bytes(&path));
    salvage(&aside, &database);
    Ok(OpenedStore { database, moved_aside: Some(aside) })
}

/// Opens the database and checks it. The handle is closed again if the check fails. A new database
/// records the store that is to be salvaged into it.
fn open_sound(
    folder: &Path,
    settings: &StoreSettings,
    check_level: CheckLevel,
    salvaging: Option<&Path>,
) -> Result<Database, DatabaseError> {
    let before = fs::metadata(folder.join("db")).map_or(0, |found| found.len());
    let database = Database::open(folder, settings)?;
    match guarded("checking", || check(&database, before, check_level, salvaging)) {
        Ok(()) => Ok(database),
        Err(error) => guarded("closing a broken store", || {
            drop(database);
            Ok(())
        })
        .and(Err(error)),
    }
}

fn check(
    database: &Database,
    size_before: u64,
    check_level: CheckLevel,
    salvaging: Option<&Path>,
) -> Result<(), DatabaseError> {
    match database.db.get(keys::FORMAT)?.as_deref() {
        Some([stored::FORMAT]) => {}
        // Older formats are read as they are; from now on, values are written in the new one.
        Some(&[older]) if older < stored::FORMAT => write_format(database, None)?,
        Some(&[newer]) => {
            return Err(DatabaseError::Refused(format!(
                "a newer acpd wrote it (format {newer}, and this one knows {})",
                stored::FORMAT
            )));
        }
        Some(_) => return Err(DatabaseError::Broken("its format is not a number".to_owned())),
        // sled mistakes some damage for an empty database. A file of more than a segment was not
        // empty.
        None if size_before > SEGMENT || !database.db.is_empty() || database.had_damaged_parameters => {
            return Err(DatabaseError::Broken("its contents are gone".to_owned()));
        }
        None => write_format(database, salvaging)?,
    }
    match check_level {
        CheckLevel::Quick => {
            database.db.first()?;
            database.db.last()?;
            for key in database.db.scan_prefix(keys::all()).keys().take(QUICK_CHECK) {
                let Some(position) = ListPosition::from_key(&keys::all(), &key?) else { continue };
                database.db.get(keys::meta(&position.session, 0))?;
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

fn write_format(database: &Database, salvaging: Option<&Path>) -> Result<(), DatabaseError> {
    let mut batch = sled::Batch::default();
    batch.insert(keys::FORMAT, &[stored::FORMAT]);
    if let Some(broken) = salvaging {
        batch.insert(keys::SALVAGING, broken.as_os_str().as_bytes());
    }
    database.apply(batch)?;
    database.flush(true)
}

/// The file that names the broken store from before it is moved until the new store names it.
fn move_note(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".moved");
    PathBuf::from(name)
}

/// The path to which an earlier start moved a broken store, if it was killed before it had created
/// the new one.
fn moved_before(folder: &Path) -> Option<PathBuf> {
    let named = fs::read(move_note(folder)).ok()?;
    let aside = PathBuf::from(OsStr::from_bytes(&named));
    // If it was killed before the move, the store is still in its place.
    (!named.is_empty() && aside.exists()).then_some(aside)
}

/// Removes the note, because the new store now names the broken one.
fn forget_move(folder: &Path) -> Result<(), DatabaseError> {
    match fs::remove_file(move_note(folder)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn move_aside(folder: &Path) -> Result<PathBuf, DatabaseError> {
    let now = Millis::now().seconds();
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
    let mut note = File::create(move_note(folder))?;
    note.write_all(aside.as_os_str().as_bytes())?;
    note.sync_all()?;
    folder.parent().map_or(Ok(()), database::sync_folder)?;
    fs::rename(folder, &aside)?;
    folder.parent().map_or(Ok(()), database::sync_folder)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use domain::SessionId;
    use domain::history::SessionMeta;
    use tempfile::tempdir;

    use super::*;
    use crate::read;
    use crate::salvage::tests::{append, meta, prompt};

    fn open_new(folder: &Path, salvaging: Option<&Path>) -> Database {
        open_sound(folder, &StoreSettings::default(), CheckLevel::Quick, salvaging).unwrap()
    }

    #[test]
    fn a_salvage_that_was_interrupted_goes_on_at_the_next_start() {
        let home = tempdir().unwrap();
        let (folder, aside) = (home.path().join("history"), home.path().join("history.broken-1"));
        let broken = open_new(&aside, None);
        let said = [prompt(1, "x"), prompt(2, "y")];
        for session in ["half", "used", "whole", "yet to come"] {
            append(&broken, meta(session, 2), &said);
        }
        drop(broken);

        // What a kill leaves behind. A session that was used since then has another summary and
        // other events.
        let used = SessionMeta { life: 2, ..meta("used", 2) };
        let used_events = [prompt(1, "x"), prompt(2, "used")];
        let database = open_new(&folder, Some(&aside));
        append(&database, SessionMeta { clean: false, ..meta("half", 1) }, &said[..1]);
        append(&database, used.clone(), &used_events);
        append(&database, meta("whole", 2), &said);
        drop(database);

        let opened = open(&folder, &StoreSettings::default(), CheckLevel::Quick).unwrap();
        assert_eq!(opened.moved_aside, Some(aside));
        let db = &opened.database.db;
        for session in ["half", "whole", "yet to come"] {
            let id = SessionId::from(session);
            assert_eq!(read::meta(db, &id).unwrap(), Some(meta(session, 2)));
            assert_eq!(read::events(db, &id, 0, usize::MAX).unwrap(), said);
        }
        assert_eq!(read::meta(db, &used.id).unwrap(), Some(used.clone()));
        assert_eq!(read::events(db, &used.id, 0, usize::MAX).unwrap(), used_events);
        drop(opened);
        assert_eq!(
            open(&folder, &StoreSettings::default(), CheckLevel::Quick).unwrap().moved_aside,
            None,
            "it is done once"
        );
    }

    #[test]
    fn a_salvage_ends_when_the_broken_store_was_deleted() {
        let home = tempdir().unwrap();
        let (folder, aside) = (home.path().join("history"), home.path().join("history.broken-1"));
        drop(open_new(&folder, Some(&aside)));
        assert_eq!(open(&folder, &StoreSettings::default(), CheckLevel::Quick).unwrap().moved_aside, Some(aside));
        assert_eq!(open(&folder, &StoreSettings::default(), CheckLevel::Quick).unwrap().moved_aside, None);
    }

    /// A folder with a broken store that holds one session.
    fn broken_store(folder: &Path) {
        append(&open_new(folder, None), meta("kept", 2), &[prompt(1, "x"), prompt(2, "y")]);
    }

    #[test]
    fn a_kill_between_the_move_and_the_new_store_loses_nothing() {
        // What the killed start had done after the move: nothing, or it had begun a store without a
        // format.
        for has_begun in [false, true] {
            let home = tempdir().unwrap();
            let folder = home.path().join("history");
            broken_store(&folder);
            let aside = move_aside(&folder).unwrap();
            if has_begun {
                drop(Database::open(&folder, &StoreSettings::default()).unwrap());
            }
            let opened = open(&folder, &StoreSettings::default(), CheckLevel::Quick).unwrap();
            assert_eq!(opened.moved_aside, Some(aside), "{has_begun}");
            let found = read::meta(&opened.database.db, &SessionId::from("kept")).unwrap();
            assert_eq!(found, Some(meta("kept", 2)), "{has_begun}");
            assert!(!move_note(&folder).exists());
        }
    }

    #[test]
    fn a_kill_before_the_move_leaves_the_store_where_it_is() {
        let home = tempdir().unwrap();
        let folder = home.path().join("history");
        broken_store(&folder);
        for note in ["", "/nowhere"] {
            fs::write(move_note(&folder), note).unwrap();
            let opened = open(&folder, &StoreSettings::default(), CheckLevel::Quick).unwrap();
            assert_eq!(opened.moved_aside, None);
            assert!(read::meta(&opened.database.db, &SessionId::from("kept")).unwrap().is_some());
            assert!(!move_note(&folder).exists());
        }
    }
}
