//! How long a daemon may take to answer, and the error for one that does not, with its process id
//! and state.

use std::fmt;
use std::os::fd::AsFd;
use std::time::Duration;

/// The variable that sets another deadline in seconds, for tests and for very slow machines.
pub const VARIABLE: &str = "ACPD_TIMEOUT";

/// The default deadline for an answer.
pub const DEFAULT: Duration = Duration::from_secs(30);

/// Returns `usual`, or the deadline that the environment sets.
pub fn timeout(usual: Duration) -> Duration {
    let given = std::env::var(VARIABLE).ok().and_then(|text| text.trim().parse::<f64>().ok());
    given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(usual)
}

/// Returns the process id of the process that listens on the socket, if the system reports it.
pub fn listener(socket: impl AsFd) -> Option<u32> {
    system::peer_process(socket)
}

/// The daemon did not answer in time.
#[derive(Debug)]
pub struct NoAnswer {
    pub pid: Option<u32>,
    pub waited: Duration,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.waited.as_secs_f64();
        match self.pid {
            Some(pid) => write!(f, "{} does not answer within {seconds} seconds", ProcessName(pid))?,
            None => write!(f, "the daemon does not answer within {seconds} seconds")?,
        }
        match self.pid {
            Some(pid) if system::is_suspended(pid) => write!(f, ": it is stopped; `kill -CONT {pid}` resumes it"),
            Some(_) | None => Ok(()),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Displays a process by its name and process id.
struct ProcessName(u32);

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(pid) = self;
        match system::process_name(*pid) {
            Some(name) if name == "acpd" => write!(f, "the daemon (process {pid})"),
            Some(name) => write!(f, "the program that listens on the socket ({name}, process {pid})"),
            None => write!(f, "the program that listens on the socket (process {pid})"),
        }
    }
}
