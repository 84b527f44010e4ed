//! The callers that wait for an answer from the directory, by ticket. A caller that has given up is
//! still answered; the dropped answer returns an unused permit, which then passes to the next
//! caller.

use std::collections::HashMap;

use domain::directory::Ticket;
use domain::history::HistoryError;
use tokio::sync::oneshot;

use super::{Closed, Opening};

type Opened = Result<Opening, Closed>;
type Evicted = Result<(), HistoryError>;

#[derive(Default)]
pub(super) struct Callers {
    tickets: u64,
    opening: HashMap<Ticket, oneshot::Sender<Opened>>,
    evicting: HashMap<Ticket, oneshot::Sender<Evicted>>,
    draining: HashMap<Ticket, oneshot::Sender<()>>,
}

impl Callers {
    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    pub(super) fn wait_to_open(&mut self) -> (Ticket, oneshot::Receiver<Opened>) {
        let (ticket, (sender, receiver)) = (self.ticket(), oneshot::channel());
        self.opening.insert(ticket, sender);
        (ticket, receiver)
    }

    pub(super) fn wait_for_eviction(&mut self) -> (Ticket, oneshot::Receiver<Evicted>) {
        let (ticket, (sender, receiver)) = (self.ticket(), oneshot::channel());
        self.evicting.insert(ticket, sender);
        (ticket, receiver)
    }

    pub(super) fn wait_for_drain(&mut self) -> (Ticket, oneshot::Receiver<()>) {
        let (ticket, (sender, receiver)) = (self.ticket(), oneshot::channel());
        self.draining.insert(ticket, sender);
        (ticket, receiver)
    }

    pub(super) fn opened(&mut self, caller: Ticket, opened: Opened) {
        if let Some(sender) = self.opening.remove(&caller) {
            let _ = sender.send(opened);
        }
    }

    pub(super) fn evicted(&mut self, caller: Ticket, evicted: Evicted) {
        if let Some(sender) = self.evicting.remove(&caller) {
            let _ = sender.send(evicted);
        }
    }

    pub(super) fn drained(&mut self, caller: Ticket) {
        if let Some(sender) = self.draining.remove(&caller) {
            let _ = sender.send(());
        }
    }
}
