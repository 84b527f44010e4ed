//! Tests with programs of other authors. `.ci/integration` installs them and runs these tests. The
//! tests need the feature `integration`, so that `cargo test --workspace` needs nothing but Rust. A
//! missing program is a failure, never a skip.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod hosted_agent;
mod installed;
#[path = "../conversations/mcp_fixture.rs"]
#[expect(dead_code, reason = "shared with the conversation tests, which use the rest of it")]
mod mcp_fixture;
mod mcp_servers;
mod second_version;
