//! Lets sled's idle threads sleep.
//!
//! sled keeps seven I/O threads for the whole process. Each waits for work for at most one second
//! and then waits again, which wakes an idle computer seven times per second, and no setting
//! changes that. The kernel can be allowed to let a thread wait longer than it asked for: this is
//! the timer slack of the thread, and a thread inherits it from the thread that starts it. Work
//! still wakes the threads at once.
//!
//! While sled opens a large database, it may start a few threads in addition. They inherit the
//! slack, too, and end after sled has had work a few more times.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::database::{DatabaseError, guarded};

/// How much longer than a second an idle thread of sled may sleep.
const SLACK: Duration = Duration::from_secs(3600);

/// Whether this process has started sled's threads.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Opens a database. If it is the first one of this process, sled's threads start here and inherit
/// the slack of this thread, which has it only until this function returns.
pub(crate) fn open(config: &sled::Config) -> Result<sled::Db, DatabaseError> {
    if STARTED.load(Ordering::Relaxed) {
        return guarded("opening", || Ok(config.open()?));
    }
    let db = system::with_timer_slack(SLACK, || {
        guarded("opening", || {
            let db = config.open()?;
            start_threads(&db);
            Ok(db)
        })
    })?;
    STARTED.store(true, Ordering::Relaxed);
    Ok(db)
}

/// Starts sled's threads, which otherwise start with the first work for them. An asynchronous flush
/// is such work as soon as it is polled; nobody needs its result.
fn start_threads(db: &sled::Db) {
    let _ = pin!(db.flush_async()).poll(&mut Context::from_waker(Waker::noop()));
}
