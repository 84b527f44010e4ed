//! Shuts the daemon down: evicts the sessions, ends the threads, closes the store.
//!
//! A thread that waits for a disk or a network folder that does not answer cannot be ended. After a
//! deadline the process exits without it, once the store is closed.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use acpd_actors::Runtime;
use acpd_http::HttpServer;
use actix::Arbiter;
use futures_util::StreamExt;
use history::Store;
use signal_hook::consts::SIGHUP;
use signal_hook_tokio::Signals;

/// How long the eviction of all sessions may take.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

/// How long HTTP clients may take after that to receive their last messages.
const HTTP_DEADLINE: Duration = Duration::from_secs(3);

/// How long the arbiters may take to end once they are idle.
const THREADS_DEADLINE: Duration = Duration::from_secs(2);

/// How long the store may take to write everything to the disk.
const STORE_DEADLINE: Duration = Duration::from_secs(10);

/// Evicts every session. A second signal cuts this short; the remaining sessions are repaired when
/// they are opened again.
pub(super) async fn drain(runtime: &Runtime, http: Option<HttpServer>, signals: &mut Signals) {
    let close_sessions = async {
        runtime.drain(DRAIN_DEADLINE).await;
        if let Some(http) = http
            && tokio::time::timeout(HTTP_DEADLINE, http.close()).await.is_err()
        {
            tracing::warn!("some HTTP clients did not read their last messages in time");
        }
    };
    tokio::select! {
        () = close_sessions => {}
        () = second_signal(signals) => tracing::warn!("received a second signal; stopping at once"),
    }
}

/// Resolves at a signal to stop. SIGHUP is ignored, because the daemon is already stopping.
async fn second_signal(signals: &mut Signals) {
    while let Some(signal) = signals.next().await {
        if signal != SIGHUP {
            return;
        }
    }
    std::future::pending().await
}

/// Ends the arbiters, except those that are blocked.
pub(super) fn end_threads(arbiters: Vec<Arbiter>) {
    let ends = arbiters.into_iter().map(|arbiter| {
        arbiter.stop();
        move || {
            if arbiter.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    });
    let left = run_all(ends, THREADS_DEADLINE);
    if left > 0 {
        tracing::warn!(left, "exiting although some threads are blocked, perhaps by a disk that does not answer");
    }
}

/// Closes the store. Returns false if that took too long.
pub(super) fn close(store: &Arc<Store>) -> bool {
    let store = store.clone();
    let is_closed = run_all([move || store.close()], STORE_DEADLINE) == 0;
    if is_closed {
        tracing::info!("stopped");
    } else {
        tracing::error!("cannot close the history in time; it is repaired when it is opened again");
    }
    is_closed
}

/// Runs each function on its own thread, and returns how many have not ended by the deadline.
fn run_all<F: FnOnce() + Send + 'static>(works: impl IntoIterator<Item = F>, deadline: Duration) -> usize {
    let (sender, receiver) = mpsc::channel();
    let mut left = 0;
    for work in works {
        let sender = sender.clone();
        let run = move || {
            work();
            // The receiver is gone after the deadline.
            let _ = sender.send(());
        };
        if thread::Builder::new().name("shutdown".to_owned()).spawn(run).is_ok() {
            left += 1;
        }
    }
    let deadline = Instant::now() + deadline;
    while left > 0 && receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {
        left -= 1;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix::test]
    async fn an_arbiter_with_a_thread_that_hangs_is_left_behind() {
        let (_held, never) = mpsc::channel::<()>();
        let arbiter = Arbiter::new();
        let (begun, hangs) = mpsc::channel();
        arbiter.spawn(async move {
            tokio::task::spawn_blocking(move || {
                let _ = begun.send(());
                let _ = never.recv();
            });
        });
        hangs.recv().unwrap();
        // This returns, although one thread does not end.
        end_threads(vec![arbiter, Arbiter::new()]);
    }

    #[test]
    fn threads_that_do_not_end_are_counted() {
        let (_held, never) = mpsc::channel::<()>();
        let never = std::sync::Mutex::new(never);
        let hang: Box<dyn FnOnce() + Send> = Box::new(move || drop(never.lock().map(|never| never.recv())));
        assert_eq!(run_all([hang, Box::new(|| {})], Duration::from_millis(300)), 1);
    }
}
