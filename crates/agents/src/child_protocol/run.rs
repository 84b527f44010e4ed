//! Moves bytes between a child and its [`ChildProtocol`].

use domain::hosted::{AgentFailure, AgentReport};
use domain::json_values::{MAX_VALUES, count_values};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use wire::frame::{Decoder, FrameError};

use super::ChildProtocol;
use crate::link::SessionRequest;

/// The longest message of a child, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The most consecutive lines that are not messages. Some programs print something before they
/// speak the protocol.
const MAX_BAD_LINES: usize = 200;

/// The most messages and bytes that may wait for a child that does not read its input.
const WAITING: usize = 1024;
const WAITING_BYTES: usize = 64 << 20;

/// While more bytes than this wait for a child, no further results of its requests are queued.
const BACKLOG: usize = 1 << 20;

/// A child's standard input and output.
pub(crate) struct Pipes<R, W> {
    pub(crate) from_child: R,
    pub(crate) to_child: W,
}

/// Exchanges messages with a child until it fails. Returns None if the session closes the link
/// first.
pub(crate) async fn run(
    mut protocol: ChildProtocol,
    pipes: Pipes<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    requests: &mut mpsc::UnboundedReceiver<SessionRequest>,
    reports: &mpsc::Sender<AgentReport>,
) -> Option<AgentFailure> {
    let Pipes { mut from_child, mut to_child } = pipes;
    let mut decoder = Decoder::new(MAX_MESSAGE_BYTES);
    let mut nonsense = 0;
    let mut sending: Vec<u8> = Vec::new();
    let mut sent = 0;
    let mut carries_prompt = false;
    loop {
        if let Err(failure) = drain(&mut protocol, &mut decoder, &mut nonsense) {
            flush(&mut protocol, reports).await;
            return Some(failure);
        }
        if sent == sending.len() {
            sending.clear();
            sent = 0;
            protocol.turn.is_unsent &= !carries_prompt;
            carries_prompt = protocol.turn.is_unsent;
            while let Some(message) = protocol.outgoing.pop_front() {
                sending.extend_from_slice(&message);
                if !message.ends_with(b"\n") {
                    sending.push(b'\n');
                }
            }
        }
        let waiting: usize = protocol.outgoing.iter().map(Vec::len).sum();
        if protocol.outgoing.len() > WAITING || waiting > WAITING_BYTES {
            return Some(gone(&protocol, "does not read what it is sent"));
        }
        let has_room = waiting + sending.len() - sent < BACKLOG;
        let deadline = protocol.deadline.as_ref().map(|deadline| deadline.at);
        tokio::select! {
            permit = reports.reserve(), if !protocol.reports.is_empty() => {
                let Ok(permit) = permit else { return None };
                if let Some(report) = protocol.reports.pop_front() {
                    permit.send(report);
                }
            }
            written = to_child.write(&sending[sent..]), if sent < sending.len() => match written {
                Ok(length @ 1..) => sent += length,
                Ok(0) | Err(_) => return Some(unseen(&protocol, requests, "closed its input")),
            },
            read = from_child.read_buf(decoder.buffer()), if protocol.reports.is_empty() => match read {
                Ok(length @ 1..) => tracing::trace!(length, "read"),
                Ok(0) | Err(_) => return Some(unseen(&protocol, requests, "closed its output")),
            },
            request = requests.recv() => match request {
                Some(request) => protocol.handle_session_request(request),
                None => return None,
            },
            served = protocol.open.served.next(), if has_room && !protocol.open.served.is_empty() => {
                if let Some((id, result)) = served {
                    protocol.finish(&id, result);
                }
            }
            () = until(deadline), if deadline.is_some() => return Some(protocol.overdue()),
        }
    }
}

async fn until(deadline: Option<tokio::time::Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline).await;
    }
}

/// Handles the messages that have arrived, until `MAX_WAITING_REPORTS` reports wait.
fn drain(protocol: &mut ChildProtocol, decoder: &mut Decoder, nonsense: &mut usize) -> Result<(), AgentFailure> {
    while protocol.reports.len() < MAX_WAITING_REPORTS {
        let Some(frame) = decoder.next() else { break };
        let frame = checked(frame).map_err(|error| gone(protocol, &format!("broke the protocol: {error}")))?;
        match serde_json::from_slice::<Value>(&frame) {
            Ok(message @ Value::Object(_)) => {
                *nonsense = 0;
                protocol.take(message)?;
            }
            Ok(_) | Err(_) => {
                *nonsense += 1;
                if *nonsense > MAX_BAD_LINES {
                    return Err(gone(protocol, "writes only lines that are not messages"));
                }
            }
        }
    }
    Ok(())
}

/// Checks that a message of a child can be parsed in bounded memory. Returns the reason if not.
pub(crate) fn checked<F: AsRef<[u8]>>(frame: Result<F, FrameError>) -> Result<F, String> {
    let frame = frame.map_err(|error| error.to_string())?;
    if count_values(frame.as_ref(), MAX_VALUES) > MAX_VALUES {
        return Err(format!("a message has more than {MAX_VALUES} values"));
    }
    Ok(frame)
}

/// While this many reports wait, no further message is handled.
const MAX_WAITING_REPORTS: usize = 64;

/// Delivers the reports that came before a failure.
async fn flush(protocol: &mut ChildProtocol, reports: &mpsc::Sender<AgentReport>) {
    while let Some(report) = protocol.reports.pop_front() {
        if reports.send(report).await.is_err() {
            return;
        }
    }
}

/// Returns the failure of a child that closed a pipe, and whether it cannot have seen its prompt.
fn unseen(
    protocol: &ChildProtocol,
    requests: &mut mpsc::UnboundedReceiver<SessionRequest>,
    what: &str,
) -> AgentFailure {
    let mut prompt_unseen = protocol.turn.is_unsent;
    while let Ok(request) = requests.try_recv() {
        prompt_unseen |= matches!(request, SessionRequest::Prompt { .. });
    }
    AgentFailure { prompt_unseen, ..gone(protocol, what) }
}

fn gone(protocol: &ChildProtocol, what: &str) -> AgentFailure {
    AgentFailure::broken(format!("the agent `{}` {what}", protocol.launch.agent))
}
