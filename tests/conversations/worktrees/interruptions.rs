//! A command about worktrees that is cancelled, fails half-way, or is withdrawn leaves everything
//! consistent. The tests run the real git, which a filter of the user makes wait.

use domain::hosted::{AgentLaunch, Agents, NoAgents, StartedAgent};

use super::*;
use crate::mcp_fixture::is_alive;

async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

impl Repository {
    /// Makes git wait whenever it writes a file `held.txt` into a checkout, until `release`.
    fn hold(&self) {
        let (reached, gate) = (self.root().join(".git/reached"), self.folder.path().join("gate"));
        let made = Command::new("mkfifo").arg(&gate).status().unwrap();
        assert!(made.success());
        let smudge = format!("echo > {}; cat {} > /dev/null; cat", reached.display(), gate.display());
        let settings = format!("[filter \"hold\"]\n\tsmudge = \"{smudge}\"\n");
        fs::write(self.folder.path().join("gitconfig"), settings).unwrap();
    }

    async fn until_held(&self) {
        let reached = self.root().join(".git/reached");
        until("git writes the file", || reached.exists()).await;
    }

    /// Lets the waiting git continue, and makes no further git wait.
    async fn release(&self) {
        fs::write(self.folder.path().join("gitconfig"), "").unwrap();
        let gate = self.folder.path().join("gate");
        tokio::task::spawn_blocking(move || fs::write(gate, "")).await.unwrap().unwrap();
    }

    /// Sends a prompt that makes git wait, and cancels it.
    async fn cancel(&mut self, text: &str) -> u64 {
        let prompt = self.zed.prompt(&self.session, text).await;
        self.until_held().await;
        self.zed.notify("session/cancel", json!({ "sessionId": self.session })).await;
        prompt
    }

    fn hold_in(&self, checkout: &Path) {
        fs::write(checkout.join(".gitattributes"), "held.txt filter=hold\n").unwrap();
        commit(checkout, "held.txt", "held\n");
    }

    fn lock_of(&self, name: &str) -> String {
        let list = git(&self.root(), &["worktree", "list", "--porcelain"]);
        let block = list.split("\n\n").find(|block| block.contains(&format!("/{name}\n"))).unwrap_or_default();
        block.lines().find_map(|line| line.strip_prefix("locked ")).unwrap_or_default().to_owned()
    }
}

#[actix::test]
async fn a_cancelled_creation_of_a_worktree_leaves_nothing() {
    let mut at = Repository::new(vec![]).await;
    at.hold_in(&at.root());
    at.hold();
    let prompt = at.cancel("/worktree fix").await;
    let answer = at.zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert!(!at.folder.path().join("repo.worktrees").exists());
    assert_eq!((at.count_worktrees(), at.branches()), (1, vec!["main".to_owned()]));
    fs::write(at.folder.path().join("gitconfig"), "").unwrap();
    assert!(at.ask("/status").await.contains("- folder: `DIR/repo`\n"));
    let entered = at.ask("/worktree fix").await;
    assert!(entered.starts_with("The session now works in") && !entered.contains("existed before"), "{entered}");
}

/// A checkout in which only some of the files are merged would be worse than a late answer.
#[actix::test]
async fn a_merge_that_is_cancelled_while_git_writes_files_is_completed_and_reported() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    at.hold_in(&at.worktree("fix"));
    commit(&at.root(), "main.txt", "main\n");
    at.hold();
    at.scene.transcript.take();
    let prompt = at.cancel("/worktree merge").await;
    at.release().await;
    let answer = at.zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert!(at.scene.transcript.take().contains("One commit of `acpd/fix` is merged"));
    assert_eq!(git(&at.root(), &["status", "--porcelain"]), "");
    assert!(at.root().join("held.txt").exists() && at.root().join("main.txt").exists());
    assert!(!at.root().join(".git/acpd-merge").exists());
}

#[actix::test]
async fn a_session_whose_worktree_git_cannot_remove_stays_there_with_its_lock() {
    let mut at = Repository::new(write("b.txt")).await;
    at.ask("/worktree fix").await;
    let fix = at.worktree("fix");
    // Git removes no worktree that has the repository of a submodule.
    fs::create_dir_all(at.root().join(".git/worktrees/fix/modules/x")).unwrap();
    let lock = at.lock_of("fix");
    assert_eq!(lock, format!("acpd session {}", at.session));
    let refused = at.ask("/worktree remove").await;
    assert!(refused.starts_with("The worktree cannot be removed: git failed:"), "{refused}");
    assert_eq!(at.lock_of("fix"), lock);
    assert!(at.ask("/status").await.contains("- worktree: `fix`"));
    assert_eq!(at.ask("create b.txt").await, "Done.");
    assert!(fix.join("b.txt").exists());
}

#[actix::test]
async fn servers_in_a_worktree_end_before_it_is_removed() {
    let mut at = Repository::new(vec![vec![Step::text("Hello."), Step::end()]]).await;
    let pids = at.folder.path().join("pids");
    // It takes a while to end, because it ignores the first signals.
    let script = format!("trap '' TERM HUP INT; echo $$ $PWD >> {}; exec sleep 1000", pids.display());
    let server = json!({ "name": "sleeper", "command": "/bin/sh", "args": ["-c", script], "env": [] });
    let params = json!({ "cwd": at.root(), "mcpServers": [server], "_meta": { "acpd": { "worktree": "fix" } } });
    let mut zed = at.scene.editor("second").await;
    let opened = zed.call("session/new", params).await;
    (at.zed, at.session) = (zed, opened["result"]["sessionId"].as_str().unwrap().to_owned());
    assert_eq!(at.ask("hello").await, "Hello.");
    let running = |folder: &Path| {
        let lines = fs::read_to_string(&pids).unwrap_or_default();
        let inside = lines.lines().filter_map(|line| line.split_once(' ')).filter(|(_, at)| Path::new(at) == folder);
        inside.map(|(pid, _)| pid.parse().unwrap()).filter(|pid| is_alive(*pid)).collect::<Vec<u32>>()
    };
    until("the server runs", || running(&at.worktree("fix")).len() == 1).await;
    let removed = at.ask("/worktree remove").await;
    assert!(removed.contains("is removed"), "{removed}");
    assert_eq!(running(&at.worktree("fix")), Vec::<u32>::new());
    until("the server runs where the session works now", || running(&at.root()).len() == 1).await;
}

/// An agent that is configured and cannot be started.
struct BrokenAgent;

impl Agents for BrokenAgent {
    fn default_agent(&self) -> Option<String> {
        None
    }

    fn names(&self) -> Vec<String> {
        vec!["broken".to_owned()]
    }

    fn start(&self, launch: AgentLaunch) -> StartedAgent {
        NoAgents.start(launch)
    }
}

#[actix::test]
async fn a_session_that_cannot_be_opened_leaves_no_worktree_that_was_made_for_it() {
    let mut at = Repository::with_ports(vec![], |ports| ports.agents = Arc::new(BrokenAgent)).await;
    let (_, refused) = open(&at.scene, "first", &at.root(), json!({ "worktree": "fix", "agent": "broken" })).await;
    assert!(refused["error"].to_string().contains("there is no agent"), "{refused}");
    until("the worktree is gone", || at.branches() == ["main"] && at.count_worktrees() == 1).await;
    assert!(!at.worktree("fix").exists());
    // One that was there before stays.
    at.ask("/worktree old").await;
    at.ask("/worktree leave").await;
    let (_, refused) = open(&at.scene, "second", &at.root(), json!({ "worktree": "old", "agent": "broken" })).await;
    assert!(refused["error"].to_string().contains("there is no agent"), "{refused}");
    let entered = at.ask("/worktree old").await;
    assert!(entered.contains("which existed before"), "{entered}");
}

#[actix::test]
async fn a_withdrawn_request_for_a_session_in_a_worktree_leaves_no_worktree() {
    let at = Repository::new(vec![]).await;
    at.hold_in(&at.root());
    at.hold();
    let mut second = at.scene.editor("second").await;
    let params = json!({ "cwd": at.root(), "mcpServers": [], "_meta": { "acpd": { "worktree": true } } });
    let new = second.request("session/new", params).await;
    at.until_held().await;
    second.notify("$/cancel_request", json!({ "requestId": new })).await;
    assert_eq!(second.answer(new).await["error"]["code"], -32800);
    let parent = at.folder.path().join("repo.worktrees");
    until("git is stopped", || at.count_worktrees() == 1 && at.branches() == ["main"] && !parent.exists()).await;
}

#[actix::test]
async fn a_git_command_that_works_elsewhere_or_was_killed_is_not_disturbed() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    commit(&at.worktree("fix"), "b.txt", "b\n");
    let lock = at.root().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let refused = at.ask("/worktree merge").await;
    assert!(refused.contains("another git command works in DIR/repo, or one was killed there"), "{refused}");
    assert!(refused.contains("delete DIR/repo/.git/index.lock"), "{refused}");
    fs::remove_file(&lock).unwrap();
    fs::write(at.root().join(".git/worktrees/fix/index.lock"), "").unwrap();
    let refused = at.ask("/worktree remove").await;
    assert!(refused.contains("another git command works in DIR/repo.worktrees/fix"), "{refused}");
    assert!(at.worktree("fix").join("b.txt").exists());
}

/// Git deletes the files of a worktree one after another, so a kill can leave some of them.
#[actix::test]
async fn a_removal_that_a_kill_interrupts_is_completed_later() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    at.ask("/worktree leave").await;
    let (fix, git_folder) = (at.worktree("fix"), at.root().join(".git/worktrees/fix"));
    for name in ["a.txt", ".git"] {
        fs::remove_file(fix.join(name)).unwrap();
    }
    let refused = at.ask("/worktree remove fix").await;
    assert!(refused.contains("changes that are not committed: `a.txt`"), "{refused}");
    fs::write(git_folder.join("acpd-removal"), "").unwrap();
    fs::write(fix.join("new.txt"), "new\n").unwrap();
    let refused = at.ask("/worktree remove fix").await;
    assert!(refused.contains("changes that are not committed") && fix.join("new.txt").exists(), "{refused}");
    fs::remove_file(fix.join("new.txt")).unwrap();
    let removed = at.ask("/worktree remove fix").await;
    assert!(removed.contains("is removed") && !fix.exists(), "{removed}");
    assert_eq!((at.count_worktrees(), at.branches()), (1, vec!["main".to_owned()]));
}

/// A command that still runs in the background can write the repository's configuration after it
/// was checked. What git then runs for it is confined like that command.
#[actix::test]
async fn a_program_that_is_configured_while_git_works_writes_nothing_elsewhere() {
    let mut at = Repository::new(vec![]).await;
    at.hold_in(&at.root());
    fs::write(at.root().join(".gitattributes"), "held.txt filter=hold\na.txt filter=evil\n").unwrap();
    git(&at.root(), &["add", "--all"]);
    git(&at.root(), &["commit", "--quiet", "--message", "attributes"]);
    at.hold();
    let prompt = at.zed.prompt(&at.session, "/worktree fix").await;
    at.until_held().await;
    let (inside, outside) = (at.root().join("ran"), at.folder.path().join("ran"));
    let clean = format!("touch {}; touch {}; cat", inside.display(), outside.display());
    git(&at.root(), &["config", "filter.evil.clean", &clean]);
    // Git passes a file through the filter when its time has changed.
    fs::write(at.root().join("a.txt"), "two\n").unwrap();
    at.release().await;
    at.zed.answer(prompt).await;
    assert!(inside.exists(), "git does not run the filter, so this shows nothing");
    assert!(!outside.exists(), "the filter wrote outside the repository");
}
