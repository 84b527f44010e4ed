//! acpd's own files: its state, keys, token, socket and configuration. No tool of an agent reads or
//! changes them, whatever the session's folders, mode and approval are.
//!
//! A protected file is recognised by its path without symlinks and by device and inode, so an alias
//! of it is protected too. The files are looked up again for every call, because one may be created
//! later. The lookup blocks, so it must not run on an actor's thread.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::Stat;

/// The most symlinks that one path may contain, as in the kernel.
const MAX_LINKS: usize = 40;

/// The most protected files with which a file with several hard links is compared. Usually there
/// are a few dozen.
const MAX_ENTRIES: usize = 10_000;

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }

    fn of_metadata(found: &fs::Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// A snapshot of acpd's own files and folders.
#[derive(Debug, Default)]
pub struct ProtectedFiles {
    paths: Vec<ProtectedPath>,
    /// All files below them, collected on first use.
    inside: OnceLock<HashSet<FileId>>,
}

#[derive(Debug)]
struct ProtectedPath {
    /// The path without symlinks, as far as it exists.
    real: PathBuf,
    /// The identity; None if it does not exist.
    id: Option<FileId>,
    /// The folders above it, both by its given path and by its real one. A command that can rename
    /// or create entries in one of them could replace it.
    above: Vec<FileId>,
}

impl ProtectedFiles {
    pub fn locate(paths: &[PathBuf]) -> Self {
        Self::locate_with(paths, FoundPath::look)
    }

    /// Looks up each path on the way to the protected ones once, since they have most of the way in
    /// common, and every prompt and call looks them up.
    fn locate_with(paths: &[PathBuf], mut look: impl FnMut(&Path) -> FoundPath) -> Self {
        let mut known: HashMap<PathBuf, FoundPath> = HashMap::new();
        let mut find = |path: &Path| match known.get(path) {
            Some(found) => found.clone(),
            None => known.entry(path.to_owned()).or_insert(look(path)).clone(),
        };
        let paths = paths.iter().map(|path| ProtectedPath::locate(path, &mut find)).collect();
        Self { paths, inside: OnceLock::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns whether a path without symlinks is protected or inside a protected folder.
    pub fn contains_path(&self, real: &Path) -> bool {
        self.paths.iter().any(|protected| real.starts_with(&protected.real))
    }

    /// Returns whether this is one of the protected files or folders itself.
    pub fn is_protected(&self, id: FileId) -> bool {
        self.paths.iter().any(|protected| protected.id == Some(id))
    }

    /// Returns whether a protected file may have this inode number. A quick check before the device
    /// is known.
    pub fn may_be_protected(&self, inode: u64) -> bool {
        self.paths.iter().any(|protected| protected.id.is_some_and(|id| id.inode == inode))
    }

    /// Returns whether a folder is above a protected file.
    pub(crate) fn is_above_protected(&self, id: FileId) -> bool {
        self.paths.iter().any(|protected| protected.above.contains(&id))
    }

    /// Returns whether a file is protected, or is another hard link to a file in a protected
    /// folder.
    pub fn contains_file(&self, stat: &Stat) -> bool {
        let id = FileId::of(stat);
        self.is_protected(id) || (stat.st_nlink > 1 && !self.is_empty() && self.inside().contains(&id))
    }

    /// The same, for an open file. One that cannot be examined counts as protected.
    pub fn contains_open(&self, file: impl AsFd) -> bool {
        rustix::fs::fstat(file).map_or(true, |stat| self.contains_file(&stat))
    }

    fn inside(&self) -> &HashSet<FileId> {
        self.inside.get_or_init(|| {
            let mut found = HashSet::new();
            let mut folders: Vec<PathBuf> = self.paths.iter().map(|protected| protected.real.clone()).collect();
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    let Ok(metadata) = entry.metadata() else { continue };
                    if metadata.is_dir() {
                        folders.push(entry.path());
                    }
                    found.insert(FileId::of_metadata(&metadata));
                    if found.len() >= MAX_ENTRIES {
                        return found;
                    }
                }
            }
            found
        })
    }
}

/// What is at a path, whose last component is not followed.
#[derive(Clone, Default)]
struct FoundPath {
    /// The identity; None if nothing is there.
    id: Option<FileId>,
    /// The target, if it is a symlink.
    link: Option<PathBuf>,
}

impl FoundPath {
    fn look(path: &Path) -> Self {
        let Ok(found) = fs::symlink_metadata(path) else { return Self::default() };
        let link = found.is_symlink().then(|| fs::read_link(path).ok()).flatten();
        Self { id: Some(FileId::of_metadata(&found)), link }
    }
}

impl ProtectedPath {
    /// Walks to the path one component at a time to collect every folder on the way, including
    /// those around symlinks.
    fn locate(path: &Path, find: &mut impl FnMut(&Path) -> FoundPath) -> Self {
        let mut at = PathBuf::from("/");
        let mut rest = steps(path);
        rest.reverse();
        let (mut above, mut links) = (Vec::new(), 0);
        while let Some(step) = rest.pop() {
            if step == ".." {
                at.pop();
                continue;
            }
            above.extend(find(&at).id);
            let next = at.join(&step);
            match find(&next).link {
                Some(target) if links < MAX_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    rest.extend(steps(&target).into_iter().rev());
                }
                Some(_) | None => at = next,
            }
        }
        let id = find(&at).id;
        above.sort_unstable();
        above.dedup();
        Self { real: at, id, above }
    }
}

fn steps(path: &Path) -> Vec<OsString> {
    let step = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn id(path: &Path) -> FileId {
        FileId::of_metadata(&fs::metadata(path).unwrap())
    }

    #[test]
    fn a_protected_file_and_its_parents_are_recognised_by_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for made in ["home/state", "data/acpd/keys"] {
            fs::create_dir_all(base.join(made)).unwrap();
        }
        symlink(base.join("data/acpd"), base.join("home/state/acpd")).unwrap();
        fs::write(base.join("data/acpd/keys/one"), "k").unwrap();
        fs::hard_link(base.join("data/acpd/keys/one"), base.join("home/innocent")).unwrap();
        fs::write(base.join("home/other"), "x").unwrap();
        fs::hard_link(base.join("home/other"), base.join("home/other2")).unwrap();

        let protected = ProtectedFiles::locate(&[base.join("home/state/acpd")]);
        assert!(protected.contains_path(&base.join("data/acpd/keys/one")));
        assert!(!protected.contains_path(&base.join("data/acpd2")));
        assert!(protected.is_protected(id(&base.join("data/acpd"))));
        for folder in ["", "home", "home/state", "data"] {
            assert!(protected.is_above_protected(id(&base.join(folder))), "{folder}");
        }
        let stat = |path: &str| rustix::fs::stat(base.join(path)).unwrap();
        assert!(protected.contains_file(&stat("home/innocent")));
        assert!(!protected.contains_file(&stat("home/other")));
    }

    #[test]
    fn each_path_on_the_way_is_looked_up_once() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/state")).unwrap();
        symlink("real", base.join("home")).unwrap();
        let paths = ["home/state/acpd", "home/state/other", "real/state"].map(|path| base.join(path));
        let mut looked = Vec::new();
        let protected = ProtectedFiles::locate_with(&paths, |path| {
            looked.push(path.to_owned());
            FoundPath::look(path)
        });
        assert!(protected.contains_path(&base.join("real/state/acpd/key")));
        assert!(protected.is_protected(id(&base.join("real/state"))));
        let distinct: HashSet<&PathBuf> = looked.iter().collect();
        assert_eq!(distinct.len(), looked.len(), "{looked:?}");
    }

    #[test]
    fn a_missing_protected_file_is_recognised_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let protected = ProtectedFiles::locate(&[base.join("config/acpd")]);
        assert!(protected.contains_path(&base.join("config/acpd/config.toml")));
        assert!(protected.is_above_protected(id(&base)));
        assert!(!protected.is_empty() && ProtectedFiles::default().is_empty());
    }
}
