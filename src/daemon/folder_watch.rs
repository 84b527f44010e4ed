//! Reports when something in a folder may have changed.
//!
//! The system reports a change at once. A timer also reports from time to time, because the system
//! does not notice a folder that is mounted over or created again.

use std::path::Path;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::Instant;

/// The pause after a change, because a program that replaces a file removes it first.
const SETTLING_TIME: Duration = Duration::from_millis(100);

pub(super) struct FolderWatch {
    /// The system's events, or None if it has no more watches or none at all; then only the timer
    /// reports.
    events: Option<pipe::Receiver>,
    pause: Duration,
    /// When the timer reports next.
    due: Instant,
}

impl FolderWatch {
    /// Watches a folder. Must be called inside a tokio runtime.
    pub(super) fn on(folder: &Path, pause: Duration) -> Self {
        Self { events: events(folder).ok(), pause, due: Instant::now() + pause }
    }

    pub(super) fn look_again_in(&mut self, pause: Duration) {
        self.due = Instant::now() + pause;
    }

    /// Resolves when the folder may have changed. Dropping the future loses no change.
    pub(super) async fn changed(&mut self) {
        if let Some(events) = &self.events {
            tokio::select! {
                _ = events.readable() => self.due = self.due.min(Instant::now() + SETTLING_TIME),
                () = tokio::time::sleep_until(self.due) => {}
            }
        }
        tokio::time::sleep_until(self.due).await;
        self.due = Instant::now() + self.pause;
        self.drain();
    }

    /// Discards the events, because the caller inspects the file itself.
    fn drain(&self) {
        let Some(events) = &self.events else { return };
        let mut bytes = [0; 4096];
        while matches!(events.try_read(&mut bytes), Ok(length) if length > 0) {}
    }
}

/// Watches a folder. The system's events are read like the bytes of a pipe.
fn events(folder: &Path) -> std::io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd_unchecked(system::folder_events(folder)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_folder_change_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = FolderWatch::on(folder.path(), Duration::from_secs(600));
        assert!(watch.changed().now_or_never().is_none());
        fs::write(folder.path().join("x"), "").unwrap();
        watch.changed().await;
        assert!(watch.changed().now_or_never().is_none());
        fs::remove_dir_all(folder.path()).unwrap();
        watch.changed().await;
    }
}
