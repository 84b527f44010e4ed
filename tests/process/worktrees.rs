//! Worktrees of sessions survive a killed daemon, and `ctl` shows them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Home, until};

fn git(at: &Path, arguments: &[&str]) -> String {
    let settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];
    let done = Command::new("git").current_dir(at).args(settings).args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn repository(home: &Home) {
    let work = home.work();
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    for number in 0..200 {
        fs::write(work.join(format!("{number}.txt")), "text\n").unwrap();
    }
    git(&work, &["add", "--all"]);
    git(&work, &["commit", "--quiet", "--message", "first"]);
}

#[test]
fn a_session_stays_in_its_worktree_when_the_daemon_is_killed_and_ctl_shows_it() {
    let home = Home::new();
    repository(&home);
    home.configure("[session]\napproval = \"never\"\n");
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    assert_eq!(bridge.prompt(&session, "/worktree fix")["result"]["stopReason"], "end_turn");
    let root = home.work().with_file_name("work.worktrees").join("fix");
    assert!(bridge.agent_text().contains(root.to_str().unwrap()), "{}", bridge.agent_text());
    home.kill_daemon();
    let answer = bridge.prompt(&session, "run the command: pwd > where.txt");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(fs::read_to_string(root.join("where.txt")).unwrap().trim(), root.to_str().unwrap());
    let details = home.json(&["ctl", "session", &session, "--json"]);
    let shown = details.to_string();
    assert!(shown.contains("\"branch\":\"acpd/fix\""), "{shown}");
    let page = home.stdout(&["ctl", "session", &session]);
    assert!(page.contains("worktree     fix, branch acpd/fix, of "), "{page}");
    assert!(home.stdout(&["ctl", "sessions"]).contains("work.worktrees/fix"));
    assert_eq!(home.stdout(&["ctl", "sessions", "--format", "{worktree}\\n"]).trim(), "fix");
}

#[test]
fn a_worktree_whose_creation_the_kill_interrupts_is_made_once() {
    for delay in 0..4_u64 {
        let home = Home::new();
        repository(&home);
        let mut bridge = home.bridge();
        let session = bridge.open(&home.work());
        let parent = home.work().with_file_name("work.worktrees");
        let prompt = bridge.start_prompt(&session, "/worktree");
        let branches = home.work().join(".git/refs/heads/acpd");
        until("git begins", || branches.exists().then_some(()));
        // Each round waits for a later sign of git's work.
        until("git continues", || {
            let files = fs::read_dir(&parent).into_iter().flatten().flatten().map(|entry| entry.path());
            let count: usize = files.map(|folder| fs::read_dir(folder).into_iter().flatten().count()).sum();
            (count as u64 >= delay * 60).then_some(())
        });
        home.kill_daemon();
        bridge.answer(prompt);
        let answer = bridge.prompt(&session, "/worktree");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let shown = home.json(&["ctl", "session", &session, "--json"]);
        let root = shown.pointer("/card/worktree/root").or_else(|| shown.pointer("/worktree/root")).cloned();
        let root = root.unwrap_or_else(|| panic!("{shown}"));
        let list = git(&home.work(), &["worktree", "list", "--porcelain"]);
        assert_eq!(list.matches("branch refs/heads/acpd/").count(), 1, "{list}");
        assert_eq!(git(Path::new(root.as_str().unwrap()), &["status", "--porcelain"]), "", "{list}");
        assert_ne!(json!(null), root);
    }
}
