//! The folders of sessions without symlinks, so that a rule about a folder counts however a client got there.
//!
//! The disk is asked when a call is planned, which may block; whoever decides about the call must not.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{CallSite, ToolCard};

#[derive(Debug, Default)]
pub(crate) struct RealPaths(Mutex<HashMap<PathBuf, PathBuf>>);

impl RealPaths {
    /// Looks at the folders of a session.
    pub(crate) fn learn(&self, site: &CallSite) {
        site.roots().for_each(|root| self.learn_folder(root));
    }

    /// Looks at one folder.
    pub(crate) fn learn_folder(&self, folder: &Path) {
        let real = real(folder);
        self.lock().insert(folder.to_owned(), real);
    }

    /// The folder without symlinks, as it was when it was last looked at, or as it was given if it never was: whoever
    /// asks must not wait for the disk.
    pub(crate) fn of(&self, folder: &Path) -> PathBuf {
        self.lock().get(folder).cloned().unwrap_or_else(|| folder.to_owned())
    }

    /// The same call with its locations by their real names; None if those are the same.
    pub(crate) fn card(&self, card: &ToolCard) -> Option<ToolCard> {
        let known = self.lock();
        let rename = |path: &Path| {
            let inside = known.iter().filter_map(|(given, real)| Some((real, path.strip_prefix(given).ok()?)));
            // The innermost folder knows best.
            inside.min_by_key(|(_, rest)| rest.as_os_str().len()).map(|(real, rest)| below(real, rest))
        };
        let mut renamed = card.clone();
        for location in &mut renamed.locations {
            if let Some(real) = rename(&location.path) {
                location.path = real;
            }
        }
        (renamed.locations != card.locations).then_some(renamed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, PathBuf>> {
        // The map is whole after every operation, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn below(folder: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { folder.to_owned() } else { folder.join(rest) }
}

/// A folder that is gone is called by the name it was given.
fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}
