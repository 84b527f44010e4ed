//! The bridge: an editor's stdin and stdout on one side, the daemon's socket on the other.
//!
//! Run by `acpd acp`, one for each editor. Two plain threads copy, one each way, so that neither side can hold up the
//! other; what they share is the link to the daemon and a memory of what is open. The bridge passes messages on and reads
//! no more of them than `wire::envelope` shows. In every failure stdout carries protocol messages only: what goes wrong is
//! told to the editor as the answer to its requests.
//!
//! If the daemon goes away, the bridge stays: it brings a daemon back, says again who its editor is, resumes its sessions
//! after the last event that the editor got, and what was pending is answered, by the daemon's log where that knows the
//! answer. A daemon that has said goodbye was told to leave, and is brought back by the editor's next request only.
//!
//! It ends when stdin does. Requests that were sent by then are given a moment to be answered, for people and programs
//! that pipe a few lines in; the connection is not half-closed meanwhile, since the daemon detaches at end of file and
//! would owe nothing any more. A turn that takes longer goes on in the daemon without us.

mod daemon_link;
mod editor_output;
mod recovery;
mod shared;
mod state;

use std::io::{self, Read};
use std::path::Component;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use wire::absolute_paths::made_absolute;
use wire::batch::Batch;
use wire::frame::{Decoder, Framing, encode};
use wire::rpc::{self, Id, RpcError, answered, owed_answer};

use self::daemon_link::{Inbox, Link};
use self::editor_output::EditorOutput;
use self::recovery::Pace;
use self::shared::{Line, Route};
use self::state::{Return, Verdict};
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
    let name = name();
    let bridge =
        Arc::new(Bridge { line: Line::new(&name), editor: EditorOutput::new()?, places: places.clone(), name });
    let copier = bridge.clone();
    let copy = move || copier.copy_to_editor();
    thread::Builder::new().name("to editor".to_owned()).spawn(copy).context("cannot start a thread")?;
    let ended = bridge.copy_to_daemon();
    bridge.line.wait_until_quiet(Instant::now() + LINGER);
    ended
}

/// Stays the same over all connections of this bridge, so that the daemon knows it again.
fn name() -> String {
    uuid::Uuid::now_v7().to_string()
}

struct Bridge {
    line: Line,
    editor: EditorOutput,
    places: Places,
    name: String,
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
                self.editor.set_framing(decoder.framing());
                match frame {
                    Ok(frame) => self.pass_on_all(frame),
                    Err(error) => {
                        let said = RpcError::invalid_request(error.to_string(), error.advice());
                        self.editor.send(rpc::failure(&Id::null(), &said));
                        if error.is_fatal() {
                            bail!("the editor's messages cannot be told apart any more: {error}");
                        }
                    }
                }
            }
            if read == 0 {
                return Ok(());
            }
            drop_big_buffer(decoder.buffer());
        }
    }

    /// One frame of the editor: a message, or several in a batch.
    fn pass_on_all(&self, frame: Bytes) {
        let Some(batch) = Batch::of(&frame) else { return self.pass_on_from_here(frame) };
        for message in batch {
            // The daemon would take a list for a batch of its own and answer its entries, whose ids nobody noted here. It
            // gets something else that is no message, and refuses that in its turn.
            let is_list = message.trim_ascii_start().starts_with(b"[");
            self.pass_on_from_here(if is_list { Bytes::from_static(b"0") } else { message });
        }
    }

    /// The daemon does not know in which folder the editor started us, which is what relative paths are about.
    fn pass_on_from_here(&self, message: Bytes) {
        self.pass_on(&made_absolute(&message, absolute).unwrap_or(message));
    }

    /// One message of the editor: to the daemon, or answered here if there is none.
    fn pass_on(&self, frame: &Bytes) {
        match self.line.hear_editor(frame) {
            Route::Send(link) => link.send(&encode(Framing::Lines, frame)),
            Route::Instead(link, message) => link.send(&encode(Framing::Lines, &message)),
            Route::Nowhere => {}
            Route::Refuse(error) => {
                if let Some(id) = owed_answer(frame) {
                    self.editor.send(rpc::failure(&id, &error));
                }
            }
            Route::TooLong { limit } => self.refuse_long(frame, limit),
        }
    }

    /// A request is refused here. An answer becomes one that says why it is missing, since a tool waits for it.
    fn refuse_long(&self, frame: &Bytes, limit: usize) {
        let error = recovery::too_long(frame.len(), limit);
        if let Some(id) = owed_answer(frame) {
            self.editor.send(rpc::failure(&id, &error));
        } else if let Some(id) = answered(frame) {
            let instead = Bytes::from(rpc::failure(&id, &error));
            if instead.len() <= limit {
                self.pass_on(&instead);
            }
        }
    }

    /// Reads from the daemon, and brings it back whenever it has gone.
    fn copy_to_editor(self: &Arc<Self>) {
        let mut pace = Pace::default();
        loop {
            if let Some(inbox) = self.connect() {
                self.copy(inbox);
                self.after_cut(&mut pace);
            }
        }
    }

    fn copy(self: &Arc<Self>, mut inbox: Inbox) {
        loop {
            match inbox.receive(self.line.deadline()) {
                Ok(Some(frames)) if frames.is_empty() => return,
                Ok(Some(frames)) => self.deliver(frames),
                Ok(None) => self.refuse(self.line.give_up_resuming(), &recovery::too_late()),
                Err(_) => return,
            }
        }
    }

    fn deliver(self: &Arc<Self>, mut frames: Vec<Bytes>) {
        let mut returns = Vec::new();
        frames.retain(|frame| match self.line.our_answer(frame) {
            Some(back) => {
                returns.push(back);
                false
            }
            None => self.line.hear_daemon(frame) == Verdict::Pass,
        });
        if !frames.is_empty() {
            self.editor.deliver(&frames);
        }
        for (Return { lost, why, send }, link) in returns {
            self.refuse(lost, &why);
            if let Some(link) = link {
                self.send_on(link, send);
            }
        }
        self.line.note_delivery();
    }

    /// Sends what has waited, beside the reading: the daemon may not read before we do.
    fn send_on(self: &Arc<Self>, link: Link, frames: Vec<Bytes>) {
        let bridge = self.clone();
        let send = Arc::new(move || {
            frames.iter().for_each(|frame| link.send(&encode(Framing::Lines, frame)));
            bridge.line.sent();
        });
        let beside = send.clone();
        if thread::Builder::new().name("to daemon".to_owned()).spawn(move || beside()).is_err() {
            send();
        }
    }

    fn refuse(&self, ids: Vec<Id>, error: &RpcError) {
        for id in ids {
            self.editor.send(rpc::failure(&id, error));
        }
    }
}

/// A path from the folder of this process. None if that has no name that JSON can hold.
fn absolute(path: &str) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    // Only the file system knows where `..` leads from a symbolic link.
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    let path = if leads_up { path.canonicalize().unwrap_or(path) } else { path };
    path.into_os_string().into_string().ok()
}

fn drop_big_buffer(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BUFFER {
        *buffer = BytesMut::new();
    }
}
