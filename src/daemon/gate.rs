//! Who may come in: processes of this user that the daemon has not started itself.
//!
//! One task a connection, off the accept loop. A command that the agent runs must not be able to answer its own
//! permission question, so descendants of the daemon are refused, what carries the mark of its tools, and whoever cannot
//! be told apart from those. The refusal is a JSON-RPC error, so that the client can say why.

use std::sync::Arc;
use std::time::Duration;

use acpd_actors::{House, Peer};
use interprocess::local_socket::traits::StreamCommon;
use interprocess::os::unix::uds_local_socket::tokio::Stream;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use wire::frame::{Framing, encode};
use wire::rpc::{self, Id, RpcError};

/// How long a client that is refused may take to read why.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Gate {
    house: House,
    /// Whose tools' mark it looks for.
    owner: Arc<str>,
}

impl Gate {
    pub(super) fn new(house: House, owner: String) -> Self {
        Self { house, owner: owner.into() }
    }

    pub(super) async fn admit(self, stream: Stream) {
        let checked = match stream.peer_creds() {
            // Looking at a process reads several small files.
            Ok(who) => tokio::task::spawn_blocking(move || check(who.euid(), who.pid(), &self.owner)).await,
            Err(error) => Ok(Err(format!("the system does not say who connects: {error}"))),
        };
        let stream = UnixStream::from(stream);
        match checked.unwrap_or_else(|_| Err("looking at the connecting process failed".to_owned())) {
            Ok(pid) => {
                let (reader, writer) = stream.into_split();
                self.house.connect(reader, writer, Peer { transport: "socket", pid: Some(pid) });
            }
            Err(reason) => refuse(stream, &reason).await,
        }
    }
}

/// The peer's process id, or why it may not come in.
fn check(user: Option<u32>, pid: Option<i32>, owner: &str) -> Result<u32, String> {
    let me = rustix::process::geteuid().as_raw();
    if user != Some(me) {
        return Err(format!("this daemon serves user {me} only"));
    }
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    let pid = pid.ok_or("the connecting process cannot be seen from here, so it may be one that the agent started")?;
    let is_a_tools = tools::descends_from(pid, std::process::id())
        .and_then(|descends| if descends { Ok(true) } else { tools::carries_mark(pid, owner) });
    match is_a_tools {
        Ok(false) => Ok(pid),
        Ok(true) => Err("the agent's own commands may not connect to the daemon".to_owned()),
        Err(error) => Err(format!("cannot tell whether the agent started process {pid}: {error}")),
    }
}

async fn refuse(mut stream: UnixStream, reason: &str) {
    tracing::warn!(reason, "refused a connection");
    let error = RpcError::invalid_request("Connection refused").with_data(json!({ "reason": reason }));
    let line = encode(Framing::Lines, &rpc::failure(&Id::null(), &error));
    // A client that does not read has chosen not to know.
    let _ = tokio::time::timeout(REFUSAL_DEADLINE, stream.write_all(&line)).await;
}
