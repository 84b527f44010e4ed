//! Commands that go on after the call that started them. They belong to their session: cancelling a turn ends those
//! that it started, and closing the session ends all.
//!
//! Each command has a task of its own, which alone holds the process. Everybody else holds a `BackgroundCommand` to
//! read its output and to ask for its end. When the runtime ends, the tasks end, and with them the processes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::text::cut;
use domain::{CallSite, SessionId, TurnId};
use tokio::sync::watch;

use crate::{CommandResult, LIVE_LIMIT, Output, RunningCommand, SharedOutput, watch as watch_command};

/// How many background commands of one session may run at once.
const MAX_RUNNING: usize = 8;

/// How many ended commands of one session are kept, so that their last output can be read.
const MAX_ENDED: usize = 8;

/// How many cancelled turns are remembered, for calls that were about to start a command when their turn was
/// cancelled.
const MAX_CANCELLED: usize = 64;

/// Why a background command cannot be kept or found, worded for the model.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    #[error("the turn was cancelled; the command was ended")]
    TurnCancelled,
    #[error("{MAX_RUNNING} background commands are running already; end one with bash_stop: {running}")]
    TooMany { running: String },
    #[error("there is no background command `{handle}` in this session; {known}")]
    Unknown { handle: String, known: String },
}

/// A started command that goes on in the background.
pub struct BackgroundStart {
    pub started: RunningCommand,
    pub command: String,
    pub timeout: Option<Duration>,
    pub site: Arc<CallSite>,
}

/// The background commands of all sessions.
#[derive(Default)]
pub struct BackgroundCommands {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    cancelled: VecDeque<TurnId>,
}

#[derive(Default)]
struct Session {
    /// Counts all commands that were ever started, so that no handle is used twice.
    started: u64,
    kept: Vec<Arc<BackgroundCommand>>,
}

/// One background command, as tools see it.
pub struct BackgroundCommand {
    pub handle: String,
    pub command: String,
    turn: TurnId,
    /// Output that was not read yet.
    unread: SharedOutput,
    stop: watch::Sender<bool>,
    end: watch::Sender<Option<CommandResult>>,
}

impl BackgroundCommand {
    /// How the command ended; None while it runs.
    pub fn end(&self) -> Option<CommandResult> {
        self.end.borrow().clone()
    }

    /// Asks the command to end; `ended` resolves when it has.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub async fn ended(&self) {
        // We hold the sender, so the wait can only end with a value.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Takes the output since the last read.
    pub fn take_output(&self) -> Output {
        self.unread.lock().take()
    }

    /// Shows the same output to people without marking it as read.
    pub fn live_output(&self) -> String {
        self.unread.lock().live(LIVE_LIMIT)
    }

    /// A name for people and models: "`bg1` (npm run dev)".
    pub fn label(&self) -> String {
        format!("`{}` ({})", self.handle, cut(self.command.lines().next().unwrap_or_default(), 60))
    }
}

impl BackgroundCommands {
    /// Takes over a command and returns its handle. A command that cannot be kept is dropped, which ends it.
    pub fn keep(&self, start: BackgroundStart, output_limit: usize) -> Result<String, BackgroundError> {
        let BackgroundStart { started, command, timeout, site } = start;
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
            turn: site.turn.clone(),
            unread: SharedOutput::new(output_limit),
            stop: watch::Sender::new(false),
            end: watch::Sender::new(None),
        });
        session.kept.push(Arc::clone(&kept));
        session.forget_oldest();
        let handle = kept.handle.clone();
        tokio::spawn(async move {
            let mut stop = kept.stop.subscribe();
            let stopped = async move {
                let _ = stop.wait_for(|stopped| *stopped).await;
            };
            let end = watch_command(started, &kept.unread, timeout, stopped, || {}).await;
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

    /// The commands of a session that still run.
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

impl Session {
    fn forget_oldest(&mut self) {
        let ended = self.kept.iter().filter(|kept| kept.end().is_some()).count();
        if ended > MAX_ENDED
            && let Some(oldest) = self.kept.iter().position(|kept| kept.end().is_some())
        {
            self.kept.remove(oldest);
        }
    }
}
