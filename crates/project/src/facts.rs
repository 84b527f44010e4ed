//! Facts about the place where a session works. Facts that stay are part of the system prompt.
//! Facts that change (date, mode, approval, folders, git) are sent with the user's message, so that
//! the beginning of each request stays the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::instructions::{SessionContext, Workspace};
use domain::text::cut;
use domain::{Environment, Millis};
use policy::Rules;
use process::{CommandExit, CommandSpec, Launcher, Sandbox, SharedOutput, watch};
use rustix::fs::OFlags;

use crate::note_files::read;
use crate::prompt_files;

/// How long one git command may take. A repository on a slow disk is described without its status.
const DEADLINE: Duration = Duration::from_secs(2);

/// The most characters of the status that the model gets.
const STATUS: usize = 2 << 10;

/// The most bytes that are read from a git command.
const OUTPUT: usize = 64 << 10;

/// The most bytes of git's one-line files, such as `HEAD`.
const MAX_ONE_LINE_FILE_BYTES: u64 = 4 << 10;

/// The text for a repository without changes.
const CLEAN: &str = "no changes";

/// Returns the facts that stay the same while the session exists.
pub(crate) fn lasting(place: &Workspace) -> String {
    format!(
        "\n# Place\n\nWorking folder: {}\nPlatform: {} ({})\nPaths may be relative to the working folder.\n",
        place.cwd.display(),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Returns the facts that may change, as one text. `status` is git's, if it is known.
pub(crate) fn changing(situation: &SessionContext, status: Option<&str>) -> String {
    let SessionContext { workspace: place, approval, left_out, .. } = situation;
    let mut lines = vec![
        format!("Date: {} (UTC)", Millis::now().to_date()),
        format!("Mode: {} ({})", place.mode.id(), place.mode.description()),
        format!("Approval: {} ({})", approval.id(), approval.description()),
    ];
    if !left_out.is_empty() {
        lines.push(format!("Tools that the mode leaves out: {}", left_out.join(", ")));
    }
    lines.extend(place.extra_roots.iter().map(|folder| format!("Further folder: {}", folder.display())));
    lines.extend(root(&place.cwd).and_then(branch).map(|branch| format!("Git branch: {branch}")));
    lines.extend(status.map(|status| format!("Git status:\n{status}")));
    lines.join("\n")
}

/// Returns the root of the repository that contains a folder.
pub(crate) fn root(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|folder| folder.join(".git").exists())
}

fn branch(root: &Path) -> Option<String> {
    let mut git = root.join(".git");
    // In a worktree `.git` is a file that names the actual folder.
    if let Some(text) = read(&git, MAX_ONE_LINE_FILE_BYTES, OFlags::NOFOLLOW)
        && let Some(elsewhere) = text.trim().strip_prefix("gitdir: ")
    {
        git = root.join(elsewhere);
    }
    let head = read(&git.join("HEAD"), MAX_ONE_LINE_FILE_BYTES, OFlags::NOFOLLOW)?;
    let head = head.trim();
    // Only what git itself writes into the file is passed on.
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) if !branch.contains(char::is_whitespace) => Some(branch.to_owned()),
        None if head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Some(format!("detached at {head}"))
        }
        Some(_) | None => None,
    }
}

/// The output of `git status` in a repository.
pub(crate) struct GitStatus {
    root: PathBuf,
    text: String,
}

impl GitStatus {
    /// Returns the status without the files that a rule hides from the model. May block.
    pub(crate) fn permitted(&self, rules: &Rules) -> String {
        shown(&self.text, |path| prompt_files::reading_verdict(rules, &self.root.join(path)).is_some())
    }
}

/// Asks git for its status. Returns None if git fails, or must not run: filters in the
/// configuration of a repository are programs that git would run, and so are the transports of one
/// that lacks objects.
pub(crate) async fn git_status(git: &SandboxedGit<'_>, root: PathBuf) -> Option<GitStatus> {
    let settings = git.run(&root, &["config", "--list", "--show-scope", "--name-only"]).await?;
    if settings.lines().any(is_risky) {
        return None;
    }
    let status = ["-c", "core.quotePath=false", "status", "--porcelain=v1", "--ignore-submodules=all"];
    let text = git.run(&root, &status).await?;
    Some(GitStatus { root, text })
}

/// Returns whether a line of `git config --list --show-scope --name-only` is a setting of the
/// repository that makes `git status` run a program or read elsewhere. A setting behind an include
/// may count only later.
fn is_risky(line: &str) -> bool {
    let Some((scope, name)) = line.split_once('\t') else { return true };
    let name = name.to_ascii_lowercase();
    let is_risk = ["filter.", "include.", "includeif."].iter().any(|start| name.starts_with(start))
        || (name.starts_with("remote.") && name.ends_with(".promisor"))
        || matches!(name.as_str(), "core.worktree" | "extensions.partialclone" | "extensions.worktreeconfig");
    matches!(scope, "local" | "worktree") && is_risk
}

/// Formats the status for the model. Each line is two letters, a space and a path, or two paths for
/// a renamed file.
fn shown(status: &str, is_hidden: impl Fn(&str) -> bool) -> String {
    let paths = |line: &str| {
        let paths = line.get(3..).unwrap_or_default().split(" -> ");
        paths.map(|path| path.trim_matches('"').to_owned()).collect::<Vec<_>>()
    };
    let lines = status.lines().filter(|line| !paths(line).iter().any(|path| is_hidden(path)));
    let text = lines.collect::<Vec<_>>().join("\n");
    if text.is_empty() { CLEAN.to_owned() } else { cut(&text, STATUS) }
}

/// Git in a sandbox that writes nothing and opens no connection.
///
/// A command of the agent can change the repository's configuration after it was checked. What git
/// then runs can do nothing, not even report what it has read.
pub(crate) struct SandboxedGit<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) environment: &'a Environment,
    /// acpd's own files, which cannot be read.
    pub(crate) protected_paths: &'a [PathBuf],
}

impl SandboxedGit<'_> {
    /// Runs a git command in the repository. Returns None if it fails, as it does where the kernel
    /// has no sandbox.
    async fn run(&self, root: &Path, arguments: &[&str]) -> Option<String> {
        let mut environment = self.launcher.environment.for_programs(self.environment, root);
        // Objects that the repository lacks are not fetched: no protocol has this name.
        environment.insert("GIT_ALLOW_PROTOCOL".to_owned(), "none".to_owned());
        environment.insert("GIT_NO_LAZY_FETCH".to_owned(), "1".to_owned());
        environment.insert("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned());
        // Errors may contain what a program of the repository has read.
        let script = r#"exec git "$@" 2> /dev/null"#;
        let arguments = ["-c", script, "git"].into_iter().chain(arguments.iter().copied()).map(str::to_owned);
        let command = CommandSpec {
            runner: self.launcher.runner.clone(),
            program: "/bin/sh".to_owned(),
            arguments: arguments.collect(),
            environment,
            folder: root.to_owned(),
            sandbox: Some(Sandbox {
                writable: Vec::new(),
                readable: None,
                protected_paths: self.protected_paths.to_vec(),
            }),
            shield: Vec::new(),
            process_limit: Some(self.launcher.process_limit),
            input: None,
        };
        let output = SharedOutput::new(OUTPUT);
        let end = watch(command.start().await.ok()?, &output, Some(DEADLINE), std::future::pending(), || {}).await;
        let is_complete = end.exit == CommandExit::Exited(0) && end.interruption.is_none();
        is_complete.then(|| output.lock().text())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_branch_is_what_git_writes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        fs::create_dir(&git).unwrap();
        let branch_of = |head: &str| {
            fs::write(git.join("HEAD"), head).unwrap();
            branch(folder.path())
        };
        assert_eq!(branch_of("ref: refs/heads/topic/x\n").as_deref(), Some("topic/x"));
        assert_eq!(branch_of("anything else that stands here"), None);
        fs::write(folder.path().join("secret"), "ref: refs/heads/hush").unwrap();
        fs::remove_file(git.join("HEAD")).unwrap();
        std::os::unix::fs::symlink("../secret", git.join("HEAD")).unwrap();
        assert_eq!(branch(folder.path()), None);
    }

    #[test]
    fn a_status_leaves_out_hidden_files_and_is_cut() {
        let status = " M src/main.rs\n?? .env\nR  a.txt -> .env\n";
        assert_eq!(shown(status, |path| path == ".env"), " M src/main.rs");
        assert_eq!(shown("", |_| false), CLEAN);
        let many = "?? some/file\n".repeat(1_000);
        let cut = shown(&many, |_| false);
        assert!(cut.len() <= STATUS + 8, "{}", cut.len());
    }

    #[test]
    fn a_repository_whose_configuration_names_programs_is_not_asked() {
        assert!(is_risky("local\tfilter.evil.clean"));
        assert!(is_risky("worktree\tFILTER.evil.process"));
        for name in ["core.worktree", "remote.origin.promisor", "extensions.partialClone", "includeIf.gitdir:/x.path"] {
            assert!(is_risky(&format!("local\t{name}")), "{name}");
        }
        assert!(!is_risky("global\tfilter.lfs.clean"));
        assert!(!is_risky("local\tcore.bare"));
    }
}
