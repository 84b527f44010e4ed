//! The end of a server's log, which helps to find out why it does not work. Its size is limited.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use process::{follow_lines, log_line};
use tokio::net::unix::pipe;

const KEPT_LINES: usize = 20;
const MAX_LINE_CHARS: usize = 300;

#[derive(Default)]
pub(crate) struct ServerLog {
    lines: Mutex<VecDeque<String>>,
    left_out: Mutex<Vec<String>>,
}

impl ServerLog {
    pub(crate) fn note(&self, line: &str) {
        if let Some(line) = log_line(line, MAX_LINE_CHARS) {
            self.keep(line);
        }
    }

    fn keep(&self, line: String) {
        let mut lines = lock(&self.lines);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
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
    pub(crate) async fn follow(&self, pipe: pipe::Receiver) {
        follow_lines(pipe, MAX_LINE_CHARS, |line| self.keep(line)).await;
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
    fn a_server_log_keeps_its_end_and_cuts_long_lines() {
        let log = ServerLog::default();
        log.note("");
        for number in 0..30 {
            log.note(&format!("line {number}\x1b"));
        }
        log.note(&"x".repeat(100_000));
        let lines = log.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (KEPT_LINES, "line 11"));
        assert_eq!(log.last().unwrap().chars().count(), MAX_LINE_CHARS + 1);
    }
}
