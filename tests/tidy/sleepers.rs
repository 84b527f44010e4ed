//! No test sleeps without a reason or asserts how long something took, because both make tests
//! depend on the machine.

use std::collections::BTreeMap;

use crate::source::{File, code, count, file, hold, paths, tree};

/// Every reason why a thread, or a test, may sleep. Everything else waits for an event, or uses a
/// runtime's timers.
const SLEEPERS: [(&str, &str); 33] = [
    ("tests/conversations/worktrees/interruptions.rs", "looks at files that git and its filter write"),
    ("src/daemon.rs", "looks at a predecessor's lock before there is a runtime"),
    ("crates/bridge/src/bridge/connecting.rs", "waits between two tries to reach a daemon, on a thread of its own"),
    ("crates/bridge/src/launch.rs", "looks at the start lock, in programs that have no runtime"),
    ("src/daemon/socket.rs", "looks at what a dead daemon has left open, before anything else runs"),
    ("crates/history/src/database.rs", "looks at sled's lock on the committer's own thread"),
    ("tests/process/daemon.rs", "measures what a daemon computes while nothing happens"),
    ("tests/process/counts.rs", "counts what threads do while nothing happens"),
    ("tests/process/bridge.rs", "sees that a pipe no longer fills"),
    ("tests/process/reconnect_storms.rs", "counts what a bridge does while it should wait"),
    ("examples/picture.rs", "looks at the screen of another program, and has no runtime"),
    ("examples/watch_and_answer.rs", "looks at the sessions from time to time, and has no runtime"),
    ("benches/figures/rows.rs", "lets the machine settle between two measurements"),
    ("benches/figures/world.rs", "lets the store become quiet before its bytes are counted"),
    ("benches/figures/model_server.rs", "paces a stream"),
    ("tests/process/random_kills.rs", "kills a daemon at a random time"),
    ("tests/process/recovery.rs", "kills a daemon at a random time"),
    ("tests/process/harness.rs", "looks at what other processes have done so far"),
    ("crates/history/tests/store/support.rs", "looks at the status of a store that opens on its own thread"),
    ("crates/history/tests/store/crash.rs", "kills a child at a random time, and holds back a flood in that child"),
    ("crates/models/src/key/tests.rs", "looks at what a key's command has done so far"),
    ("crates/models/tests/http/catalogue.rs", "looks at a list that is fetched in the background"),
    ("crates/tools/tests/processes.rs", "looks at what other processes have done so far"),
    ("tests/conversations/attaching.rs", "attaches at a random time"),
    ("tests/conversations/session_lifetimes.rs", "moves a paused clock"),
    ("tests/conversations/permissions.rs", "moves a paused clock"),
    ("tests/conversations/reopened_sessions.rs", "moves a paused clock"),
    ("tests/conversations/sessions.rs", "moves a paused clock"),
    ("tests/conversations/shared_sessions.rs", "moves a paused clock"),
    ("tests/conversations/undo.rs", "moves a paused clock"),
    ("tests/conversations/questions_across_restarts.rs", "moves a paused clock"),
    ("tests/conversations/framing_and_limits.rs", "moves a paused clock"),
    ("tests/integration/mcp_servers.rs", "looks whether a server listens yet"),
];

fn sleepers(files: &[File], allowed: &[(&str, &str)]) -> Vec<String> {
    let mut sleeping = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, path) in paths(&code(&file.text)) {
            if path.ends_with("thread::sleep") || (file.is_test() && path.ends_with("time::sleep")) {
                sleeping.entry(file.path.as_str()).or_insert(line);
            }
        }
    }
    let unknown =
        sleeping.iter().filter(|(path, _)| !allowed.iter().any(|(known, _)| known == *path)).map(|(path, line)| {
            format!("{path}:{line}: wait for what you wait for, or give a reason in SLEEPERS of tests/tidy")
        });
    let idle = allowed.iter().filter(|(known, _)| !sleeping.contains_key(known));
    let idle = idle.map(|(known, _)| format!("{known}: does not sleep any more; take it out of SLEEPERS"));
    unknown.chain(idle).collect()
}

/// Assertions about how long something took: they fail on a busy machine, where nothing is wrong.
fn timed(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.is_test()) {
        for (number, line) in code(&file.text).lines().enumerate() {
            if line.contains("assert") && line.split("elapsed()").skip(1).any(|rest| rest.contains('<')) {
                let number = number + 1;
                complaints.push(format!("{}:{number}: assert what happened, not how soon; benches measure", file.path));
            }
        }
    }
    complaints
}

#[test]
fn threads_sleep_only_for_a_reason() {
    hold(sleepers(&tree(), &SLEEPERS));
}

#[test]
fn no_test_depends_on_how_fast_the_machine_is() {
    hold(timed(&tree()));
}

#[test]
fn a_sleeper_needs_a_reason_and_a_reason_a_sleeper() {
    let files = [file("src/a.rs", "use std::thread;\nthread::sleep(x)"), file("src/b.rs", "// thread::sleep")];
    assert_eq!(sleepers(&files, &[]).len(), 1);
    assert_eq!(sleepers(&files, &[("src/a.rs", "why")]).len(), 0);
    assert_eq!(sleepers(&files, &[("src/a.rs", "why"), ("src/b.rs", "why")]).len(), 1);
    let [waits, ticks] = ["tests/a.rs", "src/a.rs"].map(|path| file(path, "tokio::time::sleep(x).await"));
    assert_eq!((sleepers(&[waits], &[]).len(), sleepers(&[ticks], &[]).len()), (1, 0));
    assert_eq!(count(timed, "tests/a.rs", "assert!(since.elapsed() < LIMIT);"), 1);
    assert_eq!(count(timed, "tests/a.rs", "assert!(since.elapsed() >= PAUSE);"), 0);
}
