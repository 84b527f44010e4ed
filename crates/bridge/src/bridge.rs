//! The bridge between an editor's stdin and stdout and the daemon's socket. `acpd acp` runs it, one
//! per editor.
//!
//! Two plain threads copy, one in each direction, so a side that does not read cannot block the
//! other. Both share the `machine`, which decides what happens to each frame; the threads deliver
//! frames to it and carry out its effects. The bridge reads only the envelope of a message. Stdout
//! carries protocol messages only, so failures are reported as errors in the answers to requests.
//!
//! If the daemon dies, the bridge stays. It starts a daemon, introduces its editor again and
//! resumes the editor's sessions after the last event that the editor received; pending requests
//! are answered by the session's log where that has the answer. A daemon that sent a goodbye was
//! stopped on purpose, so only the editor's next request starts another.
//!
//! The bridge ends when stdin ends. Before that it waits a moment for pending answers, for users
//! and programs that pipe in a few lines. It does not half-close the connection meanwhile, because
//! the daemon detaches at the end of its input. A turn that takes longer continues in the daemon.

mod answers;
mod connecting;
mod daemon_link;
mod editor_output;
mod errors;
mod machine;
mod shared;
mod state;

use std::io::{self, Read};
use std::path::{Component, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use wire::absolute_paths::made_absolute;
use wire::batch::Batch;
use wire::frame::{Decoder, Framing, encode};
use wire::rpc::{self, Id, RpcError};

use self::connecting::LossRate;
use self::daemon_link::{DaemonLink, Inbox};
use self::editor_output::EditorOutput;
use self::machine::{Effect, Input, Machine};
use self::shared::{Shared, StepOutcome};
use crate::paths::Paths;

/// How long the bridge waits for answers after the end of stdin.
const LAST_ANSWERS_WAIT: Duration = Duration::from_secs(1);

/// The longest message that the bridge accepts from the editor. The daemon's own limit may be
/// lower.
const FRAME_LIMIT: usize = 64 << 20;

const READ_SIZE: usize = 64 << 10;

/// The largest buffer that is kept for reuse after a large message.
const KEPT_BUFFER: usize = 256 << 10;

/// Copies until stdin ends. The caller prints an error to stderr; the editor has received its
/// answers by then.
pub fn run(paths: &Paths, agent: Option<String>, program: PathBuf) -> anyhow::Result<()> {
    let name = uuid::Uuid::now_v7().to_string();
    let shared = Shared::new(Machine::new(&name));
    let bridge = Arc::new(Bridge { shared, editor: EditorOutput::new()?, paths: paths.clone(), name, agent, program });
    let copier = bridge.clone();
    let copy = move || copier.copy_to_editor();
    thread::Builder::new().name("to editor".to_owned()).spawn(copy).context("cannot start a thread")?;
    let ended = bridge.copy_to_daemon();
    bridge.carry_out(bridge.shared.step(Input::EditorClosed));
    bridge.shared.wait_until_done(Instant::now() + LAST_ANSWERS_WAIT);
    ended
}

struct Bridge {
    shared: Shared,
    editor: EditorOutput,
    paths: Paths,
    /// The name of this bridge, the same for all its connections, by which the daemon recognises
    /// it.
    name: String,
    /// The agent that answers the editor's sessions, if the command line names one.
    agent: Option<String>,
    /// The program acpd, which starts a daemon.
    program: PathBuf,
}

impl Bridge {
    fn copy_to_daemon(self: &Arc<Self>) -> anyhow::Result<()> {
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
                    Ok(frame) => self.handle_frame(frame),
                    Err(error) => {
                        let refusal = RpcError::invalid_request(error.to_string(), error.advice());
                        self.editor.send(rpc::failure(&Id::null(), &refusal));
                        if error.is_fatal() {
                            bail!("cannot read further messages from the editor: {error}");
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

    /// Takes one frame of the editor: a message, or a batch of them.
    fn handle_frame(self: &Arc<Self>, frame: Bytes) {
        let Some(batch) = Batch::of(&frame) else { return self.handle_message(frame) };
        for message in batch {
            // The daemon would read a list as a batch and answer its entries, whose ids the bridge
            // does not know. The daemon receives an invalid message instead, and refuses it.
            let is_list = message.trim_ascii_start().starts_with(b"[");
            self.handle_message(if is_list { Bytes::from_static(b"0") } else { message });
        }
    }

    /// Takes one message of the editor. Relative paths are resolved here, because the daemon does
    /// not know the folder in which the editor started the bridge.
    fn handle_message(self: &Arc<Self>, message: Bytes) {
        let message = made_absolute(&message, absolute).unwrap_or(message);
        self.carry_out_in_place(self.shared.editor_frame(message));
    }

    /// Reads from the daemon, and reconnects whenever the connection is lost.
    fn copy_to_editor(self: &Arc<Self>) {
        let mut losses = LossRate::default();
        loop {
            if let Some(inbox) = self.connect() {
                self.copy(inbox);
                self.after_loss(&mut losses);
            }
        }
    }

    fn copy(self: &Arc<Self>, mut inbox: Inbox) {
        loop {
            match inbox.receive(self.shared.resume_deadline()) {
                Ok(Some(frames)) if frames.is_empty() => return,
                Ok(Some(frames)) => {
                    let outcomes = frames.into_iter().map(|frame| self.shared.step(Input::DaemonFrame(frame)));
                    let outcomes: Vec<StepOutcome> = outcomes.collect();
                    let link = outcomes.last().and_then(|outcome| outcome.link.clone());
                    let effects = outcomes.into_iter().flat_map(|outcome| outcome.effects).collect();
                    self.carry_out(StepOutcome { effects, link });
                }
                Ok(None) => self.carry_out(self.shared.step(Input::ResumeTimedOut)),
                Err(_) => return,
            }
        }
    }

    /// Carries out effects on the thread that reads from the daemon. This thread must not wait for
    /// the daemon to read, because the daemon may be waiting for us to read. `SendAll` therefore
    /// gets its own thread.
    fn carry_out(self: &Arc<Self>, outcome: StepOutcome) {
        self.run_effects(outcome, |bridge, link, frames| {
            let bridge = bridge.clone();
            let send = Arc::new(move || bridge.send_all(link.as_ref(), &frames));
            let on_thread = send.clone();
            if thread::Builder::new().name("to daemon".to_owned()).spawn(move || on_thread()).is_err() {
                send();
            }
        });
    }

    /// Carries out effects on a thread that may wait for the daemon to read.
    fn carry_out_in_place(self: &Arc<Self>, outcome: StepOutcome) {
        self.run_effects(outcome, |bridge, link, frames| bridge.send_all(link.as_ref(), &frames));
    }

    fn run_effects(
        self: &Arc<Self>,
        outcome: StepOutcome,
        send_all: impl Fn(&Arc<Self>, Option<DaemonLink>, Vec<Bytes>),
    ) {
        let StepOutcome { effects, link } = outcome;
        let mut for_editor = Vec::new();
        for effect in effects {
            match effect {
                Effect::ToEditor(frame) => {
                    for_editor.push(frame);
                    continue;
                }
                Effect::ToDaemon(_) | Effect::SendAll(_) | Effect::Connect | Effect::Exit => {
                    self.editor.deliver(&std::mem::take(&mut for_editor));
                }
            }
            match effect {
                Effect::ToDaemon(frame) => link.iter().for_each(|link| link.send(&encode(Framing::Lines, &frame))),
                Effect::SendAll(frames) => send_all(self, link.clone(), frames),
                Effect::Exit => self.shared.finish(),
                // `Shared` has already woken the thread that connects.
                Effect::Connect | Effect::ToEditor(_) => {}
            }
        }
        self.editor.deliver(&for_editor);
    }

    fn send_all(self: &Arc<Self>, link: Option<&DaemonLink>, frames: &[Bytes]) {
        if let Some(link) = link {
            frames.iter().for_each(|frame| link.send(&encode(Framing::Lines, frame)));
        }
        self.carry_out(self.shared.step(Input::AllSent));
    }
}

/// Resolves a path relative to the folder of this process. Returns None if the result is not
/// Unicode.
fn absolute(path: &str) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    // Only the file system can resolve `..` after a symbolic link.
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    let path = if leads_up { path.canonicalize().unwrap_or(path) } else { path };
    path.into_os_string().into_string().ok()
}

fn drop_big_buffer(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BUFFER {
        *buffer = BytesMut::new();
    }
}
