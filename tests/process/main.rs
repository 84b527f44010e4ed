//! Tests of the real binary: sockets, bridges, signals and crashes. Tests that need no process are
//! in `conversations`.
//!
//! Every test has its own home, ends its processes by process id, and waits for conditions with a
//! deadline.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod harness;

mod activation;
mod agents;
mod ask;
mod ask_live;
mod ask_terminal;
mod bad_input;
mod bridge;
mod consent_screens;
mod counts;
mod crash;
mod ctl;
mod ctl_control;
mod ctl_inspection;
mod daemon;
mod doctor;
mod environment;
mod examples;
mod first_editor;
mod flood;
mod hosted;
mod hosted_requests;
mod http;
mod install;
mod json_output;
mod login;
mod login_shell;
mod lost_socket;
mod mcp_logins;
mod mcp_servers;
mod message_order;
mod models;
mod protected_files;
mod provider_lines;
mod providers;
mod question_display;
mod random_kills;
mod reconnect_storms;
mod recovery;
mod reload;
mod restart;
mod sdk;
mod secrets;
mod self_approval;
mod setup;
mod silent_daemon;
mod slow_reader;
mod slow_resume;
mod storage_failures;
mod top;
mod version_skew;
mod worktrees;
