//! The callers that wait for an answer from the directory, by ticket. A caller that has given up is
//! still answered; the dropped answer returns an unused permit, which then passes to the next
//! caller.

use std::collections::HashMap;

use domain::directory::CallerId;
use domain::history::HistoryError;
use tokio::sync::oneshot;

use super::{Closed, Opening};

type Opened = Result<Opening, Closed>;
type Evicted = Result<(), HistoryError>;

#[derive(Default)]
pub(super) struct Callers {
    tickets: u64,
    opening: HashMap<CallerId, oneshot::Sender<Opened>>,
    evicting: HashMap<CallerId, oneshot::Sender<Evicted>>,
    draining: HashMap<CallerId, oneshot::Sender<()>>,
}

impl Callers {
    fn ticket(&mut self) -> CallerId {
        self.tickets += 1;
        CallerId(self.tickets)
    }

    pub(super) fn wait_to_open(&mut self) -> (CallerId, oneshot::Receiver<Opened>) {
        let (ticket, (sender, receiver)) = (self.ticket(), oneshot::channel());
        self.opening.insert(ticket, sender);
        (ticket, receiver)
    }

    pub(super) fn wait_for_eviction(&mut self) -> (CallerId, oneshot::Receiver<Evicted>) {
        let (ticket, (sender, receiver)) = (self.ticket(), oneshot::channel());
        self.evicting.insert(ticket, sender);
        (ticket, receiver)
    }

    pub(super) fn wait_for_drain(&mut self) -> (CallerId, oneshot::Receiver<()>) {
        let (ticket, (sender, receiver)) = (self.ticket(), oneshot::channel());
        self.draining.insert(ticket, sender);
        (ticket, receiver)
    }

    pub(super) fn opened(&mut self, caller: CallerId, opened: Opened) {
        if let Some(sender) = self.opening.remove(&caller) {
            let _ = sender.send(opened);
        }
    }

    pub(super) fn evicted(&mut self, caller: CallerId, evicted: Evicted) {
        if let Some(sender) = self.evicting.remove(&caller) {
            let _ = sender.send(evicted);
        }
    }

    pub(super) fn drained(&mut self, caller: CallerId) {
        if let Some(sender) = self.draining.remove(&caller) {
            let _ = sender.send(());
        }
    }
}
