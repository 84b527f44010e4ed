//! Reads a request's body within limits of size and time.
//!
//! All bodies that are being read or passed on share one budget, because a single body may be as
//! long as the longest message. Messages of WebSocket clients share it, too (see `meter`).

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::HttpRefusal;

/// How long the next piece of a body may take.
const PIECE_DEADLINE: Duration = Duration::from_secs(15);

/// A body needs a part of the budget only beyond this many bytes, so long ones do not keep out
/// short ones, such as a cancellation.
const FREE: usize = 256 << 10;

/// The budget is counted in pieces of this many bytes.
const UNIT: usize = 64 << 10;

/// The memory that long bodies may use together.
#[derive(Clone)]
pub(crate) struct BodyBudget(Arc<Semaphore>);

impl BodyBudget {
    /// A budget for two messages of the greatest length.
    pub(crate) fn for_messages_of(limit: usize) -> Self {
        Self(Arc::new(Semaphore::new(2 * limit.div_ceil(UNIT) + 2)))
    }

    /// Takes the part of the budget that a body of this length needs beyond what it holds already.
    pub(crate) fn take(&self, held: &mut Option<OwnedSemaphorePermit>, length: usize) -> Result<(), HttpRefusal> {
        let needed = length.saturating_sub(FREE).div_ceil(UNIT);
        let missing = needed.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).map_err(|_| HttpRefusal::TooLong)?;
        let more = self.0.clone().try_acquire_many_owned(missing).map_err(|_| HttpRefusal::TooBusy)?;
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// A body, with its part of the budget.
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    _budget: Option<OwnedSemaphorePermit>,
}

pub(crate) async fn read(
    request: &HttpRequest,
    mut body: web::Payload,
    limit: usize,
    budget: &BodyBudget,
) -> Result<Body, HttpRefusal> {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limit as u64) {
        return Err(HttpRefusal::TooLong);
    }
    let mut whole = BytesMut::new();
    let mut held = None;
    loop {
        match tokio::time::timeout(PIECE_DEADLINE, body.next()).await {
            Err(_) => return Err(HttpRefusal::TooSlow),
            Ok(None) => return Ok(Body { bytes: whole.freeze(), _budget: held }),
            Ok(Some(Err(_))) => return Err(HttpRefusal::Bad("the connection closed before the whole body arrived")),
            Ok(Some(Ok(piece))) if whole.len() + piece.len() > limit => return Err(HttpRefusal::TooLong),
            Ok(Some(Ok(piece))) => {
                budget.take(&mut held, whole.len() + piece.len())?;
                whole.extend_from_slice(&piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bodies_share_a_budget_and_short_ones_need_none() {
        let budget = BodyBudget::for_messages_of(1 << 20);
        let (mut first, mut second, mut third) = (None, None, None);
        for length in [1 << 10, FREE, 1 << 20] {
            assert_eq!(budget.take(&mut first, length), Ok(()));
        }
        assert_eq!(budget.take(&mut second, 1 << 20), Ok(()));
        assert_eq!(budget.take(&mut third, 1 << 20), Err(HttpRefusal::TooBusy));
        assert_eq!(budget.take(&mut third, FREE), Ok(()), "a short one is always taken");
        drop(first);
        assert_eq!(budget.take(&mut third, 1 << 20), Ok(()), "a body gives its part back");
    }
}
