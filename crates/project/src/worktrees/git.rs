//! Runs git for the worktrees of sessions, and reads its output.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::Environment;
use domain::text::cut;
use domain::worktree::{StopSignal, WorktreeError};
use process::{CommandExit, CommandSpec, Interruption, Launcher, SharedOutput, watch};

use super::confinement::Confinement;

/// How long one git command may take. Checking out a large repository takes minutes on a slow disk.
const GIT_DEADLINE: Duration = Duration::from_secs(600);

/// The most bytes that are read from a git command. A list of all files of a large repository fits.
const OUTPUT: usize = 16 << 20;

/// The most characters of git's own words in an error.
const WORDS: usize = 1 << 10;

/// Settings of every git command: no hooks, no further programs, and nothing in the background.
/// `launcher` adds those that all commands have.
const SETTINGS: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "worktree.useRelativePaths=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "merge.verifySignatures=false",
    "core.ignoreStat=false",
    "advice.detachedHead=false",
];

/// Variables of an editor's environment that would lead git to another repository.
const MISLEADING: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CONFIG_PARAMETERS",
];

#[derive(Clone)]
pub(super) struct Git {
    launcher: Launcher,
    environment: Arc<Environment>,
    confinement: Confinement,
    /// Ends the running command, and lets no other start.
    stop: StopSignal,
    /// Git's folder of the repository, once it is known. Every later command gets it as
    /// `GIT_COMMON_DIR`. Otherwise git would read its path from the file `commondir` of a
    /// worktree's folder, which a command of the agent can write, and would obey the configuration
    /// that it finds there.
    common: Option<String>,
}

/// Where a git command runs.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    /// In the user's checkout, whose configuration has been checked.
    Checkout(&'a Path),
    /// In a worktree, with git's folder for it inside the repository. The file `.git` of a worktree
    /// is not used: a command of the agent may have replaced it, and git would then obey another
    /// configuration.
    Worktree { root: &'a Path, git_folder: &'a Path },
}

impl<'a> From<&'a PathBuf> for At<'a> {
    fn from(checkout: &'a PathBuf) -> Self {
        At::Checkout(checkout)
    }
}

/// One worktree in git's list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    /// The current commit; None if it cannot be read.
    pub(super) head: Option<String>,
    pub(super) branch: Option<String>,
    /// The reason of the lock, if there is a lock.
    pub(super) locked: Option<String>,
}

impl Git {
    pub(super) fn new(
        launcher: Launcher,
        environment: Arc<Environment>,
        confinement: Confinement,
        stop: StopSignal,
    ) -> Self {
        Self { launcher, environment, confinement, stop, common: None }
    }

    /// Allows further commands to write in these folders.
    pub(super) fn allow(&mut self, folders: impl IntoIterator<Item = PathBuf>) {
        self.confinement.allow(folders);
    }

    /// The same, for a step that must be completed once it has begun.
    pub(super) fn unstoppable(&self) -> Self {
        Self { stop: StopSignal::never(), ..self.clone() }
    }

    /// Makes all further commands use the configuration, the branches and the objects of this
    /// folder.
    pub(super) fn pin(&mut self, common: &Path) -> Result<(), WorktreeError> {
        self.common = Some(text(common)?.to_owned());
        Ok(())
    }

    /// Runs a git command and returns what it printed. An error has the same text.
    pub(super) async fn run(&self, at: impl Into<At<'_>>, arguments: &[&str]) -> Result<String, WorktreeError> {
        let (code, text) = self.execute(at.into(), arguments).await?;
        if code == 0 { Ok(text) } else { Err(refused(&text)) }
    }

    pub(super) async fn succeeds(&self, at: impl Into<At<'_>>, arguments: &[&str]) -> Result<bool, WorktreeError> {
        Ok(self.execute(at.into(), arguments).await?.0 == 0)
    }

    /// Runs a git command that may fail, and returns its exit code and what it printed.
    async fn execute(&self, at: At<'_>, arguments: &[&str]) -> Result<(i32, String), WorktreeError> {
        let (folder, places) = match at {
            At::Checkout(checkout) => (checkout, Vec::new()),
            At::Worktree { root, git_folder } => {
                let git_folder = format!("--git-dir={}", git_folder.display());
                (root, vec![git_folder, format!("--work-tree={}", root.display())])
            }
        };
        let mut environment = self.launcher.environment.for_programs(&self.environment, folder);
        environment.retain(|name, _| !MISLEADING.contains(&name.as_str()) && !name.starts_with("GIT_TRACE"));
        environment.extend(self.common.iter().map(|common| ("GIT_COMMON_DIR".to_owned(), common.clone())));
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]).chain(places.iter().map(String::as_str));
        let command = CommandSpec {
            runner: self.launcher.runner.clone(),
            program: "git".to_owned(),
            arguments: settings.chain(arguments.iter().copied()).map(str::to_owned).collect(),
            environment,
            folder: folder.to_owned(),
            sandbox: self.confinement.sandbox(folder).await?,
            shield: Vec::new(),
            process_limit: Some(self.launcher.process_limit),
            input: None,
        };
        if self.stop.is_raised() {
            return Err(WorktreeError::Cancelled);
        }
        let started = command.start().await.map_err(|error| WorktreeError::Git(error.to_string()))?;
        let output = SharedOutput::new(OUTPUT);
        let end = watch(started, &output, Some(GIT_DEADLINE), self.stop.raised(), || {}).await;
        let text = output.lock().text();
        match end.exit {
            _ if end.interruption == Some(Interruption::Cancelled) => Err(WorktreeError::Cancelled),
            _ if end.interruption.is_some() => {
                Err(WorktreeError::Git(format!("it did not end within {} s", GIT_DEADLINE.as_secs())))
            }
            CommandExit::Exited(code) => Ok((code, text)),
            CommandExit::Failed(reason) => Err(WorktreeError::Git(reason)),
            CommandExit::Signalled(signal) => Err(WorktreeError::Git(format!("it was ended by signal {signal}"))),
            CommandExit::TooMany(_) | CommandExit::Lost => Err(WorktreeError::Git("it was killed".to_owned())),
        }
    }

    /// Checks that no setting of the repository itself makes git run a program or fetch what is
    /// missing.
    pub(super) async fn check_configuration(&self, at: &PathBuf) -> Result<(), WorktreeError> {
        let settings = self.run(at, &["config", "--list", "--show-scope", "--name-only"]).await?;
        match settings.lines().find_map(risky) {
            Some(name) => Err(WorktreeError::RiskyConfiguration(name.to_owned())),
            None => Ok(()),
        }
    }

    pub(super) async fn worktrees(&self, at: &PathBuf) -> Result<Vec<Entry>, WorktreeError> {
        Ok(entries(&self.run(at, &["worktree", "list", "--porcelain"]).await?))
    }

    /// Lists the files of a checkout that have changes. `untracked` is what git's option of that
    /// name takes. Git does not look into submodules, because each has its own configuration.
    pub(super) async fn changes(&self, at: impl Into<At<'_>>, untracked: &str) -> Result<Vec<String>, WorktreeError> {
        let untracked = format!("--untracked-files={untracked}");
        let status = ["status", "--porcelain=v1", &untracked, "--ignore-submodules=dirty"];
        Ok(paths(&self.run(at, &status).await?, |_| true))
    }

    /// Lists the files of a checkout that have changes other than their deletion.
    pub(super) async fn changes_besides_deletions(&self, at: At<'_>) -> Result<Vec<String>, WorktreeError> {
        let status = ["status", "--porcelain=v1", "--untracked-files=all", "--ignore-submodules=dirty"];
        Ok(paths(&self.run(at, &status).await?, |state| state != " D"))
    }

    /// Lists the files and folders of a checkout that git ignores.
    pub(super) async fn ignored(&self, at: At<'_>) -> Result<Vec<String>, WorktreeError> {
        // Without `--untracked-files`, a setting of the user could hide the ignored files as well.
        let ignored = ["--ignored=traditional", "--untracked-files=normal", "--ignore-submodules=dirty"];
        let status = [&["status", "--porcelain=v1"], &ignored[..]].concat();
        Ok(paths(&self.run(at, &status).await?, |state| state == "!!"))
    }

    /// Lists the files of the index whose changes `git status` does not report (`assume-unchanged`,
    /// `skip-worktree`).
    pub(super) async fn unwatched(&self, at: At<'_>) -> Result<Vec<String>, WorktreeError> {
        let list = self.run(at, &["ls-files", "-v"]).await?;
        let is_unwatched = |line: &&str| line.starts_with(|tag: char| tag == 'S' || tag.is_ascii_lowercase());
        Ok(list.lines().filter(is_unwatched).filter_map(|line| line.get(2..)).map(str::to_owned).collect())
    }

    /// Merges two commits without touching a checkout, to find out whether they conflict. Returns
    /// the paths that the merge adds to the first commit.
    pub(super) async fn try_merge(&self, at: &PathBuf, ours: &str, theirs: &str) -> Result<Vec<String>, WorktreeError> {
        let merge = ["merge-tree", "--write-tree", "--name-only", ours, theirs];
        let (code, text) = self.execute(at.into(), &merge).await?;
        match code {
            0 => {
                let tree = text.lines().next().unwrap_or_default();
                let added = ["diff-tree", "-r", "--no-renames", "--name-only", "--diff-filter=A", ours, tree];
                Ok(self.run(at, &added).await?.lines().map(str::to_owned).collect())
            }
            // The first line is the tree; the files follow up to an empty line.
            1 => {
                let files = text.lines().skip(1).take_while(|line| !line.is_empty()).map(str::to_owned).collect();
                Err(WorktreeError::Conflicts(files))
            }
            _ => Err(refused(&text)),
        }
    }
}

fn refused(text: &str) -> WorktreeError {
    WorktreeError::Git(cut(text.trim(), WORDS))
}

/// Returns a path as an argument of git.
pub(super) fn text(path: &Path) -> Result<&str, WorktreeError> {
    path.to_str().ok_or_else(|| WorktreeError::Git(format!("{} is not UTF-8", path.display())))
}

/// Reads a number that git printed.
pub(super) fn number(text: &str) -> Result<u64, WorktreeError> {
    text.trim().parse().map_err(|_| refused(text))
}

/// Returns the name of a setting of the repository that makes git run a program or reach the
/// network, if a line of `git config --list --show-scope --name-only` is one.
fn risky(line: &str) -> Option<&str> {
    let Some((scope, name)) = line.split_once('\t') else { return Some(line) };
    let lower = name.to_ascii_lowercase();
    // A setting behind an include may count only later: on another branch, or in another folder.
    let is_program =
        ["filter.", "hook.", "include.", "includeif.", "gpg."].iter().any(|start| lower.starts_with(start))
            || (lower.starts_with("merge.") && lower.ends_with(".driver"))
            || (lower.starts_with("remote.") && lower.ends_with(".promisor"))
            || (lower.starts_with("branch.") && lower.ends_with(".mergeoptions"))
            || matches!(lower.as_str(), "core.worktree" | "extensions.partialclone" | "extensions.worktreeconfig");
    (matches!(scope, "local" | "worktree") && is_program).then_some(name)
}

/// Reads `git worktree list --porcelain`: lines of a key and a value, and an empty line after each
/// worktree.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for block in text.split("\n\n") {
        let mut entry = Entry::default();
        for line in block.lines() {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "worktree" => entry.path = PathBuf::from(value),
                "HEAD" => entry.head = Some(value.to_owned()).filter(|head| head.bytes().any(|byte| byte != b'0')),
                "branch" => entry.branch = Some(value.to_owned()),
                "locked" => entry.locked = Some(value.to_owned()),
                _ => {}
            }
        }
        entries.extend(Some(entry).filter(|entry| entry.path.is_absolute()));
    }
    entries
}

/// Returns the paths in a status whose state, the two letters before them, is wanted.
fn paths(status: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = status.lines().filter(|line| line.get(..2).is_some_and(&is_wanted));
    lines.map(|line| line.get(3..).unwrap_or(line).trim_matches('"').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_that_names_programs_for_git_is_refused() {
        for name in [
            "filter.x.smudge",
            "Merge.x.Driver",
            "core.worktree",
            "remote.origin.promisor",
            "includeIf.onbranch:acpd/**.path",
            "include.path",
            "gpg.program",
            "hook.x.command",
            "extensions.worktreeConfig",
            "branch.main.mergeOptions",
        ] {
            assert_eq!(risky(&format!("local\t{name}")), Some(name));
            assert_eq!(risky(&format!("worktree\t{name}")), Some(name));
            assert_eq!(risky(&format!("global\t{name}")), None);
        }
        assert_eq!(risky("local\tmerge.conflictstyle"), None);
        assert_eq!(risky("warning: unreadable"), Some("warning: unreadable"));
    }

    #[test]
    fn gits_list_of_worktrees_is_read() {
        let text = "worktree /r\nHEAD ab\nbranch refs/heads/main\n\n\
                    worktree /r.worktrees/a b\nHEAD cd\nbranch refs/heads/acpd/n\nlocked acpd session s\n\n\
                    worktree /x\nHEAD 00\ndetached\nlocked\n\n";
        let list = entries(text);
        assert_eq!(list.len(), 3);
        assert_eq!(list[1].path, PathBuf::from("/r.worktrees/a b"));
        assert_eq!(list[1].branch.as_deref(), Some("refs/heads/acpd/n"));
        assert_eq!(list[1].locked.as_deref(), Some("acpd session s"));
        assert_eq!((list[2].head.as_deref(), list[2].locked.as_deref()), (None, Some("")));
    }

    #[test]
    fn a_status_is_read_by_its_states() {
        let status = " M a.txt\n?? b c.txt\n!! target/\n";
        assert_eq!(paths(status, |_| true), ["a.txt", "b c.txt", "target/"]);
        assert_eq!(paths(status, |state| state == "!!"), ["target/"]);
    }
}
