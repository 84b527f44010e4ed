//! Determines whether a process descends from another one, or from a command of the daemon that has
//! left its process tree. The daemon checks every process that connects, because a command must not
//! answer its own permission question.

use std::io;

use crate::proc_stat;
use crate::tag::ProcessTag;

/// Returns whether `pid` descends from `ancestor`. A process is not its own descendant. Returns an
/// error if a process on the way up is gone; the caller should then refuse, because what cannot be
/// checked is not allowed.
pub fn descends_from(pid: u32, ancestor: u32) -> io::Result<bool> {
    Ok(ancestors(pid)?.contains(&ancestor))
}

/// Returns whether a tool of this owner started the process or one of its ancestors. The
/// environment of the process itself must be readable. Ancestors with an unreadable environment are
/// skipped: login servers and `systemd --user` are such, and a malicious ancestor could have
/// started its child without the tag anyway.
pub fn carries_tag(pid: u32, owner: &str) -> io::Result<bool> {
    let is_ours = |tag: Option<ProcessTag>| tag.is_some_and(|tag| tag.owner == owner);
    if is_ours(ProcessTag::of(pid)?) {
        return Ok(true);
    }
    Ok(ancestors(pid)?.into_iter().any(|ancestor| ProcessTag::of(ancestor).is_ok_and(is_ours)))
}

/// Returns the process ids from the parent up to the first process, and the zero above it.
fn ancestors(pid: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    let mut at = pid;
    // A chain of parents cannot be longer than the number of processes. The limit guards against a
    // /proc that changes during the walk.
    for _ in 0..4096 {
        at = proc_stat::of(at)?.parent;
        found.push(at);
        if at == 0 {
            return Ok(found);
        }
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
    fn the_tag_is_found_on_a_process_and_on_its_untagged_children() {
        let mut marked = Command::new("sh");
        marked.args(["-c", "env -u ACPD_TOOL sleep 60 & echo $!; wait"]);
        marked.env("ACPD_TOOL", ProcessTag { start: "1".to_owned(), owner: "me".to_owned() }.value());
        let mut child = marked.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();

        assert!(carries_tag(child.id(), "me").unwrap());
        assert!(carries_tag(grandchild, "me").unwrap());
        assert!(!carries_tag(grandchild, "somebody else").unwrap());
        assert!(!carries_tag(std::process::id(), "me").unwrap());

        let pid = rustix::process::Pid::from_raw(grandchild as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(carries_tag(child.id(), "me").is_err());
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let error = descends_from(child.id(), std::process::id()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
