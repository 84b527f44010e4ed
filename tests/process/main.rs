//! Tests of the real binary: sockets, bridges, signals and crashes. Tests that need no process are
//! in `conversations`.
//!
//! Every test has its own home, ends its processes by process id, and waits for conditions with a
//! deadline.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod harness;

mod activation;
mod ask;
mod bad_input;
mod bridge;
mod consent;
mod crash;
mod ctl;
mod daemon;
mod doctor;
mod environment;
mod examples;
mod first_editor;
mod http;
mod install;
mod kills;
mod late;
mod login;
mod login_shell;
mod looking;
mod lost_socket;
mod models;
mod order;
mod own_places;
mod providers;
mod recovery;
mod reload;
mod restart;
mod sdk;
mod secrets;
mod self_approval;
mod servers;
mod setup;
mod silence;
mod skew;
mod steering;
mod storms;
mod stuck;
mod talking;
mod top;
mod trouble;
