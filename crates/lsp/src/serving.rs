//! Runs one language server: carries out the checks that wait in its queue, and ends it when it
//! fails, is idle for too long, or is no longer wanted. The host starts it on the thread of all
//! servers.

use std::path::PathBuf;
use std::time::Duration;

use process::{CommandSpec, PipedCommand};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::server::{Checked, Server, Subject};

/// How long a server may take to shut down by itself.
const EXIT_DEADLINE: Duration = Duration::from_millis(500);

/// How much longer than the wait for its reports a check may take before the server counts as
/// stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);

const STUCK_REASON: &str = "it does not read what it is sent";

/// A check that waits for the server.
pub(crate) struct Check {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) wait: Duration,
    pub(crate) reply: oneshot::Sender<Result<Checked, String>>,
}

/// How long a server may take to start, and how long it may be idle.
pub(crate) struct Limits {
    pub(crate) start: Duration,
    pub(crate) idle: Duration,
}

/// The signals between a running server and the host.
pub(crate) struct Control {
    /// Set by the server once it has started.
    pub(crate) has_started: watch::Sender<bool>,
    /// Resolves when the host wants the server to end.
    pub(crate) stopped: oneshot::Receiver<()>,
}

/// Runs a server until it fails, is idle for too long, or is no longer wanted.
pub(crate) async fn serve(
    command: CommandSpec,
    folder: PathBuf,
    limits: Limits,
    Control { has_started, stopped }: Control,
    mut checks: mpsc::Receiver<Check>,
) {
    let failure = match command.start_piped().await {
        Err(error) => error.to_string(),
        Ok(PipedCommand { process, stdin, stdout, mut stderr }) => {
            // Standard error must be read, or a server that writes much of it blocks.
            let drain = tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
            let connection = Connection::new(stdout, stdin);
            let work = async {
                match timeout(limits.start, Server::start(connection, &folder)).await {
                    Ok(Ok(server)) => {
                        has_started.send_replace(true);
                        converse(server, limits.idle, &mut checks).await
                    }
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(_) => Some(format!("it did not start within {} seconds", limits.start.as_secs())),
                }
            };
            let failure = tokio::select! {
                failure = work => failure,
                Ok(()) = stopped => None,
            };
            process.close().await;
            drain.abort();
            let Some(failure) = failure else { return };
            failure
        }
    };
    checks.close();
    while let Some(check) = checks.recv().await {
        // The caller may be gone.
        let _ = check.reply.send(Err(failure.clone()));
    }
}

/// How long a server that reads may take for a check: each file is looked at before and after its
/// change.
pub(crate) fn longest_wait(wait: Duration, files: usize) -> Duration {
    wait.saturating_mul(u32::try_from(files).unwrap_or(u32::MAX).saturating_mul(2))
}

enum Next {
    Check(Check),
    Message(std::io::Result<serde_json::Value>),
}

/// Carries out the queued checks and handles messages in between. Returns the reason if the server
/// failed.
async fn converse<R, W>(mut server: Server<R, W>, idle: Duration, checks: &mut mpsc::Receiver<Check>) -> Option<String>
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    let mut quiet_since = tokio::time::Instant::now();
    loop {
        let next = tokio::select! {
            check = checks.recv() => check.map(Next::Check),
            message = server.next() => Some(Next::Message(message)),
            () = tokio::time::sleep_until(quiet_since + idle) => None,
        };
        let Check { subjects, wait, reply } = match next {
            Some(Next::Check(check)) => check,
            Some(Next::Message(Ok(message))) => match timeout(STUCK_AFTER, server.handle(&message)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => return Some(error.to_string()),
                Err(_) => return Some(STUCK_REASON.to_owned()),
            },
            Some(Next::Message(Err(error))) => return Some(error.to_string()),
            None => {
                let _ = timeout(EXIT_DEADLINE, server.stop()).await;
                return None;
            }
        };
        let longest = longest_wait(wait, subjects.len()).saturating_add(STUCK_AFTER);
        let checked = match timeout(longest, server.check(&subjects, wait)).await {
            Ok(Ok(checked)) => Ok(checked),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(STUCK_REASON.to_owned()),
        };
        let failure = checked.as_ref().err().cloned();
        // The caller may be gone.
        let _ = reply.send(checked);
        if failure.is_some() {
            return failure;
        }
        quiet_since = tokio::time::Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Plays a server that answers requests until its input ends. Returns the methods that it
    /// received.
    async fn play(stream: tokio::io::DuplexStream) -> Vec<String> {
        let (read, write) = tokio::io::split(stream);
        let mut there = Connection::new(read, write);
        let mut received = Vec::new();
        while let Ok(Some(message)) = there.next().await {
            received.push(message["method"].as_str().unwrap_or_default().to_owned());
            if !message["id"].is_null() {
                let answer = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": {"capabilities": {}}});
                there.send(&answer).await.unwrap();
            }
        }
        received
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_checks_is_asked_to_end() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (_checks, mut received) = mpsc::channel(1);
        let begun = tokio::time::Instant::now();
        let idle = Duration::from_secs(600);
        let host = async {
            let (read, write) = tokio::io::split(ours);
            let server = Server::start(Connection::new(read, write), Path::new("/p")).await.unwrap();
            let failure = converse(server, idle, &mut received).await;
            (failure, begun.elapsed() >= idle)
        };
        let (ended, methods) = tokio::join!(host, play(theirs));
        assert_eq!(ended, (None, true));
        assert_eq!(methods, ["initialize", "initialized", "shutdown", "exit"]);
    }
}
