//! Reads files with notes for agents, and the files that they import with `@path`. Skips imports,
//! and files of the project, that a rule denies or asks about, and acpd's own files.
//!
//! A project's file can import only files of the same repository, and nothing of a project is read
//! through a symlink.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use policy::Rules;
use process::confine;
use process::protected_files::ProtectedFiles;
use rustix::fs::{Mode as RawMode, OFlags};

use crate::prompt_files;

/// The most bytes of one file; a longer file is cut with a note.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The greatest depth of imports, the most imported files, and the most bytes of all of them.
const IMPORT_DEPTH: usize = 4;
const IMPORTS: usize = 32;
const IMPORTED_BYTES: usize = 128 << 10;

/// Reads notes into one text.
pub(crate) struct NoteReader<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) protected: &'a ProtectedFiles,
    /// The home folder, for imports of the user's own notes.
    pub(crate) home: Option<&'a Path>,
    /// The notes so far.
    pub(crate) text: String,
    /// Sentences for the user about files that were skipped.
    pub(crate) notices: Vec<String>,
    included: BTreeSet<PathBuf>,
    imports: usize,
    imported: usize,
}

/// The owner of a file, which decides what it may import.
#[derive(Clone, Copy)]
enum Owner<'a> {
    User,
    /// The project with this root.
    Project(&'a Path),
}

impl<'a> NoteReader<'a> {
    pub(crate) fn new(rules: &'a Rules, protected: &'a ProtectedFiles) -> Self {
        Self {
            rules,
            protected,
            home: None,
            text: String::new(),
            notices: Vec::new(),
            included: BTreeSet::new(),
            imports: 0,
            imported: 0,
        }
    }

    /// Adds a file of the user. It may be a symlink to a file elsewhere.
    pub(crate) fn add_own(&mut self, file: &Path) {
        if let Some(note) = read(file, MAX_FILE_BYTES, OFlags::empty()) {
            self.add(file, &note);
            self.import(&note, file, Owner::User, IMPORT_DEPTH);
        }
    }

    /// Adds a file of the project. Returns whether it exists and the model may read it.
    pub(crate) fn add_project(&mut self, root: &Path, folder: &Path, name: &str) -> bool {
        let Some(note) = self.read_allowed(folder, Path::new(name)) else { return false };
        let file = folder.join(name);
        self.add(&file, &note);
        self.import(&note, &file, Owner::Project(root), IMPORT_DEPTH);
        true
    }

    /// Reads a file of the project, if the model may read it.
    fn read_allowed(&mut self, folder: &Path, name: &Path) -> Option<String> {
        let path = folder.join(name);
        if is_off_limits(&path, self.protected) {
            return None;
        }
        let note = read_below(folder, name, MAX_FILE_BYTES)?;
        self.is_allowed(&path).then_some(note)
    }

    fn is_allowed(&mut self, path: &Path) -> bool {
        let verdict = prompt_files::reading_verdict(self.rules, path);
        self.notices.extend(verdict.map(|verdict| prompt_files::notice(path, verdict)));
        verdict.is_none()
    }

    fn add(&mut self, file: &Path, note: &str) {
        self.included.insert(file.to_owned());
        self.text.push_str(&format!("\n<notes file=\"{}\">\n{}\n</notes>\n", file.display(), note.trim_end()));
    }

    /// Adds the files that a note imports after the note itself, each only once.
    fn import(&mut self, note: &str, importer: &Path, owner: Owner<'_>, depth: usize) {
        let Some(folder) = importer.parent().filter(|_| depth > 0) else { return };
        for word in mentions(note) {
            let Some(path) = self.resolve(word, folder, owner).filter(|path| !self.included.contains(path)) else {
                continue;
            };
            if self.imports == IMPORTS || self.imported >= IMPORTED_BYTES {
                return;
            }
            let found = match owner {
                Owner::User => {
                    let is_readable = !is_off_limits(&path, self.protected);
                    let text = is_readable.then(|| read(&path, MAX_FILE_BYTES, OFlags::empty())).flatten();
                    text.filter(|_| self.is_allowed(&path))
                }
                Owner::Project(root) => path.strip_prefix(root).ok().and_then(|below| self.read_allowed(root, below)),
            };
            let Some(text) = found else { continue };
            self.imports += 1;
            self.imported += text.len();
            self.add(&path, &text);
            self.import(&text, &path, owner, depth - 1);
        }
    }

    /// Returns the file that a mention names. A project's files can name only files of their
    /// project.
    fn resolve(&self, word: &str, folder: &Path, owner: Owner<'_>) -> Option<PathBuf> {
        let path = match (word.strip_prefix("~/"), owner) {
            (Some(below), Owner::User) => self.home?.join(below),
            (Some(_), Owner::Project(_)) => return None,
            (None, _) => folder.join(word),
        };
        let path = without_dots(&path)?;
        match owner {
            Owner::User => Some(path),
            Owner::Project(root) => path.starts_with(root).then_some(path),
        }
    }
}

/// Returns the words of a text that begin with `@`, without the `@`. Skips code, and removes
/// punctuation after a word.
fn mentions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        // In a line split at backticks, every second part is code.
        for outside in line.split('`').step_by(2) {
            let words = outside.split_whitespace().filter_map(|word| word.trim_start_matches('(').strip_prefix('@'));
            found.extend(words.map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\''])));
        }
    }
    found.retain(|word| !word.is_empty() && !word.contains('\0'));
    found
}

/// Returns the path without `.` and `..`; None if it leads above the root of the file system.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(component),
        }
    }
    Some(plain)
}

/// Reads a file of a project, which must not be a symlink.
pub(crate) fn read_inside(path: &Path, longest: u64) -> Option<String> {
    read(path, longest, OFlags::NOFOLLOW)
}

/// Returns whether a file is acpd's own, by its real path or as an alias.
fn is_off_limits(file: &Path, protected: &ProtectedFiles) -> bool {
    fs::canonicalize(file).is_ok_and(|real| protected.contains_path(&real))
        || rustix::fs::stat(file).is_ok_and(|stat| protected.contains_file(&stat))
}

/// Reads a file. Returns None if it does not exist or is blank. Symlinks of a project are not
/// followed, because a project must not make us read what it does not contain. A pipe or a device
/// does not block.
pub(crate) fn read(path: &Path, longest: u64, flags: OFlags) -> Option<String> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    read_text(rustix::fs::open(path, flags, RawMode::empty()).ok()?, longest)
}

/// Reads a file by a relative path, in which no folder may be a symlink.
fn read_below(folder: &Path, name: &Path, longest: u64) -> Option<String> {
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, folder_flags, RawMode::empty()).ok()?;
    read_text(confine::open_in(folder, name, OFlags::RDONLY | OFlags::NONBLOCK, RawMode::empty()).ok()?, longest)
}

fn read_text(file: OwnedFd, longest: u64) -> Option<String> {
    let file = fs::File::from(file);
    let mut bytes = read_some(file, longest)?;
    let cut = bytes.len() as u64 > longest;
    bytes.truncate(usize::try_from(longest).unwrap_or(usize::MAX));
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if cut {
        text.push_str("\n[the rest of the file was left out]");
    }
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the whole text of a file; None if it is not a regular file, not text, or longer.
pub(crate) fn read_whole(file: fs::File, longest: u64) -> Option<String> {
    let bytes = read_some(file, longest)?;
    String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= longest)
}

/// Reads at most one byte more than `longest`, so that a longer file can be recognised.
fn read_some(file: fs::File, longest: u64) -> Option<Vec<u8>> {
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// Returns the notes and notices for the project's AGENTS.md.
    fn included(folder: &Path, rules: &serde_json::Value) -> (String, Vec<String>) {
        let rules: Rules = serde_json::from_value(rules.clone()).unwrap();
        let protected = ProtectedFiles::locate(&[]);
        let mut reader = NoteReader::new(&rules, &protected);
        reader.add_project(folder, folder, "AGENTS.md");
        (reader.text, reader.notices)
    }

    #[test]
    fn mentions_are_words_outside_of_code() {
        let text = "See @docs/style.md, and (@a/b.txt).\n`@not/this` @yes `or @that`\n```\n@no\n```\nme@host @\n@last";
        assert_eq!(mentions(text), ["docs/style.md", "a/b.txt", "yes", "last"]);
    }

    #[test]
    fn imports_follow_their_note_once_and_to_a_certain_depth() {
        let folder = project(&[
            ("AGENTS.md", "See @docs/a.md and @docs/a.md and @types/node."),
            ("docs/a.md", "A: @b.md @../AGENTS.md"),
            ("docs/b.md", "B: @c.md"),
            ("docs/c.md", "C: @d.md"),
            ("docs/d.md", "D: @e.md"),
            ("docs/e.md", "too deep"),
        ]);
        let (text, notices) = included(folder.path(), &serde_json::json!({}));
        let order = ["See @docs", "A:", "B:", "C:", "D:"].map(|part| text.find(part).unwrap());
        assert!(order.is_sorted() && text.matches("<notes").count() == 5 && notices.is_empty(), "{text}");
    }

    #[test]
    fn a_project_imports_only_its_own_files_that_rules_allow() {
        let around = project(&[
            ("secret", "hush"),
            ("p/AGENTS.md", "@../secret @/etc/hostname @~/x @link @.env @notes.key @fine"),
            ("p/.env", "hush"),
            ("p/notes.key", "hush"),
            ("p/fine", "all well"),
        ]);
        let folder = around.path().join("p");
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let (text, notices) = included(&folder, &serde_json::json!({ "deny": ["read(.env)"], "ask": ["read(*.key)"] }));
        assert!(!text.contains("hush") && text.contains("all well"), "{text}");
        assert_eq!(text.matches("<notes").count(), 2, "{text}");
        assert_eq!(notices.len(), 2, "{notices:?}");
    }

    #[test]
    fn the_users_own_notes_import_from_their_home_unless_a_rule_or_acpd_keeps_it() {
        let home = project(&[
            ("config/AGENTS.md", "@~/style.md @more.md @~/state/keys @~/.ssh/id"),
            ("config/more.md", "more"),
            ("style.md", "style"),
            ("state/keys", "hush"),
            (".ssh/id", "hush"),
        ]);
        let rules: Rules = serde_json::from_value(serde_json::json!({ "deny": ["read(**/.ssh/**)"] })).unwrap();
        let protected = ProtectedFiles::locate(&[home.path().join("state")]);
        let mut reader = NoteReader::new(&rules, &protected);
        reader.home = Some(home.path());
        reader.add_own(&home.path().join("config/AGENTS.md"));
        assert!(reader.text.contains("\nmore\n") && reader.text.contains("\nstyle\n"), "{}", reader.text);
        assert!(!reader.text.contains("hush"), "{}", reader.text);
        assert_eq!(reader.notices.len(), 1);
    }

    #[test]
    fn many_and_long_imports_are_bounded() {
        let names: Vec<String> = (0..60).map(|number| format!("{number}.md")).collect();
        let mentions: Vec<String> = names.iter().map(|name| format!("@{name}")).collect();
        let folder = project(&[("AGENTS.md", &mentions.join(" "))]);
        names.iter().for_each(|name| fs::write(folder.path().join(name), "x").unwrap());
        let (text, _) = included(folder.path(), &serde_json::json!({}));
        assert_eq!(text.matches("<notes").count(), 1 + IMPORTS);
        names.iter().for_each(|name| fs::write(folder.path().join(name), "y".repeat(50_000)).unwrap());
        let (text, _) = included(folder.path(), &serde_json::json!({}));
        assert_eq!(text.matches("<notes").count(), 4);
    }
}
