//! Lock files: at most one daemon a socket and a state folder, and at most one bridge that starts it.
//!
//! A lock lasts as long as its holder, however that ends, since the kernel keeps it with the open file. The file itself
//! is never removed: a lock on a removed file would exclude nobody.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What came of trying.
#[derive(Debug)]
pub enum Attempt {
    Taken(Lock),
    /// Somebody holds it, with this process id if the holder has written it yet.
    Held(Option<u32>),
}

impl Lock {
    /// Takes the lock if it is free, and notes who has it.
    pub fn attempt(path: &Path) -> anyhow::Result<Attempt> {
        let doing = || format!("cannot lock {}", path.display());
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let mut file = options.with_context(doing)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // The note is for people; a disk too full to take it is no reason not to go on.
                let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                Ok(Attempt::Taken(Self { _file: file }))
            }
            Err(Errno::WOULDBLOCK) => Ok(Attempt::Held(holder(&mut file))),
            Err(error) => Err(error).with_context(doing),
        }
    }

    /// Who holds the lock, if anybody does. A holder that has not noted itself yet is not seen.
    pub fn held_by(path: &Path) -> Option<u32> {
        let mut file = File::open(path).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => holder(&mut file),
            Ok(()) | Err(_) => None,
        }
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let Attempt::Taken(first) = Lock::attempt(&path).unwrap() else { panic!("a fresh lock was held") };
        let Attempt::Held(holder) = Lock::attempt(&path).unwrap() else { panic!("a lock was taken twice") };
        assert_eq!(holder, Some(std::process::id()));
        assert_eq!(Lock::held_by(&path), Some(std::process::id()));
        drop(first);
        assert_eq!(Lock::held_by(&path), None);
        assert!(matches!(Lock::attempt(&path).unwrap(), Attempt::Taken(_)));
    }
}
