//! Reads the environment of the user's login shell, which an editor that was started from a desktop
//! does not have.
//!
//! The daemon runs the shell once, in the background, with a deadline; a shell that does not finish
//! is killed and ignored. Like a tool's command, it runs under the helper: without a terminal, on
//! which an interactive shell would be stopped, and with the guarantee that the shell and its
//! children end at the deadline or with a killed daemon.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use domain::Environment;
use process::{CommandSpec, RunningCommand};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use uuid::Uuid;

use crate::launch::INITIAL_PATH;
use crate::paths::{Paths, UserAccount};

const DEADLINE: Duration = Duration::from_secs(10);

/// The longest output that is read from the shell; no environment is longer.
const LIMIT: usize = 8 << 20;

/// Variables that belong to the shell process and not to its user.
const OWN: [&str; 6] = ["_", "SHLVL", "PWD", "OLDPWD", "TERM", "ACPD_TOOL"];

/// Returns the shell's environment, or None if the shell fails, prints nothing usable, or takes too
/// long. `runner` is the program whose `__run` subcommand is the helper.
pub async fn environment(paths: &Paths, runner: PathBuf) -> Option<Environment> {
    let account = UserAccount::own()?;
    let marker = Uuid::now_v7().to_string();
    let script = format!("printf '%s' {marker}; env -0; printf '%s' {marker}");
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let (name, shell) = (text(&account.name), text(account.shell.as_os_str()));
    let variables = [
        ("HOME", text(paths.home.as_os_str())),
        ("USER", name.clone()),
        ("LOGNAME", name),
        ("SHELL", shell.clone()),
        ("TERM", "dumb".to_owned()),
        ("PATH", INITIAL_PATH.to_owned()),
    ];
    let command = CommandSpec {
        runner,
        // The shell's error messages must not appear between the markers.
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), r#"exec "$0" -ilc "$1" 2>/dev/null"#.to_owned(), shell, script],
        environment: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        folder: paths.home.clone(),
        sandbox: None,
        shield: Vec::new(),
        process_limit: None,
        input: None,
    };
    let RunningCommand { mut process, output } = command.start().await.ok()?;
    let printed = tokio::time::timeout(DEADLINE, read_output(output, &marker)).await;
    process.end();
    tokio::spawn(async move { process.ended().await });
    read(&printed.ok()?, &marker)
}

/// Reads the shell's output up to the second marker, or until the shell and its children have
/// ended.
async fn read_output(mut output: pipe::Receiver, marker: &str) -> String {
    let mut printed = Vec::new();
    while printed.len() < LIMIT && matches!(output.read_buf(&mut printed).await, Ok(length) if length > 0) {
        let end = &printed[printed.len().saturating_sub(marker.len())..];
        if end == marker.as_bytes() && printed.len() > 2 * marker.len() {
            break;
        }
    }
    String::from_utf8_lossy(&printed).into_owned()
}

/// Parses the text between the markers. Start-up files may print anything around them.
fn read(output: &str, marker: &str) -> Option<Environment> {
    let (_, rest) = output.split_once(marker)?;
    let (listed, _) = rest.split_once(marker)?;
    let variables = listed.split('\0').filter_map(|line| line.split_once('='));
    let variables = variables.filter(|(name, _)| !OWN.contains(name));
    Some(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_output_between_the_markers_is_parsed() {
        let said = "welcome!\nMARKPATH=/bin\0EDITOR=vi\nm\0SHLVL=2\0nonsense\0MARKbye";
        let read = read(said, "MARK").unwrap();
        let read: Vec<_> = read.iter().collect();
        assert_eq!(read, [("EDITOR", "vi\nm"), ("PATH", "/bin")]);
    }

    #[test]
    fn an_incomplete_shell_environment_is_not_used() {
        assert_eq!(read("MARKPATH=/bin\0", "MARK"), None);
        assert_eq!(read("", "MARK"), None);
    }
}
