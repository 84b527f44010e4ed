//! Checks what this machine and this login provide: the kernel's sandbox, the login shell, systemd,
//! and the program itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::Environment;
use process::LandlockSupport;

use super::finding::Finding;
use crate::assemble::runner;
use crate::commands::systemctl;
use crate::daemon::login_shell;
use crate::launch;
use crate::paths::{Paths, UserAccount};

pub(super) fn program(path: Option<&str>) -> Finding {
    let version = env!("CARGO_PKG_VERSION");
    let Ok(own) = launch::own_program() else {
        return Finding::fail("program", "cannot find its own path", "run acpd by its full path");
    };
    let says = format!("{} {version}", own.display());
    match which("acpd", path) {
        Some(found) if same(&found, &own) => Finding::ok("program", says),
        Some(found) => {
            let says = format!("{says}; but `acpd` on your PATH is {}", found.display());
            Finding::warn("program", says, "remove one of the two, or give editors the full path (acpd setup does)")
        }
        None => Finding::ok("program", format!("{says} (not on your PATH)")),
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Returns the first program of this name in the folders of a PATH.
pub(super) fn which(name: &str, path: Option<&str>) -> Option<PathBuf> {
    if name.contains('/') {
        return is_program(Path::new(name)).then(|| name.into());
    }
    let folders = path.unwrap_or_default().split(':').filter(|folder| !folder.is_empty());
    folders.map(|folder| Path::new(folder).join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

pub(super) fn landlock() -> Finding {
    let advice = "the mode `sandbox` does not work here, all others do; it needs Linux 6.2 or newer with Landlock";
    match process::landlock_support() {
        LandlockSupport::Enough(version) => {
            Finding::ok("landlock", format!("version {version}; the mode `sandbox` works"))
        }
        LandlockSupport::TooOld(version) => Finding::warn("landlock", format!("version {version} is too old"), advice),
        LandlockSupport::SwitchedOff => Finding::warn("landlock", "the kernel has it switched off", advice),
        LandlockSupport::Missing => Finding::warn("landlock", "the kernel does not have it", advice),
    }
}

/// The output of the login shell, and how long it took.
#[derive(Clone)]
pub(super) struct ShellAnswer {
    pub(super) environment: Option<Arc<Environment>>,
    took: Duration,
}

pub(super) async fn ask_login_shell(places: &Paths) -> ShellAnswer {
    let began = Instant::now();
    let environment = login_shell::environment(places, runner()).await.map(Arc::new);
    ShellAnswer { environment, took: began.elapsed() }
}

pub(super) fn login_shell(answer: &ShellAnswer) -> Finding {
    let shell = UserAccount::own().map_or_else(|| "none".to_owned(), |account| account.shell.display().to_string());
    match &answer.environment {
        Some(variables) => {
            let (count, took) = (variables.iter().count(), answer.took.as_secs_f32());
            Finding::ok("shell", format!("{shell} reported {count} variables in {took:.1} s"))
        }
        None => {
            let says = format!("{shell} did not report its environment (asked with -ilc)");
            let advice = "tools lack the variables that your start-up files set; check them for a command that waits for input or exits";
            Finding::warn("shell", says, advice)
        }
    }
}

/// The state of systemd with respect to the daemon.
pub(super) enum Systemd {
    /// There is no user manager, for this reason.
    Absent(String),
    NotInstalled,
    Installed {
        socket: String,
        enabled: String,
        service: String,
        command: String,
    },
}

impl Systemd {
    pub(super) async fn look(places: &Paths) -> Self {
        if let Some(why) = systemctl::absence().await {
            return Self::Absent(why);
        }
        if !places.of_configuration("systemd/user/acpd.socket").exists() {
            return Self::NotInstalled;
        }
        Self::Installed {
            socket: systemctl::property("acpd.socket", "ActiveState").await,
            enabled: systemctl::property("acpd.socket", "UnitFileState").await,
            service: systemctl::property("acpd.service", "ActiveState").await,
            command: systemctl::property("acpd.service", "ExecStart").await,
        }
    }

    /// Whether systemd listens on the daemon's behalf.
    pub(super) fn is_listening(&self) -> bool {
        matches!(self, Self::Installed { socket, .. } if socket == "active")
    }

    /// Returns the finding about systemd. `obstacle` is the check that prevents a daemon from
    /// starting.
    pub(super) fn finding(&self, obstacle: Option<&str>) -> Finding {
        let (socket, enabled, service, command) = match self {
            Self::Absent(why) => {
                let says = format!("not for users here ({why}); `acpd acp` starts the daemon itself");
                return Finding::ok("systemd", says);
            }
            Self::NotInstalled => {
                let says = "acpd is not installed; `acpd acp` starts the daemon itself";
                return Finding::ok("systemd", format!("{says} (`acpd install` would let systemd do it)"));
            }
            Self::Installed { socket, enabled, service, command } => (socket, enabled, service, command),
        };
        let says = format!("acpd.socket is {enabled} and {socket}, acpd.service is {service}");
        let program = launch::own_program().map(|program| program.display().to_string()).unwrap_or_default();
        let again = "systemctl --user reset-failed acpd.socket acpd.service; systemctl --user start acpd.socket";
        if let Some(check) = obstacle.filter(|_| socket != "active" || service == "failed") {
            Finding::warn("systemd", says, format!("no daemon can start: fix `{check}` first, then: {again}"))
        } else if service == "failed" || socket == "failed" {
            Finding::fail("systemd", says, format!("see why: journalctl --user -u acpd.service; then: {again}"))
        } else if socket != "active" {
            Finding::warn("systemd", says, "systemctl --user enable --now acpd.socket")
        } else if !command.contains(&format!("path={program} ")) {
            Finding::warn("systemd", format!("{says}, but starts a different acpd program"), "acpd install")
        } else {
            Finding::ok("systemd", says)
        }
    }
}
