//! What a model gets before the conversation: facts about the working folder, and the files in which a project and its
//! user have written notes for agents. Files of the project that a rule denies or asks about are left out, with a
//! notice to the user.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::briefing::{Brief, Briefing, Command, CommandCall, Expansion, Workplace};
use futures_util::future::BoxFuture;
use policy::Rules;
use process::confine;
use process::protected_files::ProtectedFiles;
use rustix::fs::{Mode as RawMode, OFlags};

use crate::{FolderRules, project_config, prompt_files, slash_commands};

/// How long reading a project's folder may take. On a network that is gone it never answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes of one file; a longer file is cut with a note.
const LONGEST: u64 = 64 << 10;

/// The most bytes of one of git's one-line files.
const SHORTEST: u64 = 4 << 10;

const WHO: &str = "You are a coding agent that works in a person's editor through acpd. Be brief and exact. Use the tools to \
    look before you answer and before you change anything. Paths may be relative to the working folder. When the user \
    does not allow something, do not try to get it done another way; say what is in the way.";

/// File names under which people keep notes for agents. In each folder the first existing one counts.
pub const NAMES: [&str; 5] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "GGCODE.md", ".github/copilot-instructions.md"];

#[derive(Clone)]
pub struct Notes {
    /// Names of files to look for in the working folder and above it, up to the repository's root. In each folder the
    /// first existing one counts.
    pub names: Vec<String>,
    /// The user's own, for every project; beside it is the folder `commands`.
    pub own: Option<PathBuf>,
    /// acpd's own files and folders, which no project can make us read.
    pub protected_paths: Vec<PathBuf>,
    /// The rules that say what may be read; without them only those of the project count.
    pub rules: Option<Arc<FolderRules>>,
}

impl Default for Notes {
    fn default() -> Self {
        Self { names: NAMES.map(str::to_owned).to_vec(), own: None, protected_paths: Vec::new(), rules: None }
    }
}

impl Briefing for Notes {
    fn brief(&self, place: Workplace) -> BoxFuture<'static, Brief> {
        let notes = self.clone();
        let late = format!("{} did not answer in time, so its notes were not read", place.cwd.display());
        let look = tokio::task::spawn_blocking(move || notes.write(&place));
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, look).await {
                Ok(written) => written.unwrap_or_else(|_| WHO.to_owned().into()),
                Err(_) => Brief { text: WHO.to_owned(), notices: vec![late] },
            }
        })
    }

    fn commands(&self, place: Workplace) -> BoxFuture<'static, Vec<Command>> {
        let notes = self.clone();
        let look = tokio::task::spawn_blocking(move || {
            let (own, rules) = (notes.own_commands(), notes.rules_in(&place.cwd));
            slash_commands::list(&place.cwd, own.as_deref(), &rules)
        });
        Box::pin(
            async move { tokio::time::timeout(PATIENCE, look).await.ok().and_then(Result::ok).unwrap_or_default() },
        )
    }

    fn expand(&self, place: Workplace, call: CommandCall) -> BoxFuture<'static, Option<Expansion>> {
        let notes = self.clone();
        let look = tokio::task::spawn_blocking(move || {
            let (own, rules) = (notes.own_commands(), notes.rules_in(&place.cwd));
            slash_commands::expand(&place.cwd, own.as_deref(), &rules, &call)
        });
        Box::pin(
            async move { tokio::time::timeout(PATIENCE, look).await.ok().and_then(Result::ok).unwrap_or_default() },
        )
    }
}

impl Notes {
    fn own_commands(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|file| file.with_file_name("commands"))
    }

    fn rules_in(&self, cwd: &Path) -> Rules {
        match &self.rules {
            Some(rules) => rules.read(cwd),
            None => project_config::read(cwd).rules,
        }
    }

    fn write(&self, place: &Workplace) -> Brief {
        let project = project_config::read(&place.cwd);
        let mut brief = Brief { text: format!("{WHO}\n\n{}", facts(place)), notices: project.complaints };
        // The user's own file may be a symlink, because people keep such files together elsewhere; a project's may
        // not.
        if let Some((file, note)) =
            self.own.as_ref().and_then(|file| Some((file, read(file, LONGEST, OFlags::empty())?)))
        {
            tell(&mut brief, file, &note);
        }
        let filter =
            NoteFilter { rules: self.rules_in(&place.cwd), protected: ProtectedFiles::locate(&self.protected_paths) };
        // Notes of nearer folders come later and count more.
        for folder in folders(&place.cwd) {
            let mut told = Vec::new();
            for name in &self.names {
                if told.is_empty() {
                    told.extend(add_note(&mut brief, folder, name, &filter));
                }
            }
            // Files that the project's configuration names are added.
            for name in &project.notes {
                if !told.contains(name) {
                    told.extend(add_note(&mut brief, folder, name, &filter));
                }
            }
        }
        brief
    }
}

/// Decides which files of the project the model does not get.
struct NoteFilter {
    rules: Rules,
    protected: ProtectedFiles,
}

/// Adds a file of the project. Returns its name if it exists and the model may have it.
fn add_note(brief: &mut Brief, folder: &Path, name: &str, filter: &NoteFilter) -> Option<String> {
    let path = folder.join(name);
    if is_off_limits(&path, &filter.protected) {
        return None;
    }
    let note = read_below(folder, name, LONGEST)?;
    if let Some(verdict) = prompt_files::reading_verdict(&filter.rules, &path) {
        brief.notices.push(prompt_files::notice(&path, verdict));
        return None;
    }
    tell(brief, &path, &note);
    Some(name.to_owned())
}

fn tell(brief: &mut Brief, file: &Path, note: &str) {
    brief.text.push_str(&format!("\n<notes file=\"{}\">\n{}\n</notes>\n", file.display(), note.trim_end()));
}

/// The folders from the repository's root down to this one; outside a repository, only this one.
pub(crate) fn folders(cwd: &Path) -> Vec<&Path> {
    let mut folders: Vec<&Path> = match root(cwd) {
        Some(root) => cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect(),
        None => vec![cwd],
    };
    folders.reverse();
    folders
}

/// Reads a file of a project, which must not be a symlink.
pub(crate) fn read_inside(path: &Path, longest: u64) -> Option<String> {
    read(path, longest, OFlags::NOFOLLOW)
}

/// Whether a file is acpd's own, by its real path or as another name of one.
fn is_off_limits(file: &Path, protected: &ProtectedFiles) -> bool {
    fs::canonicalize(file).is_ok_and(|real| protected.contains_path(&real))
        || rustix::fs::stat(file).is_ok_and(|stat| protected.contains_file(&stat))
}

/// The repository that a folder is part of.
fn root(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|folder| folder.join(".git").exists())
}

fn facts(place: &Workplace) -> String {
    let mut lines = vec![
        format!("Working folder: {}", place.cwd.display()),
        format!("Platform: {} ({})", std::env::consts::OS, std::env::consts::ARCH),
        format!("Date: {} (UTC)", today()),
        format!("Mode: {}", place.mode.id()),
    ];
    lines.extend(place.extra_roots.iter().map(|folder| format!("Further folder: {}", folder.display())));
    lines.extend(root(&place.cwd).and_then(branch).map(|branch| format!("Git branch: {branch}")));
    lines.join("\n") + "\n"
}

fn branch(root: &Path) -> Option<String> {
    let mut git = root.join(".git");
    // In a worktree `.git` is a file that names the real place.
    if let Some(text) = read(&git, SHORTEST, OFlags::NOFOLLOW)
        && let Some(elsewhere) = text.trim().strip_prefix("gitdir: ")
    {
        git = root.join(elsewhere);
    }
    let head = read(&git.join("HEAD"), SHORTEST, OFlags::NOFOLLOW)?;
    let head = head.trim();
    // Only what git itself writes there is passed on.
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) if !branch.contains(char::is_whitespace) => Some(branch.to_owned()),
        None if head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Some(format!("detached at {head}"))
        }
        Some(_) | None => None,
    }
}

/// Reads a file; None if it does not exist or is blank. A project must not make us read what it does not contain, so
/// its symlinks are not followed. A pipe or a device does not block us.
fn read(path: &Path, longest: u64, flags: OFlags) -> Option<String> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    read_text(rustix::fs::open(path, flags, RawMode::empty()).ok()?, longest)
}

/// The same for a relative path, none of whose folders may be a symlink.
fn read_below(folder: &Path, name: &str, longest: u64) -> Option<String> {
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, folder_flags, RawMode::empty()).ok()?;
    read_text(confine::open_in(folder, name, OFlags::RDONLY | OFlags::NONBLOCK, RawMode::empty()).ok()?, longest)
}

fn read_text(file: OwnedFd, longest: u64) -> Option<String> {
    let file = fs::File::from(file);
    let mut bytes = read_some(file, longest)?;
    let cut = bytes.len() as u64 > longest;
    bytes.truncate(usize::try_from(longest).unwrap_or(usize::MAX));
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if cut {
        text.push_str("\n[the rest of the file was left out]");
    }
    (!text.trim().is_empty()).then_some(text)
}

/// The whole text of a file; None if it is not a regular file, not text, or longer.
pub(crate) fn read_whole(file: fs::File, longest: u64) -> Option<String> {
    let bytes = read_some(file, longest)?;
    String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= longest)
}

/// Reads at most one byte more than `longest`, so that a longer file can be recognised.
fn read_some(file: fs::File, longest: u64) -> Option<Vec<u8>> {
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The date as `2026-01-31`, by the arithmetic of the Gregorian calendar.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(i64::try_from(since.as_secs() / 86_400).unwrap_or_default())
}

fn date(days: i64) -> String {
    // Years that begin in March put the leap day last, and 400 of them are one cycle.
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, wrapped) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day_of_month:02}", year + cycle * 400 + wrapped)
}

#[cfg(test)]
mod tests {
    use domain::Mode;

    use super::*;

    fn at(cwd: &Path) -> Workplace {
        Workplace { cwd: cwd.to_owned(), extra_roots: Vec::new(), mode: Mode::Full }
    }

    #[test]
    fn notes_are_read_from_the_repositorys_root_down_and_not_from_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        let deep = project.join("src/deep");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(project.join(".git")).unwrap();
        fs::write(project.join(".git/HEAD"), "ref: refs/heads/topic/x\n").unwrap();
        for (place, text) in
            [(folder.path(), "above"), (&project, "at the root"), (&deep, "here"), (&project.join("src"), " ")]
        {
            fs::write(place.join("AGENTS.md"), text).unwrap();
        }
        let own = folder.path().join("own.md");
        fs::write(&own, "always").unwrap();
        let notes = Notes { own: Some(own), ..Notes::default() };
        let text = notes.write(&at(&deep)).text;
        let order: Vec<usize> = ["always", "at the root", "here"].map(|note| text.find(note).unwrap()).to_vec();
        assert!(order.is_sorted(), "{text}");
        assert!(!text.contains("above"), "{text}");
        assert!(text.contains("Git branch: topic/x\n"), "{text}");
        assert_eq!(text.matches("<notes").count(), 3, "{text}");
    }

    #[test]
    fn outside_a_repository_only_the_folder_itself_counts_and_a_long_file_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(folder.path().join("AGENTS.md"), "above").unwrap();
        fs::write(inner.join("CLAUDE.md"), "é".repeat(40_000)).unwrap();
        let text = Notes::default().write(&at(&inner)).text;
        assert!(!text.contains("above") && text.contains("[the rest of the file was left out]"));
    }

    #[test]
    fn in_each_folder_the_first_name_counts_and_notes_of_the_project_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        for made in [".git", ".github", ".acpd", "inner"] {
            fs::create_dir(folder.path().join(made)).unwrap();
        }
        let order = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "GGCODE.md", ".github/copilot-instructions.md"];
        for name in order {
            fs::write(folder.path().join(name), format!("in {name}")).unwrap();
        }
        fs::write(inner.join("GEMINI.md"), "near").unwrap();
        for gone in order {
            let text = Notes::default().write(&at(&inner)).text;
            let told: Vec<&&str> = order.iter().filter(|name| text.contains(&format!("in {name}"))).collect();
            assert_eq!(told, [&gone], "{text}");
            assert!(text.find("in ") < text.find("near"), "{text}");
            fs::remove_file(folder.path().join(gone)).unwrap();
        }
        fs::write(folder.path().join("AGENTS.md"), "first").unwrap();
        fs::write(folder.path().join("RULES.md"), "on top").unwrap();
        fs::write(folder.path().join(".acpd/config.toml"), "[session]\nnotes = [\"RULES.md\", \"AGENTS.md\"]\n")
            .unwrap();
        let text = Notes::default().write(&at(&inner)).text;
        assert_eq!((text.matches("first").count(), text.matches("on top").count()), (1, 1), "{text}");
    }

    #[test]
    fn notes_that_a_rule_denies_or_asks_about_are_left_out_with_a_notice() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".acpd")).unwrap();
        for (name, text) in [
            (".env", "KEY=hush"),
            ("AGENTS.md", "asked"),
            ("CLAUDE.md", "fine"),
            (".acpd/config.toml", "[session]\nnotes = [\".env\"]\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let permissions = serde_json::from_value(serde_json::json!({
            "deny": [format!("read({}/.env)", folder.path().canonicalize().unwrap().display())],
            "ask": ["read_file(AGENTS.md)"],
        }))
        .unwrap();
        let notes = Notes { rules: Some(Arc::new(FolderRules::new(permissions))), ..Notes::default() };
        for cwd in [folder.path(), &link] {
            let Brief { text, notices } = notes.write(&at(cwd));
            assert!(!text.contains("hush") && !text.contains("asked") && text.contains("fine"), "{text}");
            assert!(notices[0].ends_with("AGENTS.md was not sent to the model: a rule asks before it is read."));
            assert!(notices[1].ends_with(".env was not sent to the model: a rule denies reading it."));
        }
    }

    #[test]
    fn a_project_cannot_make_us_read_what_it_does_not_contain() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::write(folder.path().join("secret"), "hush").unwrap();
        std::os::unix::fs::symlink("../secret", project.join("AGENTS.md")).unwrap();
        std::os::unix::fs::symlink("../../secret", project.join(".git/HEAD")).unwrap();
        let text = Notes::default().write(&at(&project)).text;
        assert!(!text.contains("hush"), "{text}");
        fs::remove_file(project.join(".git/HEAD")).unwrap();
        fs::write(project.join(".git/HEAD"), "anything else that stands here").unwrap();
        assert!(!Notes::default().write(&at(&project)).text.contains("Git branch"));
    }

    #[test]
    fn acpds_own_files_are_never_notes_of_a_project() {
        let folder = tempfile::tempdir().unwrap();
        let (state, project) = (folder.path().join("state"), folder.path().join("project"));
        fs::create_dir_all(&state).unwrap();
        fs::create_dir_all(&project).unwrap();
        fs::write(state.join("AGENTS.md"), "hush").unwrap();
        fs::hard_link(state.join("AGENTS.md"), project.join("AGENTS.md")).unwrap();
        let notes = Notes { protected_paths: vec![state.clone()], ..Notes::default() };
        for cwd in [&state, &project] {
            assert!(!notes.write(&at(cwd)).text.contains("hush"), "{}", cwd.display());
        }
        let own = Notes { own: Some(state.join("AGENTS.md")), ..notes };
        assert!(own.write(&at(&project)).text.contains("hush"));
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (days, expected) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_773, "2026-11-16")]
        {
            assert_eq!(date(days), expected);
        }
    }
}
