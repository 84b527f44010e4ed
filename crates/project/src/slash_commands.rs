//! Slash commands that a project and its user define: one Markdown file each, named like the
//! command.
//!
//! The files are in `.acpd/commands` of the working folder and of the folders above it, up to the
//! repository's root, and in the user's own folder. The text of a file goes to the model as if the
//! user had typed it. Files of a project that a rule denies or asks about are not read; the user's
//! own files are exempt from rules.

mod template;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use domain::instructions::{Expansion, SlashCommandCard, TypedSlashCommand};
use policy::Rules;
use process::confine;
use process::protected_files::ProtectedFiles;
use rustix::fs::{Dir, Mode, OFlags};

use crate::{note_files, notes, prompt_files};
use template::Template;
pub(crate) use template::first_line;

const FOLDER: &str = ".acpd/commands";

/// The most bytes of a file. A longer file is not a command.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The most files of one folder, and the most entries that are examined.
const MAX_FILES: usize = 100;
const MAX_ENTRIES: usize = 10_000;

/// Returns all commands by name. A nearer file takes precedence over one further up, and a
/// project's over the user's.
pub(crate) fn list(cwd: &Path, own: Option<&Path>, rules: &Rules, protected: &ProtectedFiles) -> Vec<SlashCommandCard> {
    let mut commands: Vec<SlashCommandCard> = Vec::new();
    for folder in folders(cwd, own) {
        for name in folder.names() {
            let known = commands.iter().any(|command| command.name == name) || folder.withheld(&name, rules).is_some();
            if let (false, Some(Template { description, hint, .. })) = (known, folder.template(&name, protected)) {
                commands.push(SlashCommandCard { name, description, hint });
            }
        }
    }
    commands.sort_by(|one, other| one.name.cmp(&other.name));
    commands
}

/// Returns the text that replaces a command; None if there is no command of that name.
pub(crate) fn expand(
    cwd: &Path,
    own: Option<&Path>,
    rules: &Rules,
    protected: &ProtectedFiles,
    call: &TypedSlashCommand,
) -> Option<Expansion> {
    let name = Some(call.name.as_str()).filter(|name| is_name(name))?;
    let (folder, template) =
        folders(cwd, own).find_map(|folder| folder.template(name, protected).map(|found| (folder, found)))?;
    Some(match folder.withheld(name, rules) {
        Some(why) => Expansion::Withheld(why),
        None => Expansion::Text(template.fill(&call.arguments)),
    })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}

fn folders(cwd: &Path, own: Option<&Path>) -> impl Iterator<Item = Folder> {
    let of_project = notes::folders(cwd).into_iter().rev().map(Folder::of_project).collect::<Vec<_>>();
    of_project.into_iter().chain(own.map(Folder::of_user)).flatten()
}

struct Folder {
    folder: OwnedFd,
    /// The path of a project's folder; None for the user's. In a project's folder symlinks are not
    /// followed, because they could lead outside the project. The user's own files may be symlinks.
    of_project: Option<PathBuf>,
}

impl Folder {
    fn of_project(base: &Path) -> Option<Self> {
        let path = base.join(FOLDER);
        let base = rustix::fs::open(base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let folder = confine::open_in(base, FOLDER, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()?;
        Some(Self { folder, of_project: Some(path) })
    }

    fn of_user(folder: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
        Some(Self { folder, of_project: None })
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.folder) else { return Vec::new() };
        let files = entries.take(MAX_ENTRIES).filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str().ok()?.strip_suffix(".md")?;
            is_name(name).then(|| name.to_owned())
        });
        let mut names: Vec<String> = files.collect();
        names.sort();
        names.truncate(MAX_FILES);
        names
    }

    /// Returns the reason if a rule hides a file from the model.
    fn withheld(&self, name: &str, rules: &Rules) -> Option<String> {
        let path = self.of_project.as_ref()?.join(format!("{name}.md"));
        prompt_files::reading_verdict(rules, &path).map(|verdict| prompt_files::notice(&path, verdict))
    }

    /// Reads a command. A file of a project that is another name of one of acpd's own is left out.
    fn template(&self, name: &str, protected: &ProtectedFiles) -> Option<Template> {
        let path = PathBuf::from(format!("{name}.md"));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = if self.of_project.is_none() {
            rustix::fs::openat(self.folder.as_fd(), &path, flags, Mode::empty()).ok()?
        } else {
            let file = confine::open_in(self.folder.as_fd(), &path, flags, Mode::empty()).ok()?;
            Some(file).filter(|file| !protected.contains_open(file))?
        };
        note_files::read_whole(File::from(file), MAX_FILE_BYTES).as_deref().and_then(Template::read)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(base: &Path, name: &str, text: &str) {
        fs::create_dir_all(base).unwrap();
        fs::write(base.join(name), text).unwrap();
    }

    fn call(name: &str, arguments: &str) -> TypedSlashCommand {
        TypedSlashCommand { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn the_nearest_file_of_a_name_counts_and_the_users_come_last() {
        let home = tempfile::tempdir().unwrap();
        let (project, own) = (home.path().join("project"), home.path().join("own"));
        let deep = project.join("deep");
        fs::create_dir_all(project.join(".git")).unwrap();
        write(&deep.join(FOLDER), "near.md", "near, deep");
        write(&project.join(FOLDER), "near.md", "near, root");
        write(&project.join(FOLDER), "root.md", "root");
        write(&own, "root.md", "root, own");
        write(&own, "own.md", "---\ndescription: My own\nargument-hint: [what]\n---\nDo $1.");
        let listed = list(&deep, Some(&own), &Rules::default(), &ProtectedFiles::default());
        let listed_commands: Vec<String> = listed
            .iter()
            .map(|command| format!("{}: {} {:?}", command.name, command.description, command.hint))
            .collect();
        assert_eq!(listed_commands, ["near: near, deep None", "own: My own Some(\"[what]\")", "root: root None"]);
        let text = |text: &str| Some(Expansion::Text(text.to_owned()));
        let expand = |cwd: &Path, own, call| expand(cwd, own, &Rules::default(), &ProtectedFiles::default(), &call);
        assert_eq!(expand(&deep, Some(&own), call("own", "it")), text("Do it."));
        assert_eq!(expand(&deep, None, call("own", "it")), None);
        assert_eq!(expand(home.path(), None, call("root", "")), None, "above the project it is not there");
    }

    #[test]
    fn a_command_file_withheld_by_a_rule_is_ignored_with_a_notice() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        write(&home.path().join(FOLDER), "secret.md", "hush");
        write(&own, "mine.md", "mine");
        for rules in [r#"{ "deny": ["read(.acpd/**)"] }"#, r#"{ "ask": ["read"] }"#] {
            let rules: Rules = serde_json::from_str(rules).unwrap();
            let listed: Vec<String> = list(home.path(), Some(&own), &rules, &ProtectedFiles::default())
                .into_iter()
                .map(|command| command.name)
                .collect();
            assert_eq!(listed, ["mine"]);
            let expanded = expand(home.path(), Some(&own), &rules, &ProtectedFiles::default(), &call("secret", ""));
            assert!(matches!(&expanded, Some(Expansion::Withheld(why)) if why.contains("secret.md")), "{expanded:?}");
        }
    }

    #[test]
    fn another_name_of_acpds_own_file_is_not_a_command() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        write(&state, "key", "hush");
        let project = home.path().join("project");
        write(&project.join(FOLDER), "plain.md", "plain");
        fs::hard_link(state.join("key"), project.join(FOLDER).join("other.md")).unwrap();
        let protected = ProtectedFiles::locate(&[state]);
        let names: Vec<String> =
            list(&project, None, &Rules::default(), &protected).into_iter().map(|command| command.name).collect();
        assert_eq!(names, ["plain"]);
        assert_eq!(expand(&project, None, &Rules::default(), &protected, &call("other", "")), None);
    }

    #[test]
    fn project_files_are_read_only_inside_the_project() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        write(home.path(), "secret.md", "hush");
        write(&project.join(FOLDER), "plain.md", "plain");
        symlink("../../../secret.md", project.join(FOLDER).join("link.md")).unwrap();
        write(&project.join(FOLDER).join("folder.md"), "x", "x");
        write(&project.join(FOLDER), "long.md", &"x".repeat(70_000));
        write(&project.join(FOLDER), "blank.md", " \n");
        write(&project.join(FOLDER), "a b.md", "no name");
        let names = |cwd: &Path| {
            list(cwd, None, &Rules::default(), &ProtectedFiles::default())
                .into_iter()
                .map(|command| command.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&project), ["plain"]);
        for name in ["link", "../../secret", "folder", "long", "blank", "a b", "", "."] {
            assert_eq!(
                expand(&project, None, &Rules::default(), &ProtectedFiles::default(), &call(name, "")),
                None,
                "{name}"
            );
        }
        let linked = home.path().join("linked");
        fs::create_dir_all(&linked).unwrap();
        symlink(project.join(".acpd"), linked.join(".acpd")).unwrap();
        assert_eq!(names(&linked), [""; 0]);
        // The user's own files may be symlinks.
        assert_eq!(list(&linked, Some(&project.join(FOLDER)), &Rules::default(), &ProtectedFiles::default()).len(), 2);
    }

    #[test]
    fn a_folder_full_of_files_is_not_read_without_end() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..MAX_FILES + 20 {
            write(&home.path().join(FOLDER), &format!("c{number:04}.md"), "x");
        }
        assert_eq!(list(home.path(), None, &Rules::default(), &ProtectedFiles::default()).len(), MAX_FILES);
    }
}
