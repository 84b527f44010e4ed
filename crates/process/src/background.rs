//! Commands that continue after the call that started them. They belong to their session:
//! cancelling a turn ends those that it started, and closing the session ends all.
//!
//! Each command has its own task, which alone owns the process. Everything else holds a
//! `BackgroundCommand` to read the output and to request the end. When the runtime shuts down, the
//! tasks end, and the processes with them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::text::cut;
use domain::tool::{BackgroundChange, BackgroundReport};
use domain::{AgentId, CallSite, Mode, SessionId, TurnId};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use crate::{CommandResult, LIVE_LIMIT, Output, RunningCommand, SharedOutput, watch as watch_command};

/// How many background commands of one session may run at once.
const MAX_RUNNING: usize = 8;

/// How many ended commands of one session are kept, so that their last output can be read.
const MAX_ENDED: usize = 8;

/// How long a command may take to read its input.
const INPUT_TIMEOUT: Duration = Duration::from_secs(5);

/// How many reports of one session may wait to be recorded. Output that is written in the meantime
/// is reported later.
const MAX_REPORTS: usize = 64;

/// How many cancelled turns are remembered. A call of such a turn may be about to start a command.
const MAX_CANCELLED: usize = 64;

/// Why a background command cannot be kept or found, worded for the model.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    #[error("the turn was cancelled; the command was stopped")]
    TurnCancelled,
    #[error("{MAX_RUNNING} background commands are running already; end one with bash_stop: {running}")]
    TooMany { running: String },
    #[error("there is no background command `{handle}` in this session; {known}")]
    Unknown { handle: String, known: String },
    #[error("`{0}` was not started with `input`, or its input is closed")]
    NoInput(String),
    #[error("`{0}` does not read its input; some of the text may have been taken")]
    InputFull(String),
}

/// A started command that is to continue in the background.
pub struct BackgroundStart {
    pub started: RunningCommand,
    pub command: String,
    pub timeout: Option<Duration>,
    pub site: Arc<CallSite>,
    /// Its standard input, if it was started with an open one.
    pub input: Option<pipe::Sender>,
    /// The file for its output if there is too much to keep in memory.
    pub overflow: Option<PathBuf>,
}

/// The background commands of all sessions.
#[derive(Default)]
pub struct BackgroundCommands {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, SessionCommands>,
    cancelled: VecDeque<TurnId>,
}

#[derive(Default)]
struct SessionCommands {
    /// The number of commands that were ever started. It makes every handle unique.
    started: u64,
    kept: Vec<Arc<BackgroundCommand>>,
    /// Receives the reports of its commands: what they write, and how they end.
    reports: Option<mpsc::Sender<BackgroundReport>>,
}

/// One background command, as tools see it.
pub struct BackgroundCommand {
    pub handle: String,
    pub command: String,
    /// The mode in which it was started. It decides whether the command runs in the sandbox, even
    /// if the session's mode changes.
    pub mode: Mode,
    turn: TurnId,
    /// The sub-agent that started it; None for the main conversation.
    agent: Option<AgentId>,
    /// Output that the model has not read yet.
    unread: SharedOutput,
    input: tokio::sync::Mutex<Option<pipe::Sender>>,
    /// The conversations that have been informed that the command ended: those of sub-agents, and
    /// None for the main one.
    informed: Mutex<BTreeSet<Option<AgentId>>>,
    stop: watch::Sender<bool>,
    end: watch::Sender<Option<CommandResult>>,
}

impl BackgroundCommand {
    /// Returns how the command ended; None while it runs.
    pub fn end(&self) -> Option<CommandResult> {
        self.end.borrow().clone()
    }

    /// Asks the command to end; `ended` resolves when it has.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub async fn ended(&self) {
        // The sender is held here, so the wait can only end with a value.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Records that this conversation has been informed of the end.
    pub fn report_end(&self, reader: Option<&AgentId>) {
        self.informed().insert(reader.cloned());
    }

    /// Whether this conversation is to be informed of the end and has not been yet. A sub-agent
    /// is informed only of commands that it started. The main conversation is informed of all
    /// commands, because they outlive sub-agents, except of those whose end their sub-agent knows.
    fn must_report_end_to(&self, reader: Option<&AgentId>) -> bool {
        let informed = self.informed();
        let starter_knows = self.agent.is_some() && informed.contains(&self.agent);
        let concerns = reader.is_none() || reader == self.agent.as_ref();
        self.end().is_some() && concerns && !starter_knows && !informed.contains(&reader.cloned())
    }

    fn informed(&self) -> MutexGuard<'_, BTreeSet<Option<AgentId>>> {
        // Inserting leaves the set consistent, so a poisoned lock is harmless.
        self.informed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the command's standard input. Closes it afterwards if `close` is set.
    pub async fn write_input(&self, text: &str, close: bool) -> Result<(), BackgroundError> {
        let mut input = self.input.lock().await;
        let Some(pipe) = input.as_mut().filter(|_| self.end().is_none()) else {
            return Err(BackgroundError::NoInput(self.handle.clone()));
        };
        match tokio::time::timeout(INPUT_TIMEOUT, pipe.write_all(text.as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(BackgroundError::NoInput(self.handle.clone())),
            Err(_) => return Err(BackgroundError::InputFull(self.handle.clone())),
        }
        if close {
            *input = None;
        }
        Ok(())
    }

    /// Takes the output since the last read.
    pub fn take_output(&self) -> Output {
        self.unread.lock().take()
    }

    /// Returns the end of the unread output for display, without marking it as read.
    pub fn live_output(&self) -> String {
        self.unread.lock().live(LIVE_LIMIT)
    }

    /// Reports the output since the last report, unless too many reports are waiting.
    fn report_output(&self, reports: &Option<mpsc::Sender<BackgroundReport>>) {
        let room = reports.as_ref().and_then(|reports| reports.try_reserve().ok());
        if let Some(room) = room
            && let Some(text) = self.unread.take_unseen()
        {
            room.send(BackgroundReport { handle: self.handle.clone(), what: BackgroundChange::Wrote(text) });
        }
    }

    async fn send_end(&self, reports: &Option<mpsc::Sender<BackgroundReport>>, end: &CommandResult) {
        let Some(reports) = reports else { return };
        let rest = self.unread.take_unseen().map(BackgroundChange::Wrote);
        let ended = BackgroundChange::Ended { exit_code: end.exit_code(), signal: end.signal() };
        for what in rest.into_iter().chain([ended]) {
            // The session may be gone.
            let _ = reports.send(BackgroundReport { handle: self.handle.clone(), what }).await;
        }
    }

    /// Returns a name for users and models, such as "`bg1` (npm run dev)".
    pub fn label(&self) -> String {
        format!("`{}` ({})", self.handle, cut(self.command.lines().next().unwrap_or_default(), 60))
    }
}

impl BackgroundCommands {
    /// Takes ownership of a command and returns its handle. A command that cannot be kept is
    /// dropped, which ends it.
    pub fn keep(&self, start: BackgroundStart, output_limit: usize) -> Result<String, BackgroundError> {
        let BackgroundStart { started, command, timeout, site, input, overflow } = start;
        let mut state = self.lock();
        if state.cancelled.contains(&site.turn) {
            return Err(BackgroundError::TurnCancelled);
        }
        let session = state.sessions.entry(site.session.clone()).or_default();
        let running: Vec<_> =
            session.kept.iter().filter(|kept| kept.end().is_none()).map(|kept| kept.label()).collect();
        if running.len() >= MAX_RUNNING {
            return Err(BackgroundError::TooMany { running: running.join(", ") });
        }
        session.started += 1;
        let kept = Arc::new(BackgroundCommand {
            handle: format!("bg{}", session.started),
            command,
            mode: site.mode,
            turn: site.turn.clone(),
            agent: site.agent.clone(),
            unread: SharedOutput::shown(output_limit).overflowing_to(overflow),
            input: tokio::sync::Mutex::new(input),
            informed: Mutex::default(),
            stop: watch::Sender::new(false),
            end: watch::Sender::new(None),
        });
        session.kept.push(Arc::clone(&kept));
        session.forget_oldest();
        let handle = kept.handle.clone();
        let reports = session.reports.clone();
        tokio::spawn(async move {
            let mut stop = kept.stop.subscribe();
            let stopped = async move {
                let _ = stop.wait_for(|stopped| *stopped).await;
            };
            let end = watch_command(started, &kept.unread, timeout, stopped, || kept.report_output(&reports)).await;
            kept.send_end(&reports, &end).await;
            kept.end.send_replace(Some(end));
        });
        Ok(handle)
    }

    /// Finds a command of this session by its handle.
    pub fn find(&self, session: &SessionId, handle: &str) -> Result<Arc<BackgroundCommand>, BackgroundError> {
        let state = self.lock();
        let kept = state.sessions.get(session).map(|session| session.kept.as_slice()).unwrap_or_default();
        let wanted = handle.trim().trim_matches('`');
        kept.iter().find(|kept| kept.handle == wanted).cloned().ok_or_else(|| {
            let known: Vec<_> = kept.iter().map(|kept| kept.label()).collect();
            let known =
                if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
            BackgroundError::Unknown { handle: wanted.to_owned(), known }
        })
    }

    /// Returns the commands of a session whose end this conversation (None is the main one) is to
    /// be informed of. No conversation gets a command twice.
    pub fn take_ended(&self, session: &SessionId, reader: Option<&AgentId>) -> Vec<Arc<BackgroundCommand>> {
        let state = self.lock();
        let kept = state.sessions.get(session).into_iter().flat_map(|session| &session.kept);
        let ended: Vec<_> = kept.filter(|kept| kept.must_report_end_to(reader)).cloned().collect();
        ended.iter().for_each(|kept| kept.report_end(reader));
        ended
    }

    /// Returns a channel with the reports of this session's commands from now on. It replaces the
    /// one that was returned before.
    pub fn reports(&self, session: &SessionId) -> mpsc::Receiver<BackgroundReport> {
        let (reports, receiver) = mpsc::channel(MAX_REPORTS);
        self.lock().sessions.entry(session.clone()).or_default().reports = Some(reports);
        receiver
    }

    /// Returns the running commands of a session.
    pub fn running(&self, session: &SessionId) -> Vec<String> {
        let state = self.lock();
        let kept = state.sessions.get(session).into_iter().flat_map(|session| &session.kept);
        kept.filter(|kept| kept.end().is_none()).map(|kept| kept.label()).collect()
    }

    pub fn cancel_turn(&self, session: &SessionId, turn: &TurnId) {
        let mut state = self.lock();
        if state.cancelled.len() == MAX_CANCELLED {
            state.cancelled.pop_front();
        }
        state.cancelled.push_back(turn.clone());
        let kept = state.sessions.get(session).into_iter().flat_map(|session| &session.kept);
        kept.filter(|kept| kept.turn == *turn).for_each(|kept| kept.stop());
    }

    pub fn close(&self, session: &SessionId) {
        let closed = self.lock().sessions.remove(session);
        closed.into_iter().flat_map(|session| session.kept).for_each(|kept| kept.stop());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every operation leaves the lists consistent, so a poisoned lock is harmless.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionCommands {
    fn forget_oldest(&mut self) {
        let ended = self.kept.iter().filter(|kept| kept.end().is_some()).count();
        if ended > MAX_ENDED
            && let Some(oldest) = self.kept.iter().position(|kept| kept.end().is_some())
        {
            self.kept.remove(oldest);
        }
    }
}
