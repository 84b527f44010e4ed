//! Reads an answer as it arrives: bytes, events, deltas, and the limits on silence. Knows nothing
//! of retries.

use std::collections::VecDeque;
use std::time::Duration;

use domain::model::Delta;
use domain::turn::Usage;
use reqwest::Response;

use super::{Fold, content_type};
use crate::failure::Failure;
use crate::http::ProviderTimeouts;
use crate::limits;
use crate::ndjson::LineSplitter;
use crate::sse::{Sse, TooLong};

/// How long to wait for the final token counts after the stop reason, because some servers never
/// end a stream.
const AFTER_STOP: Duration = Duration::from_secs(5);

pub(super) struct ResponseReader {
    response: Response,
    framing: Framing,
    events: VecDeque<String>,
    fold: Box<dyn Fold>,
    /// Whether anything but comments has arrived.
    has_events: bool,
    /// The number of bytes that have arrived.
    read: usize,
}

enum Framing {
    Events(Sse),
    Lines(LineSplitter),
    /// One JSON document: the server does not stream, or sends an error with a success status.
    Whole(Vec<u8>),
}

pub(super) enum ReadProgress {
    More,
    Over,
}

impl ResponseReader {
    pub(super) fn new(response: Response, fold: Box<dyn Fold>) -> Self {
        let is_whole = content_type(&response).starts_with("application/json");
        let framing = match fold.is_in_lines() {
            true => Framing::Lines(LineSplitter::default()),
            false if is_whole => Framing::Whole(Vec::new()),
            false => Framing::Events(Sse::default()),
        };
        Self { response, framing, events: VecDeque::new(), fold, has_events: false, read: 0 }
    }

    pub(super) fn spent(&self) -> Usage {
        self.fold.spent()
    }

    /// Reads until there is something to emit or the answer is over.
    pub(super) async fn advance(
        &mut self,
        deltas: &mut VecDeque<Delta>,
        timeouts: &ProviderTimeouts,
    ) -> Result<ReadProgress, Failure> {
        while deltas.is_empty() {
            let limit = match (self.fold.has_stopped(), self.has_events) {
                (true, _) => timeouts.idle().min(AFTER_STOP),
                (false, true) => timeouts.idle(),
                (false, false) => timeouts.first(),
            };
            let failure = match tokio::time::timeout(limit, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    self.push(&bytes)?;
                    match self.fold_events(deltas) {
                        Ok(()) if self.fold.is_over() => return Ok(self.finish(deltas)),
                        Ok(()) => continue,
                        Err(failure) => failure,
                    }
                }
                Ok(Ok(None)) => {
                    self.close();
                    // An incomplete event at the end means that the stream was cut, even if it
                    // parses, unless it is an error from the server.
                    match self.fold_events(deltas) {
                        Err(failure) if failure.status.is_some() => failure,
                        Ok(()) | Err(_) => Failure::cut(),
                    }
                }
                Ok(Err(_)) => Failure::cut(),
                Err(_) => Failure::stalled(limit),
            };
            return if self.fold.has_stopped() { Ok(self.finish(deltas)) } else { Err(failure) };
        }
        Ok(ReadProgress::More)
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.read += bytes.len();
        if self.read > limits::ANSWER {
            return Err(Failure::too_long(&format!("the answer exceeds {} MiB", limits::ANSWER >> 20)));
        }
        match &mut self.framing {
            Framing::Events(sse) => sse.push(bytes, &mut self.events).map_err(too_long)?,
            Framing::Lines(lines) => lines.push(bytes, &mut self.events).map_err(too_long)?,
            Framing::Whole(body) if body.len() + bytes.len() > limits::DOCUMENT => {
                return Err(Failure::too_long(&format!("the answer exceeds {} MiB", limits::DOCUMENT >> 20)));
            }
            Framing::Whole(body) => body.extend_from_slice(bytes),
        }
        self.has_events |= !self.events.is_empty();
        Ok(())
    }

    /// Completes the last event at the end of the body.
    fn close(&mut self) {
        match &mut self.framing {
            Framing::Events(sse) => sse.finish(&mut self.events),
            Framing::Lines(lines) => lines.finish(&mut self.events),
            Framing::Whole(body) => self.events.push_back(String::from_utf8_lossy(&std::mem::take(body)).into_owned()),
        }
    }

    fn fold_events(&mut self, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        while !self.fold.is_over()
            && let Some(event) = self.events.pop_front()
        {
            self.fold.take(&event, deltas)?;
        }
        Ok(())
    }

    fn finish(&mut self, deltas: &mut VecDeque<Delta>) -> ReadProgress {
        self.fold.finish(deltas);
        ReadProgress::Over
    }

    /// Reads the rest of the body in the background, so that the connection can serve the next
    /// request.
    pub(super) fn drain_in_background(mut self) {
        const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
        tokio::spawn(async move {
            let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
            // A server that does not end its stream costs only its connection.
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
        });
    }
}

fn too_long(_: TooLong) -> Failure {
    Failure::too_long(&format!("one event of the answer exceeds {} MiB", limits::EVENT >> 20))
}
