//! Bringing sessions into memory: new ones, forks, and those back from the log. Pure sequences of questions to the
//! directory, the history and the new session; the connection only hears the result.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::Addr;
use domain::card::Activity;
use domain::history::HistoryError;
use domain::{Event, EventKind, SessionId, SessionState};
use tokio::sync::watch;
use wire::RpcError;

use crate::directory::{Enter, Live, Open, Opening};
use crate::house::House;
use crate::mail::{leash, tell};
use crate::session::{Attach, Attached, Beginning, Leaving, Seed, Session, Surroundings, describe};

/// How much of a log is read at a time.
const READ: usize = 1 << 20;

/// How often a session may leave just when it is opened.
const TRIES: usize = 5;

/// Numbers the actors of sessions, so that a late word of one is not taken for its successor's.
static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

/// Spawns a session that nobody else can know yet, and enters it.
pub(super) fn create(house: &House, id: &SessionId, created: EventKind) -> Addr<Session> {
    let seed = Seed {
        state: SessionState::new(id.clone()),
        copied: Vec::new(),
        beginning: Beginning::Created(Box::new(created)),
    };
    let live = spawn(house, seed);
    let addr = live.addr.clone();
    tell(&house.directory(), Enter { id: id.clone(), live });
    addr
}

/// The live session, or the one from the log, with this client attached. One that is just leaving is waited for.
pub(super) async fn open_attached(
    house: &House,
    id: &SessionId,
    attach: &Attach,
) -> Result<(Addr<Session>, Attached), RpcError> {
    for _ in 0..TRIES {
        let addr = open(house, id).await?;
        match addr.send(attach.clone()).await {
            Ok(Ok(attached)) => return Ok((addr, attached)),
            Ok(Err(Leaving)) => {}
            Err(_) => return Err(RpcError::internal("the session crashed while it was opened")),
        }
    }
    Err(RpcError::internal("the session is being put away").with_data(serde_json::json!({ "retry": true })))
}

/// The live session, or the one from the log.
pub(super) async fn open(house: &House, id: &SessionId) -> Result<Addr<Session>, RpcError> {
    let opening = house.directory().send(Open(id.clone())).await;
    let opening = opening.map_err(|_| RpcError::internal("the directory of sessions is not there; try again"))?;
    match opening.map_err(|_| RpcError::internal("the daemon is stopping"))? {
        Opening::Live(addr) => Ok(addr),
        Opening::Leave(leave) => {
            let live = spawn(house, revive(house, id).await?);
            let addr = live.addr.clone();
            leave.enter(live);
            Ok(addr)
        }
    }
}

async fn revive(house: &House, id: &SessionId) -> Result<Seed, RpcError> {
    let meta = house.ports().history.find(id.clone()).await.map_err(unreadable)?;
    let meta = meta.ok_or_else(RpcError::unknown_session)?;
    let mut state = SessionState::new(id.clone());
    each_event(house, id, |event| state.apply(event)).await?;
    if state.head.number == 0 {
        return Err(RpcError::unknown_session());
    }
    state.extra_roots = meta.extra_roots;
    // A clean mark without the events before it is none.
    let orderly = meta.clean && meta.last == state.head.number && state.turn.is_none();
    let beginning = if orderly { Beginning::Continued } else { Beginning::Repaired };
    Ok(Seed { state, copied: Vec::new(), beginning })
}

/// A new session with the history of another, independent from then on.
pub(super) async fn fork(
    house: &House,
    from: &SessionId,
    to: &SessionId,
    cwd: Option<PathBuf>,
) -> Result<Addr<Session>, RpcError> {
    let mut state = SessionState::new(to.clone());
    let mut copied = Vec::new();
    each_event(house, from, |event| {
        state.apply(event);
        copied.push(event.clone());
    })
    .await?;
    if copied.is_empty() {
        return Err(RpcError::unknown_session());
    }
    let created = EventKind::Created {
        cwd: cwd.unwrap_or_else(|| state.cwd.clone()),
        extra_roots: state.extra_roots.clone(),
        mode: state.mode,
        approval: state.approval,
        model: state.model.clone(),
    };
    let live = spawn(house, Seed { state, copied, beginning: Beginning::Created(Box::new(created)) });
    let addr = live.addr.clone();
    tell(&house.directory(), Enter { id: to.clone(), live });
    Ok(addr)
}

/// A new session with a log from elsewhere, which has been checked.
pub(super) fn import(house: &House, id: &SessionId, events: Vec<Event>) -> Addr<Session> {
    let mut state = SessionState::new(id.clone());
    let copied: Vec<Arc<Event>> = events.into_iter().map(Arc::new).collect();
    copied.iter().for_each(|event| state.apply(event));
    let live = spawn(house, Seed { state, copied, beginning: Beginning::Repaired });
    let addr = live.addr.clone();
    tell(&house.directory(), Enter { id: id.clone(), live });
    addr
}

async fn each_event(house: &House, id: &SessionId, mut take: impl FnMut(&Arc<Event>)) -> Result<(), RpcError> {
    let mut next = 1;
    loop {
        let events = house.ports().history.read(id.clone(), next, READ).await.map_err(unreadable)?;
        let Some(last) = events.last() else { return Ok(()) };
        next = last.number + 1;
        events.iter().for_each(&mut take);
    }
}

fn spawn(house: &House, seed: Seed) -> Live {
    let (lead, leash) = leash();
    let incarnation = INCARNATIONS.fetch_add(1, Ordering::Relaxed);
    let card = watch::Sender::new(describe(&seed.state, Activity::Idle, Vec::new()));
    let card_seen = card.subscribe();
    let directory = house.directory();
    let around = Surroundings {
        ports: house.ports().clone(),
        historian: house.historian(),
        leave: directory.clone().recipient().downgrade(),
        stays: directory.clone().recipient().downgrade(),
        gone: directory.recipient().downgrade(),
        incarnation,
        card,
        leash,
    };
    Live { addr: Session::spawn(seed, around, &house.arbiter()), incarnation, card: card_seen, _lead: lead }
}

pub(super) fn unreadable(error: HistoryError) -> RpcError {
    match error {
        HistoryError::UnknownCursor => RpcError::invalid_params("cursor", "unknown cursor"),
        HistoryError::Write(_) | HistoryError::Read(_) | HistoryError::Open(_) | HistoryError::Lost => {
            RpcError::internal(error.to_string())
        }
    }
}
