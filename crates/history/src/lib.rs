//! The history on disk: `Store` keeps the events and summaries of all sessions in sled.
//!
//! This is the only crate that knows sled, and the stored form is versioned here. It does not know
//! actors, ACP, or the meaning of events beyond how durable they must be.
//!
//! Records enter through `Queue`, the one `Committer` thread turns them into batches and writes
//! them, and readers use the same open database from tokio's blocking threads. Each weakness of
//! sled is handled in one place: what it does not sync and how it fails in `database`, its hang
//! after a failed write in `flush_watchdog`, its need for room to open on a full disk in `reserve`,
//! its threads that wake every second in `sled_threads`, and stores that it cannot read in
//! `opening`, `salvage` and `sled_log`.

mod batch_builder;
mod committer;
mod copy_job;
mod database;
mod delete_job;
mod flush_watchdog;
mod job;
mod keys;
mod opening;
mod queue;
mod read;
mod reserve;
mod salvage;
mod shared;
mod sled_log;
mod sled_threads;
mod store;
mod stored;
mod text_run;

pub use database::SyncFile;
pub use store::{Store, StoreSettings};
