//! Lines typed at the terminal. A thread of its own reads them, since such a read cannot be taken back; it starts with
//! the first line that is wanted and ends with the process.

use std::io::{self, IsTerminal};
use std::thread;

use tokio::sync::mpsc;

pub(super) struct Terminal {
    lines: Option<mpsc::Receiver<String>>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        Self { lines: None }
    }

    /// Whether there is somebody to ask.
    pub(super) fn is_there(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// The next line, or None when there are no more. Nothing is lost if this is dropped while it waits.
    pub(super) async fn line(&mut self) -> Option<String> {
        self.lines.get_or_insert_with(start).recv().await
    }
}

fn start() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
