//! Changes that hooks, such as formatters, make to files after a call has changed them.
//!
//! They become part of the call's outcome. The model sees them and can edit the file at once, and
//! undo reverts them together with the call's own changes.

use domain::tool::OutcomeKind;
use domain::{CallSite, Outcome, ToolContent};
use process::confine::{AccessLimits, Roots};
use process::fingerprint;

use crate::change::LARGEST_DIFF;
use crate::document;
use crate::snippet::what_changed;

/// Returns whether the outcome is that of a call that changed files.
pub(crate) fn has_changed_files(outcome: &Outcome) -> bool {
    let is_diff = |content: &ToolContent| matches!(content, ToolContent::Diff { .. });
    outcome.verdict == OutcomeKind::Completed && outcome.content.iter().any(is_diff)
}

/// Adds the present contents of the changed files to the outcome. Blocks, so it must not run on an
/// actor's thread.
pub(crate) fn add(mut outcome: Outcome, site: &CallSite, limits: &AccessLimits) -> Outcome {
    let mut notes = String::new();
    for content in &mut outcome.content {
        let ToolContent::Diff { path, old, new } = content else { continue };
        let Ok(confined) = Roots::open(site, limits).and_then(|roots| roots.find(&path.to_string_lossy())) else {
            continue;
        };
        // The call or the hook deleted the file. The model finds out when it reads it.
        let Some(now) = document::read(&confined, site).ok().and_then(|now| String::from_utf8(now.bytes).ok()) else {
            continue;
        };
        if now == *new || old.as_ref().map_or(0, String::len) + now.len() > LARGEST_DIFF {
            continue;
        }
        notes.push_str(&format!("\n[a hook has changed {} afterwards:]\n{}", confined.shown, what_changed(new, &now)));
        site.seen.note_text(&confined.real, fingerprint::of(now.as_bytes()), &now);
        *new = now;
    }
    outcome.text.push_str(&notes);
    outcome
}
