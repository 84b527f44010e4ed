//! Each crate uses only the names that it may know, and some calls are allowed in one file only.
//! The lists are in `bans`.

use crate::bans::BANS;
use crate::source::{File, code, count, goes_into, hold, is_name, paths, tree};

/// The one file that reads the variables of a user's folders.
const PATHS: &str = "crates/bridge/src/paths.rs";

fn forbidden_names(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let found = paths(&code(&file.text));
        for ban in BANS.iter().filter(|ban| (ban.who)(&file.path)) {
            let named = found.iter().filter(|(_, path)| ban.names.iter().any(|name| goes_into(path, name)));
            complaints.extend(named.map(|(line, path)| format!("{}:{line}: `{path}`: {}", file.path, ban.advice)));
        }
    }
    complaints
}

fn forbidden_calls(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = code(&file.text);
        for (number, line) in (1..).zip(code.lines()) {
            let mut complain = |what: &str| complaints.push(format!("{}:{number}: {what}", file.path));
            if line.split(|letter| !is_name(letter)).any(|word| word == "do_send") && file.path != "actors/mail.rs" {
                complain("`do_send` drops mail silently; use `tell` or `report` of actors/mail.rs");
            }
            if line.contains("#[ignore") || line.contains("#[serial") {
                complain("a test runs always and beside others; mend it or remove it");
            }
        }
        // Strings are part of this one: the names of variables are strings.
        let is_of_program = ["src/", "crates/bridge/"].iter().any(|folder| file.path.starts_with(folder));
        let reads_xdg = file.text.contains(concat!("\"", "XDG_"));
        if is_of_program && file.path != PATHS && reads_xdg {
            complaints.push(format!("{}: ask `Paths`; {PATHS} alone reads the XDG variables", file.path));
        }
    }
    complaints
}

/// What only Linux has. `crates/system` offers it to the rest of the program.
const LINUX: [&str; 7] =
    ["/proc/", "\"/proc\"", "inotify::", "memfd_create", "socket_peercred", "tcp_user_timeout", "openat2"];

/// The places that may use it: the implementation for Linux, what docs/packages.md lists for a
/// port, and rules about the commands of users.
const LINUX_ONLY: [&str; 5] = [
    "crates/system/src/",
    "crates/process/src/",
    "crates/http/src/peer_process.rs",
    "crates/project/src/worktrees/confinement.rs",
    "crates/policy/src/",
];

fn calls_of_linux(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_of_program = |path: &str| {
        let folders = ["src/", "actors/", "crates/"];
        folders.iter().any(|folder| path.starts_with(folder)) && !path.contains("tests") && !path.contains("/benches/")
    };
    let may = |path: &str| LINUX_ONLY.iter().any(|place| path.starts_with(place));
    for file in files.iter().filter(|file| file.is_rust() && is_of_program(&file.path) && !may(&file.path)) {
        let program = file.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (number, line) in (1..).zip(program.lines()).filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for name in LINUX.iter().filter(|name| line.contains(**name)) {
                let advice = "only Linux has this; put it into crates/system, with what takes its place elsewhere";
                complaints.push(format!("{}:{number}: `{name}`: {advice}", file.path));
            }
        }
    }
    complaints
}

#[test]
fn what_only_linux_has_is_in_one_place() {
    hold(calls_of_linux(&tree()));
}

#[test]
fn calls_of_linux_are_found() {
    let read = "fs::read(\"/proc/self/stat\")";
    assert_eq!(count(calls_of_linux, "src/daemon.rs", read), 1);
    assert_eq!(count(calls_of_linux, "crates/models/src/key.rs", "inotify::init()"), 1);
    assert_eq!(count(calls_of_linux, "src/daemon.rs", &format!("// {read}")), 0);
    assert_eq!(count(calls_of_linux, "crates/system/src/linux.rs", read), 0);
}

#[test]
fn crates_name_only_what_they_may_know() {
    hold(forbidden_names(&tree()));
}

#[test]
fn mail_goes_through_one_file_and_tests_always_run() {
    hold(forbidden_calls(&tree()));
}

#[test]
fn every_ban_bites_where_it_should_and_nowhere_else() {
    for (path, text) in [
        ("actors/session.rs", "use wire::Id;"),
        ("actors/session.rs", "use acpd_wire::Id;"),
        ("actors/turn.rs", "use std::{env, fs};"),
        ("actors/turn.rs", "tokio::net::UnixStream::connect()"),
        ("crates/domain/src/event.rs", "tokio::spawn(x)"),
        ("crates/wire/src/rpc.rs", "use actix::Addr;"),
        ("crates/testkit/src/editor.rs", "use wire::rpc;"),
        ("actors/connection/opening.rs", "use wire::v1::encode;"),
        ("crates/bridge/src/bridge.rs", "use wire::v2;"),
        ("crates/bridge/src/launch.rs", "use tokio::net::UnixStream;"),
        ("crates/testkit/src/editor.rs", "use agent_client_protocol_schema::v1 as acp;"),
        ("crates/conformance/src/agent.rs", "use wire::method;"),
        ("tests/process/bridge.rs", "use agent_client_protocol::Agent;"),
        ("crates/models/src/exchange.rs", "use actix::Actor;"),
        ("crates/tools/src/bash.rs", "use domain::model::Model;"),
        ("crates/policy/src/rules.rs", "use std::fs;"),
        ("crates/mcp/src/host.rs", "use policy::Rules;"),
        ("crates/agents/src/link.rs", "use tools::Registry;"),
        ("crates/history/src/store.rs", "use acpd_actors::Runtime;"),
        ("crates/http/src/guard.rs", "use tools::descends_from;"),
        ("crates/terminal/src/diff.rs", "use wire::method;"),
        ("src/daemon.rs", "sled::open(path)"),
        ("src/client.rs", "use agent_client_protocol_schema::v1 as acp;"),
        ("src/daemon.rs", "use models::Providers;"),
        ("actors/turn.rs", "use std::sync::{Arc, mpsc};"),
        ("crates/wire/src/rpc.rs", "std::process::Command::new(x)"),
        ("actors/cursor.rs", "use crate::connection::outbox::Outbox;"),
        ("src/client.rs", "jiff::Timestamp::now()"),
        ("src/daemon.rs", "use actix::prelude::*;"),
    ] {
        assert_eq!(count(forbidden_names, path, text), 1, "{path}: {text}");
    }
    for (path, text) in [
        ("actors/connection/calls.rs", "use wire::Id;"),
        ("actors/session.rs", "// wire::Id\nlet wire = 1;"),
        ("actors/session.rs", "use crate::wire::Id;"),
        ("actors/turn.rs", "std::process::id()"),
        ("actors/cursor.rs", "use crate::outbox_gate::OutboxGate;"),
        ("crates/history/src/database.rs", "sled::open(path)"),
        ("src/assemble.rs", "use models::Providers;"),
        ("crates/wire/src/v1/encode.rs", "use agent_client_protocol_schema::v1 as acp;"),
        ("tests/process/sdk.rs", "use agent_client_protocol::Agent;"),
        ("crates/domain/src/lib.rs", "use crate::history::History;"),
    ] {
        assert_eq!(count(forbidden_names, path, text), 0, "{path}: {text}");
    }
}

#[test]
fn calls_and_marks_are_found() {
    assert_eq!(count(forbidden_calls, "actors/turn.rs", "addr.do_send(X)"), 1);
    assert_eq!(count(forbidden_calls, "actors/mail.rs", "addr.do_send(X)"), 0);
    assert_eq!(count(forbidden_calls, "tests/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}"), 1);
    assert_eq!(count(forbidden_calls, "src/daemon/socket.rs", concat!("var(\"", "XDG_RUNTIME_DIR\")")), 1);
}
