//! Checks that the state folder can be created, or belongs to the user and can be written to.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;

use super::finding::{Finding, State, human};
use crate::paths::Paths;

/// A disk with less free space than this is nearly full.
const LOW_SPACE: u64 = 100_000_000;

pub(super) fn check(places: &Paths) -> Finding {
    let folder = &places.state;
    let path = folder.display();
    let Some(nearest) = folder.ancestors().find(|ancestor| fs::symlink_metadata(ancestor).is_ok()) else {
        return Finding::fail("state", format!("{path} cannot be found"), "choose another folder with XDG_STATE_HOME");
    };
    if let Err(finding) = usable("state", nearest, nearest == folder) {
        return finding;
    }
    let lock = places.daemon_lock();
    if lock.is_dir() {
        let says = format!("{} is a folder, where acpd needs a file", lock.display());
        return Finding::fail("state", says, format!("move it away: mv {0} {0}.old", lock.display()));
    }
    let room = rustix::fs::statvfs(nearest).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize));
    if room < LOW_SPACE {
        let says = format!("{path}; only {} are left on its disk", human(room));
        return Finding::warn("state", says, "make room: prompts fail when the disk is full");
    }
    let missing = if nearest == folder { "" } else { " (does not exist yet; the first start creates it)" };
    Finding::ok("state", format!("{path}{missing}"))
}

/// Checks that a path is a folder in which acpd can write. If `is_ours`, it must belong to the
/// user.
pub(super) fn usable(check: &'static str, folder: &Path, is_ours: bool) -> Result<(), Finding> {
    let at = folder.display();
    match fs::metadata(folder) {
        Err(error) => return Err(Finding::fail(check, format!("cannot look at {at}: {error}"), "move it away")),
        Ok(found) if !found.is_dir() => {
            let says = format!("{at} is a file, where acpd needs a folder for its data");
            return Err(Finding::fail(check, says, format!("move it away: mv {at} {at}.old")));
        }
        Ok(found) if is_ours && found.uid() != rustix::process::getuid().as_raw() => {
            let says = format!("{at} belongs to another user");
            return Err(Finding::fail(check, says, "choose another folder with XDG_STATE_HOME"));
        }
        Ok(_) => {}
    }
    write(folder).map_err(|error| {
        let says = match Errno::from_io_error(&error) {
            Some(Errno::ROFS) => format!("{at} is on a disk that is mounted read-only"),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => format!("the disk of {at} is full"),
            _ => format!("{at} cannot be written to: {error}"),
        };
        Finding::fail(check, says, advice(&error, folder))
    })
}

impl Finding {
    pub(super) fn is_failure(&self) -> bool {
        self.state == State::Fail
    }
}

fn advice(error: &io::Error, folder: &Path) -> String {
    let folder = folder.display();
    match Errno::from_io_error(error) {
        Some(Errno::ROFS) => "mount it for writing, or choose another folder with XDG_STATE_HOME".to_owned(),
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            "make room on the disk; nothing that was acknowledged is lost".to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => format!("chmod u+rwx {folder}"),
        _ => "choose another folder with XDG_STATE_HOME".to_owned(),
    }
}

/// Writes to an unnamed file, which never appears in the folder.
fn write(folder: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => {
            rustix::io::write(&file, &[0; 4096])?;
            Ok(())
        }
        // Some file systems do not support unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns advice for a store that reports this reason.
pub(super) fn advice_for_store(reason: &str, folder: &Path) -> String {
    let has = |words: &[&str]| words.iter().any(|word| reason.to_lowercase().contains(word));
    if has(&["was removed or replaced"]) {
        "put the folder back, or begin a new history: acpd ctl restart".to_owned()
    } else if has(&["no space", "quota", "file too large"]) {
        "make room on the disk; what waits is written then".to_owned()
    } else if has(&["read-only"]) {
        "mount the disk for writing; what waits is written then".to_owned()
    } else if has(&["permission denied", "not permitted"]) {
        format!("chmod -R u+rwX {}", folder.display())
    } else {
        "see its log: acpd ctl logs".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_reason() {
        let advice = |reason| advice_for_store(reason, Path::new("/s"));
        assert!(advice("No space left on device (os error 28)").starts_with("make room"));
        assert!(advice("Read-only file system (os error 30)").starts_with("mount"));
        assert_eq!(advice("Permission denied (os error 13)"), "chmod -R u+rwX /s");
        assert!(advice("its folder /s was removed or replaced while the daemon ran").ends_with("acpd ctl restart"));
        assert_eq!(advice("a page is broken"), "see its log: acpd ctl logs");
    }

    #[test]
    fn the_check_for_a_writable_folder_leaves_it_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(write(&folder.path().join("nowhere")).is_err());
    }
}
