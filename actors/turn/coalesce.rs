//! Joins text that a model sends faster than it can be handled. Each piece costs a message, an
//! event and an update for every client, so thousands of tiny ones that arrive together would keep
//! the arbiter from its other sessions.

use std::pin::Pin;
use std::task::{Context, Poll};

use domain::model::{Delta, ModelError};
use futures_util::stream::{Fuse, Stream, StreamExt};

/// This many pieces in a row, without a wait between them, are passed on as they are.
const UNJOINED: usize = 32;

/// Joined text has at least this many bytes, if that many are available.
const JOINED: usize = 4 << 10;

type Item = Result<Delta, ModelError>;

/// A response stream that joins text which arrives in a burst.
pub(super) struct Coalesced<S> {
    answer: Fuse<S>,
    /// How many pieces have come since the last wait.
    in_a_row: usize,
    /// The item that followed the joined text and is not part of it.
    next: Option<Item>,
}

impl<S: Stream<Item = Item> + Unpin> Coalesced<S> {
    pub(super) fn new(answer: S) -> Self {
        Self { answer: answer.fuse(), in_a_row: 0, next: None }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(next));
        }
        let polled = self.answer.poll_next_unpin(cx);
        self.in_a_row = if polled.is_pending() { 0 } else { self.in_a_row.saturating_add(1) };
        polled
    }

    /// Appends the pieces that have already arrived to a text.
    fn join(&mut self, text: &mut String, is_thought: bool, cx: &mut Context<'_>) {
        while text.len() < JOINED
            && let Poll::Ready(Some(piece)) = self.poll_piece(cx)
        {
            match piece {
                Ok(Delta::Text(more)) if !is_thought => text.push_str(&more),
                Ok(Delta::Thought(more)) if is_thought => text.push_str(&more),
                other => {
                    self.next = Some(other);
                    return;
                }
            }
        }
    }
}

impl<S: Stream<Item = Item> + Unpin> Stream for Coalesced<S> {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        let polled = this.poll_piece(cx);
        if this.in_a_row <= UNJOINED {
            return polled;
        }
        polled.map(|piece| match piece {
            Some(Ok(Delta::Text(mut text))) => {
                this.join(&mut text, false, cx);
                Some(Ok(Delta::Text(text)))
            }
            Some(Ok(Delta::Thought(mut text))) => {
                this.join(&mut text, true, cx);
                Some(Ok(Delta::Thought(text)))
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::turn::FailureKind;
    use futures_util::stream;

    use super::*;

    async fn passed(pieces: Vec<Delta>) -> Vec<Delta> {
        Coalesced::new(stream::iter(pieces.into_iter().map(Ok))).map(Result::unwrap).collect().await
    }

    fn said(deltas: &[Delta]) -> String {
        let text = |delta: &Delta| match delta {
            Delta::Text(text) => text.clone(),
            Delta::Thought(text) => format!("({text})"),
            other => format!("{other:?}"),
        };
        deltas.iter().map(text).collect()
    }

    #[tokio::test]
    async fn a_burst_of_text_is_joined_into_few_pieces_in_the_same_order() {
        let words: Vec<Delta> = (0..10_000).map(|number| Delta::Text(format!("{number} "))).collect();
        let stop = || Delta::Notice("between".to_owned());
        let thoughts = || (0..100).map(|_| Delta::Thought("x".to_owned()));
        let sent: Vec<Delta> = words.iter().cloned().chain([stop()]).chain(thoughts()).chain(words.clone()).collect();
        let passed = passed(sent).await;
        let expected = said(&words) + &said(&[stop()]) + &format!("({})", "x".repeat(100)) + &said(&words);
        assert_eq!(said(&passed), expected);
        assert!(passed.len() < UNJOINED + 2 * (said(&words).len() / JOINED + 1) + 3, "{} pieces", passed.len());
    }

    #[tokio::test]
    async fn text_that_arrives_slowly_is_not_joined() {
        let few: Vec<Delta> = (0..UNJOINED).map(|number| Delta::Text(number.to_string())).collect();
        assert_eq!(passed(few.clone()).await, few);
        // After each piece the answer waits once.
        let waiting = stream::iter((0..100).map(|number| Ok(Delta::Text(number.to_string()))));
        let waiting = waiting.then(|piece| async {
            tokio::task::yield_now().await;
            piece
        });
        assert_eq!(Coalesced::new(Box::pin(waiting)).count().await, 100);
    }

    #[tokio::test]
    async fn a_failure_comes_after_the_text_before_it() {
        let text = (0..100).map(|_| Ok(Delta::Text("x".to_owned())));
        let failed =
            ModelError { kind: FailureKind::Internal, message: "it broke".to_owned(), data: serde_json::Value::Null };
        let all: Vec<Item> = Coalesced::new(stream::iter(text.chain([Err(failed)]))).collect().await;
        assert!(matches!(all.last(), Some(Err(_))));
        assert_eq!(all.iter().flatten().map(|delta| said(std::slice::from_ref(delta)).len()).sum::<usize>(), 100);
    }
}
