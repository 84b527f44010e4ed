//! Tests of models against a real HTTP server on this machine, which speaks all dialects from
//! scripts.
//!
//! Everything here uses the public API of the crate: a configuration, a catalogue, a model, a
//! stream.

#![allow(clippy::unwrap_used, reason = "all of this is test code, outside #[test] functions too")]

mod adjustments;
mod caching;
mod catalogue;
mod device;
mod dialects;
mod failures;
mod guesses;
mod keys;
mod limits;
mod long_requests;
mod refusals;
mod shapes;
mod support;
mod validating_servers;
