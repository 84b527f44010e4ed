//! Files below a folder, as `glob` and `grep` see them: ignore files respected, `.git` left out, symlinks not followed.
//!
//! The walk itself goes by paths and yields nothing but names. Whoever uses one opens it again through its `Spot`, by
//! descriptor, so that a folder which becomes a symlink meanwhile leads nowhere.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;

use crate::job::Stop;

/// How long a search may take in all.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says when a search should give up.
pub(crate) struct Clock<'a> {
    stop: &'a Stop,
    deadline: Instant,
}

impl<'a> Clock<'a> {
    pub(crate) fn start(stop: &'a Stop) -> Self {
        Self { stop, deadline: Instant::now() + PATIENCE }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_raised() || Instant::now() > self.deadline
    }
}

/// A file that fails to be read further when the search should give up, however large it is.
pub(crate) struct Watched<'a> {
    pub(crate) file: File,
    pub(crate) clock: &'a Clock<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.clock.is_over() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}

/// Paths relative to `folder`, sorted.
pub(crate) fn files(folder: &Path, include_ignored: bool) -> impl Iterator<Item = PathBuf> {
    let walk = WalkBuilder::new(folder)
        .standard_filters(!include_ignored)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(Ord::cmp)
        .build();
    let folder = folder.to_owned();
    walk.filter_map(move |entry| {
        // A folder that cannot be read, or is gone, is as good as empty.
        let entry = entry.ok()?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        is_file.then(|| entry.path().strip_prefix(&folder).ok().map(Path::to_owned)).flatten()
    })
}
