//! The bridge: an editor's stdin and stdout on one side, the daemon's socket on the other.
//!
//! Run by `acpd acp`, one for each editor. Two plain threads copy, one each way, so that neither side can hold up the
//! other; the only thing they share is the table of requests that wait for an answer. It passes messages on and reads
//! no more of them than `wire::glance` shows. In every failure stdout carries protocol messages only: what goes wrong
//! is told to the editor as the answer to its requests.
//!
//! It ends when stdin does. Requests that were sent by then are given a moment to be answered, for people and programs
//! that pipe a few lines in; the connection is not half-closed meanwhile, since the daemon detaches at end of file and
//! would owe nothing any more. A turn that takes longer goes on in the daemon without us.

mod desk;
mod link;
mod table;

use std::io::{self, Read};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use serde_json::json;
use wire::frame::{Decoder, Framing, encode};
use wire::glance::glance;
use wire::rpc::{self, Id, RpcError};

use self::desk::Desk;
use self::link::{Inbox, Link};
use self::table::{Entered, Table};
use crate::paths::Places;

/// How long after the end of stdin answers are still waited for.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of one message from the editor, at most; the daemon's own limit may be lower.
const FRAME_LIMIT: usize = 64 << 20;

const READ_SIZE: usize = 64 << 10;

/// A buffer that a rare big message has grown beyond this is not kept.
const KEPT_BUFFER: usize = 256 << 10;

/// Copies until stdin ends. An error is the operator's: the editor has been told by then what concerns it.
pub fn run(places: &Places) -> anyhow::Result<()> {
    let desk = Desk::new()?;
    let (link, inbox) = match Link::open(places) {
        Ok((link, inbox)) => (Ok(link), Some(inbox)),
        Err(error) => (Err(error), None),
    };
    let bridge = Arc::new(Bridge { table: Table::new(link), desk });
    if let Some(inbox) = inbox {
        let bridge = bridge.clone();
        let copy = move || bridge.copy_to_editor(inbox);
        thread::Builder::new().name("to editor".to_owned()).spawn(copy).context("cannot start a thread")?;
    }
    let ended = bridge.copy_to_daemon();
    bridge.table.wait_until_empty(Instant::now() + LINGER);
    ended
}

struct Bridge {
    table: Table,
    desk: Desk,
}

impl Bridge {
    fn copy_to_daemon(&self) -> anyhow::Result<()> {
        let mut stdin = io::stdin().lock();
        let mut decoder = Decoder::new(FRAME_LIMIT);
        let mut piece = vec![0; READ_SIZE];
        loop {
            let read = match stdin.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.context("cannot read from the editor")?,
            };
            decoder.push(&piece[..read]);
            while let Some(frame) = if read > 0 { decoder.next() } else { decoder.finish() } {
                self.desk.speak(decoder.framing());
                match frame {
                    Ok(frame) => self.pass_on(&frame),
                    Err(error) => {
                        let error = RpcError::invalid_request(error.to_string());
                        self.desk.say(rpc::failure(&Id::null(), &error));
                        bail!("the editor's messages cannot be told apart any more: {}", error.message);
                    }
                }
            }
            if read == 0 {
                return Ok(());
            }
            drop_big_buffer(decoder.buffer());
        }
    }

    /// One message of the editor: to the daemon, or answered here if there is none.
    fn pass_on(&self, frame: &Bytes) {
        let owed = owed_answer(frame);
        match (self.table.enter(owed.as_ref()), owed) {
            (Entered::Send(link), _) => link.send(&encode(Framing::Lines, frame)),
            (Entered::Refuse(error), Some(id)) => self.desk.say(rpc::failure(&id, &error)),
            (Entered::Refuse(_), None) => {}
        }
    }

    fn copy_to_editor(&self, mut inbox: Inbox) {
        let ended = loop {
            match inbox.receive() {
                Ok(frames) if frames.is_empty() => break None,
                Ok(frames) => {
                    self.desk.deliver(&frames);
                    frames.iter().for_each(|frame| self.note_reply(frame));
                }
                Err(error) => break Some(error.to_string()),
            }
        };
        let reason = ended.unwrap_or_else(|| "it closed the connection".to_owned());
        let error = RpcError::internal("The daemon went away before it answered").with_data(json!({
            "retry": true,
            "reason": reason,
            "hint": "start the agent again in your editor; the conversation is kept",
        }));
        for id in self.table.disconnect(error.clone()) {
            self.desk.say(rpc::failure(&id, &error));
            self.table.answered(&id);
        }
    }

    fn note_reply(&self, frame: &Bytes) {
        let Some(seen) = glance(frame).filter(|seen| seen.is_reply) else { return };
        if let Some(id) = seen.id.and_then(|id| Id::from_raw(id).ok()) {
            self.table.answered(&id);
        }
    }
}

/// The id under which the daemon will answer this message, if it will: a request under its own, and what is no message,
/// or has an id that is none, under `null`.
fn owed_answer(frame: &[u8]) -> Option<Id> {
    let Some(seen) = glance(frame) else { return Some(Id::null()) };
    match (seen.method, seen.id) {
        (Some(_), Some(id)) => Some(Id::from_raw(id).unwrap_or_else(|_| Id::null())),
        (Some(_), None) => None,
        (None, _) if seen.is_reply => None,
        (None, _) => Some(Id::null()),
    }
}

fn drop_big_buffer(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BUFFER {
        *buffer = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_owed_to_requests_and_to_what_is_no_message() {
        let owed = |text: &str| owed_answer(text.as_bytes()).map(|id| id.raw().to_owned());
        assert_eq!(owed(r#"{"id":1.0,"method":"m"}"#).as_deref(), Some("1.0"));
        assert_eq!(owed(r#"{"id":{},"method":"m"}"#).as_deref(), Some("null"));
        assert_eq!(owed(r#"{"method":"m"}"#), None);
        assert_eq!(owed(r#"{"id":1,"result":{}}"#), None);
        assert_eq!(owed(r#"{"id":1}"#).as_deref(), Some("null"));
        assert_eq!(owed("[]").as_deref(), Some("null"));
        assert_eq!(owed(r#"{"id":1,"met"#).as_deref(), Some("null"));
    }
}
