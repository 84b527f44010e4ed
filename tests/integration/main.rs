//! Tests with third-party programs. `.ci/integration` installs them and runs these tests. The tests
//! need the feature `integration`, so that `cargo test --workspace` needs nothing but Rust. A
//! missing program is a failure, never a skip.

#![allow(clippy::unwrap_used, reason = "tests may")]

#[path = "../process/harness.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the process tests, which use the rest of it")]
mod harness;
mod hosted_agent;
mod http2_provider;
mod installed;
mod language_server;
mod local_model;
#[path = "../conversations/mcp_fixture.rs"]
#[expect(dead_code, reason = "shared with the conversation tests, which use the rest of it")]
mod mcp_fixture;
mod mcp_servers;
mod model_server;
mod real_agents;
mod sdk_agents;
mod second_version;
