//! Counts the bytes of a WebSocket client's messages that are not passed on yet, so that long
//! messages share the budget of all bodies.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use actix_http::BoxedPayloadStream;
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::{FromRequest, HttpRequest, web};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::BodyBudget;
use crate::refusal::HttpRefusal;

/// The count of one client. Clones share it.
#[derive(Clone)]
pub(crate) struct BodyMeter {
    budget: BodyBudget,
    count: Rc<RefCell<Count>>,
}

#[derive(Default)]
struct Count {
    /// The number of bytes since the last whole message.
    unparsed: usize,
    held: Option<OwnedSemaphorePermit>,
    is_refused: bool,
}

impl BodyMeter {
    pub(crate) fn new(budget: &BodyBudget) -> Self {
        Self { budget: budget.clone(), count: Rc::default() }
    }

    /// Passes a body on, and ends it with an error when there is no budget for more of it.
    pub(crate) async fn metered(
        &self,
        request: &HttpRequest,
        body: web::Payload,
    ) -> Result<web::Payload, actix_web::Error> {
        let counted: BoxedPayloadStream = Box::pin(self.clone().count(body));
        let mut counted = Payload::Stream { payload: counted };
        web::Payload::from_request(request, &mut counted).await
    }

    fn count(
        self,
        body: impl Stream<Item = Result<Bytes, PayloadError>>,
    ) -> impl Stream<Item = Result<Bytes, PayloadError>> {
        body.map(move |piece| {
            let piece = piece?;
            let taken = self.take(piece.len());
            taken.map(|()| piece).map_err(|refusal| PayloadError::Io(io::Error::other(refusal.to_string())))
        })
    }

    fn take(&self, bytes: usize) -> Result<(), HttpRefusal> {
        let count = &mut *self.count.borrow_mut();
        count.unparsed = count.unparsed.saturating_add(bytes);
        let taken = self.budget.take(&mut count.held, count.unparsed);
        count.is_refused |= taken.is_err();
        taken
    }

    /// Begins to count the next message. Returns the part of the budget that the last one holds.
    ///
    /// The piece that ended the last message may also contain the beginning of the next one. Those
    /// bytes, at most one read from the socket, are not counted.
    pub(crate) fn message_ends(&self) -> Option<OwnedSemaphorePermit> {
        let count = &mut *self.count.borrow_mut();
        count.unparsed = 0;
        count.held.take()
    }

    /// Whether the body ended because there was no budget for more of it.
    pub(crate) fn is_refused(&self) -> bool {
        self.count.borrow().is_refused
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn read(meter: &BodyMeter, pieces: usize) -> usize {
        let piece = || Ok(Bytes::from(vec![0; 64 << 10]));
        let all = meter.clone().count(stream::iter((0..pieces).map(move |_| piece())));
        all.take_while(|piece| std::future::ready(piece.is_ok())).count().await
    }

    #[tokio::test]
    async fn messages_of_all_clients_share_one_budget_until_they_are_passed_on() {
        // Two messages of one megabyte, which is 16 pieces.
        let budget = BodyBudget::for_messages_of(1 << 20);
        let clients: Vec<BodyMeter> = (0..3).map(|_| BodyMeter::new(&budget)).collect();
        assert_eq!([read(&clients[0], 16).await, read(&clients[1], 16).await], [16, 16]);
        assert!(read(&clients[2], 16).await < 16 && clients[2].is_refused());
        assert_eq!(read(&BodyMeter::new(&budget), 4).await, 4, "a short one is always read");
        let passed_on = clients[0].message_ends();
        assert!(passed_on.is_some() && !clients[0].is_refused());
        assert!(read(&BodyMeter::new(&budget), 16).await < 16, "it is still held while it is passed on");
        drop((passed_on, clients));
        assert_eq!(read(&BodyMeter::new(&budget), 16).await, 16);
    }
}
