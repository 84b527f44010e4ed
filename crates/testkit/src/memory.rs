//! A history in memory that acknowledges records at once, holds their receipts, or fails, as the
//! test chooses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use domain::history::{
    CommitLevel, History, HistoryError, ListQuery, Page, Receipt, Record, RecordEntry, SessionMeta, StoreStatus,
};
use domain::{Durability, Event, SessionId};
use futures_util::future::{BoxFuture, ready};
use tokio::sync::watch;

#[derive(Clone, Default)]
pub struct MemoryHistory(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, Log>,
    behaviour: Behaviour,
    held: Vec<Record>,
    /// The number of records that were submitted since `take_submitted` was last called.
    submitted: u64,
    /// True while reads are held.
    unreadable: watch::Sender<bool>,
}

#[derive(Default)]
struct Log {
    events: BTreeMap<u64, Arc<Event>>,
    meta: Option<SessionMeta>,
}

#[derive(Default)]
enum Behaviour {
    #[default]
    Prompt,
    /// Records wait until `release`.
    Holding,
    Failing(HistoryError),
    /// The next record is dropped.
    Losing,
    /// The next call of `status` panics.
    PanickingOnStatus,
}

impl MemoryHistory {
    /// Acknowledges nothing until `release`.
    pub fn hold(&self) {
        self.0.lock().unwrap().behaviour = Behaviour::Holding;
    }

    /// Blocks every read until `release`.
    pub fn hold_reads(&self) {
        self.0.lock().unwrap().unreadable.send_replace(true);
    }

    /// Answers the reads that were held. Writes are not affected.
    pub fn release_reads(&self) {
        self.0.lock().unwrap().unreadable.send_replace(false);
    }

    /// Whether no session has stored anything.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap().sessions.is_empty()
    }

    /// Reads the store, once reads are not held.
    fn look<T: Send + 'static>(&self, find: impl FnOnce(&State) -> T + Send + 'static) -> BoxFuture<'static, T> {
        let state = self.0.clone();
        let mut unreadable = state.lock().unwrap().unreadable.subscribe();
        Box::pin(async move {
            // The state owns the sender, so the wait cannot end early.
            let _ = unreadable.wait_for(|unreadable| !unreadable).await;
            find(&state.lock().unwrap())
        })
    }

    /// Stores the held records, and every record from now on.
    pub fn release(&self) {
        {
            let mut state = self.0.lock().unwrap();
            state.unreadable.send_replace(false);
            state.behaviour = Behaviour::Prompt;
        }
        self.write_held();
    }

    /// Stores the records that are held now. Later ones are held again.
    pub fn write_held(&self) {
        let mut state = self.0.lock().unwrap();
        let held = std::mem::take(&mut state.held);
        let kept: Vec<_> = held.into_iter().map(|record| state.keep(record)).collect();
        drop(state);
        kept.into_iter().for_each(|(receipt, settled)| receipt.resolve(Ok(settled)));
    }

    /// Refuses every record until `release`, as a full disk does.
    pub fn fail(&self) {
        self.0.lock().unwrap().behaviour =
            Behaviour::Failing(HistoryError::Write("no space left on device".to_owned()));
    }

    pub fn lose_once(&self) {
        self.0.lock().unwrap().behaviour = Behaviour::Losing;
    }

    pub fn panic_on_status_once(&self) {
        self.0.lock().unwrap().behaviour = Behaviour::PanickingOnStatus;
    }

    /// Returns the number of records that were submitted since the last call. Each may cost a
    /// separate commit.
    pub fn take_submitted(&self) -> u64 {
        std::mem::take(&mut self.0.lock().unwrap().submitted)
    }

    /// Returns the stored events of a session.
    pub fn events(&self, session: &str) -> Vec<Arc<Event>> {
        let state = self.0.lock().unwrap();
        state
            .sessions
            .get(&SessionId::from(session))
            .map(|log| log.events.values().cloned().collect())
            .unwrap_or_default()
    }
}

impl State {
    /// Stores a record exactly as durably as it requires, so code that waits for more hangs.
    fn keep(&mut self, record: Record) -> (Receipt, CommitLevel) {
        let settled = match record.durability() {
            Durability::Soon | Durability::Written => CommitLevel::Written,
            Durability::Synced => CommitLevel::Synced,
        };
        let Record { session, entry, receipt } = record;
        match entry {
            RecordEntry::Append { events, meta } => {
                let stored = self.sessions.entry(session).or_default();
                stored.events.extend(events.into_iter().map(|event| (event.number, event)));
                stored.meta = Some(meta);
            }
            RecordEntry::Prepare { events } => {
                let prepared = self.sessions.entry(session).or_default();
                prepared.events.extend(events.into_iter().map(|event| (event.number, event)));
            }
            RecordEntry::Copy { from, last } => {
                let original = self.sessions.get(&from).map(|log| log.events.clone()).unwrap_or_default();
                let copied = original.into_iter().filter(|(number, _)| *number <= last);
                self.sessions.entry(session).or_default().events.extend(copied);
            }
            RecordEntry::Delete => {
                self.sessions.remove(&session);
            }
        }
        (receipt, settled)
    }
}

impl History for MemoryHistory {
    fn submit(&self, record: Record) {
        let mut state = self.0.lock().unwrap();
        state.submitted += 1;
        match &state.behaviour {
            Behaviour::Prompt | Behaviour::PanickingOnStatus => {
                let (receipt, settled) = state.keep(record);
                drop(state);
                receipt.resolve(Ok(settled));
            }
            Behaviour::Holding => state.held.push(record),
            Behaviour::Failing(error) => {
                let error = error.clone();
                drop(state);
                record.receipt.resolve(Err(error));
            }
            // Dropping the record reports that it was lost.
            Behaviour::Losing => state.behaviour = Behaviour::Prompt,
        }
    }

    fn read(
        &self,
        session: SessionId,
        from: u64,
        budget: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, HistoryError>> {
        self.look(move |state| {
            let mut weight = 0;
            let Some(log) = state.sessions.get(&session) else { return Ok(Vec::new()) };
            let fits = |event: &Arc<Event>| {
                let fits = weight <= budget;
                weight += event.kind.weight();
                fits
            };
            Ok(log.events.range(from..).map(|(_, event)| event.clone()).take_while(fits).collect())
        })
    }

    fn find(&self, session: SessionId) -> BoxFuture<'static, Result<Option<SessionMeta>, HistoryError>> {
        self.look(move |state| Ok(state.sessions.get(&session).and_then(|log| log.meta.clone())))
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'static, Result<Page, HistoryError>> {
        self.look(move |state| {
            let metas = state.sessions.values().filter_map(|log| log.meta.clone());
            let is_wanted = |meta: &SessionMeta| query.cwd.as_ref().is_none_or(|cwd| meta.folder() == cwd);
            let mut sessions: Vec<SessionMeta> = metas.filter(|meta| meta.messages > 0 && is_wanted(meta)).collect();
            sessions.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
            let start = match &query.cursor {
                None => 0,
                Some(cursor) => cursor.parse::<usize>().map_err(|_| HistoryError::UnknownCursor)?,
            };
            let end = sessions.len().min(start + query.limit);
            let next = (end < sessions.len()).then(|| end.to_string());
            Ok(Page { sessions: sessions.get(start..end).unwrap_or_default().to_vec(), next })
        })
    }

    fn leftovers(&self) -> BoxFuture<'static, Result<Vec<SessionId>, HistoryError>> {
        let state = self.0.lock().unwrap();
        let nobodys = |log: &Log| log.meta.as_ref().is_none_or(|meta| meta.messages == 0);
        let found = state.sessions.iter().filter(|(_, log)| nobodys(log)).map(|(id, _)| id.clone()).collect();
        Box::pin(ready(Ok(found)))
    }

    fn status(&self) -> StoreStatus {
        let mut state = self.0.lock().unwrap();
        if matches!(state.behaviour, Behaviour::PanickingOnStatus) {
            state.behaviour = Behaviour::Prompt;
            drop(state);
            panic!("the history panics as scripted");
        }
        StoreStatus::Open { moved_aside: None }
    }
}
