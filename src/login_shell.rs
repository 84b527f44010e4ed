//! The environment of the user's login shell, which an editor that was started from a desktop does not have.
//!
//! Asked once by the daemon, in the background, with a deadline: a shell that waits for something is ended and does
//! without. Nobody waits for it.

use std::process::Stdio;
use std::time::Duration;

use domain::Environment;
use tokio::process::Command;
use uuid::Uuid;

use crate::paths::{Account, Places};

/// Where programs are looked for before the login shell has said better.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const DEADLINE: Duration = Duration::from_secs(10);

/// None if the shell fails, says nothing usable, or takes too long.
pub async fn environment(places: &Places) -> Option<Environment> {
    let account = Account::own()?;
    let marker = Uuid::now_v7().to_string();
    let script = format!("printf '%s' {marker}; env -0; printf '%s' {marker}");
    let mut command = Command::new(&account.shell);
    command
        .args(["-ilc", &script])
        .env_clear()
        .env("HOME", &places.home)
        .env("USER", &account.name)
        .env("LOGNAME", &account.name)
        .env("SHELL", &account.shell)
        .env("TERM", "dumb")
        .env("PATH", PATH)
        .current_dir(&places.home)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, command.output()).await.ok()?.ok()?;
    read(&String::from_utf8_lossy(&output.stdout), &marker)
}

/// What stands between the markers; start-up files may print anything around them.
fn read(output: &str, marker: &str) -> Option<Environment> {
    let (_, rest) = output.split_once(marker)?;
    let (listed, _) = rest.split_once(marker)?;
    let variables = listed.split('\0').filter_map(|line| line.split_once('='));
    // What the shell sets for itself says nothing about its user.
    let variables = variables.filter(|(name, _)| !["_", "SHLVL", "PWD", "OLDPWD", "TERM"].contains(name));
    Some(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_counts() {
        let said = "welcome!\nMARKPATH=/bin\0EDITOR=vi\nm\0SHLVL=2\0nonsense\0MARKbye";
        let read = read(said, "MARK").unwrap();
        let read: Vec<_> = read.iter().collect();
        assert_eq!(read, [("EDITOR", "vi\nm"), ("PATH", "/bin")]);
    }

    #[test]
    fn a_shell_that_says_only_half_of_it_said_nothing() {
        assert_eq!(read("MARKPATH=/bin\0", "MARK"), None);
        assert_eq!(read("", "MARK"), None);
    }
}
