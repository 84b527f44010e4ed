//! Hides the environment of a long-running program from other processes, and starts the small
//! program of the bridge in its place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bridge::deadline;
use bridge::environment::{FLAG, replace_program};
use bridge::program::Arguments;

pub use bridge::environment::{take_over, variable};

use crate::launch;

/// The file name of the bridge's program, which is installed beside acpd.
const BRIDGE: &str = "acpd-bridge";

/// Executes this program again without the variables that other processes should not see. Returns
/// if there are none, or if that fails: the program works in either case.
pub fn conceal() {
    if std::env::vars_os().all(|(name, value)| is_harmless(&name, &value)) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.arg(FLAG).args(arguments);
    let _ = replace_program(command, &[], is_harmless);
}

/// Executes the bridge's program in place of this one, which is much larger. Returns if it is not
/// installed: this program can be the bridge itself.
pub fn become_bridge(socket: Option<&Path>, agent: Option<&str>) {
    let Ok(program) = launch::own_program() else { return };
    let bridge = program.with_file_name(BRIDGE);
    let arguments = Arguments { socket: socket.map(Path::to_owned), agent: agent.map(str::to_owned), program };
    let mut command = Command::new(bridge);
    command.arg0("acpd").arg("acp").arg(FLAG).args(arguments.to_list());
    let _ = replace_program(command, &launch::BRIDGE_ALLOCATOR, is_harmless);
}

/// Whether other processes may see a variable that acpd needs: paths, the terminal, the tag of the
/// agent's commands, and a proxy without a password.
fn is_harmless(name: &OsStr, value: &OsStr) -> bool {
    const NAMES: [&str; 11] = [
        "PATH",
        "TMPDIR",
        "TERM",
        "COLORTERM",
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "RUST_BACKTRACE",
        "ACPD_SOCKET",
        deadline::VARIABLE,
        process::TAG_VARIABLE,
    ];
    let Some(name) = name.to_str() else { return false };
    let has_password = value.as_bytes().contains(&b'@');
    launch::is_of_the_user(name) || NAMES.contains(&name) || (network::is_network_variable(name) && !has_password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_concealed_and_the_variables_that_find_the_daemon_are_not() {
        let is_shown = |name: &str, value: &str| is_harmless(name.as_ref(), value.as_ref());
        for name in ["HOME", "ACPD_SOCKET", "ACPD_TOOL", "PATH", "LC_ALL", "TERM"] {
            assert!(is_shown(name, "x"), "{name}");
        }
        assert!(is_shown(&format!("{}RUNTIME_DIR", crate::paths::XDG), "x"));
        for name in ["ANTHROPIC_API_KEY", "MY_SECRET", "ACPD_TOKEN", "AWS_SESSION_TOKEN", "ACPD__HTTP__LISTEN"] {
            assert!(!is_shown(name, "x"), "{name}");
        }
        assert!(is_shown("HTTPS_PROXY", "http://proxy:1"));
        assert!(!is_shown("HTTPS_PROXY", "http://me:hush@proxy:1"));
    }
}
