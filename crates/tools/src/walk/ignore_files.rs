//! Reads `.gitignore`, `.ignore` and `.git/info/exclude` with limits.
//!
//! These files come with a repository and are untrusted: one may be a named pipe that blocks its
//! reader, a gigabyte long, or contain a pattern whose nesting overflows the stack of the `ignore`
//! crate. They are therefore read here, only from regular files and only within limits, and passed
//! to that crate line by line.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};

/// The most bytes that are read of one file. The rest is ignored.
const MAX_FILE_BYTES: usize = 64 << 10;

/// The most bytes of all such files that one search uses.
const LARGEST_TOGETHER: usize = 1 << 20;

/// The ignore files that apply to one search.
pub(super) struct IgnoreFiles {
    /// The user's own, which has the lowest precedence.
    global: Gitignore,
    folders: Mutex<HashMap<PathBuf, Arc<Folder>>>,
    left: AtomicUsize,
}

/// The ignore files of a folder and of the folders above it.
struct Folder {
    around: Option<Arc<Folder>>,
    ignore: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    /// Whether it is the root of a repository. The `.gitignore` files above it belong to another
    /// one.
    is_root: bool,
}

impl IgnoreFiles {
    pub(super) fn new() -> Self {
        let (global, _) = Gitignore::global();
        Self { global, folders: Mutex::default(), left: AtomicUsize::new(LARGEST_TOGETHER) }
    }

    /// Returns whether an entry is ignored. Its folder must not be.
    pub(super) fn exclude(&self, path: &Path, is_dir: bool) -> bool {
        let Some(folder) = path.parent().map(|folder| self.folder(folder)) else { return false };
        let (mut ignore, mut git, mut exclude) = (Match::None, Match::None, Match::None);
        let (mut next, mut is_outside) = (Some(&folder), false);
        while let Some(folder) = next {
            ignore = ignore.or(folder.ignore.matched(path, is_dir));
            if !is_outside {
                git = git.or(folder.git.matched(path, is_dir));
                exclude = exclude.or(folder.exclude.matched(path, is_dir));
            }
            is_outside |= folder.is_root;
            next = folder.around.as_ref();
        }
        ignore.or(git).or(exclude).or(self.global.matched(path, is_dir)).is_ignore()
    }

    fn folder(&self, path: &Path) -> Arc<Folder> {
        let lock = || self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(path) {
            return Arc::clone(known);
        }
        // This is a loop and not a recursion, because the path may have very many components.
        let ancestors: Vec<&Path> = path.ancestors().collect();
        let mut around: Option<Arc<Folder>> = None;
        for folder in ancestors.into_iter().rev() {
            let known = lock().get(folder).cloned();
            let here = known.unwrap_or_else(|| {
                let read = self.read(folder, around.clone());
                Arc::clone(lock().entry(folder.to_owned()).or_insert(read))
            });
            around = Some(here);
        }
        around.unwrap_or_else(|| self.read(path, None))
    }

    /// Reads the ignore files of a folder. Returns the parent's value if there are none.
    fn read(&self, folder: &Path, around: Option<Arc<Folder>>) -> Arc<Folder> {
        let is_root = folder.join(".git").exists();
        let exclude = if is_root { self.patterns(folder, ".git/info/exclude") } else { Gitignore::empty() };
        let (ignore, git) = (self.patterns(folder, ".ignore"), self.patterns(folder, ".gitignore"));
        match around {
            Some(around) if !is_root && ignore.is_empty() && git.is_empty() => around,
            around => Arc::new(Folder { around, ignore, git, exclude, is_root }),
        }
    }

    /// Returns the patterns of one file. A line that is not a pattern, or is too long, is skipped.
    fn patterns(&self, folder: &Path, name: &str) -> Gitignore {
        let Some(text) = self.text(&folder.join(name)) else { return Gitignore::empty() };
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.trim_start_matches('\u{feff}').lines() {
            if policy::glob::check(line).is_ok() {
                // A line that the crate rejects is not a pattern.
                let _ = builder.add_line(None, line);
            }
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }

    fn text(&self, path: &Path) -> Option<String> {
        // A pipe opens without waiting for a writer, and is then found not to be a regular file.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let stat = rustix::fs::fstat(&file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let mut bytes = Vec::new();
        let limit = MAX_FILE_BYTES.min(self.left.load(Ordering::Relaxed));
        file.take(limit as u64 + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() > limit {
            // The last line is incomplete.
            let end = bytes[..limit].iter().rposition(|byte| *byte == b'\n')?;
            bytes.truncate(end);
        }
        let spent = bytes.len();
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(spent)));
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn excluded(folder: &Path, names: &[&str]) -> Vec<String> {
        let files = IgnoreFiles::new();
        let is_left_out = |name: &&&str| files.exclude(&folder.join(name.trim_end_matches('/')), name.ends_with('/'));
        names.iter().filter(is_left_out).map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_nearest_file_decides_and_ignore_comes_before_gitignore() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, ".gitignore", "*.log\nbuild/\n/only_here\n!kept.log\n");
        write(root, "a/.gitignore", "!wanted.log\n*.tmp\n");
        write(root, "a/.ignore", "secret\n!x.tmp\n");
        write(root, "repo/.git/info/exclude", "own\n");
        let names = [
            "x.log",
            "kept.log",
            "build/",
            "build",
            "only_here",
            "a/only_here",
            "a/x.log",
            "a/wanted.log",
            "a/b/c.tmp",
            "a/x.tmp",
            "a/b/secret",
            "repo/x.log",
            "repo/own",
            "y",
        ];
        let expected = ["x.log", "build/", "only_here", "a/x.log", "a/b/c.tmp", "a/b/secret", "repo/own"];
        assert_eq!(excluded(root, &names), expected);
    }

    #[test]
    fn ignore_files_skip_pipes_links_and_oversized_patterns() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        rustix::fs::mknodat(rustix::fs::CWD, root.join(".gitignore"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join(".ignore")).unwrap();
        assert_eq!(excluded(root, &["x"]), [""; 0]);
        let nested = format!("{}a{}\n*.log\n{}\n", "{".repeat(20_000), "}".repeat(20_000), "{".repeat(900));
        write(root, "deep/.gitignore", &nested);
        write(root, "deep/.ignore", &nested);
        assert_eq!(excluded(root, &["deep/x.log", "deep/x"]), ["deep/x.log"]);
        write(root, "large/.gitignore", &format!("*.log\n{}*.tmp\n", "x\n".repeat(MAX_FILE_BYTES)));
        assert_eq!(excluded(root, &["large/x.log", "large/x.tmp"]), ["large/x.log"]);
    }

    #[test]
    fn a_search_uses_a_bounded_amount_of_such_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = IgnoreFiles::new();
        for number in 0..2 * LARGEST_TOGETHER / MAX_FILE_BYTES {
            let name = format!("{number}/.gitignore");
            write(folder.path(), &name, &"x\n".repeat(MAX_FILE_BYTES));
            files.exclude(&folder.path().join(format!("{number}/y")), false);
        }
        assert!(files.left.load(Ordering::Relaxed) < MAX_FILE_BYTES);
    }
}
