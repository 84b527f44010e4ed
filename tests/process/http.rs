//! The HTTP transports over real sockets: raw bytes where they matter, and client libraries
//! elsewhere.

mod access_control;
mod limits;
mod monitoring;
mod raw_http;
mod resume;
mod same_transcript;
mod streamable;
mod transports;

use std::fs;

use crate::harness::{Daemon, Home, until};

/// A home with a daemon that listens for HTTP on a free port.
pub(crate) struct Web {
    pub(crate) home: Home,
    pub(crate) daemon: Daemon,
    pub(crate) port: u16,
    pub(crate) token: String,
}

impl Web {
    pub(crate) fn open() -> Self {
        Self::with(&[])
    }

    /// With more flags for the daemon.
    pub(crate) fn with(flags: &[&str]) -> Self {
        Self::start(Home::new(), flags)
    }

    pub(crate) fn configured(text: &str) -> Self {
        let home = Home::new();
        fs::create_dir_all(home.path().join("home/.config/acpd")).unwrap();
        fs::write(home.path().join("home/.config/acpd/config.toml"), text).unwrap();
        Self::start(home, &[])
    }

    fn start(home: Home, flags: &[&str]) -> Self {
        let daemon = home.start(home.acpd(&[&["serve", "--http", "127.0.0.1:0"], flags].concat()));
        let port = port(&home, 0);
        let token = fs::read_to_string(home.state().join("http.token")).unwrap().trim().to_owned();
        Self { home, daemon, port, token }
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

/// Returns the HTTP port from the daemon's log, after skipping this many earlier starts.
pub(crate) fn port(home: &Home, after: usize) -> u16 {
    until("the daemon to listen for HTTP", || {
        let log = home.log();
        let said = log.lines().filter(|line| line.contains("listening for HTTP")).nth(after)?;
        let address = said.split_once("address=")?.1.split(' ').next()?;
        address.rsplit_once(':')?.1.parse().ok()
    })
}
