//! One skill: a folder with a `SKILL.md` and the files that it refers to.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use process::confine;
use process::protected_files::ProtectedFiles;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::entries::{self, EntryOrigin, Folder};
use crate::front_matter;
use crate::note_files;
use crate::slash_commands::first_line;

pub(super) const FILE: &str = "SKILL.md";

/// The most bytes of a `SKILL.md`, and of any other file of a skill.
const MAX_FILE_BYTES: u64 = 64 << 10;
const LONGEST_RESOURCE: u64 = 1 << 20;

/// The most files of a skill that are listed, and the depth to which its folders are searched.
const MAX_LISTED_FILES: usize = 60;
const DEPTH: usize = 4;

#[derive(Clone, Debug)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub folder: PathBuf,
    /// Whether it comes from the project.
    pub of_project: bool,
    text: String,
    opened: Arc<OwnedFd>,
    protected: Arc<ProtectedFiles>,
}

/// The reason why a file of a skill cannot be read, worded for the model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    #[error("the skill has no file `{0}`; give a path relative to its folder")]
    Missing(String),
    #[error("`{0}` is a link or lies outside the skill's folder, so it is not read")]
    Outside(String),
    #[error("`{0}` is not a text file of at most {limit} KB", limit = LONGEST_RESOURCE >> 10)]
    NotText(String),
}

impl Skill {
    /// Reads the skill in a folder. Returns None if it has no `SKILL.md` with a text.
    pub(super) fn read(parent: &Folder, name: &str) -> Option<Self> {
        let opened = parent.enter(name)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let protected = parent.protected();
        let file = confine::open_in(opened.as_fd(), FILE, flags, Mode::empty()).ok()?;
        let file = Some(file).filter(|file| !protected.contains_open(file))?;
        let (front, text) = front_matter::read(&note_files::read_whole(File::from(file), MAX_FILE_BYTES)?);
        if text.is_empty() {
            return None;
        }
        Some(Self {
            name: front.text("name").filter(|given| entries::is_name(given)).unwrap_or_else(|| name.to_owned()),
            description: front.text("description").unwrap_or_else(|| first_line(&text)),
            folder: parent.path.join(name),
            of_project: parent.origin == EntryOrigin::Project,
            text,
            opened: Arc::new(opened),
            protected,
        })
    }

    /// Returns the instructions without the front matter.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the other files of the skill, relative to its folder, up to the limit.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        list(self.opened.as_fd(), "", DEPTH, &mut files);
        files.retain(|file| file != FILE);
        files
    }

    /// Reads a file of the skill.
    ///
    /// # Errors
    ///
    /// If the path leads out of the skill's folder, or not to a text file.
    pub fn read_file(&self, path: &str) -> Result<String, SkillError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let relative = path.strip_prefix("./").unwrap_or(path);
        let file = confine::open_in(self.opened.as_fd(), Path::new(relative), flags, Mode::empty());
        let file = file.map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => SkillError::Outside(path.to_owned()),
            _ => SkillError::Missing(path.to_owned()),
        })?;
        if self.protected.contains_open(&file) {
            return Err(SkillError::Outside(path.to_owned()));
        }
        note_files::read_whole(File::from(file), LONGEST_RESOURCE).ok_or_else(|| SkillError::NotText(path.to_owned()))
    }
}

fn list(folder: std::os::fd::BorrowedFd<'_>, prefix: &str, depth: usize, files: &mut Vec<String>) {
    let found = entries::names(folder, |name, kind| {
        let shown = !name.starts_with('.') && !name.contains(char::is_control);
        match kind {
            FileType::RegularFile if shown => Some(name.to_owned()),
            FileType::Directory if shown => Some(format!("{name}/")),
            _ => None,
        }
    });
    for name in found {
        if files.len() == MAX_LISTED_FILES {
            return;
        }
        let path = format!("{prefix}{name}");
        let Some(inner) = name.strip_suffix('/') else {
            files.push(path);
            continue;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        if let (true, Ok(inner)) = (depth > 0, confine::open_in(folder, inner, flags, Mode::empty())) {
            list(inner.as_fd(), &path, depth - 1, files);
        }
    }
}
