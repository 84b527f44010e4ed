//! The end of a server's log, which helps to find out why it does not work. Its size is limited.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::text::cut;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

const KEPT_LINES: usize = 20;
const MAX_LINE_BYTES: usize = 300;

/// After this many bytes, the output of a server is read more slowly.
const THROTTLE_AFTER_BYTES: u64 = 16 << 20;

#[derive(Default)]
pub(crate) struct ServerLog {
    lines: Mutex<VecDeque<String>>,
    left_out: Mutex<Vec<String>>,
}

impl ServerLog {
    pub(crate) fn note(&self, line: &str) {
        let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').take(MAX_LINE_BYTES + 1).collect();
        if line.trim().is_empty() {
            return;
        }
        let mut lines = lock(&self.lines);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(cut(line.trim_end(), MAX_LINE_BYTES));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.lines).iter().cloned().collect()
    }

    /// Records descriptions of what a server offers that cannot be used.
    pub(crate) fn leave_out(&self, what: Vec<String>) {
        for what in what {
            self.note(&format!("[left out: {what}]"));
            let mut left_out = lock(&self.left_out);
            if left_out.len() < KEPT_LINES {
                left_out.push(what);
            }
        }
    }

    /// Takes the descriptions that were recorded since the last call.
    pub(crate) fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.left_out))
    }

    pub(crate) fn last(&self) -> Option<String> {
        lock(&self.lines).back().cloned()
    }

    /// Records every line of a pipe until its end.
    pub(crate) async fn follow(&self, mut pipe: pipe::Receiver) {
        let mut line = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        let mut total = 0;
        while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
            for byte in &buffer[..length] {
                if *byte == b'\n' {
                    self.note(&String::from_utf8_lossy(&std::mem::take(&mut line)));
                } else if line.len() < 4 * MAX_LINE_BYTES {
                    line.push(*byte);
                }
            }
            total += length as u64;
            if total > THROTTLE_AFTER_BYTES {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        self.note(&String::from_utf8_lossy(&line));
    }
}

fn lock<T>(what: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Every operation leaves the lists consistent, so a poisoned lock is harmless.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_end_and_cuts_long_lines() {
        let log = ServerLog::default();
        log.note("");
        for number in 0..30 {
            log.note(&format!("line {number}\x1b"));
        }
        log.note(&"x".repeat(100_000));
        let lines = log.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (KEPT_LINES, "line 11"));
        assert_eq!(log.last().unwrap().chars().count(), MAX_LINE_BYTES + 1);
    }
}
