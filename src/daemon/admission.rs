//! Decides which processes may connect: those of this user that the daemon did not start itself.
//!
//! A command that the agent runs must not be able to answer its own permission question. Therefore
//! the daemon refuses its descendants, processes with the tag of its tools, and processes that it
//! cannot tell apart from these. The refusal is a JSON-RPC error, so the client can show the
//! reason. Connections are checked one at a time, because each check needs file descriptors, and
//! many checks at once could use them all up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use acpd_actors::{Peer, Runtime, Transport};
use interprocess::local_socket::traits::StreamCommon;
use interprocess::os::unix::uds_local_socket::tokio::Stream;
use rustix::io::Errno;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use wire::frame::{Framing, encode};
use wire::rpc::{self, Id, RpcError};

use super::ACCEPT_PAUSE;

/// How long a refused client may take to read the reason.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(1);

pub(super) struct Admission {
    runtime: Runtime,
    /// The name in the tag of this daemon's tools.
    owner: Arc<str>,
}

impl Admission {
    pub(super) fn new(runtime: Runtime, owner: String) -> Self {
        Self { runtime, owner: owner.into() }
    }

    pub(super) async fn admit(&self, stream: Stream) {
        let checked = match stream.peer_creds() {
            Ok(who) => self.check(who.euid(), who.pid()).await,
            Err(error) => Err(format!("cannot find out which process is connecting: {error}")),
        };
        let stream = UnixStream::from(stream);
        match checked {
            Ok(pid) => {
                let peer = Peer { transport: Transport::Socket, pid: Some(pid) };
                match stream.into_std() {
                    Ok(stream) => self.runtime.connect_with(|| Ok(UnixStream::from_std(stream)?.into_split()), peer),
                    Err(error) => tracing::warn!(%error, "cannot serve a connection"),
                }
            }
            Err(reason) => drop(actix::spawn(refuse(stream, reason))),
        }
    }

    /// Returns the peer's process id, or the reason why it may not connect.
    async fn check(&self, user: Option<u32>, pid: Option<i32>) -> Result<u32, String> {
        let pid = check_user(user, pid)?;
        loop {
            let owner = self.owner.clone();
            // The check reads several small files.
            let looked = tokio::task::spawn_blocking(move || is_a_tools(pid, &owner)).await;
            match looked.map_err(|_| "cannot inspect the connecting process")? {
                Ok(false) => return Ok(pid),
                Ok(true) => return Err("the agent's own commands may not connect to the daemon".to_owned()),
                // The client waits until another one disconnects, as after a failed accept.
                Err(error) if lacks_descriptors(&error) => tokio::time::sleep(ACCEPT_PAUSE).await,
                Err(error) => return Err(format!("cannot tell whether the agent started process {pid}: {error}")),
            }
        }
    }
}

fn is_a_tools(pid: u32, owner: &str) -> io::Result<bool> {
    Ok(process::descends_from(pid, std::process::id())? || process::carries_tag(pid, owner)?)
}

fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn check_user(user: Option<u32>, pid: Option<i32>) -> Result<u32, String> {
    let me = rustix::process::geteuid().as_raw();
    if user != Some(me) {
        return Err(format!("this daemon serves user {me} only"));
    }
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    let unseen = "the daemon cannot see the connecting process, which may run in another container, \
                  and cannot rule out that the agent started it";
    pid.ok_or_else(|| unseen.to_owned())
}

async fn refuse(mut stream: UnixStream, reason: String) {
    tracing::warn!(reason, "refused a connection");
    let error = RpcError::invalid_request("Connection refused", json!({ "reason": reason }));
    let line = encode(Framing::Lines, &rpc::failure(&Id::null(), &error));
    // A client that does not read in time does not receive the reason.
    let _ = tokio::time::timeout(REFUSAL_DEADLINE, stream.write_all(&line)).await;
}
