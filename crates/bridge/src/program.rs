//! The small program `acpd-bridge`: its arguments and its exit status.
//!
//! `acpd acp` replaces itself with it, with arguments that are already checked and an environment
//! that follows over a socket.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::environment;
use crate::paths::Paths;

/// The arguments that acpd passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    pub socket: Option<PathBuf>,
    /// The agent that answers the editor's sessions.
    pub agent: Option<String>,
    /// The path of acpd, which starts a daemon.
    pub program: PathBuf,
}

impl Arguments {
    /// Returns the arguments as `read` expects them.
    pub fn to_list(&self) -> Vec<OsString> {
        let mut list = vec!["--program".into(), self.program.clone().into_os_string()];
        if let Some(socket) = &self.socket {
            list.extend(["--socket".into(), socket.clone().into_os_string()]);
        }
        if let Some(agent) = &self.agent {
            list.extend(["--agent".into(), agent.into()]);
        }
        list
    }

    /// Reads the arguments after `acp` and the flag of the environment.
    fn read(list: impl IntoIterator<Item = OsString>) -> anyhow::Result<Self> {
        let mut list = list.into_iter();
        let (mut socket, mut agent, mut program) = (None, None, None);
        while let Some(name) = list.next() {
            let value = list.next().with_context(|| format!("{} has no value", name.display()))?;
            match name.to_str() {
                Some("--program") => program = Some(PathBuf::from(value)),
                Some("--socket") => socket = Some(PathBuf::from(value)),
                Some("--agent") => {
                    agent = Some(value.into_string().map_err(|_| anyhow::anyhow!("--agent is not Unicode"))?);
                }
                _ => bail!("unknown argument {}", name.display()),
            }
        }
        let program = program.context("--program is missing")?;
        Ok(Self { socket, agent, program })
    }
}

/// Runs the bridge with the arguments of this process.
pub fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The editor shows or keeps this text. It may quote a path or the daemon's own words.
            eprintln!("acpd: {}", domain::escape::text(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn run(mut list: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let opening = [list.next(), list.next()];
    if opening != [Some("acp".into()), Some(environment::FLAG.into())] {
        bail!("this program is a part of acpd; run `acpd acp` instead");
    }
    let arguments = Arguments::read(list)?;
    environment::take_over()?;
    let paths = Paths::find(arguments.socket.as_deref())?;
    crate::run(&paths, arguments.agent, arguments.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_arrive_as_they_were_passed_on() {
        let plain = Arguments { socket: None, agent: None, program: "/usr/bin/acpd".into() };
        let full = Arguments { socket: Some("/s/--agent".into()), agent: Some("--socket".to_owned()), ..plain.clone() };
        for arguments in [plain, full] {
            assert_eq!(Arguments::read(arguments.to_list()).unwrap(), arguments);
        }
    }

    #[test]
    fn other_arguments_are_refused() {
        for (list, reason) in [
            (vec!["--program"], "--program has no value"),
            (vec!["--socket", "/s"], "--program is missing"),
            (vec!["--program", "/p", "--color", "never"], "unknown argument --color"),
        ] {
            let refused = Arguments::read(list.into_iter().map(OsString::from)).unwrap_err();
            assert_eq!(refused.to_string(), reason);
        }
        assert!(run(std::iter::empty()).unwrap_err().to_string().contains("run `acpd acp`"));
    }
}
