//! One file as the session sees it: the unsaved text of the editor that sent the prompt, if the
//! editor offers it, and otherwise the content on disk.
//!
//! The path is confined to the roots before the editor is asked. A read falls back to the disk if
//! the editor is gone, silent, or does not have the file. A write falls back to the disk only if
//! the editor had disconnected before it was asked: one that was asked may still write, so its
//! silence is a failure. This module waits for the editor, so it must run on a blocking thread.

use std::future::Future;
use std::sync::Arc;

use domain::CallSite;
use domain::Fingerprint;
use domain::editor::{Editor, EditorCapabilities, EditorError, LineRange};
use process::StopFlag;
use process::confine::{ConfinedPath, LARGEST_FILE, PathError};
use process::fingerprint;
use tokio::runtime::Handle;

use crate::read_file::binary;
use crate::tool::RefusalReason;

pub(crate) struct Document {
    pub(crate) bytes: Vec<u8>,
    /// Whether the editor has unsaved changes. If so, `bytes` includes them.
    pub(crate) unsaved: bool,
}

/// The reason why a new content is not in place.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// The file is as it was.
    Unchanged(String),
    /// The editor was asked, and may have written it or may still do so.
    Uncertain(String),
}

impl From<RefusalReason> for WriteFailure {
    fn from(RefusalReason(reason): RefusalReason) -> Self {
        Self::Unchanged(reason)
    }
}

impl From<PathError> for WriteFailure {
    fn from(denial: PathError) -> Self {
        Self::Unchanged(denial.to_string())
    }
}

/// Reads an existing file.
pub(crate) fn read(confined: &ConfinedPath, site: &CallSite) -> Result<Document, PathError> {
    read_for(confined, site, None)
}

/// Reads a file of which only these lines are needed. Unsaved changes in other lines may be
/// missing.
pub(crate) fn read_for(
    confined: &ConfinedPath,
    site: &CallSite,
    lines: Option<LineRange>,
) -> Result<Document, PathError> {
    let disk = confined.read()?;
    Ok(match unsaved(confined, site, &disk, lines) {
        Some(text) => Document { bytes: text.into_bytes(), unsaved: true },
        None => Document { bytes: disk, unsaved: false },
    })
}

/// Returns whether changes go through the editor.
pub(crate) fn is_written_by_editor(site: &CallSite) -> bool {
    writer(site).is_some()
}

/// Replaces the content if the file still has the expected one. None means that it must not exist.
pub(crate) fn replace(
    confined: &ConfinedPath,
    site: &CallSite,
    new: &str,
    expected: Option<Fingerprint>,
    stop: &StopFlag,
) -> Result<(), WriteFailure> {
    stop.check()?;
    let Some(editor) = writer(site) else { return Ok(confined.replace(new.as_bytes(), expected, stop)?) };
    let now = if confined.is_missing() { None } else { Some(fingerprint::of(&read(confined, site)?.bytes)) };
    if now != expected {
        return Err(PathError::Changed { path: confined.shown.clone() }.into());
    }
    stop.check()?;
    // Not every editor creates the folders of a new file.
    confined.make_folders()?;
    let shown = &confined.shown;
    let written = wait(async {
        tokio::select! {
            written = editor.write_text(confined.path.clone(), new.to_owned()) => Some(written),
            () = stop.raised() => None,
        }
    });
    match written {
        Some(Ok(())) => Ok(()),
        Some(Err(EditorError::Refused(reason))) => {
            Err(WriteFailure::Unchanged(format!("the editor did not write {shown}: {reason}")))
        }
        Some(Err(EditorError::Gone)) => Err(WriteFailure::Uncertain(format!(
            "the editor was asked to write {shown} and did not answer; it is not known whether it wrote it, so read the file again"
        ))),
        None => Err(WriteFailure::Uncertain(format!(
            "cancelled while the editor was asked to write {shown}; it is not known whether it wrote it"
        ))),
    }
}

/// Returns the editor's text if it differs from the disk's.
fn unsaved(confined: &ConfinedPath, site: &CallSite, disk: &[u8], lines: Option<LineRange>) -> Option<String> {
    let editor = offering(site, |offers| offers.read_files)?;
    // How an editor decodes other bytes is unknown, so it is asked only for text.
    let disk = std::str::from_utf8(disk).ok().filter(|text| !binary::is_binary(text.as_bytes()))?;
    let ask = |lines| {
        wait(editor.read_text(confined.path.clone(), lines))
            .inspect_err(|error| tracing::debug!(%error, "a file is read from the disk"))
            .ok()
    };
    if let Some(lines) = lines {
        let part = ask(Some(lines))?;
        // An editor that ignores the range returns the whole text. If its text differs from the
        // disk, all of it is requested, because the position of its lines in the file is unknown.
        if part.lines().eq(cut(disk, lines)) || is_same(&part, disk) {
            return None;
        }
    }
    let text = ask(None)?;
    (!is_same(&text, disk) && text.len() as u64 <= LARGEST_FILE).then_some(text)
}

fn cut(text: &str, lines: LineRange) -> impl Iterator<Item = &str> {
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let skipped = lines.first.map_or(0, |first| size(first).saturating_sub(1));
    text.trim_start_matches('\u{feff}').lines().skip(skipped).take(lines.count.map_or(usize::MAX, size))
}

fn writer(site: &CallSite) -> Option<&Arc<dyn Editor>> {
    offering(site, |offers| offers.write_files).filter(|editor| editor.is_connected())
}

fn offering(site: &CallSite, what: fn(&EditorCapabilities) -> bool) -> Option<&Arc<dyn Editor>> {
    site.editor.as_ref().filter(|editor| what(&editor.capabilities()))
}

/// Returns whether two texts are equal apart from line endings and the byte order mark, which
/// editors keep apart from the text.
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
    fn line_endings_do_not_count_as_a_change_and_a_last_newline_does() {
        assert!(is_same("a\nb\n", "\u{feff}a\r\nb\r\n"));
        assert!(is_same("", ""));
        assert!(!is_same("a\nb", "a\nb\n"));
        assert!(!is_same("a\nc\n", "a\nb\n"));
    }
}
