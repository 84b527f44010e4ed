//! Worktrees of sessions survive a killed daemon, and `ctl` shows them.

use std::fs;
use std::path::{Path, PathBuf};
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

/// Makes git wait whenever it passes the file `m.txt` through this filter: `smudge` writes it into
/// a checkout, `clean` reads it. Returns the file that git creates then. The gate is never opened:
/// git ends when the daemon is killed.
fn hold(home: &Home, filter: &str) -> PathBuf {
    let (reached, gate) = (home.work().join(".git/reached"), home.path().join("gate"));
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let command = format!("echo > {}; cat {} > /dev/null; cat", reached.display(), gate.display());
    fs::write(home.path().join("home/.gitconfig"), format!("[filter \"hold\"]\n\t{filter} = \"{command}\"\n")).unwrap();
    reached
}

#[test]
fn a_merge_that_a_kill_interrupts_is_reported_and_loses_nothing() {
    let home = Home::new();
    repository(&home);
    git(&home.work(), &["config", "user.name", "Test"]);
    git(&home.work(), &["config", "user.email", "test@example.org"]);
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "/worktree fix");
    let root = home.work().with_file_name("work.worktrees").join("fix");
    fs::write(root.join(".gitattributes"), "m.txt filter=hold\n").unwrap();
    for name in ["0.txt", "a.txt", "m.txt"] {
        fs::write(root.join(name), "merged\n").unwrap();
    }
    git(&root, &["add", "--all"]);
    git(&root, &["commit", "--quiet", "--message", "second"]);
    let reached = hold(&home, "smudge");
    let prompt = bridge.start_prompt(&session, "/worktree merge");
    until("git writes the files", || reached.exists().then_some(()));
    home.kill_daemon();
    bridge.answer(prompt);
    fs::remove_file(home.path().join("home/.gitconfig")).unwrap();
    until("git has ended with the daemon", || is_idle(&home));
    assert_ne!(git(&home.work(), &["status", "--porcelain"]), "", "the merge was not interrupted");
    for command in ["/worktree status", "/worktree merge"] {
        bridge.prompt(&session, command);
        let said = bridge.agent_text();
        assert!(said.contains("acpd was killed while it merged acpd/fix into"), "{command}: {said}");
        assert!(said.contains("git stash --include-untracked"), "{said}");
    }
    // The advice works, and nothing is lost.
    let _ = fs::remove_file(home.work().join(".git/index.lock"));
    git(&home.work(), &["stash", "--quiet", "--include-untracked"]);
    bridge.prompt(&session, "/worktree merge");
    assert!(bridge.agent_text().contains("One commit of `acpd/fix` is merged"), "{}", bridge.agent_text());
    assert_eq!(git(&home.work(), &["status", "--porcelain"]), "");
    for name in ["0.txt", "a.txt", "m.txt"] {
        assert_eq!(fs::read_to_string(home.work().join(name)).unwrap(), "merged\n");
    }
}

/// Whether only the bridge and its new daemon run.
fn is_idle(home: &Home) -> Option<()> {
    let runs_git =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("git"));
    (!home.processes().iter().any(runs_git)).then_some(())
}

#[test]
fn a_worktree_of_a_session_that_a_kill_prevented_is_named_to_the_next_one() {
    let home = Home::new();
    repository(&home);
    fs::write(home.work().join(".gitattributes"), "m.txt filter=hold\n").unwrap();
    fs::write(home.work().join("m.txt"), "text\n").unwrap();
    git(&home.work(), &["add", "--all"]);
    git(&home.work(), &["commit", "--quiet", "--message", "second"]);
    let mut client = home.bridge();
    client.initialize();
    // The worktree is complete when git looks for changes that stay behind. It reads a file that
    // has another time and the same size.
    fs::write(home.work().join("m.txt"), "TEXT\n").unwrap();
    let reached = hold(&home, "clean");
    let wish = json!({ "cwd": home.work(), "mcpServers": [], "_meta": { "acpd": { "worktree": true } } });
    let request = client.request("session/new", wish);
    until("git reads the file", || reached.exists().then_some(()));
    home.kill_daemon();
    fs::remove_file(home.path().join("home/.gitconfig")).unwrap();
    client.answer(request);
    let list = git(&home.work(), &["worktree", "list", "--porcelain"]);
    let first = list.lines().find_map(|line| line.strip_prefix("branch refs/heads/acpd/")).unwrap().to_owned();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "/worktree status");
    let said = bridge.agent_text();
    assert!(
        said.contains("The sessions of these worktrees are gone") && said.contains(&format!("`{first}`")),
        "{said}"
    );
    bridge.prompt(&session, &format!("/worktree remove {first}"));
    let list = git(&home.work(), &["worktree", "list", "--porcelain"]);
    assert!(!list.contains(&first), "{list}\n{}", bridge.agent_text());
}
