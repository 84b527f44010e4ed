//! Compares the `grep` tool with ripgrep on the same work, in the same run. Run it with
//! `cargo bench -p acpd-tools`.
//!
//! Without `rg` on the PATH, the floor is a program that walks and searches with ripgrep's own
//! crates.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench says what it measured, or dies")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use acpd_tools::{Registry, ToolSettings};
use domain::tool::{ToolHost, ToolRequest, Toolbox};
use domain::{CallSite, Mode, SessionId, ToolContent, TurnId};
use futures_util::future::BoxFuture;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::SearcherBuilder;
use grep_searcher::sinks::Bytes;
use ignore::{WalkBuilder, WalkState};
use serde_json::json;

const FOLDERS: usize = 200;
const FILES: usize = 100;
const LINES: usize = 120;
const ROUNDS: usize = 15;

fn main() {
    // Cargo passes its own flags; without --bench this is a test run, which should be short.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    plant(tree.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let other = if rg(tree.path(), "x", false).is_some() { "rg" } else { "ripgrep's crates" };
    println!("| what, over {} files | grep tool | {other} | ratio |\n|---|---|---|---|", FOLDERS * FILES);
    let searches = [
        ("a word in 20 files", "rare_needle_\\d+", false),
        ("a word that is nowhere", "there_is_no_such_word", false),
        ("a regular expression, 4000 lines", "fn\\s+handle_\\w+\\(", false),
        ("the same, case ignored", "FN\\s+HANDLE_\\w+\\(", true),
    ];
    for (what, pattern, ignore_case) in searches {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let found = runtime.block_on(tool(tree.path(), pattern, ignore_case));
            ours.push(began.elapsed().as_secs_f64() * 1000.0);
            let began = Instant::now();
            let expected =
                rg(tree.path(), pattern, ignore_case).unwrap_or_else(|| floor(tree.path(), pattern, ignore_case));
            theirs.push(began.elapsed().as_secs_f64() * 1000.0);
            assert_eq!(found, expected, "{what}: both must find the same");
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!("| {what} | {ours:.0} ms | {theirs:.0} ms | {:.1} |", ours / theirs);
    }
}

/// A project with some 20,000 sources of 8 KB, an ignored folder, and a few words to look for.
fn plant(root: &Path) {
    fs::write(root.join(".gitignore"), "target/\n*.log\n").unwrap();
    fs::create_dir(root.join("target")).unwrap();
    fs::write(root.join("target/big.rs"), "rare_needle_0\n".repeat(1000)).unwrap();
    for folder in 0..FOLDERS {
        let path = root.join(format!("part{}/module{folder}", folder % 10));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            let number = folder * FILES + file;
            let mut text = String::new();
            for line in 0..LINES {
                text.push_str(&format!("    let value_{line} = compute({number}, {line}); // some words here\n"));
            }
            if number % 1000 == 7 {
                text.push_str(&format!("rare_needle_{number}\n"));
            }
            if number.is_multiple_of(5) {
                text.push_str(&format!("fn handle_{number}(request: Request) {{}}\n"));
            }
            fs::write(path.join(format!("file{file}.rs")), text).unwrap();
        }
    }
}

/// How many lines match.
async fn tool(root: &Path, pattern: &str, ignore_case: bool) -> usize {
    let mut settings = ToolSettings::new("/nonexistent");
    // All lines come back, as they do from `rg`.
    settings.output_limit = 16 << 20;
    let site = Arc::new(CallSite {
        session: SessionId::new(),
        turn: TurnId::new(),
        agent: None,
        cwd: root.to_owned(),
        extra_roots: Vec::new(),
        mode: Mode::Full,
        environment: Arc::default(),
        seen: Arc::default(),
        entered: Arc::default(),
        editor: None,
    });
    let input = json!({"pattern": pattern, "case_insensitive": ignore_case, "limit": 5000});
    let request = ToolRequest { tool: "grep".to_owned(), input };
    let job = Registry::new(settings).plan(request, site).await.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
    let outcome = job.run(Arc::new(SilentHost)).await;
    usize::try_from(outcome.raw["matches"].as_u64().unwrap()).unwrap()
}

/// The same with `rg`; None if it is not installed.
fn rg(root: &Path, pattern: &str, ignore_case: bool) -> Option<usize> {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--hidden", "--no-require-git", "--line-number", "--glob", "!.git"]);
    command.args(ignore_case.then_some("--ignore-case")).arg("--regexp").arg(pattern).arg(root);
    let output = command.stdin(Stdio::null()).output().ok()?;
    Some(output.stdout.iter().filter(|byte| **byte == b'\n').count())
}

fn floor(root: &Path, pattern: &str, ignore_case: bool) -> usize {
    let matcher = RegexMatcherBuilder::new().case_insensitive(ignore_case).build(pattern).unwrap();
    let found = AtomicUsize::new(0);
    let walk = WalkBuilder::new(root).hidden(false).require_git(false).build_parallel();
    walk.run(|| {
        let mut searcher = SearcherBuilder::new().build();
        let (matcher, found) = (&matcher, &found);
        Box::new(move |entry| {
            if let Ok(entry) = entry
                && entry.file_type().is_some_and(|kind| kind.is_file())
            {
                let count = Bytes(|_, _| {
                    found.fetch_add(1, Ordering::Relaxed);
                    Ok(true)
                });
                searcher.search_path(matcher, entry.path(), count).unwrap();
            }
            WalkState::Continue
        })
    });
    found.into_inner()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct SilentHost;

impl ToolHost for SilentHost {
    fn progress(&self, _: Vec<ToolContent>) {}

    fn cancelled(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
