//! Reads a child's standard error: every line goes to the daemon's log, and the last one is kept to
//! explain a failure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::text::cut;
use tokio::io::{AsyncRead, AsyncReadExt};

const LONGEST: usize = 1000;

/// After this many bytes, the output of a child is read more slowly.
const THROTTLE_AFTER_BYTES: u64 = 16 << 20;

#[derive(Clone, Default)]
pub(crate) struct LastLine(Arc<Mutex<Option<String>>>);

impl LastLine {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, line: &[u8], on_line: &impl Fn(&str)) {
        let line = String::from_utf8_lossy(line);
        let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').take(LONGEST + 1).collect();
        if line.trim().is_empty() {
            return;
        }
        let line = cut(line.trim_end(), LONGEST);
        on_line(&line);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// Reads a pipe to its end, remembers the last line, and calls `on_line` with each line.
    pub(crate) async fn follow(self, mut pipe: impl AsyncRead + Unpin, on_line: impl Fn(&str)) {
        let mut line = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        let mut total = 0;
        while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
            for byte in &buffer[..length] {
                if *byte == b'\n' {
                    self.note(&std::mem::take(&mut line), &on_line);
                } else if line.len() < 4 * LONGEST {
                    line.push(*byte);
                }
            }
            total += length as u64;
            if total > THROTTLE_AFTER_BYTES {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        self.note(&line, &on_line);
    }
}
