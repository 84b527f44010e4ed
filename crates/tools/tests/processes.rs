//! Real commands under the real helper. This executable is its own runner: started with `__run` it
//! is the helper, so no other binary has to be built first. That is why it has its own `main`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code, outside #[test] functions")]

#[path = "processes/attachments.rs"]
mod attached_files;
#[path = "processes/background.rs"]
mod background;
#[path = "processes/crowds.rs"]
mod crowds;
#[path = "processes/hooks.rs"]
mod hooks;
#[path = "support/host.rs"]
mod host;
#[path = "processes/language_servers.rs"]
mod language_servers;
#[path = "processes/sandbox.rs"]
mod sandbox;
#[path = "processes/shell.rs"]
mod shell;
#[path = "processes/web.rs"]
mod web;

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use acpd_tools::{Registry, ToolSettings};
use domain::tool::OutcomeKind;
use domain::{Access, CallSite, Grant, Outcome, ToolContent};
use libtest_mimic::{Arguments, Trial};
use serde_json::json;
use tempfile::TempDir;

use host::{TestHost, call, plan};

/// The argument under which this executable plays a daemon that will be killed.
const DAEMON: &str = "__daemon";

/// The argument under which it counts what calls leave behind.
const COUNTER: &str = "__counter";

/// The argument under which it is a helper whose kernel has no Landlock.
const WITHOUT_LANDLOCK: &str = "__without_landlock";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == process::SUBCOMMAND => return acpd_tools::run_helper(arguments),
        Some(first) if first == DAEMON => return be_a_daemon(arguments.next().expect("a folder").as_ref()),
        Some(first) if first == COUNTER => return count_leftovers(),
        Some(first) if first == WITHOUT_LANDLOCK => return sandbox::run_without_landlock(),
        Some(first) if first == language_servers::SERVER => return language_servers::serve(),
        Some(_) | None => {}
    }
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}

macro_rules! trials {
    ($($name:path,)*) => {
        fn trials() -> Vec<Trial> {
            vec![$(Trial::test(stringify!($name), || { run_test($name()); Ok(()) }),)*]
        }
    };
}

trials! {
    output_and_exit_status_come_back,
    a_failure_tells_its_status_and_a_signal_its_number,
    output_of_both_streams_is_in_order_and_shown_while_it_grows,
    the_command_runs_in_its_folder_without_keys_and_without_a_terminal,
    a_simple_command_may_be_allowed_for_good_and_a_chain_may_not,
    a_timeout_ends_the_command_and_says_so,
    cancelling_ends_children_and_those_that_left_the_session,
    cancelling_ends_what_ignores_signals,
    cancelling_beats_processes_that_replace_themselves,
    dropping_the_future_ends_everything,
    killing_the_daemon_ends_everything,
    the_session_dies_with_a_killed_helper,
    processes_that_left_the_session_die_with_a_killed_helper,
    a_stopped_helper_still_ends_everything,
    background_children_end_with_the_command,
    a_daemonised_grandchild_ends_with_the_command,
    a_flood_of_output_is_cut_in_the_middle,
    a_missing_folder_or_runner_is_a_failure_with_a_reason,
    many_calls_leave_no_descriptor_and_no_zombie,
    attached_files::a_pdf_is_read_as_numbered_lines_of_its_text,
    attached_files::a_pdf_that_is_made_to_harm_its_reader_harms_only_the_helper,
    attached_files::a_large_image_is_scaled_before_it_is_shown,
    background::a_background_command_is_read_as_it_goes,
    background::stopping_ends_everything_and_gives_the_rest,
    background::cancelling_a_turn_ends_what_it_started_and_nothing_else,
    background::closing_a_session_ends_all_of_its_commands_and_no_others,
    background::background_commands_are_limited_in_number_output_and_time,
    background::the_question_says_that_it_goes_on_in_the_background,
    shell::a_command_runs_in_its_workdir_and_a_leading_cd_counts_as_one,
    shell::a_command_does_not_run_in_another_folder_than_the_question_showed,
    shell::long_output_is_kept_in_a_file_of_the_session,
    shell::the_end_of_a_background_command_is_announced_once,
    shell::the_end_of_a_sub_agents_command_is_announced_to_it_or_else_to_the_main_conversation,
    shell::a_background_command_reads_what_is_written_to_it,
    hooks::a_hook_gets_the_event_as_json,
    hooks::a_hook_refuses_by_exit_status_or_by_a_decision,
    hooks::a_guard_that_fails_has_not_agreed,
    hooks::a_broken_hook_configuration_is_an_error,
    language_servers::an_edit_that_breaks_a_file_gets_the_new_errors_only,
    language_servers::no_server_is_started_without_trust_or_in_another_mode,
    language_servers::a_server_that_dies_is_started_again_a_few_times,
    language_servers::a_server_that_does_not_read_delays_an_edit_briefly,
    language_servers::every_edit_waits_for_a_server_that_starts_slowly,
    language_servers::errors_in_files_that_a_rule_hides_are_not_shown,
    language_servers::leaving_a_folder_waits_until_its_servers_have_ended,
    sandbox::nothing_is_written_outside,
    sandbox::the_helper_the_machine_and_namespaces_give_no_way_out,
    sandbox::a_folder_swapped_for_a_link_does_not_widen_the_next_call,
    sandbox::a_root_under_another_name_is_the_same_root,
    sandbox::a_command_of_one_session_does_not_move_the_root_of_another,
    sandbox::a_search_in_the_home_folder_runs_without_reading_acpds_own_files,
    sandbox::acpds_own_files_are_out_of_reach_in_a_session_at_home,
    sandbox::input_for_a_command_bypasses_neither_the_sandbox_nor_the_protection_of_acpds_files,
    sandbox::other_processes_keep_their_limits_and_priorities,
    sandbox::work_inside_goes_on,
    crowds::five_hundred_processes_that_replace_themselves_end_with_their_cancellation,
    crowds::a_command_that_doubles_itself_is_killed_at_its_limit,
    crowds::commands_leave_no_memory_dumps,
    sandbox::the_temporary_folder_is_private_and_goes_with_the_command,
    sandbox::no_process_is_reached_by_a_socket,
    sandbox::raw_system_calls_make_no_socket_either,
    sandbox::cancelling_ends_everything_in_the_sandbox_too,
    sandbox::reads_are_limited_to_the_configured_paths,
    sandbox::a_kernel_without_landlock_runs_nothing,
    sandbox::the_question_says_that_it_is_the_sandbox,
    web::pages_become_text,
    web::a_page_over_tls_is_fetched_only_from_a_server_with_a_trusted_certificate,
    web::an_error_status_is_a_failure_with_the_page,
    web::private_addresses_are_refused_at_every_step,
    web::redirects_in_a_circle_end,
    web::large_pages_are_cut_and_endless_ones_end,
    web::a_slow_page_times_out,
    web::cancelling_drops_the_request,
    web::a_page_that_would_overflow_the_stack_is_shown_as_html,
}

fn run_test(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// A folder in which commands run. Each command that must be found again keeps a file there open,
/// or notes its id.
struct Bench {
    folder: TempDir,
    registry: Arc<Registry>,
    site: Arc<CallSite>,
}

impl Bench {
    fn new() -> Self {
        Self::with_environment(&[])
    }

    fn with_environment(environment: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut all = vec![("PATH", "/usr/local/bin:/usr/bin:/bin")];
        all.extend(environment);
        let site = Arc::new(host::site(folder.path(), &all));
        Self { folder, registry: registry(), site }
    }

    async fn bash(&self, command: &str) -> Outcome {
        call(&self.registry, &self.site, "bash", json!({"command": command})).await
    }

    /// Starts a command and waits until `count` processes have noted their ids in the file `pids`.
    async fn start(&self, command: &str, count: usize) -> Started {
        let host = TestHost::new();
        let job = plan(&self.registry, &self.site, "bash", json!({"command": command})).await;
        let job = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
        let running = tokio::spawn(job.run(host.clone()));
        Started { host, running, pids: wait_for_pids(self.folder.path(), count).await }
    }
}

struct Started {
    host: Arc<TestHost>,
    running: tokio::task::JoinHandle<Outcome>,
    pids: Vec<u32>,
}

impl Started {
    async fn cancel(self) -> Outcome {
        self.host.cancel();
        let outcome = self.running.await.unwrap();
        let alive: Vec<_> = self.pids.into_iter().filter(|pid| is_alive(*pid)).collect();
        assert_eq!(alive, [0; 0], "outlived the call");
        outcome
    }
}

fn registry() -> Arc<Registry> {
    Arc::new(Registry::new(ToolSettings::new(std::env::current_exe().unwrap())))
}

async fn wait_for_pids(folder: &Path, count: usize) -> Vec<u32> {
    until(|| {
        let text = fs::read_to_string(folder.join("pids")).unwrap_or_default();
        let pids: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        (pids.len() >= count).then_some(pids)
    })
    .await
}

async fn until<T>(look: impl FnMut() -> Option<T>) -> T {
    until_within(Duration::from_secs(120), look).await
}

async fn until_within<T>(time_limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + time_limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The processes whose working directory is this folder.
fn processes_in(folder: &Path) -> Vec<u32> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_there = |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder);
    processes.filter(is_there).collect()
}

/// A zombie counts as dead: its parent just has not reaped it yet.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn output_and_exit_status_come_back() {
    let bench = Bench::new();
    let outcome = bench.bash("echo hello").await;
    assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, "hello\n"));
    assert_eq!(outcome.raw, json!({"exitCode": 0, "signal": null, "timedOut": false, "truncated": false}));
    assert_eq!(bench.bash("true").await.text, "(no output)");
    assert_eq!(bench.bash("cat").await.text, "(no output)", "standard input is empty");
}

async fn a_failure_tells_its_status_and_a_signal_its_number() {
    let bench = Bench::new();
    let outcome = bench.bash("printf oops; exit 3").await;
    assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Failed, "oops\n[exit status 3]"));
    assert_eq!(outcome.raw["exitCode"], 3);
    let outcome = bench.bash("kill -9 $$").await;
    assert_eq!(outcome.text, "[ended by signal 9 (KILL)]");
    assert_eq!((&outcome.raw["exitCode"], &outcome.raw["signal"]), (&json!(null), &json!(9)));
}

async fn output_of_both_streams_is_in_order_and_shown_while_it_grows() {
    let bench = Bench::new();
    let outcome = bench.bash("for i in 1 2 3; do echo out $i; echo err $i >&2; done").await;
    assert_eq!(outcome.text, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");

    let command = "echo $$ >> pids; echo first; until [ -e go ]; do sleep 0.01; done; echo second";
    let started = bench.start(command, 1).await;
    let host = started.host.clone();
    until(|| host.shown.lock().unwrap().last().is_some_and(|text| text == "first\n").then_some(())).await;
    fs::write(bench.folder.path().join("go"), "").unwrap();
    assert_eq!(started.running.await.unwrap().text, "first\nsecond\n");
}

async fn the_command_runs_in_its_folder_without_keys_and_without_a_terminal() {
    let bench = Bench::with_environment(&[
        ("ANTHROPIC_API_KEY", "secret"),
        ("ACPD_SOCKET", "secret"),
        ("TMUX", "secret"),
        ("KEPT", "value"),
    ]);
    let outcome = bench.bash("pwd -P; env | sort").await;
    let folder = bench.folder.path().canonicalize().unwrap();
    assert_eq!(outcome.text.lines().next(), folder.to_str());
    assert!(outcome.text.contains("\nKEPT=value\n") && outcome.text.contains("\nTERM=dumb\n"), "{}", outcome.text);
    assert!(!outcome.text.contains("secret") && !outcome.text.contains("CARGO"), "{}", outcome.text);
    assert_eq!(bench.bash("exec 2>/dev/null; : < /dev/tty && echo terminal || echo none").await.text, "none\n");
    let control =
        "control=$(readlink /proc/$PPID/fd/0); echo ${control%%:*}; readlink /proc/self/fd/* | grep -cF $control";
    assert_eq!(bench.bash(control).await.text, "socket\n0\n[exit status 1]", "the control socket is not inherited");
    assert_eq!(bench.bash("readlink /proc/self/fd/0").await.text, "/dev/null\n");
}

async fn a_simple_command_may_be_allowed_for_good_and_a_chain_may_not() {
    let bench = Bench::new();
    let card = async |command: &str| {
        let job = plan(&bench.registry, &bench.site, "bash", json!({"cmd": command})).await;
        job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone()
    };
    let simple = card("git status --short").await;
    assert_eq!(simple.title, "git status --short");
    assert_eq!(simple.preview, [ToolContent::text("git status --short")]);
    let words = vec!["git".to_owned(), "status".to_owned()];
    assert_eq!(simple.access, Access::Ask { always: Some(Grant::Command(words)) });
    let chain = card("git status\nrm x").await;
    assert_eq!((chain.title.as_str(), chain.access), ("git status …", Access::Ask { always: None }));
}

async fn a_timeout_ends_the_command_and_says_so() {
    let bench = Bench::new();
    let input = json!({"command": "echo before; sleep 600", "timeout_ms": 200});
    let outcome = call(&bench.registry, &bench.site, "bash", input).await;
    let text = "before\n[timed out after 200 ms; the command and everything it started were stopped]";
    assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Failed, text));
    assert_eq!(outcome.raw["timedOut"], true);
}

async fn cancelling_ends_children_and_those_that_left_the_session() {
    let bench = Bench::new();
    let command = "echo $$ >> pids; echo so far; sh -c 'echo $$ >> pids; sleep 600; true' & \
                   setsid sh -c 'echo $$ >> pids; setsid sh -c \"echo \\$\\$ >> pids; sleep 600; true\" & sleep 600' & \
                   sleep 600; true";
    let outcome = bench.start(command, 4).await.cancel().await;
    assert_eq!(outcome.verdict, OutcomeKind::Cancelled);
    assert_eq!(outcome.content, [ToolContent::text("so far\n")]);
    assert_eq!(outcome.text, Outcome::cancelled().text);
}

async fn cancelling_ends_what_ignores_signals() {
    let bench = Bench::new();
    let stubborn = "trap \"\" INT TERM HUP; echo $$ >> pids; while :; do sleep 1; done";
    let command = format!("setsid sh -c '{stubborn}' & {stubborn}");
    let outcome = bench.start(&command, 2).await.cancel().await;
    assert_eq!(outcome.verdict, OutcomeKind::Cancelled);
}

async fn cancelling_beats_processes_that_replace_themselves() {
    let bench = Bench::new();
    // Each process lives only long enough to start the next one, so a list of them is outdated as
    // soon as it is read. A bomb that doubles would be caught in the same way, but would bring down
    // the machine if it were not.
    let rabbits = "trap \"\" INT TERM; r() { echo $BASHPID >> pids; r & exit 0; }; for i in 1 2 3 4 5 6 7 8; do r & done; wait; sleep 600";
    let started = bench.start(rabbits, 100).await;
    assert_eq!(started.cancel().await.verdict, OutcomeKind::Cancelled);
    assert_eq!(processes_in(bench.folder.path()), [0; 0], "somebody still forks");
}

async fn dropping_the_future_ends_everything() {
    let bench = Bench::new();
    let started =
        bench.start("echo $$ >> pids; setsid sh -c 'echo $$ >> pids; sleep 600; true' & sleep 600; true", 2).await;
    started.running.abort();
    until(|| started.pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
}

async fn killing_the_daemon_ends_everything() {
    let folder = TempDir::new().unwrap();
    let mut daemon = std::process::Command::new(std::env::current_exe().unwrap())
        .arg(DAEMON)
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids = wait_for_pids(folder.path(), 2).await;
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    until(|| pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
}

fn be_a_daemon(folder: &Path) -> ExitCode {
    run_test(async {
        let site = Arc::new(host::site(folder, &[]));
        println!("started");
        let command = "echo $$ >> pids; setsid sh -c 'echo $$ >> pids; sleep 600; true' & sleep 600; true";
        call(&registry(), &site, "bash", json!({"command": command})).await;
    });
    ExitCode::SUCCESS
}

async fn the_session_dies_with_a_killed_helper() {
    let bench = Bench::new();
    let started =
        bench.start("echo $$ >> pids; sh -c 'echo $$ >> pids; sleep 600; true' & until [ $(wc -l < pids) = 2 ]; do :; done; kill -9 $PPID; sleep 600", 2).await;
    let outcome = started.running.await.unwrap();
    assert_eq!(outcome.text, "[the command's helper process was killed; what was left of the command was stopped]");
    until(|| started.pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
}

async fn processes_that_left_the_session_die_with_a_killed_helper() {
    let bench = Bench::new();
    let escaped = "setsid sh -c 'echo $$ >> pids; sleep 600; true' & until [ -s pids ]; do :; done; kill -9 $PPID";
    let started = bench.start(escaped, 1).await;
    started.running.await.unwrap();
    until(|| started.pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
}

async fn a_stopped_helper_still_ends_everything() {
    let bench = Bench::new();
    let started = bench.start("kill -STOP $PPID; echo $$ >> pids; sleep 600; true", 1).await;
    assert_eq!(started.cancel().await.verdict, OutcomeKind::Cancelled);
}

async fn background_children_end_with_the_command() {
    let bench = Bench::new();
    let outcome =
        bench.bash("sh -c 'echo $$ >> pids; sleep 600; true' & until [ -s pids ]; do :; done; echo done").await;
    assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, "done\n"));
    assert!(wait_for_pids(bench.folder.path(), 1).await.iter().all(|pid| !is_alive(*pid)));
}

async fn a_daemonised_grandchild_ends_with_the_command() {
    let bench = Bench::new();
    let daemon = "setsid sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 600; true' > /dev/null 2>&1 < /dev/null &";
    let outcome = bench.bash(&format!("({daemon}); until [ -s pids ]; do :; done; exit 7")).await;
    assert_eq!(outcome.raw["exitCode"], 7);
    assert!(wait_for_pids(bench.folder.path(), 1).await.iter().all(|pid| !is_alive(*pid)));
}

async fn a_flood_of_output_is_cut_in_the_middle() {
    let bench = Bench::new();
    let outcome = bench.bash("echo start; yes 0123456789 | head -c 20000000; echo; echo end").await;
    assert_eq!((outcome.verdict, &outcome.raw["truncated"]), (OutcomeKind::Completed, &json!(true)));
    assert!(outcome.text.starts_with("start\n0123456789\n") && outcome.text.ends_with("\nend\n"));
    assert!(outcome.text.contains(" bytes of output cut here]") && outcome.text.len() < 50 * 1024);
}

async fn a_missing_folder_or_runner_is_a_failure_with_a_reason() {
    let mut bench = Bench::new();
    bench.site = Arc::new(CallSite { cwd: "/nonexistent/folder".into(), ..(*bench.site).clone() });
    let text = bench.bash("true").await.text;
    assert_eq!(text, "[entering /nonexistent/folder: No such file or directory (os error 2)]");
    let mut bench = Bench::new();
    bench.registry = Arc::new(Registry::new(ToolSettings::new("/nonexistent/acpd")));
    let text = bench.bash("true").await.text;
    assert_eq!(text, "starting the command's helper: No such file or directory (os error 2)");
}

async fn many_calls_leave_no_descriptor_and_no_zombie() {
    let me = std::env::current_exe().unwrap();
    let status = std::process::Command::new(me).arg(COUNTER).status().unwrap();
    assert!(status.success());
}

/// Runs in a separate process, because other tests open files and start processes at the same time.
fn count_leftovers() -> ExitCode {
    run_test(async {
        let bench = Bench::new();
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        bench.bash("exit 0").await;
        let before = open();
        for _ in 0..20 {
            assert_eq!(bench.bash("sleep 600 & exit 0").await.verdict, OutcomeKind::Completed);
        }
        assert_eq!(open(), before);
        assert_eq!(fs::read_to_string("/proc/thread-self/children").unwrap(), "");
    });
    ExitCode::SUCCESS
}
