//! Conversations between scripted editors and real actors, one file per theme. Each test checks a
//! whole transcript.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod agents;
mod agents_at_once;
mod always_asked;
mod arbitrary_input;
mod attached_files;
mod attaching;
mod authentication;
mod bad_params;
mod budgets;
mod cancel_request;
mod client_dialects;
mod client_mistakes;
mod commands;
mod compaction;
mod costs;
mod crashes;
mod custom_commands;
mod durability;
mod editor_files_and_terminals;
mod errors;
mod five_steps;
mod framing_and_limits;
mod hooks;
mod hosted;
mod inquiries;
mod instructions;
mod loads_and_lists;
mod mcp_fixture;
mod mcp_server_failures;
mod mcp_servers;
mod model_switching;
mod notifications;
mod partial_calls;
mod permissions;
mod project;
mod prompt_blocks;
mod protocol_extensions;
mod providers;
mod questions_across_restarts;
mod reopened_sessions;
mod rules;
mod second_version;
mod session_lifetimes;
mod sessions;
mod shared_sessions;
mod steering;
mod sub_agent_budgets;
mod traces;
mod turns;
mod undo;
mod worktrees;
