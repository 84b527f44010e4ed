//! Reads a child's standard error: every line goes to the daemon's log, and the last one is kept to
//! explain a failure.

use std::sync::{Arc, Mutex, PoisonError};

use process::follow_lines;
use tokio::io::AsyncRead;

const MAX_LINE_CHARS: usize = 1000;

#[derive(Clone, Default)]
pub(crate) struct LastLine(Arc<Mutex<Option<String>>>);

impl LastLine {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads a pipe to its end, remembers the last line, and calls `on_line` with each line.
    pub(crate) async fn follow(self, pipe: impl AsyncRead + Unpin, on_line: impl Fn(&str)) {
        let note = move |line: String| {
            on_line(&line);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        };
        follow_lines(pipe, MAX_LINE_CHARS, note).await;
    }
}
