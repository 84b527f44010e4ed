//! Whether one process descends from another. The daemon asks this of whoever connects, because a command that it runs
//! must not answer its own permission question.

use std::io;

use crate::stat;

/// Walks up from `pid`. A process is not its own descendant. A process that is gone, here or on the way up, is an
/// error, and the caller should refuse then: what cannot be known is not allowed.
pub fn descends_from(pid: u32, ancestor: u32) -> io::Result<bool> {
    let mut at = pid;
    // A chain of parents cannot be longer than there are processes; the bound is for a /proc that changes meanwhile.
    for _ in 0..4096 {
        let parent = stat::of(at)?.parent;
        if parent == ancestor {
            return Ok(true);
        }
        if parent == 0 {
            return Ok(false);
        }
        at = parent;
    }
    Err(io::Error::other(format!("walking up from process {pid}: its ancestors do not end")))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_and_a_grandchild_descend_and_a_stranger_does_not() {
        let me = std::process::id();
        let mut child =
            Command::new("sh").args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();

        assert!(descends_from(child.id(), me).unwrap());
        assert!(descends_from(grandchild, me).unwrap());
        assert!(!descends_from(me, child.id()).unwrap());
        assert!(!descends_from(me, me).unwrap());
        assert!(!descends_from(1, me).unwrap());

        let pid = rustix::process::Pid::from_raw(grandchild as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let error = descends_from(child.id(), std::process::id()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
