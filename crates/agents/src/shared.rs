//! Runs one process for several sessions: an agent with `shared = true`.
//!
//! Each session has its own `ChildProtocol`, as it would with its own process, but at the end of an
//! in-memory pipe. The [`Switch`] in between routes the messages, and the task around it moves
//! lines. The task starts with the first session, and ends with the last one; so does the process.

mod switch;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use domain::hosted::AgentLaunch;
use process::PipedCommand;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;
use wire::frame::Decoder;

use self::switch::{Destination, Member, Switch};
use crate::child::{EXIT_STATUS_DEADLINE, command, describe};
use crate::child_protocol::{MAX_MESSAGE_BYTES, checked};
use crate::hosts::AgentHostSettings;
use crate::services::ServiceContext;
use crate::settings::AgentSettings;
use crate::stderr::LastLine;

/// The capacity of the pipe to a session, in bytes.
const PIPE: usize = 256 << 10;

/// The most messages that may wait for one session, and that may wait from all sessions.
const WAITING: usize = 256;

/// While this many bytes wait for the child, no messages are taken from sessions.
const UNWRITTEN: usize = 16 << 20;

/// The running shared children, by agent name.
#[derive(Default)]
pub(crate) struct SharedChildren(Mutex<HashMap<String, Running>>);

struct Running {
    entry: AgentSettings,
    joins: mpsc::UnboundedSender<DuplexStream>,
    ended: watch::Receiver<Option<String>>,
    stop: Arc<Notify>,
}

/// A session's connection to a shared child.
pub(crate) struct SharedConnection {
    pub(crate) pipe: DuplexStream,
    /// The reason why the child has ended. It is set before the pipe closes.
    pub(crate) ended: watch::Receiver<Option<String>>,
    /// Ends the child, for all sessions.
    pub(crate) stop: Arc<Notify>,
}

impl SharedChildren {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Running>> {
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the child of an agent. Starts one if none runs, or if the agent's configuration has
    /// changed.
    pub(crate) fn join(
        self: &Arc<Self>,
        entry: &AgentSettings,
        launch: &AgentLaunch,
        settings: &AgentHostSettings,
    ) -> SharedConnection {
        let (pipe, theirs) = tokio::io::duplex(PIPE);
        let mut running = self.lock();
        if let Some(there) = running.get(&launch.agent).filter(|there| there.entry == *entry)
            && there.ended.borrow().is_none()
        {
            // The task also decides under this lock whether it ends, so it cannot miss this
            // session.
            let _ = there.joins.send(theirs);
            return SharedConnection { pipe, ended: there.ended.clone(), stop: there.stop.clone() };
        }
        let (joins, joined) = mpsc::unbounded_channel();
        let (tell, ended) = watch::channel(None);
        let stop = Arc::new(Notify::new());
        let _ = joins.send(theirs);
        let (entry, stopped) = (entry.clone(), stop.clone());
        let place = Running { entry: entry.clone(), joins, ended: ended.clone(), stop: stop.clone() };
        running.insert(launch.agent.clone(), place);
        drop(running);
        let task = SharedChildTask { children: self.clone(), agent: launch.agent.clone(), joined, stopped };
        tokio::spawn(task.run(entry, launch.clone(), settings.clone(), tell));
        SharedConnection { pipe, ended, stop }
    }
}

/// The task that runs one shared child.
struct SharedChildTask {
    children: Arc<SharedChildren>,
    agent: String,
    joined: mpsc::UnboundedReceiver<DuplexStream>,
    stopped: Arc<Notify>,
}

impl SharedChildTask {
    async fn run(
        mut self,
        entry: AgentSettings,
        launch: AgentLaunch,
        settings: AgentHostSettings,
        tell: watch::Sender<Option<String>>,
    ) {
        let agent = self.agent.clone();
        let context = ServiceContext::new(&launch, &settings, entry.sandbox);
        let started = match command(&entry, &launch, &settings, &context).await {
            Ok(command) => command.start_piped().await.map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let PipedCommand { mut process, mut stdin, mut stdout, stderr } = match started {
            Ok(started) => started,
            Err(reason) => {
                tell.send_replace(Some(format!("the agent `{agent}` cannot be started: {reason}")));
                return;
            }
        };
        let last_line = LastLine::default();
        let log = tokio::spawn(last_line.follow(stderr, {
            let agent = agent.clone();
            move |line| tracing::info!(agent, "wrote: {line}")
        }));
        let mut members = Members::default();
        let stopped = self.stopped.clone();
        let reason = tokio::select! {
            reason = self.serve(&mut stdout, &mut stdin, &mut members) => reason,
            ended = process.ended() => Some(describe(&agent, &ended)),
            () = stopped.notified() => {
                Some(format!("the agent `{agent}` was stopped, because it failed in another session"))
            }
        };
        let reason = match reason {
            Some(reason) => match timeout(EXIT_STATUS_DEADLINE, process.ended()).await {
                Ok(ended) => describe(&agent, &ended),
                Err(_) => reason,
            },
            None => format!("the agent `{agent}` has ended"),
        };
        // Sessions read the reason when their pipes close, so it is set first.
        tell.send_replace(Some(reason));
        drop(members);
        process.close().await;
        let _ = timeout(EXIT_STATUS_DEADLINE, log).await;
    }

    /// Moves messages until the child fails, and returns the reason; or until the last session has
    /// left, and returns None.
    async fn serve(
        &mut self,
        mut from_child: impl AsyncRead + Unpin,
        mut to_child: impl AsyncWrite + Unpin,
        members: &mut Members,
    ) -> Option<String> {
        let (mut switch, mut decoder) = (Switch::default(), Decoder::new(MAX_MESSAGE_BYTES));
        let mut unwritten: VecDeque<u8> = VecDeque::new();
        let (from_members, mut said) = mpsc::channel(WAITING);
        loop {
            while members.waiting.is_empty()
                && let Some(frame) = decoder.next()
            {
                let frame = match checked(frame) {
                    Ok(frame) => frame,
                    Err(error) => return Some(format!("the agent `{}` broke the protocol: {error}", self.agent)),
                };
                if let Ok(message) = serde_json::from_slice::<Value>(&frame) {
                    members.pass_on(switch.handle_child_message(message), &mut unwritten);
                }
            }
            let behind = members.behind();
            tokio::select! {
                room = async { behind.as_ref()?.clone().reserve_owned().await.ok() }, if behind.is_some() => {
                    members.catch_up(room);
                }
                read = from_child.read_buf(decoder.buffer()), if members.waiting.is_empty() => match read {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return Some(format!("the agent `{}` closed its output", self.agent)),
                },
                written = to_child.write(unwritten.as_slices().0), if !unwritten.is_empty() => match written {
                    Ok(length @ 1..) => drop(unwritten.drain(..length)),
                    Ok(0) | Err(_) => return Some(format!("the agent `{}` closed its input", self.agent)),
                },
                Some(pipe) = self.joined.recv() => {
                    let member = switch.join();
                    members.add(member, pipe, from_members.clone());
                }
                Some((member, message)) = said.recv(), if unwritten.len() < UNWRITTEN => match message {
                    Some(message) => members.pass_on(switch.handle_member_message(member, message), &mut unwritten),
                    None => {
                        members.writers.remove(&member);
                        members.pass_on(switch.leave(member), &mut unwritten);
                        if switch.is_empty() && self.is_over() {
                            return None;
                        }
                    }
                },
            }
        }
    }

    /// Returns whether no session is about to join. In that case the child is also removed from the
    /// list, so that none can.
    fn is_over(&mut self) -> bool {
        let mut running = self.children.lock();
        let is_over = self.joined.is_empty();
        if is_over && running.get(&self.agent).is_some_and(|there| Arc::ptr_eq(&there.stop, &self.stopped)) {
            running.remove(&self.agent);
        }
        is_over
    }
}

/// The pipes to the sessions.
#[derive(Default)]
struct Members {
    writers: HashMap<Member, mpsc::Sender<Value>>,
    /// Messages for sessions whose queues are full. Nothing is read from the child while there are
    /// any.
    waiting: VecDeque<(Member, Value)>,
}

impl Members {
    fn add(&mut self, member: Member, pipe: DuplexStream, said: mpsc::Sender<(Member, Option<Value>)>) {
        let (from_session, to_session) = tokio::io::split(pipe);
        let (writer, messages) = mpsc::channel(WAITING);
        self.writers.insert(member, writer);
        tokio::spawn(write(to_session, messages));
        tokio::spawn(read(from_session, member, said));
    }

    fn pass_on(&mut self, messages: Vec<(Destination, Value)>, unwritten: &mut VecDeque<u8>) {
        for (to, message) in messages {
            match to {
                Destination::Child => {
                    unwritten.extend(message.to_string().as_bytes());
                    unwritten.push_back(b'\n');
                }
                Destination::Member(member) if self.waiting.is_empty() => self.send(member, message),
                Destination::Member(member) => self.waiting.push_back((member, message)),
            }
        }
    }

    fn send(&mut self, member: Member, message: Value) {
        let Some(writer) = self.writers.get(&member) else { return };
        if let Err(mpsc::error::TrySendError::Full(message)) = writer.try_send(message) {
            self.waiting.push_back((member, message));
        }
    }

    /// Returns the queue for the first waiting message. If its session is gone, the queue is a
    /// closed one, and `catch_up` drops the message.
    fn behind(&self) -> Option<mpsc::Sender<Value>> {
        let (member, _) = self.waiting.front()?;
        Some(self.writers.get(member).cloned().unwrap_or_else(|| mpsc::channel(1).0))
    }

    fn catch_up(&mut self, room: Option<mpsc::OwnedPermit<Value>>) {
        let Some((_, message)) = self.waiting.pop_front() else { return };
        if let Some(room) = room {
            room.send(message);
        }
        while let Some((member, message)) = self.waiting.pop_front() {
            let before = self.waiting.len();
            self.send(member, message);
            if self.waiting.len() > before {
                // This session's queue is full too, so its message keeps its place.
                self.waiting.rotate_right(1);
                return;
            }
        }
    }
}

async fn write(mut pipe: WriteHalf<DuplexStream>, mut messages: mpsc::Receiver<Value>) {
    while let Some(message) = messages.recv().await {
        if pipe.write_all(format!("{message}\n").as_bytes()).await.is_err() {
            return;
        }
    }
    // The read half keeps the pipe open, so the session would see no end of file without this.
    let _ = pipe.shutdown().await;
}

async fn read(mut pipe: ReadHalf<DuplexStream>, member: Member, said: mpsc::Sender<(Member, Option<Value>)>) {
    // The session's own messages may be longer than a child's, such as a prompt with many images.
    let mut decoder = Decoder::new(usize::MAX);
    loop {
        while let Some(Ok(frame)) = decoder.next() {
            if let Ok(message) = serde_json::from_slice(&frame)
                && said.send((member, Some(message))).await.is_err()
            {
                return;
            }
        }
        match pipe.read_buf(decoder.buffer()).await {
            Ok(1..) => {}
            // The child may be gone too, and then nothing receives this.
            Ok(0) | Err(_) => return drop(said.send((member, None)).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_prompt_of_a_session_reaches_a_shared_child() {
        let (mut session, pipe) = tokio::io::duplex(64 << 10);
        let (from_members, mut said) = mpsc::channel(WAITING);
        let (from_session, _to_session) = tokio::io::split(pipe);
        let member = Switch::default().join();
        tokio::spawn(read(from_session, member, from_members));
        let long = "x".repeat(MAX_MESSAGE_BYTES + 1);
        session.write_all(format!("\"{long}\"\n").as_bytes()).await.unwrap();
        drop(session);
        let (_, message) = said.recv().await.unwrap();
        assert_eq!(message.as_ref().and_then(Value::as_str).map(str::len), Some(long.len()));
    }
}
