//! A history in memory that acknowledges at once, or holds its receipts, or fails, as a test wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use domain::history::{
    Entry, History, HistoryError, ListQuery, Page, Receipt, Record, SessionMeta, Settled, StoreStatus,
};
use domain::{Durability, Event, SessionId};
use futures_util::future::{BoxFuture, ready};

#[derive(Clone, Default)]
pub struct MemoryHistory(Arc<Mutex<Shelf>>);

#[derive(Default)]
struct Shelf {
    sessions: BTreeMap<SessionId, Log>,
    manner: Manner,
    held: Vec<Record>,
}

#[derive(Default)]
struct Log {
    events: BTreeMap<u64, Arc<Event>>,
    meta: Option<SessionMeta>,
}

#[derive(Default)]
enum Manner {
    #[default]
    Prompt,
    /// Records wait until they are let go.
    Holding,
    Failing(HistoryError),
    /// The next record is met with a panic.
    Panicking,
    /// The next look at the status is met with a panic.
    PanickingOnStatus,
}

impl MemoryHistory {
    /// Acknowledges nothing until `release`.
    pub fn hold(&self) {
        self.0.lock().unwrap().manner = Manner::Holding;
    }

    /// Keeps what was held, and everything from now on.
    pub fn release(&self) {
        let mut shelf = self.0.lock().unwrap();
        shelf.manner = Manner::Prompt;
        let held = std::mem::take(&mut shelf.held);
        let kept: Vec<_> = held.into_iter().map(|record| shelf.keep(record)).collect();
        drop(shelf);
        kept.into_iter().for_each(|(receipt, settled)| receipt.stamp(Ok(settled)));
    }

    /// Refuses every record as a full disk does, until `release`.
    pub fn fail(&self) {
        self.0.lock().unwrap().manner = Manner::Failing(HistoryError::Write("no space left on device".to_owned()));
    }

    pub fn panic_once(&self) {
        self.0.lock().unwrap().manner = Manner::Panicking;
    }

    pub fn panic_on_status_once(&self) {
        self.0.lock().unwrap().manner = Manner::PanickingOnStatus;
    }

    /// What is stored of a session.
    pub fn events(&self, session: &str) -> Vec<Arc<Event>> {
        let shelf = self.0.lock().unwrap();
        shelf
            .sessions
            .get(&SessionId::from(session))
            .map(|log| log.events.values().cloned().collect())
            .unwrap_or_default()
    }
}

impl Shelf {
    /// No safer than the record asks for, so that a wait for more shows as a hang.
    fn keep(&mut self, record: Record) -> (Receipt, Settled) {
        let settled = match record.durability() {
            Durability::Soon | Durability::Written => Settled::Written,
            Durability::Synced => Settled::Synced,
        };
        let Record { session, entry, receipt } = record;
        match entry {
            Entry::Append { events, meta } => {
                let stored = self.sessions.entry(session).or_default();
                stored.events.extend(events.into_iter().map(|event| (event.number, event)));
                stored.meta = Some(meta);
            }
            Entry::Delete => {
                self.sessions.remove(&session);
            }
        }
        (receipt, settled)
    }
}

impl History for MemoryHistory {
    fn submit(&self, record: Record) {
        let mut shelf = self.0.lock().unwrap();
        match &shelf.manner {
            Manner::Prompt | Manner::PanickingOnStatus => {
                let (receipt, settled) = shelf.keep(record);
                drop(shelf);
                receipt.stamp(Ok(settled));
            }
            Manner::Holding => shelf.held.push(record),
            Manner::Failing(error) => {
                let error = error.clone();
                drop(shelf);
                record.receipt.stamp(Err(error));
            }
            Manner::Panicking => {
                shelf.manner = Manner::Prompt;
                drop(shelf);
                panic!("the history was told to panic");
            }
        }
    }

    fn read(
        &self,
        session: SessionId,
        from: u64,
        budget: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, HistoryError>> {
        let shelf = self.0.lock().unwrap();
        let mut weight = 0;
        let events = shelf.sessions.get(&session).map(|log| {
            log.events
                .range(from..)
                .map(|(_, event)| event.clone())
                .take_while(|event| {
                    let fits = weight <= budget;
                    weight += event.kind.weight();
                    fits
                })
                .collect()
        });
        Box::pin(ready(Ok(events.unwrap_or_default())))
    }

    fn find(&self, session: SessionId) -> BoxFuture<'static, Result<Option<SessionMeta>, HistoryError>> {
        let shelf = self.0.lock().unwrap();
        let meta = shelf.sessions.get(&session).and_then(|log| log.meta.clone());
        Box::pin(ready(Ok(meta)))
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'static, Result<Page, HistoryError>> {
        let shelf = self.0.lock().unwrap();
        let mut sessions: Vec<SessionMeta> = shelf
            .sessions
            .values()
            .filter_map(|log| log.meta.clone())
            .filter(|meta| meta.messages > 0 && query.cwd.as_ref().is_none_or(|cwd| meta.cwd == *cwd))
            .collect();
        sessions.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        let start = match &query.cursor {
            None => Ok(0),
            Some(cursor) => cursor.parse::<usize>().map_err(|_| HistoryError::UnknownCursor),
        };
        let page = start.map(|start| {
            let end = sessions.len().min(start + query.limit);
            let next = (end < sessions.len()).then(|| end.to_string());
            Page { sessions: sessions.get(start..end).unwrap_or_default().to_vec(), next }
        });
        Box::pin(ready(page))
    }

    fn status(&self) -> StoreStatus {
        let mut shelf = self.0.lock().unwrap();
        if matches!(shelf.manner, Manner::PanickingOnStatus) {
            shelf.manner = Manner::Prompt;
            drop(shelf);
            panic!("the history was told to panic");
        }
        StoreStatus::Open { moved_aside: None }
    }
}
