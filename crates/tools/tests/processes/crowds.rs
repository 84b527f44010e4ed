//! Commands with many processes: none is left when they end, and a fork bomb is killed.

use process::carries_tag;

use super::*;

/// A bench whose commands can be distinguished from those of all other tests.
fn marked(limit: usize) -> (Bench, String) {
    let bench = Bench::new();
    let owner = bench.folder.path().display().to_string();
    let mut settings = ToolSettings::new(std::env::current_exe().unwrap());
    settings.launcher.environment.owner = owner.clone();
    settings.launcher.process_limit = limit;
    (Bench { registry: Arc::new(Registry::new(settings)), ..bench }, owner)
}

/// All processes that a command of this owner started, whatever became of their parents and
/// sessions.
fn processes_of(owner: &str) -> Vec<u32> {
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    ids.filter(|pid| is_alive(*pid) && carries_tag(*pid, owner).unwrap_or(false)).collect()
}

pub(super) async fn five_hundred_processes_that_replace_themselves_end_with_their_cancellation() {
    let (bench, owner) = marked(2048);
    // Each lives for a second and starts its successor; every second one leaves the session first.
    // All ignore what can be ignored. `read` on a pipe without a writer is a sleep without another
    // process.
    let command = "mkfifo hold; exec 9<>hold; trap '' INT TERM HUP; \
        r() { read -t 1 -u 9; r & exit 0; }; export -f r; \
        echo $$ >> pids; for i in $(seq 250); do r & setsid bash -c 'trap \"\" INT TERM HUP; r' & done; wait; sleep 600";
    let started = bench.start(command, 1).await;
    // At any time some of them are being replaced by their successors.
    until_within(Duration::from_secs(60), || (processes_of(&owner).len() > 450).then_some(())).await;
    assert_eq!(started.cancel().await.verdict, OutcomeKind::Cancelled);
    assert_eq!(processes_of(&owner), [0; 0], "outlived the call");
}

pub(super) async fn a_command_that_doubles_itself_is_killed_at_its_limit() {
    let (bench, owner) = marked(100);
    // It stops at 511 processes by itself, so that a failure of this test does not bring down the
    // machine.
    let command = "trap '' INT TERM; b() { [ $1 = 0 ] && exec sleep 600; b $(($1 - 1)) & b $(($1 - 1)) & wait; }; b 8";
    let outcome = bench.bash(command).await;
    let text = "[more than 100 processes at once; the command and everything it started were killed]";
    assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Failed, text));
    assert_eq!(processes_of(&owner), [0; 0], "outlived the call");
}

pub(super) async fn commands_leave_no_memory_dumps() {
    assert_eq!(Bench::new().bash("ulimit -Sc").await.text, "0\n");
}
