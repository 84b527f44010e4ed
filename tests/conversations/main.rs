//! Conversations between scripted editors and real actors, one file a theme. Each test checks a whole transcript.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod attaching;
mod commands;
mod crashes;
mod durability;
mod errors;
mod permissions;
mod sessions;
mod sharing;
mod turns;
