//! The sandbox of a command: Landlock for files and signals, seccomp for sockets, and its own
//! temporary folder.
//!
//! A thread of the helper enters the sandbox, never the daemon. Landlock does not restrict changes
//! of a file's mode, owner, times and extended attributes; only the ordinary permissions do.

mod allowed_paths;
mod seccomp;
mod temporary_folder;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope,
};
use serde::{Deserialize, Serialize};

use crate::protected_files::ProtectedFiles;
use allowed_paths::AllowedPaths;
pub(crate) use temporary_folder::TemporaryFolder;

/// The files that a command may access. Part of the request to the helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sandbox {
    /// Folders that may be written besides the temporary one; the first is the working folder. They
    /// are passed as descriptors.
    #[serde(skip)]
    pub writable: Vec<Arc<OwnedFd>>,
    /// Files and folders that may be read and executed besides the writable ones; None means
    /// everything. Missing ones are skipped.
    pub readable: Option<Vec<PathBuf>>,
    /// Files and folders that may be neither read nor written, wherever they are.
    #[serde(default)]
    pub protected_paths: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    #[error(
        "commands cannot run in sandbox mode here: it needs Landlock as of Linux 6.2, which this kernel lacks or has \
         switched off; nothing was run, and only the user can change the mode"
    )]
    NoLandlock,
    #[error("setting up the sandbox: {0}; nothing was run")]
    Landlock(#[from] RulesetError),
    #[error("setting up the sandbox's system call filter: {0}; nothing was run")]
    Filter(#[from] seccompiler::Error),
    #[error("making the sandbox's temporary folder: {0}; nothing was run")]
    Temporary(#[source] io::Error),
}

/// The ABI version of Landlock that the sandbox requires. With an older one, files outside could be
/// truncated.
pub(super) const NEEDED: ABI = ABI::V3;

/// The ABI version that is used if the kernel supports it.
const WANTED: ABI = ABI::V9;

/// Devices that programs expect to be available.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

impl Sandbox {
    /// Restricts the calling thread, and what it starts from now on, permanently.
    pub(super) fn enter(&self, temporary: &Path) -> Result<(), SandboxError> {
        self.restrict_files(temporary)?;
        Ok(seccomp::apply()?)
    }

    fn restrict_files(&self, temporary: &Path) -> Result<(), SandboxError> {
        let protected = ProtectedFiles::locate(&self.protected_paths);
        // Without a list of readable paths, only the contents of protected files are hidden. Their
        // folders can be listed, because programs need to traverse them.
        let read = if self.readable.is_some() { AccessFs::from_read(WANTED) } else { AccessFs::ReadFile.into() };
        let everything = [PathBuf::from("/")];
        let readable = match &self.readable {
            Some(list) => list.as_slice(),
            None if protected.is_empty() => &[],
            None => &everything,
        };
        let reading = if readable.is_empty() { BitFlags::EMPTY } else { read };
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_write(NEEDED))
            .map_err(|_| SandboxError::NoLandlock)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_write(WANTED))?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
        if self.readable.is_some() || !reading.is_empty() {
            ruleset = ruleset.handle_access(read)?;
        }
        // A new device file would bypass all other restrictions, and so would the socket of another
        // program.
        let outward = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::ResolveUnix;
        let inside = reading | (AccessFs::from_write(WANTED) & !outward);
        let device = reading & AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;

        let mut allowed = AllowedPaths::new(ruleset.create()?, &protected);
        for folder in &self.writable {
            allowed.allow(folder.as_fd(), inside)?;
        }
        allowed.allow_path(temporary, inside)?;
        for path in readable {
            allowed.allow_path(path, reading)?;
        }
        for path in DEVICES {
            allowed.allow_path(Path::new(path), device)?;
        }
        match allowed.finish().restrict_self()?.ruleset {
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
            RulesetStatus::NotEnforced => Err(SandboxError::NoLandlock),
        }
    }
}

/// Prevents the calling thread and what it starts from reading these files and folders. Restricts
/// nothing else.
///
/// Used for commands outside the sandbox that search a folder around acpd's own files, such as
/// `grep -r` in the home folder. The command also cannot read a file that is created directly in a
/// folder above them, see `AllowedPaths`.
pub(crate) fn shield(protected_paths: &[PathBuf]) -> Result<(), SandboxError> {
    let protected = ProtectedFiles::locate(protected_paths);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::ReadFile)
        .map_err(|_| SandboxError::NoLandlock)?;
    let mut allowed = AllowedPaths::new(ruleset.create()?, &protected);
    allowed.allow_path(Path::new("/"), AccessFs::ReadFile.into())?;
    match allowed.finish().restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(SandboxError::NoLandlock),
    }
}
