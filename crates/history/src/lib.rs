//! The history on disk: `Store` keeps the events and summaries of all sessions in sled.
//!
//! This is the only crate that knows sled, and the stored form is versioned here. It knows nothing of actors, of ACP or
//! of what events mean beyond how safe they must be.
//!
//! Records enter by `Queue`, the one `Committer` thread drafts them into batches and writes them, and readers look at
//! the same open database from tokio's blocking threads. sled's own weaknesses are met in one place each: what it does
//! not sync and how it fails in `disk`, its hang after a failed write in `nudge`, its need for room to open on a full
//! disk in `reserve`, and stores that it cannot read in `opening` and `salvage`.

mod committer;
mod copying;
mod disk;
mod draft;
mod job;
mod keys;
mod nudge;
mod opening;
mod queue;
mod read;
mod removing;
mod reserve;
mod salvage;
mod shared;
mod sled_log;
mod store;
mod stored;

pub use store::{Settings, Store};
