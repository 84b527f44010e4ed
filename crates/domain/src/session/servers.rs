//! The MCP servers of a session: which ones it wants, and when they are connected. A running turn
//! keeps the servers with which it started.

use std::path::PathBuf;

use super::activity::Activity;
use super::effect::{Effect, ServerRequest};
use super::machine::SessionMachine;
use crate::mcp::McpServer;

#[derive(Default)]
pub(super) struct ServerChoice {
    /// The request for which the current servers were connected. None before they were connected,
    /// and after they were lost.
    current: Option<Connected>,
    /// The servers to connect at the next turn.
    next: Option<Vec<McpServer>>,
    /// The stored servers of a session that was restored from its log. They are connected with the
    /// first turn, or as soon as there is an environment: a client that only looks at a session
    /// starts no programs.
    kept: Option<Vec<McpServer>>,
}

#[derive(PartialEq)]
struct Connected {
    servers: Vec<McpServer>,
    cwd: PathBuf,
    extra_roots: Vec<PathBuf>,
    with_environment: bool,
}

impl SessionMachine {
    pub(super) fn set_servers(&mut self, wanted: Option<Vec<McpServer>>, kept: Vec<McpServer>) {
        if wanted.is_some() {
            self.servers.next = wanted;
        } else if self.servers.current.is_none() {
            self.servers.kept = Some(kept);
        }
        let nothing_runs = matches!(self.activity, Activity::Idle | Activity::Waiting(_));
        if nothing_runs && (self.servers.next.is_some() || self.clients.has_environment) {
            self.connect_servers();
        }
    }

    /// The servers for the child agent of a hosted session, which connects them itself.
    pub fn wanted_servers(&self) -> Vec<McpServer> {
        self.servers.next.as_ref().or(self.servers.kept.as_ref()).cloned().unwrap_or_default()
    }

    /// Connects the wanted servers, unless they are the current ones or a child agent connects
    /// them.
    pub(super) fn connect_servers(&mut self) {
        if self.is_hosted() {
            return;
        }
        let ServerChoice { current, next, kept } = &mut self.servers;
        let before = current.as_ref().map(|current| current.servers.clone());
        let kept = kept.take();
        let Some(servers) = next.take().or(before).or(kept) else { return };
        let extra_roots = self.wanted_roots().to_vec();
        let with_environment = self.clients.has_environment;
        let cwd = self.state.folders.cwd.clone();
        let wanted = Connected { servers, cwd, extra_roots, with_environment };
        if self.servers.current.as_ref() == Some(&wanted) {
            return;
        }
        let request = ServerRequest { servers: wanted.servers.clone(), extra_roots: wanted.extra_roots.clone() };
        self.servers.current = Some(wanted);
        self.effect(Effect::ConnectServers(request));
    }

    /// Connects the servers in the folder to which the session has moved, if they are connected.
    pub(super) fn move_servers(&mut self) {
        if self.servers.current.is_some() {
            self.connect_servers();
        }
    }

    /// Handles the loss of the servers. The next turn tries to connect them again.
    pub(super) fn lose_servers(&mut self, text: String) {
        let lost = self.servers.current.take().map(|current| current.servers);
        // A client may have named others meanwhile.
        self.servers.next = self.servers.next.take().or(lost);
        self.notice_passing(text);
    }
}
