//! The tag in the environment of everything that tools start: `ACPD_TOOL=START@OWNER`.
//!
//! START identifies one command, so that its processes can be found after its helper was killed.
//! OWNER identifies the daemon, which recognises its own commands by it when they connect, wherever
//! in the process tree they are, even after a restart. A command can remove the tag from what it
//! starts. The tag only stops accidents and simple tricks; the sandbox is the security boundary.

use std::{fs, io};

use domain::Millis;

pub const VARIABLE: &str = "ACPD_TOOL";

/// START of a command that has no helper yet, or runs in an editor's own terminal.
const NO_HELPER: &str = "none";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessTag {
    pub start: String,
    pub owner: String,
}

impl ProcessTag {
    pub(crate) fn of_owner(owner: &str) -> Self {
        Self { start: NO_HELPER.to_owned(), owner: owner.to_owned() }
    }

    /// Returns a tag with the same owner for one command. It also contains the time, because
    /// process ids are reused.
    pub(crate) fn started(value: Option<&String>, helper: u32) -> Self {
        let owner = value.map(|value| Self::read(value).owner).unwrap_or_default();
        let Millis(now) = Millis::now();
        Self { start: format!("{helper}-{now}"), owner }
    }

    pub(crate) fn value(&self) -> String {
        format!("{}@{}", self.start, self.owner)
    }

    fn read(value: &str) -> Self {
        let (start, owner) = value.split_once('@').unwrap_or((value, ""));
        Self { start: start.to_owned(), owner: owner.to_owned() }
    }

    /// Returns the tag with which a process was started. Fails if its environment cannot be read.
    pub(crate) fn of(pid: u32) -> io::Result<Option<Self>> {
        let environment = fs::read(format!("/proc/{pid}/environ"))?;
        let mut variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let value =
            variables.find_map(|variable| variable.strip_prefix(VARIABLE)?.strip_prefix('=').map(str::to_owned));
        Ok(value.map(|value| Self::read(&value)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_shows_the_tag_that_it_was_started_with() {
        let tag = ProcessTag { start: "7-1".to_owned(), owner: "/run/odd@place/acpd.sock".to_owned() };
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo; read wait"]).env(VARIABLE, tag.value());
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // A process does not show its environment until shortly after its start, so the test waits
        // for its first line.
        io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        assert_eq!(ProcessTag::of(child.id()).unwrap(), Some(tag));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ProcessTag::of(child.id()).is_err());
    }
}
