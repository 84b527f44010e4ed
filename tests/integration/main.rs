//! Tests with programs that were written without us. `.ci/integration` installs them and runs these tests; they need
//! the feature `integration`, so that `cargo test --workspace` needs nothing but Rust. A program that is missing here
//! is a failure, never a skip.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod installed;
mod mcp_servers;
#[path = "../conversations/workshop.rs"]
#[expect(dead_code, reason = "shared with the conversation tests, which use the rest of it")]
mod workshop;
