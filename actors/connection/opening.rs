//! Brings sessions into memory: new ones, forks, and those restored from the log. These are plain
//! sequences of requests to the directory, the history and the new session; the connection only
//! receives the result.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::Addr;
use domain::card::{ActivityCard, Proposal};
use domain::history::{HistoryError, Receipt, Record, RecordEntry};
use domain::hosted::{AgentFailure, AgentFailureKind};
use domain::mcp::McpServer;
use domain::{Event, EventKind, SessionId, SessionState, Trace};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use wire::RpcError;
use wire::request::WantedWorktree;

use super::folders::{check_folder, own_folder};
use super::new_session_guard::NewSessionGuard;
use super::rpc_methods::OpenedSession;
use crate::directory::{Evict, EvictionReason, Incarnation, LiveSession, LogRetention, Open, Opening, Register};
use crate::mail::{child_guard, tell};
use crate::runtime::Runtime;
use crate::session::{
    Attach, Attached, BeingEvicted, EnterWorktree, NewWorktree, PostNotice, Rename, Session, SessionInit, SessionParts,
    SessionStart, SetServers, StartAgent, describe,
};
use crate::spans;

/// How many bytes of a log are read at a time.
const READ: usize = 1 << 20;

/// How often to retry when a session is evicted while it is being opened.
const TRIES: usize = 5;

/// Numbers the session actors, so that a late message from one is not attributed to its successor.
static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

/// The connection that opens a session; the session's span is placed under it.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) runtime: Runtime,
    pub(super) span: tracing::Span,
    /// The trace that the client named in its request.
    pub(super) trace: Option<Trace>,
}

/// Spawns a session under a new id and enters it in the directory.
pub(super) fn create(opener: &Opener, id: &SessionId, created: EventKind, real_cwd: PathBuf) -> Addr<Session> {
    let start = SessionStart::Created { event: Box::new(created), real_cwd };
    register(opener, SessionInit { state: SessionState::new(id.clone()), start })
}

/// Spawns a session whose id is not known elsewhere yet.
fn register(opener: &Opener, init: SessionInit) -> Addr<Session> {
    let id = init.state.id.clone();
    let live = spawn(opener, init);
    let addr = live.addr.clone();
    tell(&opener.runtime.directory(), Register { id, live });
    addr
}

/// Returns the live session, or the one restored from the log, with this client attached. Waits for
/// a session that is just being evicted.
pub(super) async fn open_attached(
    opener: &Opener,
    id: &SessionId,
    attach: &Attach,
) -> Result<(Addr<Session>, Attached), RpcError> {
    for _ in 0..TRIES {
        let addr = open(opener, id).await?;
        match addr.send(attach.clone()).await {
            Ok(Ok(attached)) => return Ok((addr, attached)),
            Ok(Err(BeingEvicted)) => {}
            Err(_) => return Err(crashed()),
        }
    }
    Err(RpcError::retry("the session is being evicted"))
}

/// Returns the live session, or the one restored from the log.
pub(super) async fn open(opener: &Opener, id: &SessionId) -> Result<Addr<Session>, RpcError> {
    let opening = opener.runtime.directory().send(Open(id.clone())).await;
    let opening = opening.map_err(|_| no_directory())?;
    match opening.map_err(|_| RpcError::retry("the daemon is stopping"))? {
        Opening::Live(addr) => Ok(addr),
        Opening::Permit(permit) => {
            let init = revive(&opener.runtime, id).await?;
            // A waiting turn may continue before a client attaches, because `ctl` can answer its
            // question.
            let kept = match init.state.is_waiting() {
                true => Some(opener.runtime.ports().toolbox.kept_servers(id).await),
                false => None,
            };
            let live = spawn(opener, init);
            let addr = live.addr.clone();
            if let Some(kept) = kept {
                tell(&addr, SetServers { wanted: None, kept });
            }
            permit.register(live);
            Ok(addr)
        }
    }
}

/// Restores a session from its log.
async fn revive(runtime: &Runtime, id: &SessionId) -> Result<SessionInit, RpcError> {
    let meta = runtime.ports().history.find(id.clone()).await.map_err(history_failed)?;
    let meta = meta.ok_or_else(RpcError::unknown_session)?;
    let mut state = SessionState::new(id.clone());
    each_event(runtime, id, |event| state.apply(event)).await?;
    if state.head.number == 0 {
        return Err(RpcError::unknown_session());
    }
    state.adopt_stored(&meta);
    let start = SessionStart::from_log(&state, &meta);
    Ok(SessionInit { state, start })
}

/// Creates a session with the history of another, independent from then on. It cannot be found
/// before it is complete.
pub(super) async fn fork(
    opener: &Opener,
    from: &SessionId,
    to: &SessionId,
    cwd: Option<PathBuf>,
    extra_roots: Vec<PathBuf>,
) -> Result<(NewSessionGuard, Addr<Session>), RpcError> {
    let mut state = SessionState::new(to.clone());
    each_event(&opener.runtime, from, |event| state.apply(event)).await?;
    if state.head.number == 0 {
        return Err(RpcError::unknown_session());
    }
    let (cwd, real_cwd) = match cwd {
        Some(cwd) => (cwd.clone(), check_folder(&opener.runtime, "cwd", &cwd).await?),
        None => (state.folders.opened_in.clone(), own_folder(&opener.runtime, &state.folders.opened_in).await?),
    };
    let guard = NewSessionGuard::new(&opener.runtime, to);
    store_entry(&opener.runtime, to, RecordEntry::Copy { from: from.clone(), last: state.head.number }).await?;
    let created = EventKind::Created {
        cwd,
        extra_roots,
        mode: state.settings.mode,
        approval: state.settings.approval,
        model: state.settings.model.clone(),
        agent: state.settings.hosted.as_ref().map(|hosted| hosted.agent.clone()),
    };
    let title = state.title.as_deref().map(fork_title);
    let addr =
        register(opener, SessionInit { state, start: SessionStart::Created { event: Box::new(created), real_cwd } });
    if let Some(title) = title {
        tell(&addr, Rename(title));
    }
    Ok((guard, addr))
}

/// A title that distinguishes a fork from its original, and a fork of a fork from both.
fn fork_title(title: &str) -> String {
    let again = title.strip_suffix(')').and_then(|title| title.rsplit_once(" (fork"));
    let forks = again.and_then(|(original, number)| match number.trim_start() {
        "" => Some((original, 2)),
        number => number.parse::<u32>().ok().map(|number| (original, number.saturating_add(1))),
    });
    forks.map_or_else(|| format!("{title} (fork)"), |(original, number)| format!("{original} (fork {number})"))
}

/// Opens a session with an imported log, which has been checked and stored.
pub(super) async fn import(opener: &Opener, id: &SessionId) -> Result<Addr<Session>, RpcError> {
    let mut state = SessionState::new(id.clone());
    each_event(&opener.runtime, id, |event| state.apply(event)).await?;
    // The log may come from another machine, so its folder may not exist here.
    let real_cwd = opener.runtime.ports().folders.resolve(state.folders.opened_in.clone()).await.ok();
    Ok(register(opener, SessionInit { state, start: SessionStart::Imported { real_cwd } }))
}

/// Gives an opened session its servers: those that the client names, which are stored for the next
/// time, or the stored ones.
pub(super) async fn with_servers(
    runtime: &Runtime,
    opened: OpenedSession,
    wanted: Option<Vec<McpServer>>,
) -> OpenedSession {
    let toolbox = &runtime.ports().toolbox;
    let servers = match wanted {
        None => SetServers { wanted: None, kept: toolbox.kept_servers(&opened.session).await },
        Some(servers) => {
            if let Some(trouble) = toolbox.keep_servers(&opened.session, servers.clone()).await {
                tell(&opened.addr, PostNotice(trouble));
            }
            SetServers { wanted: Some(servers), kept: Vec::new() }
        }
    };
    OpenedSession { servers, ..opened }
}

/// Gives a new session the servers that the client names. Nothing is stored if there are none.
pub(super) async fn with_first_servers(
    runtime: &Runtime,
    opened: OpenedSession,
    servers: Vec<McpServer>,
) -> OpenedSession {
    if servers.is_empty() {
        return OpenedSession { servers: SetServers { wanted: Some(servers), kept: Vec::new() }, ..opened };
    }
    with_servers(runtime, opened, Some(servers)).await
}

/// Starts the child agent of a new session, if it has one. A session whose agent cannot be started
/// is deleted.
pub(super) async fn start_agent(
    runtime: &Runtime,
    session: &SessionId,
    addr: &Addr<Session>,
    servers: Vec<McpServer>,
) -> Result<(), RpcError> {
    let started = addr.send(StartAgent { servers }).await.map_err(|_| crashed())?;
    started.map_err(|failure| {
        let (id, retention, why) = (session.clone(), LogRetention::Delete, EvictionReason::Unwanted);
        tell(&runtime.directory(), Evict { id, retention, why });
        agent_failed(failure)
    })
}

/// Moves a new session into the worktree that its client wants.
pub(super) async fn enter_worktree(addr: &Addr<Session>, wanted: WantedWorktree) -> Result<NewWorktree, RpcError> {
    let name = match wanted {
        WantedWorktree::Any => None,
        WantedWorktree::Named(name) => Some(name),
    };
    let entered = addr.send(EnterWorktree { name }).await.map_err(|_| crashed())?;
    entered.map_err(|error| RpcError::invalid_params("_meta.acpd.worktree", &error.to_string()))
}

/// The error for a client whose agent does not work.
pub(super) fn agent_failed(failure: AgentFailure) -> RpcError {
    let AgentFailure { kind, message, data, prompt_unseen: _ } = failure;
    let code = match kind {
        AgentFailureKind::Authentication => RpcError::AUTHENTICATION_REQUIRED,
        AgentFailureKind::Refused | AgentFailureKind::Broken => RpcError::INTERNAL,
    };
    let data =
        if data.is_null() { json!({ "advice": "try again; the daemon's log has what the agent wrote" }) } else { data };
    RpcError::new(code, &message, data)
}

/// Stores an entry for a session that cannot be found yet, and waits until it is written.
pub(super) async fn store_entry(runtime: &Runtime, session: &SessionId, entry: RecordEntry) -> Result<(), RpcError> {
    let (written, kept) = oneshot::channel();
    let receipt = Receipt::new(move |result| {
        // The caller may be gone.
        let _ = written.send(result);
    });
    runtime.ports().history.submit(Record { session: session.clone(), entry, receipt });
    kept.await.unwrap_or(Err(HistoryError::Lost)).map(|_| ()).map_err(history_failed)
}

async fn each_event(runtime: &Runtime, id: &SessionId, mut take: impl FnMut(&Arc<Event>)) -> Result<(), RpcError> {
    let mut next = 1;
    loop {
        let events = runtime.ports().history.read(id.clone(), next, READ).await.map_err(history_failed)?;
        let Some(last) = events.last() else { return Ok(()) };
        next = last.number + 1;
        events.iter().for_each(&mut take);
    }
}

fn spawn(opener: &Opener, init: SessionInit) -> LiveSession {
    let (child_guard, parent_gone) = child_guard();
    let incarnation = Incarnation(INCARNATIONS.fetch_add(1, Ordering::Relaxed));
    let card = watch::Sender::new(describe(&init.state, ActivityCard::Idle, Vec::new(), Proposal::LISTED));
    let card_seen = card.subscribe();
    let directory = opener.runtime.directory();
    let parts = SessionParts {
        ports: (*opener.runtime.ports()).clone(),
        evict: directory.clone().recipient().downgrade(),
        eviction_refused: directory.clone().recipient().downgrade(),
        stopped: directory.recipient().downgrade(),
        incarnation,
        card,
        parent_gone,
        span: spans::session(&opener.span, &init.state.id, opener.trace.as_ref()),
    };
    LiveSession {
        addr: Session::spawn(init, parts, &opener.runtime.arbiter()),
        incarnation,
        card: card_seen,
        _guard: child_guard,
    }
}

pub(super) fn history_failed(error: HistoryError) -> RpcError {
    match error {
        HistoryError::UnknownCursor => RpcError::invalid_params("cursor", "unknown cursor"),
        HistoryError::Write(_) | HistoryError::Read(_) | HistoryError::Open(_) | HistoryError::Lost => {
            RpcError::internal(error.to_string(), "free space or repair the state folder, then try again")
        }
    }
}

pub(super) fn no_directory() -> RpcError {
    RpcError::retry("the directory of sessions is being restarted")
}

pub(super) fn crashed() -> RpcError {
    RpcError::retry("the session crashed while it was opened")
}

pub(super) fn encoding_failed(error: &serde_json::Error) -> RpcError {
    RpcError::internal(error.to_string(), "this is a bug in acpd; its log says more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forks_title_differs_from_its_originals() {
        assert_eq!(fork_title("Mend it"), "Mend it (fork)");
        assert_eq!(fork_title("Mend it (fork)"), "Mend it (fork 2)");
        assert_eq!(fork_title("Mend it (fork 9)"), "Mend it (fork 10)");
        assert_eq!(fork_title("Look at (forks)"), "Look at (forks) (fork)");
    }
}
