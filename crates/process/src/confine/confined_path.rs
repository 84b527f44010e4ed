//! One path inside the roots: an opened folder and a name in it, with the operations on it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::Fingerprint;
use domain::text::size;
use policy::HiddenFiles;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::{PathError, open_in};
use crate::fingerprint;
use crate::protected_files::ProtectedFiles;
use crate::stop::StopFlag;

/// The largest file that tools read into memory, in bytes.
pub const LARGEST_FILE: u64 = 32 << 20;

pub struct ConfinedPath {
    /// The absolute path below the root as the session names it.
    pub path: PathBuf,
    /// The absolute path without symlinks, which identifies the file.
    pub real: PathBuf,
    /// The path as users and models see it: relative to the working folder where possible.
    pub shown: String,
    /// The deepest existing folder of the path; the target itself if that is a folder.
    pub(super) folder: Arc<OwnedFd>,
    pub(super) target: Target,
    pub(super) protected: Arc<ProtectedFiles>,
}

pub(super) enum Target {
    Folder,
    /// An entry that is not a folder.
    Entry(OsString),
    /// Names that do not exist yet, each inside the one before.
    Missing(Vec<OsString>),
}

impl ConfinedPath {
    pub fn is_missing(&self) -> bool {
        matches!(self.target, Target::Missing(_))
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.target, Target::Folder)
    }

    /// Opens the folder itself for listing.
    pub fn open_folder(&self) -> Result<OwnedFd, PathError> {
        match &self.target {
            Target::Folder => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let folder = open_in(&self.folder, ".", flags, Mode::empty())
                    .map_err(|error| PathError::io("opening", &self.shown, error))?;
                refuse_proc(&folder, &self.shown)?;
                Ok(folder)
            }
            Target::Entry(_) => Err(PathError::IsAFile { path: self.shown.clone() }),
            Target::Missing(_) => Err(self.missing()),
        }
    }

    /// Opens a regular file for reading, without blocking.
    pub fn open_file(&self) -> Result<(File, Stat), PathError> {
        match &self.target {
            Target::Folder => Err(PathError::NotAFile { path: self.shown.clone(), what: "a folder" }),
            Target::Entry(name) => self.open_regular(&self.folder, Path::new(name), &self.shown),
            Target::Missing(_) => Err(self.missing()),
        }
    }

    /// Opens a regular file by its path relative to this folder, without following symlinks.
    pub fn open_below(&self, path: &Path) -> Result<(File, Stat), PathError> {
        self.open_regular(&self.folder, path, &path.display().to_string())
    }

    /// Returns the metadata of a path relative to this folder; None if it does not exist.
    pub fn look_below(&self, path: &Path) -> Option<Stat> {
        let entry = open_in(&self.folder, path, OFlags::PATH, Mode::empty()).ok()?;
        rustix::fs::fstat(entry).ok()
    }

    /// Returns whether a rule hides this file.
    pub fn is_hidden(&self, hidden_files: &HiddenFiles) -> bool {
        hidden_files.hides([self.path.as_path(), &self.real])
    }

    /// Returns whether a rule hides the file at this path relative to this folder.
    pub fn hides_below(&self, path: &Path, hidden_files: &HiddenFiles) -> bool {
        !hidden_files.is_empty() && hidden_files.hides([self.path.join(path).as_path(), &self.real.join(path)])
    }

    /// Reads the whole file, if it is not too large.
    pub fn read(&self) -> Result<Vec<u8>, PathError> {
        let (file, stat) = self.open_file()?;
        self.read_open(file, &stat)
    }

    fn read_open(&self, file: File, stat: &Stat) -> Result<Vec<u8>, PathError> {
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        let mut bytes = Vec::with_capacity(usize::try_from(length.min(LARGEST_FILE)).unwrap_or(0) + 1);
        // The file may grow while it is read, so the limit is on the bytes read and not on the
        // reported size.
        let read = file.take(LARGEST_FILE + 1).read_to_end(&mut bytes);
        read.map_err(|error| PathError::io("reading", &self.shown, error))?;
        if bytes.len() as u64 > LARGEST_FILE {
            let (size, limit) = (size(length.max(LARGEST_FILE)), size(LARGEST_FILE));
            return Err(PathError::TooLarge { path: self.shown.clone(), size, limit });
        }
        Ok(bytes)
    }

    /// Replaces the content atomically, unless `stop` is raised first. `expected` is the content
    /// that the file must still have; None means that it must not exist. Creates missing folders.
    pub fn replace(&self, bytes: &[u8], expected: Option<Fingerprint>, stop: &StopFlag) -> Result<(), PathError> {
        let failed = |doing| move |error: Errno| PathError::io(doing, &self.shown, error);
        let (folder, name) = self.folder_for_writing()?;
        let old = match self.open_regular(&folder, Path::new(&name), &self.shown) {
            Ok((_, stat)) => Some(stat),
            Err(PathError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(denial) => return Err(denial),
        };
        if old.is_some() {
            // A rename would replace a write-protected file too, so the permission is checked
            // first.
            rustix::fs::accessat(&folder, &name, Access::WRITE_OK, AtFlags::empty()).map_err(failed("writing"))?;
        }
        let temporary = TemporaryFile::create(&folder, old.as_ref()).map_err(failed("creating a file beside"))?;
        let written = temporary.fill(bytes);
        written.map_err(|error| PathError::io("writing", &self.shown, error))?;
        // Checked as late as possible: only the rename follows.
        self.check_unchanged(&folder, &name, expected)?;
        stop.check()?;
        let moved = match expected {
            Some(_) => rustix::fs::renameat(&folder, &temporary.name, &folder, &name),
            None => rename_new((&folder, OsStr::new(&temporary.name)), (&folder, &name)),
        };
        match moved {
            Ok(()) => {
                temporary.keep();
                sync(&folder);
            }
            Err(Errno::EXIST) => return Err(PathError::Changed { path: self.shown.clone() }),
            Err(error) => return Err(PathError::io("writing", &self.shown, error)),
        }
        Ok(())
    }

    /// Removes the file if it still has the expected content.
    pub fn remove(&self, expected: Fingerprint, stop: &StopFlag) -> Result<(), PathError> {
        let (folder, name) = self.folder_for_writing()?;
        self.check_unchanged(&folder, &name, Some(expected))?;
        stop.check()?;
        rustix::fs::unlinkat(&folder, &name, AtFlags::empty())
            .map_err(|error| PathError::io("removing", &self.shown, error))?;
        sync(&folder);
        Ok(())
    }

    /// Moves the file, if it still has the expected content, to a path that must not exist.
    pub fn move_to(&self, to: &ConfinedPath, expected: Fingerprint, stop: &StopFlag) -> Result<(), PathError> {
        let (folder, name) = self.folder_for_writing()?;
        self.check_unchanged(&folder, &name, Some(expected))?;
        stop.check()?;
        let (new_folder, new_name) = to.folder_for_writing()?;
        match rename_new((&folder, &name), (&new_folder, &new_name)) {
            Err(Errno::EXIST) => Err(PathError::Changed { path: to.shown.clone() }),
            Err(error) => Err(PathError::io("moving", &self.shown, error)),
            Ok(()) => Ok(()),
        }
    }

    /// Creates the missing folders of the path.
    pub fn make_folders(&self) -> Result<(), PathError> {
        self.folder_for_writing().map(|_| ())
    }

    fn folder_for_writing(&self) -> Result<(Arc<OwnedFd>, OsString), PathError> {
        let names = match &self.target {
            Target::Folder => return Err(PathError::NotAFile { path: self.shown.clone(), what: "a folder" }),
            Target::Entry(name) => return Ok((Arc::clone(&self.folder), name.clone())),
            Target::Missing(names) => names,
        };
        let mut folder = Arc::clone(&self.folder);
        let (name, parents) = names.split_last().ok_or_else(|| self.missing())?;
        for parent in parents {
            let failed = |error| PathError::io("creating the folder of", &self.shown, error);
            match rustix::fs::mkdirat(&folder, parent, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            folder = Arc::new(open_in(&folder, parent, flags, Mode::empty()).map_err(failed)?);
        }
        Ok((folder, name.clone()))
    }

    fn check_unchanged(
        &self,
        folder: &OwnedFd,
        name: &OsString,
        expected: Option<Fingerprint>,
    ) -> Result<(), PathError> {
        let now = match self.open_regular(folder, Path::new(name), &self.shown) {
            Ok((file, stat)) => Some(fingerprint::of(&self.read_open(file, &stat)?)),
            Err(PathError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(denial) => return Err(denial),
        };
        if now == expected { Ok(()) } else { Err(PathError::Changed { path: self.shown.clone() }) }
    }

    /// Opens a regular file, unless it is one of acpd's own under any name.
    fn open_regular(&self, folder: &OwnedFd, path: &Path, shown: &str) -> Result<(File, Stat), PathError> {
        let (file, stat) = open_regular(folder, path, shown)?;
        if self.protected.contains_file(&stat) {
            return Err(PathError::Protected { path: shown.to_owned() });
        }
        Ok((file, stat))
    }

    /// Returns acpd's own files, which searches below this folder skip.
    pub fn protected(&self) -> &Arc<ProtectedFiles> {
        &self.protected
    }

    fn missing(&self) -> PathError {
        PathError::Missing { path: self.shown.clone(), hint: self.hint().unwrap_or_default() }
    }

    /// Returns the name of an entry in the same folder that differs only in case or extension.
    fn hint(&self) -> Option<String> {
        let Target::Missing(names) = &self.target else { return None };
        let [name] = names.as_slice() else { return None };
        let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
        let wanted = stem(name.to_str()?)?;
        let entries = rustix::fs::Dir::read_from(&self.folder_for_listing()?).ok()?;
        let names = entries.flatten().take(2000).filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        let like = names.into_iter().find(|name| stem(name).as_deref() == Some(&wanted))?;
        Some(format!("; there is {like}"))
    }

    fn folder_for_listing(&self) -> Option<OwnedFd> {
        open_in(&self.folder, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()
    }
}

fn open_regular(folder: &OwnedFd, path: &Path, shown: &str) -> Result<(File, Stat), PathError> {
    let failed = |error| PathError::io("opening", shown, error);
    // Opening a device may have a side effect, so its type is checked first through an O_PATH
    // descriptor.
    let entry = open_in(folder, path, OFlags::PATH, Mode::empty()).map_err(failed)?;
    require_regular(&entry, shown)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_in(folder, path, flags, Mode::empty()).map_err(failed)?;
    // The entry may have been replaced since the first check.
    let stat = require_regular(&file, shown)?;
    refuse_proc(&file, shown)?;
    Ok((File::from(file), stat))
}

fn require_regular(file: &OwnedFd, shown: &str) -> Result<Stat, PathError> {
    let stat = rustix::fs::fstat(file).map_err(|error| PathError::io("looking at", shown, error))?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(stat),
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    };
    Err(PathError::NotAFile { path: shown.to_owned(), what })
}

/// Refuses files in /proc. With a root such as `/`, the daemon's own environment and memory would
/// be inside it.
fn refuse_proc(file: &OwnedFd, shown: &str) -> Result<(), PathError> {
    let system = rustix::fs::fstatfs(file).map_err(|error| PathError::io("looking at", shown, error))?;
    if system.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Err(PathError::Proc { path: shown.to_owned() });
    }
    Ok(())
}

/// Makes a rename or a removal in this folder survive a power loss. An error is ignored: the change
/// is already visible, and some file systems cannot sync folders.
fn sync(folder: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let _ = rustix::fs::openat(folder, ".", flags, Mode::empty()).and_then(rustix::fs::fsync);
}

/// Moves a file to a name that must be free.
fn rename_new(from: (&OwnedFd, &OsStr), to: (&OwnedFd, &OsStr)) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        // Some file systems do not support the flag. A check just before the rename must suffice
        // there.
        Err(Errno::INVAL) => match rustix::fs::statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => rustix::fs::renameat(from.0, from.1, to.0, to.1),
        },
        done => done,
    }
}

/// A temporary file beside the one to be replaced. Dropping it removes the file unless it was moved
/// into place.
struct TemporaryFile<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    in_place: bool,
}

impl<'a> TemporaryFile<'a> {
    fn create(folder: &'a OwnedFd, old: Option<&Stat>) -> Result<Self, Errno> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let name = format!(".acpd-{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        // A new file gets the mode of the umask. The copy of a private file must never be readable
        // by others.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let temporary = Self { folder, file: File::from(open_in(folder, &name, flags, mode)?), name, in_place: false };
        if let Some(old) = old {
            // Only root can change the owner. For other users the owner is the same already, or
            // cannot be preserved.
            let (user, group) = (rustix::fs::Uid::from_raw(old.st_uid), rustix::fs::Gid::from_raw(old.st_gid));
            let _ = rustix::fs::fchown(&temporary.file, Some(user), Some(group));
            rustix::fs::fchmod(&temporary.file, Mode::from_raw_mode(old.st_mode))?;
        }
        Ok(temporary)
    }

    fn fill(&self, bytes: &[u8]) -> std::io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.file.sync_data()
    }

    fn keep(mut self) {
        self.in_place = true;
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.in_place {
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}
