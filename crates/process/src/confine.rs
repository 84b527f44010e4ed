//! Opens paths inside the session's roots, and no others. Tools open files only through this
//! module.
//!
//! A path is walked by hand, one component at a time, each opened relative to the descriptor of the
//! folder before it (openat2 with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS).
//! Symlinks are read as text and walked the same way, so one that stays inside some root is
//! followed, absolute or not, and one that leaves is refused. `..` goes back to the descriptor that
//! is held, never through the file system. What comes out is a `ConfinedPath`: the opened folder
//! and a name in it; every later read, write, rename and mkdir is relative to that descriptor, so
//! there is no gap between check and use.

mod confined_path;
#[cfg(test)]
mod escapes;
mod pinned_roots;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use domain::CallSite;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::protected_files::{FileId, ProtectedFiles};
pub use confined_path::{ConfinedPath, LARGEST_FILE};
pub use pinned_roots::{AccessLimits, PinnedRoots};

/// The most symlinks that one path may contain, as in the kernel.
const MAX_LINKS: usize = 40;

/// Why a path cannot be used, worded for the model.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("{path} is outside the session's folders ({roots}); file tools work inside those only")]
    Outside { path: String, roots: String },
    #[error("{path} does not exist{hint}")]
    Missing { path: String, hint: String },
    #[error("{path} cannot be reached: {part} is not a folder")]
    NotAFolder { path: String, part: String },
    #[error("{path} is a file, not a folder")]
    IsAFile { path: String },
    #[error("{path} is {what}, not a regular file")]
    NotAFile { path: String, what: &'static str },
    #[error("{path}: too many symbolic links")]
    TooManyLinks { path: String },
    #[error("{path} is {size}; the largest file that this tool takes is {limit}")]
    TooLarge { path: String, size: String, limit: String },
    #[error("{path} changed since it was read; read it again with read_file")]
    Changed { path: String },
    #[error("{path} belongs to the kernel's /proc, which file tools do not read")]
    Proc { path: String },
    #[error("{path} belongs to acpd itself: its state, keys and configuration are out of bounds for tools")]
    Protected { path: String },
    #[error("{path} now leads to {now}, but led to {before} when the session began; the session must be opened again")]
    Moved { path: String, before: String, now: String },
    #[error("cancelled")]
    Cancelled,
    #[error("{path} contains a NUL character")]
    Nul { path: String },
    #[error("file tools need the system call openat2 (Linux 5.6 or newer), which is missing or forbidden here")]
    NoOpenat2,
    #[error("{doing} {path}: {}", plain(.source))]
    Io { doing: &'static str, path: String, source: io::Error },
}

impl PathError {
    fn io(doing: &'static str, path: &str, error: impl Into<io::Error>) -> Self {
        let source = error.into();
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSYS) => Self::NoOpenat2,
            _ => Self::Io { doing, path: path.to_owned(), source },
        }
    }
}

/// Returns the text of a system error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Opens one entry of a folder, without following symlinks or leaving the folder.
pub fn open_in(folder: impl AsFd, name: impl rustix::path::Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode, stay)
}

/// The opened roots of a session.
pub struct Roots {
    roots: Vec<Arc<Root>>,
    protected: Arc<ProtectedFiles>,
}

struct Root {
    /// The path as the session gives it. Shown paths are relative to it, because the editor uses
    /// it.
    given: PathBuf,
    /// The path without symlinks.
    real: PathBuf,
    folder: Arc<OwnedFd>,
}

impl Roots {
    /// Opens the roots. The working folder must exist; another root that is gone is skipped. A
    /// command in the sandbox may replace a folder inside a root with a symlink. If that folder is
    /// also a root and were opened by its path, the symlink would decide what the next call may
    /// touch. Each root is therefore opened one component at a time, and once that walk enters
    /// another root, under any name, it follows no symlink.
    pub fn open(site: &CallSite, limits: &AccessLimits) -> Result<Self, PathError> {
        let ids: Vec<Option<FileId>> = site.roots().map(pinned_roots::identify).collect();
        let mut roots = Vec::new();
        for (index, given) in site.roots().enumerate() {
            let others: Vec<FileId> =
                ids.iter().enumerate().filter(|(at, _)| *at != index).filter_map(|(_, id)| *id).collect();
            let opened = Root::open(given, &others);
            match opened {
                Ok(root) => {
                    limits.pinned_roots.hold(&site.session, given, &root.real)?;
                    roots.push(Arc::new(root));
                }
                Err(error) if index == 0 => {
                    return Err(PathError::io("opening the working folder", &given.display().to_string(), error));
                }
                Err(_) => {}
            }
        }
        Ok(Self { roots, protected: Arc::new(ProtectedFiles::locate(&limits.protected_paths)) })
    }

    /// Returns the opened roots, the working folder first. A command in the sandbox may write in
    /// them.
    pub fn folders(&self) -> Vec<Arc<OwnedFd>> {
        self.roots.iter().map(|root| Arc::clone(&root.folder)).collect()
    }

    /// Walks to a path that the model gave. A relative path starts at the working folder.
    pub fn find(&self, path: &str) -> Result<ConfinedPath, PathError> {
        if path.contains('\0') {
            return Err(PathError::Nul { path: path.replace('\0', "\u{fffd}") });
        }
        Walk { roots: self, asked: path, links: 0 }.go(&self.cwd().given.join(path))
    }

    fn cwd(&self) -> &Root {
        // `open` fails without a working folder.
        &self.roots[0]
    }

    /// Returns the innermost root that contains a path, judged by its text, and the rest of the
    /// path.
    fn locate(&self, path: &Path) -> Option<(Arc<Root>, VecDeque<OsString>)> {
        let under = |path: &Path| {
            let bases = self.roots.iter().flat_map(|root| [(root, &root.given), (root, &root.real)]);
            let fits = bases.filter_map(|(root, base)| Some((root, base, path.strip_prefix(base).ok()?)));
            let (root, _, rest) = fits.max_by_key(|(_, base, _)| base.as_os_str().len())?;
            Some((Arc::clone(root), steps(rest)))
        };
        under(path).or_else(|| under(&without_dots(path)))
    }

    fn list(&self) -> String {
        self.roots.iter().map(|root| root.given.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl Root {
    fn open(given: &Path, others: &[FileId]) -> io::Result<Self> {
        let folder = pinned_roots::walk_to(given, others)?;
        // The path is read from the descriptor, so it belongs to the folder that was opened.
        let real = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder)))?;
        Ok(Self { given: given.to_owned(), real, folder: Arc::new(folder) })
    }
}

/// The walk to one path.
struct Walk<'a> {
    roots: &'a Roots,
    asked: &'a str,
    links: usize,
}

/// The position of a walk: folders below a root, each with its name and descriptor.
struct Position {
    root: Arc<Root>,
    below: Vec<(OsString, Arc<OwnedFd>)>,
}

impl Position {
    fn folder(&self) -> &Arc<OwnedFd> {
        self.below.last().map_or(&self.root.folder, |(_, folder)| folder)
    }
}

impl Walk<'_> {
    fn go(&mut self, path: &Path) -> Result<ConfinedPath, PathError> {
        let (mut at, mut rest) = self.enter(path)?;
        while let Some(step) = rest.pop_front() {
            if step == ".." {
                if at.below.pop().is_none() {
                    // Another root may be above this one. The parent's path is only text here, and
                    // is walked from that root.
                    let mut above = at.root.real.parent().unwrap_or(Path::new("/")).to_owned();
                    above.extend(&rest);
                    (at, rest) = self.enter(&above)?;
                }
                continue;
            }
            let entry = match open_in(at.folder(), &step, OFlags::PATH, Mode::empty()) {
                Ok(entry) => entry,
                Err(Errno::NOENT) => return self.missing(at, step, rest),
                Err(error) => return Err(PathError::io("opening", self.asked, error)),
            };
            let stat = rustix::fs::fstat(&entry).map_err(|error| PathError::io("looking at", self.asked, error))?;
            if self.roots.protected.is_protected(FileId::of(&stat)) {
                return Err(self.protected_error());
            }
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => (at, rest) = self.follow(at, &entry, rest)?,
                FileType::Directory => at.below.push((step, Arc::new(entry))),
                _ if rest.is_empty() => return self.confined(at, confined_path::Target::Entry(step)),
                _ => {
                    let part = step.display().to_string();
                    return Err(PathError::NotAFolder { path: self.asked.to_owned(), part });
                }
            }
        }
        self.confined(at, confined_path::Target::Folder)
    }

    fn enter(&self, path: &Path) -> Result<(Position, VecDeque<OsString>), PathError> {
        match self.roots.locate(path) {
            Some((root, rest)) => Ok((Position { root, below: Vec::new() }, rest)),
            None => Err(PathError::Outside { path: self.asked.to_owned(), roots: self.roots.list() }),
        }
    }

    fn follow(
        &mut self,
        at: Position,
        link: &OwnedFd,
        mut rest: VecDeque<OsString>,
    ) -> Result<(Position, VecDeque<OsString>), PathError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(PathError::TooManyLinks { path: self.asked.to_owned() });
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new())
            .map_err(|error| PathError::io("reading the symbolic link", self.asked, error))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            let mut path = target;
            path.extend(&rest);
            return self.enter(&path);
        }
        for step in steps(&target).into_iter().rev() {
            rest.push_front(step);
        }
        Ok((at, rest))
    }

    /// Returns the result for a path that does not exist and may be created. Refuses it if the rest
    /// contains `..`.
    fn missing(&self, at: Position, step: OsString, rest: VecDeque<OsString>) -> Result<ConfinedPath, PathError> {
        if rest.iter().any(|step| step == "..") {
            return Err(PathError::Missing { path: self.asked.to_owned(), hint: String::new() });
        }
        let names = std::iter::once(step).chain(rest).collect();
        self.confined(at, confined_path::Target::Missing(names))
    }

    fn protected_error(&self) -> PathError {
        PathError::Protected { path: self.asked.to_owned() }
    }

    fn confined(&self, at: Position, target: confined_path::Target) -> Result<ConfinedPath, PathError> {
        let mut below: PathBuf = at.below.iter().map(|(name, _)| name.as_os_str()).collect();
        match &target {
            confined_path::Target::Folder => {}
            confined_path::Target::Entry(name) => below.push(name),
            confined_path::Target::Missing(names) => below.extend(names),
        }
        let join = |base: &Path| if below.as_os_str().is_empty() { base.to_owned() } else { base.join(&below) };
        let (path, real) = (join(&at.root.given), join(&at.root.real));
        if self.roots.protected.contains_path(&real) {
            return Err(self.protected_error());
        }
        let shown = match real.strip_prefix(&self.roots.cwd().real) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => path.display().to_string(),
        };
        let protected = Arc::clone(&self.roots.protected);
        Ok(ConfinedPath { path, real, shown, folder: Arc::clone(at.folder()), target, protected })
    }
}

fn steps(path: &Path) -> VecDeque<OsString> {
    let step = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

/// Removes `..` from a path by its text, so that a path that reaches a root by a detour is
/// accepted. The result is walked like any other path, so a wrong guess is either refused or leads
/// to another place inside the roots.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for step in steps(path) {
        if step == ".." {
            clean.pop();
        } else {
            clean.push(step);
        }
    }
    clean
}
