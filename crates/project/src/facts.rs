//! Facts about the place where a session works. Facts that stay are part of the system prompt.
//! Facts that change (date, mode, approval, folders, git) are sent with the user's message, so that
//! the beginning of each request stays the same.

use std::path::Path;
use std::time::Duration;

use domain::instructions::{SessionContext, Workspace};
use domain::text::cut;
use domain::{Environment, Millis};
use policy::Rules;
use process::{CommandExit, Launcher, SharedOutput, watch};
use rustix::fs::OFlags;

use crate::note_files::read;
use crate::prompt_files;

/// How long one git command may take. A repository on a slow disk is described without its status.
const DEADLINE: Duration = Duration::from_secs(2);

/// The most bytes of the status that the model gets.
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

/// Returns the output of `git status` without the files that a rule hides from the model. Returns
/// None if git fails, or must not run: filters in the configuration of a repository are programs
/// that git would run.
pub(crate) async fn git_status(
    launcher: &Launcher,
    environment: &Environment,
    root: &Path,
    rules: &Rules,
) -> Option<String> {
    let settings = git(launcher, environment, root, "git config --list --show-scope --name-only").await?;
    if settings.lines().any(is_risky) {
        return None;
    }
    let status = "git --no-optional-locks -c core.quotePath=false status --porcelain=v1 --ignore-submodules=all";
    let status = git(launcher, environment, root, status).await?;
    Some(shown(&status, |path| prompt_files::reading_verdict(rules, &root.join(path)).is_some()))
}

/// Returns whether a line of `git config --list --show-scope --name-only` is a setting of the
/// repository that makes `git status` run a program or read elsewhere.
fn is_risky(line: &str) -> bool {
    let Some((scope, name)) = line.split_once('\t') else { return true };
    let name = name.to_ascii_lowercase();
    matches!(scope, "local" | "worktree") && (name.starts_with("filter.") || name == "core.worktree")
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

/// Runs a git command in the repository. Returns None if it fails.
async fn git(launcher: &Launcher, environment: &Environment, root: &Path, command: &str) -> Option<String> {
    let started = launcher.shell_command(command, environment, root).await.start().await.ok()?;
    let output = SharedOutput::new(OUTPUT);
    let end = watch(started, &output, Some(DEADLINE), std::future::pending(), || {}).await;
    let is_complete = end.exit == CommandExit::Exited(0) && end.interruption.is_none();
    is_complete.then(|| output.lock().text())
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
        assert!(is_risky("local\tcore.worktree"));
        assert!(!is_risky("global\tfilter.lfs.clean"));
        assert!(!is_risky("local\tcore.bare"));
    }
}
