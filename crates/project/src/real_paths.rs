//! The folders of sessions without symlinks, so that a rule about a folder applies however a client
//! reached it.
//!
//! The disk is read when a call is planned, which may block. The decision about the call uses what
//! was read.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{CallSite, ToolCard};

#[derive(Debug, Default)]
pub(crate) struct RealPaths(Mutex<HashMap<PathBuf, PathBuf>>);

impl RealPaths {
    /// Reads the real paths of a session's folders.
    pub(crate) fn learn(&self, site: &CallSite) {
        site.roots().for_each(|root| self.learn_folder(root));
    }

    /// Reads the real path of one folder.
    pub(crate) fn learn_folder(&self, folder: &Path) {
        let real = real(folder);
        self.lock().insert(folder.to_owned(), real);
    }

    /// Returns the folder without symlinks, as it was last read, or the folder itself if it was
    /// never read. Does not access the disk.
    pub(crate) fn of(&self, folder: &Path) -> PathBuf {
        self.lock().get(folder).cloned().unwrap_or_else(|| folder.to_owned())
    }

    /// Returns the same call with the real paths of its locations; None if they do not differ.
    pub(crate) fn card(&self, card: &ToolCard) -> Option<ToolCard> {
        let known = self.lock();
        let rename = |path: &Path| {
            let inside = known.iter().filter_map(|(given, real)| Some((real, path.strip_prefix(given).ok()?)));
            // The innermost folder takes precedence.
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
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn below(folder: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { folder.to_owned() } else { folder.join(rest) }
}

/// Returns the real path of a folder, or its given path if it is gone.
fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}
