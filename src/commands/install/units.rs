//! The files of the units: their text for this program, and whether an existing file may be
//! replaced.
//!
//! The first line of a written file carries a checksum. A file with a matching checksum has not
//! been changed since.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;

use crate::paths::Paths;

const SOCKET: &str = include_str!("../../../systemd/acpd.socket");
const SERVICE: &str = include_str!("../../../systemd/acpd.service");
const HARDENED: &str = include_str!("../../../systemd/hardened.conf");

/// The start of the first line, before the checksum.
const MARK: &str = "# Written by `acpd install`, checksum ";

pub(super) struct Unit {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The arguments for `systemctl` before the unit is removed; None for a drop-in.
    pub(super) stop: Option<&'static [&'static str]>,
}

/// What exists at a unit's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Exactly the text that would be written.
    Same,
    /// Written by acpd for another version or path, and not changed since.
    Ours,
    /// Written by someone else, or changed since acpd wrote it.
    Changed,
}

/// The units of this installation, the drop-in last.
pub(super) struct Units {
    pub(super) socket: Unit,
    pub(super) service: Unit,
    pub(super) hardened: Unit,
}

impl Units {
    pub(super) fn of(places: &Paths, program: &Path) -> Self {
        let folder = places.of_configuration("systemd/user");
        let mut command = quoted(program);
        let mut socket = SOCKET.to_owned();
        if !places.has_usual_socket() {
            socket = socket.replace("%t/acpd/acpd.sock", &specified(&places.socket.to_string_lossy()));
            command = format!("{command} --socket {}", quoted(&places.socket));
        }
        let service = SERVICE.replace("ExecStart=%h/.cargo/bin/acpd ", &format!("ExecStart={command} "));
        let unit = |name: &str, text: &str, stop| Unit { path: folder.join(name), text: marked(text), stop };
        Self {
            socket: unit("acpd.socket", &socket, Some(&["disable", "--now", "acpd.socket"])),
            service: unit("acpd.service", &service, Some(&["disable", "--now", "acpd.service"])),
            hardened: unit("acpd.service.d/hardened.conf", HARDENED, None),
        }
    }

    pub(super) fn all(&self) -> [&Unit; 3] {
        [&self.socket, &self.service, &self.hardened]
    }
}

impl Unit {
    pub(super) fn look(&self) -> anyhow::Result<Found> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link was made by the user, too.
                let is_link = fs::symlink_metadata(&self.path).is_ok();
                return Ok(if is_link { Found::Changed } else { Found::Nothing });
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        };
        Ok(if text == self.text {
            Found::Same
        } else if is_unchanged(&text) {
            Found::Ours
        } else {
            Found::Changed
        })
    }
}

fn marked(text: &str) -> String {
    format!("{MARK}{:016x}\n{text}", checksum(text))
}

fn is_unchanged(text: &str) -> bool {
    let Some((sum, rest)) = text.strip_prefix(MARK).and_then(|text| text.split_once('\n')) else { return false };
    u64::from_str_radix(sum, 16) == Ok(checksum(rest))
}

/// Computes FNV-1a, which detects accidental changes but not malicious ones.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Quotes a path as one word of a command line in a unit.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@".contains(letter);
    if path.chars().all(plain) {
        return path.into_owned();
    }
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
    format!("\"{}\"", specified(&escaped))
}

/// Escapes percent signs, which would begin a specifier.
fn specified(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_writes_are_distinguished_from_later_changes() {
        let text = marked("[Unit]\nDescription=x\n");
        assert!(is_unchanged(&text));
        assert!(!is_unchanged(&text.replace("=x", "=y")));
        assert!(!is_unchanged("[Unit]\n"));
    }

    #[test]
    fn an_unusual_path_is_one_word() {
        assert_eq!(quoted(Path::new("/home/you/.cargo/bin/acpd")), "/home/you/.cargo/bin/acpd");
        assert_eq!(quoted(Path::new("/a b/$c/100%/\"d\"")), r#""/a b/$$c/100%%/\"d\"""#);
    }

    #[test]
    fn the_units_contain_the_lines_that_are_replaced() {
        assert!(SOCKET.contains("ListenStream=%t/acpd/acpd.sock\n"));
        assert!(SERVICE.contains("\nExecStart=%h/.cargo/bin/acpd serve\n"));
    }
}
