//! Opening the store, whatever state it is in.
//!
//! A store that cannot be read is moved aside, never deleted; a new one takes its place with what `salvage` could read.
//! A store that the surroundings refuse stays where it is. Called by the committer on its thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::disk::{self, Disk, Fault, guarded};
use crate::keys::{self, Place};
use crate::salvage::salvage;
use crate::stored;

/// How hard to look before a store counts as sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scrutiny {
    /// Its format, its first page of sessions, and both ends of the tree.
    Glance,
    /// Everything, after sled stumbled over the contents.
    Thorough,
}

pub(crate) struct Opened {
    pub(crate) disk: Disk,
    /// Where an unreadable predecessor is now.
    pub(crate) moved_aside: Option<PathBuf>,
}

/// How many summaries a glance reads.
const GLANCE: usize = 100;

/// A database that was just made is smaller than one of sled's segments.
const SEGMENT: u64 = 512 * 1024;

pub(crate) fn open(folder: &Path, cache_bytes: u64, scrutiny: Scrutiny) -> Result<Opened, Fault> {
    let reason = match open_sound(folder, cache_bytes, scrutiny) {
        Ok(disk) => return Ok(Opened { disk, moved_aside: None }),
        Err(fault @ (Fault::Refused(_) | Fault::Unreadable(_) | Fault::Removed(_))) => return Err(fault),
        Err(Fault::Broken(reason)) => reason,
    };
    let aside = move_aside(folder)?;
    tracing::error!(reason, moved_to = %aside.display(), "the history cannot be read; starting a new one");
    let disk = open_sound(folder, cache_bytes, Scrutiny::Glance)?;
    salvage(&aside, &disk);
    Ok(Opened { disk, moved_aside: Some(aside) })
}

/// Opens and checks; the handle is gone again when the check fails.
fn open_sound(folder: &Path, cache_bytes: u64, scrutiny: Scrutiny) -> Result<Disk, Fault> {
    let before = fs::metadata(folder.join("db")).map_or(0, |found| found.len());
    let disk = Disk::open(folder, cache_bytes)?;
    match guarded("checking", || check(&disk, before, scrutiny)) {
        Ok(()) => Ok(disk),
        Err(fault) => guarded("letting go of a broken store", || {
            drop(disk);
            Ok(())
        })
        .and(Err(fault)),
    }
}

fn check(disk: &Disk, size_before: u64, scrutiny: Scrutiny) -> Result<(), Fault> {
    match disk.db.get(keys::FORMAT)?.as_deref() {
        Some([stored::FORMAT]) => {}
        Some(&[newer]) => {
            return Err(Fault::Refused(format!(
                "a newer acpd wrote it (format {newer}, and this one knows {})",
                stored::FORMAT
            )));
        }
        Some(_) => return Err(Fault::Broken("its format is not a number".to_owned())),
        // sled takes some damage for an empty database. One that was larger did not start empty.
        None if size_before > SEGMENT || !disk.db.is_empty() || disk.had_damaged_parameters => {
            return Err(Fault::Broken("its contents are gone".to_owned()));
        }
        None => {
            let mut batch = sled::Batch::default();
            batch.insert(keys::FORMAT, &[stored::FORMAT]);
            disk.apply(batch)?;
            disk.settle(true)?;
        }
    }
    match scrutiny {
        Scrutiny::Glance => {
            disk.db.first()?;
            disk.db.last()?;
            for key in disk.db.scan_prefix(keys::all()).keys().take(GLANCE) {
                let Some(place) = Place::from_key(&keys::all(), &key?) else { continue };
                disk.db.get(keys::meta(&place.session, 0))?;
            }
        }
        Scrutiny::Thorough => {
            for entry in disk.db.iter() {
                entry?;
            }
        }
    }
    Ok(())
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
    folder.parent().map_or(Ok(()), disk::sync_folder)?;
    Ok(aside)
}
