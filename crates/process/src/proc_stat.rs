//! Reads /proc/PID/stat: the parent, group and session of a process.

use std::{fs, io};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// Whether it has ended and has not been reaped by its parent.
    pub is_dead: bool,
}

/// Reads the line of a process. Returns an error of kind `NotFound` if there is no such process.
pub(crate) fn of(pid: u32) -> io::Result<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("reading /proc/{pid}/stat: unknown format")))
}

/// Returns the ids of all processes that are visible to this one.
pub(crate) fn all_pids() -> io::Result<impl Iterator<Item = u32>> {
    Ok(fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

fn parse(line: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses. It may contain spaces and parentheses,
    // so the fields are counted from the last closing one.
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    Some(Stat { parent, group, session, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_forge_the_fields() {
        let line = "77 (a) R 1 1 1) S 42 76 75 0 -1";
        assert_eq!(parse(line), Some(Stat { parent: 42, group: 76, session: 75, is_dead: false }));
    }

    #[test]
    fn our_own_line_is_read() {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        assert_eq!(of(std::process::id()).unwrap().parent, parent);
        assert!(all_pids().unwrap().any(|pid| pid == std::process::id()));
    }
}
