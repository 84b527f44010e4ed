//! One file as the session has it: the unsaved text of the editor that sent the prompt where it offers that, and the disk
//! otherwise.
//!
//! A path has been walked inside the roots before the editor hears of it. An editor that is gone, silent, or does not
//! have the file means the disk for reading; for writing only one that is gone does. Waits for the editor, so it must run
//! on a blocking thread.

use std::future::Future;
use std::sync::Arc;

use domain::Site;
use domain::editor::{Editor, EditorError, Offers};
use domain::site::Fingerprint;
use tokio::runtime::Handle;

use crate::confine::{Denial, LARGEST_FILE, Spot};
use crate::fingerprint;
use crate::read_file::binary;
use crate::tool::Refused;

pub(crate) struct Document {
    pub(crate) bytes: Vec<u8>,
    /// The editor has changes that are not on the disk; these are the bytes with them.
    pub(crate) unsaved: bool,
}

/// What an existing file holds.
pub(crate) fn read(spot: &Spot, site: &Site) -> Result<Document, Denial> {
    let disk = spot.read()?;
    Ok(match unsaved(spot, site, &disk) {
        Some(text) => Document { bytes: text.into_bytes(), unsaved: true },
        None => Document { bytes: disk, unsaved: false },
    })
}

/// Whether changes go through the editor.
pub(crate) fn is_written_by_editor(site: &Site) -> bool {
    writer(site).is_some()
}

/// Puts a new content in place if the file still holds what is expected; None means that it must not exist.
pub(crate) fn replace(spot: &Spot, site: &Site, new: &str, expected: Option<Fingerprint>) -> Result<(), Refused> {
    let Some(editor) = writer(site) else { return Ok(spot.replace(new.as_bytes(), expected)?) };
    let now = if spot.is_missing() { None } else { Some(fingerprint::of(&read(spot, site)?.bytes)) };
    if now != expected {
        return Err(Denial::Changed { path: spot.shown.clone() }.into());
    }
    // Not every editor makes the folders of a file that it creates.
    spot.make_folders()?;
    match wait(editor.write_text(spot.path.clone(), new.to_owned())) {
        Ok(()) => Ok(()),
        // What it had unsaved is out of reach, and then the disk does not hold what is expected.
        Err(EditorError::Gone) => Ok(spot.replace(new.as_bytes(), expected)?),
        Err(EditorError::Refused(reason)) => Err(Refused(format!("the editor did not write {}: {reason}", spot.shown))),
    }
}

/// The editor's text, if it is another than the disk's.
fn unsaved(spot: &Spot, site: &Site, disk: &[u8]) -> Option<String> {
    let editor = offering(site, |offers| offers.read_files)?;
    // What an editor makes of other bytes is a guess.
    let disk = std::str::from_utf8(disk).ok().filter(|text| !binary::is_binary(text.as_bytes()))?;
    let text = wait(editor.read_text(spot.path.clone()))
        .inspect_err(|error| tracing::debug!(%error, "a file is read from the disk"))
        .ok()?;
    (!is_same(&text, disk) && text.len() as u64 <= LARGEST_FILE).then_some(text)
}

fn writer(site: &Site) -> Option<&Arc<dyn Editor>> {
    offering(site, |offers| offers.write_files)
}

fn offering(site: &Site, what: fn(&Offers) -> bool) -> Option<&Arc<dyn Editor>> {
    site.editor.as_ref().filter(|editor| what(&editor.offers()))
}

/// Editors keep line endings and the byte order mark apart from the text, so those do not count as changes.
fn is_same(editor: &str, disk: &str) -> bool {
    let (editor, disk) = (editor.trim_start_matches('\u{feff}'), disk.trim_start_matches('\u{feff}'));
    editor.ends_with('\n') == disk.ends_with('\n') && editor.lines().eq(disk.lines())
}

fn wait<T>(answer: impl Future<Output = T>) -> T {
    Handle::current().block_on(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_are_no_change_and_a_last_newline_is() {
        assert!(is_same("a\nb\n", "\u{feff}a\r\nb\r\n"));
        assert!(is_same("", ""));
        assert!(!is_same("a\nb", "a\nb\n"));
        assert!(!is_same("a\nc\n", "a\nb\n"));
    }
}
