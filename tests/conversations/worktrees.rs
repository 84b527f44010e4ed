//! `/worktree`: a session works in its own git worktree, and nothing is lost when it is merged or
//! removed. The tests run the real git.

mod interruptions;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use acpd_actors::Ports;
use domain::worktree::{StopSignal, WorktreeRequest, Worktrees as _};
use domain::{BaseEnvironment, Environment};
use process::Launcher;
use project::GitWorktrees;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Editor, Scene, Step};
use tools::Registry;

const PROGRAM: &str = env!("CARGO_BIN_EXE_acpd");

/// A repository with one commit, and an editor with a session in it.
struct Repository {
    folder: TempDir,
    scene: Scene,
    zed: Editor,
    session: String,
}

fn git(at: &Path, arguments: &[&str]) -> String {
    let settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];
    let mut command = Command::new("git");
    // Neither the developer's configuration nor a hook in which the tests run may lead git
    // elsewhere.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let done = command.current_dir(at).args(settings).args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn commit(at: &Path, name: &str, text: &str) {
    fs::write(at.join(name), text).unwrap();
    git(at, &["add", "--all"]);
    git(at, &["commit", "--quiet", "--message", name]);
}

/// The environment in which acpd runs git. The user's configuration is a file in this folder.
fn environment(folder: &Path) -> Environment {
    let settings = folder.join("gitconfig").display().to_string();
    if !folder.join("gitconfig").exists() {
        fs::write(folder.join("gitconfig"), "").unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    [("PATH", path), ("GIT_CONFIG_GLOBAL", settings), ("GIT_CONFIG_NOSYSTEM", "1".to_owned())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn port() -> GitWorktrees {
    GitWorktrees::new(Launcher::new(PROGRAM), Vec::new())
}

impl Repository {
    async fn new(answers: Vec<Vec<Step>>) -> Self {
        Self::with_ports(answers, |_| {}).await
    }

    async fn with_ports(answers: Vec<Vec<Step>>, adjust: impl FnOnce(&mut Ports)) -> Self {
        let folder = TempDir::with_prefix("worktrees").unwrap();
        let root = folder.path().join("repo");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        git(&root, &["config", "user.name", "Test"]);
        git(&root, &["config", "user.email", "test@example.org"]);
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/inner.txt"), "inner\n").unwrap();
        fs::write(root.join(".gitignore"), "*.log\n").unwrap();
        commit(&root, "a.txt", "one\n");
        let scene = Scene::with_ports(answers, |ports| {
            let mut tools = tools::ToolSettings::new(PROGRAM);
            tools.mcp.wait_seconds = 0;
            ports.toolbox = Arc::new(Registry::new(tools));
            ports.settings.base = Arc::new(BaseEnvironment::new(environment(folder.path())));
            ports.worktrees = Arc::new(port());
            ports.settings.approval = domain::Approval::Never;
            adjust(ports);
        });
        // A paused clock does not wait for git.
        tokio::time::resume();
        let (zed, session) = open(&scene, "zed", &root, json!({})).await;
        let session = session["result"]["sessionId"].as_str().unwrap().to_owned();
        Self { folder, scene, zed, session }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn worktree(&self, name: &str) -> PathBuf {
        self.folder.path().join("repo.worktrees").join(name)
    }

    /// Sends a prompt and returns the text of the answer.
    async fn ask(&mut self, text: &str) -> String {
        self.scene.transcript.take();
        let prompt = self.zed.prompt(&self.session, text).await;
        let mut said = String::new();
        loop {
            let message = self.zed.next().await.unwrap();
            if message["id"] == json!(prompt) {
                assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
                return said.replace(&self.folder.path().display().to_string(), "DIR");
            }
            let update = &message["params"]["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                said.push_str(update["content"]["text"].as_str().unwrap());
            }
        }
    }

    fn branches(&self) -> Vec<String> {
        let list = git(&self.root(), &["branch", "--format=%(refname:short)"]);
        list.lines().map(str::to_owned).collect()
    }

    fn count_worktrees(&self) -> usize {
        git(&self.root(), &["worktree", "list", "--porcelain"]).matches("worktree /").count()
    }

    fn request(&self, session: &str) -> WorktreeRequest {
        let environment = Arc::new(environment(self.folder.path()));
        let stop = StopSignal::never();
        WorktreeRequest { session: session.into(), folder: self.root(), environment, take_from: None, stop }
    }
}

/// Connects an editor and opens a session with these options.
async fn open(scene: &Scene, name: &str, cwd: &Path, options: Value) -> (Editor, Value) {
    let mut editor = scene.editor(name).await;
    let params = json!({ "cwd": cwd, "mcpServers": [], "_meta": { "acpd": options } });
    let opened = editor.call("session/new", params).await;
    if opened.get("result").is_some() {
        editor.update("available_commands_update").await;
    }
    (editor, opened)
}

fn write(name: &str) -> Vec<Vec<Step>> {
    vec![
        vec![Step::call("write_file", json!({ "path": name, "content": "text\n" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ]
}

#[actix::test]
async fn a_session_works_in_its_worktree_is_merged_back_and_removed() {
    let mut at = Repository::new([write("b.txt"), write("c.txt")].concat()).await;
    fs::write(at.root().join("a.txt"), "changed\n").unwrap();
    let entered = at.ask("/worktree fix").await;
    assert_eq!(
        entered,
        "The session now works in `DIR/repo.worktrees/fix`, on the branch `acpd/fix`. Changes in `DIR/repo` that are not \
         committed are not there. `/worktree merge` merges its commits back, and `/worktree remove` removes it."
    );
    git(&at.root(), &["checkout", "--quiet", "a.txt"]);
    assert_eq!(at.ask("create b.txt").await, "Done.");
    assert!(at.worktree("fix").join("b.txt").exists() && !at.root().join("b.txt").exists());
    let status = at.ask("/worktree status").await;
    assert!(status.contains("files with changes that are not committed: 1"), "{status}");
    assert!(at.ask("/status").await.contains("- worktree: `fix` of `DIR/repo`"));
    let refused = at.ask("/worktree merge").await;
    assert_eq!(
        refused,
        "The worktree cannot be merged: DIR/repo.worktrees/fix has changes that are not committed: `b.txt`. Commit or \
         discard them first. Nothing was changed."
    );
    git(&at.worktree("fix"), &["add", "--all"]);
    git(&at.worktree("fix"), &["commit", "--quiet", "--message", "b"]);
    let merged = at.ask("/worktree merge").await;
    assert_eq!(merged, "One commit of `acpd/fix` is merged into the current branch of `DIR/repo`.");
    assert!(at.root().join("b.txt").exists());
    assert_eq!(at.ask("/worktree merge").await, "`DIR/repo` has all commits of the worktree already.");
    let removed = at.ask("/worktree remove").await;
    assert_eq!(
        removed,
        "The worktree in `DIR/repo.worktrees/fix` is removed. Its branch `acpd/fix` is deleted: all of its commits are \
         merged."
    );
    assert!(!at.folder.path().join("repo.worktrees").exists());
    assert_eq!(at.branches(), ["main"]);
    assert_eq!(at.ask("create c.txt").await, "Done.");
    assert!(at.root().join("c.txt").exists(), "the session works where it was opened");
}

#[actix::test]
async fn the_model_learns_where_it_works_and_a_session_in_a_sub_folder_stays_in_it() {
    let mut at = Repository::new([write("b.txt"), write("b.txt")].concat()).await;
    let (zed, opened) = open(&at.scene, "deep", &at.root().join("sub"), json!({})).await;
    at.zed = zed;
    at.session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(at.ask("create b.txt").await, "Done.");
    at.ask("/worktree fix").await;
    assert_eq!(at.ask("create it there too").await, "Done.");
    assert!(at.worktree("fix").join("sub/b.txt").exists());
    let request = at.scene.script.requests().last().cloned().unwrap();
    let seen = format!("{request:?}");
    assert!(seen.contains("The working folder is now") && seen.contains("on the branch acpd/fix"), "{seen}");
}

#[actix::test]
async fn a_removal_never_loses_changes_ignored_files_or_commits() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    let fix = at.worktree("fix");
    fs::write(fix.join("new.txt"), "new\n").unwrap();
    let refused = at.ask("/worktree remove").await;
    assert!(refused.contains("changes that are not committed: `new.txt`"), "{refused}");
    commit(&fix, "new.txt", "new\n");
    fs::write(fix.join("build.log"), "log\n").unwrap();
    let refused = at.ask("/worktree remove").await;
    assert!(refused.contains("files that git ignores, which would be deleted: `build.log`"), "{refused}");
    assert!(refused.contains("`/worktree remove --ignored` deletes the rest"), "{refused}");
    git(&fix, &["checkout", "--quiet", "--detach"]);
    commit(&fix, "loose.txt", "loose\n");
    let refused = at.ask("/worktree remove --ignored").await;
    assert!(refused.contains("1 commits of DIR/repo.worktrees/fix are on no branch"), "{refused}");
    git(&fix, &["checkout", "--quiet", "-B", "acpd/fix"]);
    let removed = at.ask("/worktree remove --ignored").await;
    assert!(removed.contains("Its branch `acpd/fix` is kept: 2 of its commits are not merged."), "{removed}");
    assert!(!fix.exists());
    let again = at.ask("/worktree fix").await;
    assert!(again.contains("`acpd/fix`, which existed before."), "{again}");
    assert!(fix.join("new.txt").exists() && fix.join("loose.txt").exists());
    let left = at.ask("/worktree leave").await;
    assert!(left.contains("`/worktree remove fix` removes it"), "{left}");
    assert!(at.ask("/worktree remove fix").await.contains("is removed"));
}

#[actix::test]
async fn a_merge_with_conflicts_or_into_a_changed_checkout_changes_nothing() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    commit(&at.worktree("fix"), "a.txt", "theirs\n");
    fs::write(at.root().join("a.txt"), "mine\n").unwrap();
    let refused = at.ask("/worktree merge").await;
    assert!(refused.contains("DIR/repo has changes that are not committed: `a.txt`"), "{refused}");
    assert_eq!(fs::read_to_string(at.root().join("a.txt")).unwrap(), "mine\n");
    commit(&at.root(), "a.txt", "mine\n");
    let head = git(&at.root(), &["rev-parse", "HEAD"]);
    let refused = at.ask("/worktree merge").await;
    assert!(refused.starts_with("The worktree cannot be merged: these files conflict: `a.txt`."), "{refused}");
    assert!(refused.contains("Nothing was changed."), "{refused}");
    assert_eq!(git(&at.root(), &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&at.root(), &["status", "--porcelain"]), "");
    // The advice works.
    let fix = at.worktree("fix");
    git(&fix, &["merge", "--quiet", "--strategy=ours", "--no-edit", "main"]);
    assert!(at.ask("/worktree merge").await.contains("commits of `acpd/fix` are merged"));
    assert_eq!(fs::read_to_string(at.root().join("a.txt")).unwrap(), "theirs\n");
}

#[actix::test]
async fn files_that_git_status_does_not_report_are_not_lost_either() {
    let mut at = Repository::new(vec![]).await;
    git(&at.root(), &["config", "status.showUntrackedFiles", "no"]);
    at.ask("/worktree fix").await;
    let fix = at.worktree("fix");
    fs::write(fix.join("build.log"), "log\n").unwrap();
    let refused = at.ask("/worktree remove").await;
    assert!(refused.contains("files that git ignores, which would be deleted: `build.log`"), "{refused}");
    git(&fix, &["update-index", "--assume-unchanged", "a.txt"]);
    let refused = at.ask("/worktree remove --ignored").await;
    assert!(
        refused.contains("marked as unchanged in git's index, so edits to them would go unnoticed: `a.txt`"),
        "{refused}"
    );
    git(&fix, &["update-index", "--no-assume-unchanged", "a.txt"]);
    git(&fix, &["bisect", "start"]);
    let refused = at.ask("/worktree remove --ignored").await;
    assert!(refused.contains("is not finished; finish or abort it first"), "{refused}");
    git(&fix, &["bisect", "reset"]);
    // A branch that only a detached checkout has is kept.
    commit(&fix, "b.txt", "b\n");
    git(&at.root(), &["checkout", "--quiet", "--detach", "acpd/fix"]);
    at.ask("/worktree remove --ignored").await;
    assert!(!fix.exists() && at.branches().contains(&"acpd/fix".to_owned()), "{:?}", at.branches());
}

#[actix::test]
async fn a_merge_overwrites_no_file_that_is_not_in_git_and_ends_no_other_merge() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    let fix = at.worktree("fix");
    fs::write(fix.join("own.log"), "theirs\n").unwrap();
    git(&fix, &["add", "--force", "own.log"]);
    git(&fix, &["commit", "--quiet", "--message", "log"]);
    fs::write(at.root().join("own.log"), "mine\n").unwrap();
    let refused = at.ask("/worktree merge").await;
    assert!(refused.contains("would overwrite files in DIR/repo that are not in git: `own.log`"), "{refused}");
    assert_eq!(fs::read_to_string(at.root().join("own.log")).unwrap(), "mine\n");
    fs::remove_file(at.root().join("own.log")).unwrap();
    git(&at.root(), &["checkout", "--quiet", "-b", "side"]);
    commit(&at.root(), "side.txt", "side\n");
    git(&at.root(), &["checkout", "--quiet", "main"]);
    commit(&at.root(), "main.txt", "main\n");
    git(&at.root(), &["merge", "--quiet", "--no-commit", "--strategy=ours", "side"]);
    let refused = at.ask("/worktree merge").await;
    assert!(refused.contains("is not finished; finish or abort it first"), "{refused}");
    assert!(at.root().join(".git/MERGE_HEAD").exists(), "the user's merge goes on");
    git(&at.root(), &["commit", "--quiet", "--no-edit"]);
    let merged = at.ask("/worktree merge").await;
    assert!(merged.contains("One commit of `acpd/fix` is merged"), "{merged}");
    assert_eq!(fs::read_to_string(at.root().join("own.log")).unwrap(), "theirs\n");
}

/// A command of the agent can write to the worktree, so nothing in it may lead git to another
/// configuration.
#[actix::test]
async fn git_obeys_no_configuration_that_a_worktree_or_a_later_branch_brings() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    let (fix, ran) = (at.worktree("fix"), at.folder.path().join("ran"));
    let evil = at.folder.path().join("evil");
    let filter = format!("touch {}; cat", ran.display());
    git(at.folder.path(), &["clone", "--quiet", &at.root().display().to_string(), &evil.display().to_string()]);
    git(&evil, &["config", "filter.x.clean", &filter]);
    fs::write(fix.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(fix.join("a.txt"), "changed\n").unwrap();
    let link = fs::read_to_string(fix.join(".git")).unwrap();
    fs::write(fix.join(".git"), format!("gitdir: {}/.git\n", evil.display())).unwrap();
    for command in ["/worktree status", "/worktree merge", "/worktree remove"] {
        at.ask(command).await;
        assert!(!ran.exists(), "{command} ran the filter");
    }
    fs::write(fix.join(".git"), link).unwrap();
    for (name, value) in [
        ("includeIf.onbranch:acpd/**.path", evil.join(".git/config").display().to_string()),
        ("extensions.worktreeConfig", "true".to_owned()),
        ("gpg.program", filter),
    ] {
        git(&at.root(), &["config", name, &value]);
        let refused = at.ask("/worktree status").await;
        assert!(refused.contains("the repository's own configuration sets"), "{name}: {refused}");
        git(&at.root(), &["config", "--unset", name]);
        assert!(!ran.exists(), "{name} ran the filter");
    }
}

/// Git's folder for a worktree is inside the repository, where a command in sandbox mode may write.
#[actix::test]
async fn git_obeys_no_configuration_to_which_its_folder_for_a_worktree_leads() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    let (evil, ran) = (at.folder.path().join("evil"), at.folder.path().join("ran"));
    git(at.folder.path(), &["clone", "--quiet", "--bare", &at.root().display().to_string(), "evil"]);
    git(&evil, &["config", "filter.x.clean", &format!("touch {}; cat", ran.display())]);
    fs::create_dir_all(evil.join("info")).unwrap();
    fs::write(evil.join("info/attributes"), "* filter=x\n").unwrap();
    let folder = at.root().join(".git/worktrees/fix");
    fs::write(folder.join("commondir"), format!("{}\n", evil.display())).unwrap();
    for command in ["/worktree status", "/worktree leave", "/worktree fix", "/worktree merge", "/worktree remove"] {
        // Without the times in the index, git reads every file through its filter.
        fs::copy(at.root().join(".git/index"), folder.join("index")).unwrap();
        at.ask(command).await;
        assert!(!ran.exists(), "{command} ran the filter");
    }
    assert!(!at.worktree("fix").exists(), "the clean worktree is removed all the same");
}

#[actix::test]
async fn a_second_folder_of_git_for_a_worktree_is_not_chosen_by_chance() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    let folders = at.root().join(".git/worktrees");
    fs::create_dir(folders.join("other")).unwrap();
    for name in ["gitdir", "HEAD", "index", "commondir"] {
        fs::copy(folders.join("fix").join(name), folders.join("other").join(name)).unwrap();
    }
    let refused = at.ask("/worktree merge").await;
    assert!(refused.contains("fix"), "{refused}");
    at.ask("/worktree remove").await;
    assert!(at.worktree("fix/a.txt").exists());
}

#[actix::test]
async fn a_symlink_in_the_place_of_a_worktree_is_not_followed() {
    let mut at = Repository::new(vec![]).await;
    let elsewhere = at.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(at.folder.path().join("repo.worktrees")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, at.worktree("fix")).unwrap();
    let refused = at.ask("/worktree fix").await;
    assert!(refused.contains("DIR/repo.worktrees/fix already exists and is not a worktree of acpd"), "{refused}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Only one of many sessions that want the same new worktree at once gets it.
#[actix::test]
async fn one_of_several_sessions_that_enter_a_worktree_at_once_gets_it() {
    let at = Repository::new(vec![]).await;
    let root = at.root();
    let enter = |name: String| {
        let (scene, root) = (&at.scene, &root);
        async move { open(scene, &name, root, json!({ "worktree": "fix" })).await }
    };
    let opened = futures_util::future::join_all((0..4).map(|number| enter(format!("editor-{number}")))).await;
    let entered = opened.iter().filter(|(_, answer)| answer.get("result").is_some()).count();
    assert_eq!(entered, 1, "{:?}", opened.iter().map(|(_, answer)| answer).collect::<Vec<_>>());
    assert!(!at.worktree("fix.incomplete-1").exists());
    assert_eq!(at.count_worktrees(), 2);
}

#[actix::test]
async fn a_worktree_whose_creation_was_interrupted_is_found_again() {
    let mut at = Repository::new(vec![]).await;
    // The worktree is there, but the session's log does not know it.
    port().enter(at.request(&at.session), None).await.unwrap();
    assert_eq!(at.count_worktrees(), 2);
    let found = at.ask("/worktree").await;
    assert!(found.contains("which existed before"), "{found}");
    assert_eq!(at.count_worktrees(), 2);
    assert_eq!(at.ask("/worktree other").await.matches("already works in the worktree").count(), 1);
    at.ask("/worktree leave").await;
    // Only the branch is there.
    git(&at.root(), &["branch", "acpd/half"]);
    assert!(at.ask("/worktree half").await.contains("which existed before"));
    // The checkout is half-written: git has not written the index yet.
    let link = fs::read_to_string(at.worktree("half").join(".git")).unwrap();
    fs::remove_file(Path::new(link.trim().strip_prefix("gitdir: ").unwrap()).join("index")).unwrap();
    at.ask("/worktree leave").await;
    let repaired = at.ask("/worktree half").await;
    assert!(repaired.contains("The remains of an interrupted creation are in `DIR/repo.worktrees/half.incomplete-1`"));
    assert_eq!(git(&at.worktree("half"), &["status", "--porcelain"]), "");
    assert!(at.worktree("half.incomplete-1").join("a.txt").exists());
}

#[actix::test]
async fn a_worktree_belongs_to_one_session_and_an_abandoned_one_is_taken_over() {
    let mut at = Repository::new(vec![]).await;
    at.ask("/worktree fix").await;
    let (zed, opened) = open(&at.scene, "other", &at.root(), json!({})).await;
    let first = std::mem::replace(&mut at.session, opened["result"]["sessionId"].as_str().unwrap().to_owned());
    let first_editor = std::mem::replace(&mut at.zed, zed);
    let refused = at.ask("/worktree fix").await;
    assert!(refused.contains("belongs to the session") && refused.contains("Choose another name"), "{refused}");
    assert!(at.ask("/worktree remove fix").await.contains("belongs to the session"));
    let (second, second_editor) =
        (std::mem::replace(&mut at.session, first), std::mem::replace(&mut at.zed, first_editor));
    at.ask("/worktree leave").await;
    (at.session, at.zed) = (second, second_editor);
    assert!(at.ask("/worktree fix").await.contains("which existed before"));
}

#[actix::test]
async fn a_new_session_may_begin_in_a_worktree_in_both_versions() {
    let mut at = Repository::new(write("b.txt")).await;
    let (zed, opened) = open(&at.scene, "first", &at.root(), json!({ "worktree": "fix" })).await;
    let worktree = &opened["result"]["_meta"]["acpd"]["worktree"];
    assert_eq!((&worktree["name"], &worktree["branch"]), (&json!("fix"), &json!("acpd/fix")));
    assert_eq!(worktree["root"], json!(at.worktree("fix")));
    (at.zed, at.session) = (zed, opened["result"]["sessionId"].as_str().unwrap().to_owned());
    assert_eq!(at.ask("create b.txt").await, "Done.");
    assert!(at.worktree("fix").join("b.txt").exists());

    let mut second = at.scene.client("second");
    second.initialize_v2().await;
    let params = json!({ "cwd": at.root(), "_meta": { "acpd": { "worktree": true } } });
    let opened = second.call("session/new", params).await;
    let name = opened["result"]["_meta"]["acpd"]["worktree"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("session-") && at.worktree(&name).is_dir(), "{opened}");

    for (wish, reason) in [(json!(1), "Must be true"), (json!("../x"), "cannot be the name"), (json!("fix"), "belongs")]
    {
        let (_, refused) = open(&at.scene, "third", &at.root(), json!({ "worktree": wish })).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let (_, refused) = open(&at.scene, "fourth", at.folder.path(), json!({ "worktree": true })).await;
    assert!(refused.to_string().contains("is not in a git repository"), "{refused}");

    // The session is listed and loaded under the folder in which it was opened.
    let mut later = at.scene.editor("later").await;
    let list = later.call("session/list", json!({ "cwd": at.root() })).await;
    let listed = list["result"]["sessions"].as_array().unwrap().clone();
    let own = listed.iter().find(|session| session["sessionId"] == json!(at.session)).unwrap();
    assert_eq!(own["_meta"]["acpd"]["worktree"]["name"], "fix");
    let load = json!({ "sessionId": at.session, "cwd": at.root(), "mcpServers": [] });
    let loaded = later.call("session/load", load).await;
    assert_eq!(loaded["result"]["_meta"]["acpd"]["worktree"]["name"], "fix", "{loaded}");
}

#[actix::test]
async fn a_fork_or_an_import_works_where_its_original_was_opened() {
    let mut at = Repository::new([write("b.txt"), write("c.txt")].concat()).await;
    at.ask("/worktree fix").await;
    assert_eq!(at.ask("create b.txt").await, "Done.");
    let fork = json!({ "sessionId": at.session, "cwd": at.root(), "mcpServers": [] });
    let forked = at.zed.call("session/fork", fork).await;
    let fork = forked["result"]["sessionId"].as_str().unwrap().to_owned();
    let original = std::mem::replace(&mut at.session, fork);
    assert_eq!(at.ask("create c.txt").await, "Done.");
    assert!(at.root().join("c.txt").exists());
    let seen = format!("{:?}", at.scene.script.requests().last().unwrap());
    assert!(seen.contains(&format!("The working folder is now {}.", at.root().display())), "{seen}");
    // A log from elsewhere must not choose the folder in which tools work.
    let mut ctl = at.scene.client("ctl");
    let exported = ctl.call("_acpd/export", json!({ "sessionId": original })).await;
    let imported = ctl.call("_acpd/import", json!({ "events": exported["result"]["events"] })).await;
    at.session = imported["result"]["sessionId"].as_str().unwrap().to_owned();
    at.zed.call("session/load", json!({ "sessionId": at.session, "cwd": at.root(), "mcpServers": [] })).await;
    let status = at.ask("/status").await;
    assert!(status.contains("- folder: `DIR/repo`") && !status.contains("worktree"), "{status}");
}

#[actix::test]
async fn git_runs_no_program_of_the_repository() {
    let mut at = Repository::new(vec![]).await;
    let hook = at.root().join(".git/hooks/post-checkout");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", at.folder.path().join("hooked").display())).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(at.ask("/worktree fix").await.starts_with("The session now works in"));
    assert!(!at.folder.path().join("hooked").exists());
    at.ask("/worktree leave").await;
    git(&at.root(), &["config", "filter.evil.smudge", "touch /tmp/evil"]);
    let refused = at.ask("/worktree more").await;
    assert!(refused.contains("the repository's own configuration sets filter.evil.smudge"), "{refused}");
    assert!(!at.worktree("more").exists());
}
