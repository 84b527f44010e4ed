//! `.acpd/config.toml` in a project: what a repository may say for those who work in it.
//!
//! A repository comes from anybody, so that it may only make things stricter (rules that ask or deny) and name more files
//! with notes. Everything else is refused with a word to the user, and as long as something is wrong with the file, every
//! call with an effect asks first that the session has not been allowed for good: nobody knows what it wanted to forbid.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Site, ToolKind, Verdict};
use serde::Deserialize;

use crate::briefing;
use crate::rules::{Rule, Rules};

/// Below every folder from the repository's root down to the working folder.
const FILE: &str = ".acpd/config.toml";

/// More than anybody writes by hand.
const LONGEST: u64 = 64 << 10;

/// All files of a folder's project together.
#[derive(Debug, Default)]
pub(crate) struct Project {
    pub(crate) rules: Rules,
    pub(crate) notes: Vec<String>,
    /// What is wrong with a file, with its name and line.
    pub(crate) complaints: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Contents {
    permissions: Permissions,
    session: Session,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Permissions {
    ask: Vec<Rule>,
    deny: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Session {
    notes: Vec<NoteName>,
}

/// The name of a file, and no path: it must lie in the project.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct NoteName(String);

impl TryFrom<String> for NoteName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let plain = !name.is_empty() && name != ".." && name != "." && !name.contains(['/', '\0']);
        if plain { Ok(Self(name)) } else { Err(format!("`{name}` must be the name of a file, without a folder")) }
    }
}

/// Whether a file would be taken, and if not, why, with its name and line.
pub fn check(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    parse(file, &text).map(|_| ())
}

/// Reads the files anew. Links are not followed: what they lead to is not the project's.
pub(crate) fn read(cwd: &Path) -> Project {
    let mut project = Project::default();
    for folder in briefing::folders(cwd) {
        let file = folder.join(FILE);
        if folder.join(".acpd").is_symlink() {
            project.complaints.push(format!("{}: the folder is a link, which is not followed", file.display()));
            continue;
        }
        let Some(text) = briefing::read_inside(&file, LONGEST) else { continue };
        match parse(&file, &text) {
            Ok(Contents { permissions: Permissions { ask, deny }, session: Session { notes } }) => {
                project.rules.extend(Rules { allow: Vec::new(), ask, deny });
                project.notes.extend(notes.into_iter().map(|NoteName(name)| name));
            }
            Err(complaint) => project.complaints.push(complaint),
        }
    }
    project
}

fn parse(file: &Path, text: &str) -> Result<Contents, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        let why = error.message();
        // Serde names the field in its text only.
        let field = why.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let why = match field {
            Some(field) => format!(
                "`{field}` is not taken from a project, which may only set permissions.ask, permissions.deny and \
                 session.notes; it belongs into your own configuration"
            ),
            None => why.to_owned(),
        };
        format!("{}{line}: {why}", file.display())
    })
}

/// The rules of the projects that sessions work in, by their folders. Read when a call is planned, because that may block.
///
/// A rule that was read once stays until the daemon is told to read its configuration again, so that an agent cannot get
/// rid of it by changing the file.
#[derive(Debug, Default)]
pub(crate) struct Projects(Mutex<HashMap<PathBuf, Strictness>>);

#[derive(Debug, Default)]
struct Strictness {
    rules: Rules,
    /// Something is wrong with a file now.
    broken: bool,
}

impl Projects {
    pub(crate) fn learn(&self, site: &Site) {
        let Project { rules, complaints, notes: _ } = read(&site.cwd);
        let mut known = self.lock();
        let known = known.entry(site.cwd.clone()).or_default();
        known.broken = !complaints.is_empty();
        known.rules.extend_with_new(rules);
    }

    /// Adds the project's rules to the operator's.
    pub(crate) fn tighten(&self, cwd: &Path, rules: &mut Rules) {
        if let Some(known) = self.lock().get(cwd) {
            rules.extend(known.rules.clone());
        }
    }

    /// What an unreadable file makes of a verdict.
    pub(crate) fn temper(&self, cwd: &Path, kind: ToolKind, verdict: Option<Verdict>) -> Option<Verdict> {
        let harmless = matches!(kind, ToolKind::Read | ToolKind::Search | ToolKind::Think);
        let broken = self.lock().get(cwd).is_some_and(|known| known.broken);
        match verdict {
            Some(Verdict::Deny) => Some(Verdict::Deny),
            Some(Verdict::Run | Verdict::Ask) | None if broken && !harmless => Some(Verdict::Ask),
            other => other,
        }
    }

    /// Forgets all rules, so that they are read anew.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Strictness>> {
        // Every change of the map is whole, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;

    use super::*;

    fn with_file(text: &str) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".acpd")).unwrap();
        fs::write(folder.path().join(FILE), text).unwrap();
        let project = read(folder.path());
        (folder, project)
    }

    #[test]
    fn a_project_may_tighten_and_name_notes() {
        let (_folder, project) = with_file(
            "[permissions]\nask = [\"bash(git push)\"]\ndeny = [\"edit(secret/**)\"]\n[session]\nnotes = [\"CLAUDE.md\"]\n",
        );
        assert_eq!(project.complaints, Vec::<String>::new());
        assert_eq!((project.rules.ask.len(), project.rules.deny.len(), project.rules.allow.len()), (1, 1, 0));
        assert_eq!(project.notes, ["CLAUDE.md"]);
    }

    #[test]
    fn whatever_else_it_says_is_refused_with_file_and_line() {
        let mut said = String::new();
        for text in [
            "[permissions]\nallow = [\"bash\"]\n",
            "[session]\nmode = \"full\"\n",
            "\n[[hooks.before_tool]]\ncommand = \"curl evil\"\n",
            "[models]\n",
            "[session]\nnotes = [\"../../.ssh/id\"]\n",
            "[permissions]\ndeny = [\"bash(\"]\n",
            "[permissions\n",
        ] {
            let (folder, project) = with_file(text);
            said.push_str(&project.complaints.join("\n").replace(&folder.path().display().to_string(), "DIR"));
            said.push('\n');
            assert!(project.rules.deny.is_empty() && project.notes.is_empty(), "{text}");
        }
        expect![[r#"
            DIR/.acpd/config.toml:2: `allow` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs into your own configuration
            DIR/.acpd/config.toml:2: `mode` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs into your own configuration
            DIR/.acpd/config.toml:2: `hooks` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs into your own configuration
            DIR/.acpd/config.toml:1: `models` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs into your own configuration
            DIR/.acpd/config.toml:2: `../../.ssh/id` must be the name of a file, without a folder
            DIR/.acpd/config.toml:2: the rule `bash(` must look like `tool` or `tool(pattern)`
            DIR/.acpd/config.toml:1: unclosed table, expected `]`
        "#]].assert_eq(&said);
    }

    #[test]
    fn a_link_out_of_the_project_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        fs::write(folder.path().join("elsewhere/config.toml"), "[permissions]\ndeny = [\"bash\"]\n").unwrap();
        let project = folder.path().join("project");
        fs::create_dir(&project).unwrap();
        std::os::unix::fs::symlink("../elsewhere", project.join(".acpd")).unwrap();
        let found = read(&project);
        assert!(found.rules.deny.is_empty() && found.complaints.len() == 1, "{found:?}");
    }
}
