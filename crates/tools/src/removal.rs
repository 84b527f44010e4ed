//! A file that is removed from its path, as `delete_file` and `move_file` do it. The file is shown
//! first, and stored in the log where possible, so that undo can restore it.

use domain::text::size;
use domain::{Access, CallSite, ToolContent};
use process::confine::ConfinedPath;
use process::fingerprint;
use serde_json::{Value, json};

use crate::change::{LARGEST_DIFF, refuse_git};
use crate::document::{self, Document};
use crate::read_file::binary;
use crate::tool::{CallRequest, RefusalReason};

/// A file that may be removed, and its content.
pub(crate) struct RemovedFile {
    pub(crate) confined: ConfinedPath,
    pub(crate) bytes: Vec<u8>,
}

impl RemovedFile {
    /// Finds the file. The model need not have read it, because the user sees its content. If the
    /// model has read it, the file must not have changed since.
    pub(crate) fn find(path: &str, call: &CallRequest) -> Result<Self, RefusalReason> {
        let confined = call.roots()?.find(path)?;
        refuse_git(&confined)?;
        let bytes = contents(&confined, &call.site)?;
        if call.site.seen.recall(&confined.real).is_some_and(|seen| seen != fingerprint::of(&bytes)) {
            return Err(RefusalReason(format!(
                "{} changed since it was read; read it again with read_file",
                confined.shown
            )));
        }
        Ok(Self { confined, bytes })
    }

    /// Returns the text if it can be stored with the conversation.
    pub(crate) fn text(&self) -> Option<&str> {
        let fits = self.bytes.len() <= LARGEST_DIFF && !binary::is_binary(&self.bytes);
        std::str::from_utf8(&self.bytes).ok().filter(|_| fits)
    }

    /// Returns how the call asks. A removal that undo cannot restore asks every time.
    pub(crate) fn access(&self, call: &CallRequest) -> Access {
        match self.text() {
            Some(_) => call.write_access(Access::Ask { always: None }),
            None => Access::AskEveryTime,
        }
    }

    /// Returns the content that shows users the removal.
    pub(crate) fn gone(&self) -> ToolContent {
        let path = self.confined.path.clone();
        match self.text() {
            Some(text) => ToolContent::Diff { path, old: Some(text.to_owned()), new: String::new() },
            None => {
                let what = if binary::is_binary(&self.bytes) { binary::describe(&self.bytes) } else { "text" };
                let length = size(self.bytes.len() as u64);
                ToolContent::text(format!("{} ({what}, {length}); undo cannot put it back", path.display()))
            }
        }
    }

    /// Returns the facts that undo needs: `deleted` is the file that was removed, `path` the one
    /// that the call is about.
    pub(crate) fn facts(&self, path: &std::path::Path) -> Value {
        json!({
            "path": path.to_string_lossy(),
            "deleted": self.confined.path.to_string_lossy(),
            "added": 0,
            "removed": self.text().map_or(0, |text| text.lines().count()),
        })
    }
}

/// Returns the content of a file. Fails if the editor has unsaved text, which would be lost or be
/// written back later.
pub(crate) fn contents(confined: &ConfinedPath, site: &CallSite) -> Result<Vec<u8>, RefusalReason> {
    let Document { bytes, unsaved } = document::read(confined, site)?;
    if unsaved {
        let shown = &confined.shown;
        return Err(RefusalReason(format!(
            "{shown} has unsaved changes in the editor; the user must save or discard them"
        )));
    }
    Ok(bytes)
}
