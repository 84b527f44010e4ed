//! The notes of folders below the working folder, which the model gets with the first file that it
//! reads there.

use std::path::{Path, PathBuf};

use domain::CallSite;
use policy::Rules;
use process::protected_files::ProtectedFiles;

use crate::note_files::NoteReader;

/// The most folders between a session's folder and a file in which notes are searched for.
const DEPTH: usize = 16;

/// Reads the notes of folders that the model enters.
pub struct FolderNotes<'a> {
    /// Names of files with notes. In each folder only the first existing one is used.
    pub names: &'a [String],
    pub rules: &'a Rules,
    pub protected: &'a ProtectedFiles,
}

/// The notes that come with a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EnteredNotes {
    /// The notes, outermost first; empty if there are none.
    pub text: String,
    /// The number of files that were withheld because of a rule.
    pub withheld: usize,
}

impl FolderNotes<'_> {
    /// Returns the notes of the folders on the way to a file, except folders that the reader of the
    /// call has entered before. `file` is a real path. Notes of the working folder and of folders
    /// above it are in the system prompt. May block.
    pub fn on_the_way_to(&self, file: &Path, site: &CallSite) -> EnteredNotes {
        let real = |folder: &Path| std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let cwd = real(&site.cwd);
        let roots: Vec<PathBuf> = site.roots().map(real).collect();
        // The innermost root that contains the file.
        let inside = roots.iter().filter(|root| file.starts_with(root));
        let Some(root) = inside.max_by_key(|root| root.as_os_str().len()) else { return EnteredNotes::default() };
        let mut folders: Vec<&Path> = file.ancestors().skip(1).take_while(|folder| folder.starts_with(root)).collect();
        folders.reverse();
        let mut reader = NoteReader::new(self.rules, self.protected);
        let unknown = folders.into_iter().filter(|folder| *folder != cwd && !cwd.starts_with(folder));
        for folder in unknown.take(DEPTH) {
            if site.entered.enter(folder) {
                let _ = self.names.iter().any(|name| reader.add_project(root, folder, name));
            }
        }
        EnteredNotes { text: reader.text, withheld: reader.notices.len() }
    }
}
