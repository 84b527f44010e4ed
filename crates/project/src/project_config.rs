//! `.acpd/config.toml` in a project: the settings that a repository may contain.
//!
//! A repository may come from anyone, so this file can only make rules stricter (ask or deny) and
//! name more files with notes. Everything else is refused, with a notice to the user. While the
//! file has an error, its valid rules apply and every call asks first, because the file may have
//! been meant to forbid more.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{ToolKind, Verdict, serde_errors};
use policy::{Rule, Rules};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{note_files, notes};

/// The path below every folder from the repository's root down to the working folder.
const FILE: &str = ".acpd/config.toml";

/// The most bytes of a file. Files written by hand are not longer.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The most complaints that are shown at once.
const MAX_COMPLAINTS: usize = 20;

/// The most rules of all files of a project. Each is compiled, and matched against every call.
const MAX_RULES: usize = 200;

/// The most rules that are kept for one folder when its files change while the daemon runs.
const MAX_KEPT: usize = 5 * MAX_RULES;

/// The combined configuration files of a folder's project.
#[derive(Debug, Default)]
pub(crate) struct ProjectConfig {
    pub(crate) rules: Rules,
    pub(crate) notes: Vec<String>,
    /// The errors in the files, each with the file name and line.
    pub(crate) complaints: Vec<String>,
}

/// The errors in a project's configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigErrors {
    #[error("cannot read {}: {source}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
    /// Each error names the file and the line.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
}

/// Checks that everything in a file would be used.
///
/// # Errors
///
/// If the file cannot be read, or something in it would be refused.
pub fn check(file: &Path) -> Result<(), ConfigErrors> {
    let text =
        std::fs::read_to_string(file).map_err(|source| ConfigErrors::Unreadable { file: file.to_owned(), source })?;
    let mut project = ProjectConfig::default();
    project.take(file, &text);
    if project.complaints.is_empty() { Ok(()) } else { Err(ConfigErrors::Refused(project.complaints)) }
}

/// Reads the configuration of a folder's project.
pub(crate) fn read(cwd: &Path) -> ProjectConfig {
    ProjectConfig::of(&sources(cwd))
}

/// A file of a project and its text.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    file: PathBuf,
    /// None if its folder is a symlink. Symlinks are not followed, because their targets may be
    /// outside the project.
    text: Option<String>,
}

/// Finds the files of a folder's project.
fn sources(cwd: &Path) -> Vec<Source> {
    let source = |folder: &Path| {
        let file = folder.join(FILE);
        if folder.join(".acpd").is_symlink() {
            return Some(Source { file, text: None });
        }
        note_files::read_inside(&file, MAX_FILE_BYTES).map(|text| Source { file, text: Some(text) })
    };
    notes::folders(cwd).into_iter().filter_map(source).collect()
}

impl ProjectConfig {
    fn of(sources: &[Source]) -> Self {
        let mut project = Self::default();
        for Source { file, text } in sources {
            match text {
                Some(text) => project.take(file, text),
                None => {
                    project.complaints.push(format!("{}: the folder is a link, which is not followed", file.display()))
                }
            }
        }
        project
    }

    /// Returns an error if there are too many rules already.
    fn check_count(&self) -> Result<(), String> {
        if self.rules.ask.len() + self.rules.deny.len() < MAX_RULES {
            return Ok(());
        }
        Err(format!("the project has more than {MAX_RULES} rules; this one does not count"))
    }

    /// Reads one file. Each error is recorded and the rest still applies, because a typo in one
    /// rule must not disable another.
    fn take(&mut self, file: &Path, text: &str) {
        let mut reader = ConfigFile { project: self, file, text };
        match DeTable::parse(text) {
            Ok(root) => reader.take_root(root.get_ref()),
            Err(error) => reader.complain(error.span(), &serde_errors::plain(error.message())),
        }
    }
}

/// The parser of one file, which adds to a configuration.
struct ConfigFile<'a> {
    project: &'a mut ProjectConfig,
    file: &'a Path,
    text: &'a str,
}

impl ConfigFile<'_> {
    fn take_root(&mut self, root: &DeTable<'_>) {
        for (section, value) in root {
            let name = section.get_ref().as_ref();
            let Some(table) = value.get_ref().as_table().filter(|_| matches!(name, "permissions" | "session")) else {
                self.refuse(section.span(), name);
                continue;
            };
            for (key, value) in table {
                match (name, key.get_ref().as_ref()) {
                    ("permissions", "ask") => self.take_each(value, |project, text| {
                        project.check_count()?;
                        Rule::try_from(text).map(|rule| project.rules.ask.push(rule)).map_err(|error| error.to_string())
                    }),
                    ("permissions", "deny") => self.take_each(value, |project, text| {
                        project.check_count()?;
                        Rule::try_from(text)
                            .map(|rule| project.rules.deny.push(rule))
                            .map_err(|error| error.to_string())
                    }),
                    ("session", "notes") => self.take_each(value, |project, name| {
                        check_name(&name)?;
                        project.notes.push(name);
                        Ok(())
                    }),
                    (_, key_name) => self.refuse(key.span(), key_name),
                }
            }
        }
    }

    fn take_each(
        &mut self,
        list: &Spanned<DeValue<'_>>,
        take: impl Fn(&mut ProjectConfig, String) -> Result<(), String>,
    ) {
        let Some(members) = list.get_ref().as_array() else {
            return self.complain(Some(list.span()), "this must be a list of texts");
        };
        for member in members.iter() {
            let taken = match member.get_ref().as_str() {
                Some(text) => take(self.project, text.to_owned()),
                None => Err("this must be a text".to_owned()),
            };
            if let Err(why) = taken {
                self.complain(Some(member.span()), &why);
            }
        }
    }

    fn refuse(&mut self, place: Range<usize>, key: &str) {
        let why = format!(
            "`{key}` is not taken from a project, which may only set permissions.ask, permissions.deny and \
             session.notes; it belongs in your own configuration"
        );
        self.complain(Some(place), &why);
    }

    fn complain(&mut self, place: Option<Range<usize>>, why: &str) {
        if self.project.complaints.len() >= MAX_COMPLAINTS {
            return;
        }
        let line = place.map(|place| 1 + self.text[..place.start.min(self.text.len())].matches('\n').count());
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        self.project.complaints.push(format!("{}{line}: {why}", self.file.display()));
    }
}

/// Checks that a note is a file name and not a path, because it must be inside the project.
fn check_name(name: &str) -> Result<(), String> {
    let plain = !name.is_empty() && name != ".." && name != "." && !name.contains(['/', '\0']);
    if plain { Ok(()) } else { Err(format!("`{name}` must be the name of a file, without a folder")) }
}

/// The rules of projects by folder. They are read when a call is planned, because reading may
/// block. A rule stays until the operator's configuration is reloaded, so an agent cannot remove it
/// by changing the file.
#[derive(Debug, Default)]
pub(crate) struct LearnedRules(Mutex<HashMap<PathBuf, FolderStrictness>>);

#[derive(Debug, Default)]
struct FolderStrictness {
    rules: Rules,
    /// The first error that a file has now, with the name of the file.
    error: Option<String>,
    /// The files as they were last read. Compiling hundreds of rules takes a while, so unchanged
    /// text is not compiled again.
    sources: Vec<Source>,
}

impl LearnedRules {
    pub(crate) fn learn(&self, cwd: &Path) {
        let sources = sources(cwd);
        if self.lock().get(cwd).is_some_and(|known| known.sources == sources) {
            return;
        }
        let ProjectConfig { rules, complaints, notes: _ } = ProjectConfig::of(&sources);
        let mut known = self.lock();
        let known = known.entry(cwd.to_owned()).or_default();
        known.sources = sources;
        known.error = complaints.into_iter().next();
        // Rules stay when the file changes. An agent that changes it again and again must not fill
        // the memory with rules.
        if known.rules.ask.len() + known.rules.deny.len() < MAX_KEPT {
            known.rules.extend_with_new(rules);
        } else {
            known.error =
                Some(format!("{}: too many rules were added while the daemon runs", cwd.join(FILE).display()));
        }
    }

    /// Adds the project's rules to the operator's.
    pub(crate) fn tighten(&self, cwd: &Path, rules: &mut Rules) {
        if let Some(known) = self.lock().get(cwd) {
            rules.extend(known.rules.clone());
        }
    }

    /// Makes a verdict stricter while a project's file has an error.
    pub(crate) fn tighten_on_error(&self, cwd: &Path, kind: ToolKind, verdict: Option<Verdict>) -> Option<Verdict> {
        let is_broken = self.error(cwd, kind).is_some();
        match verdict {
            Some(Verdict::Deny) => Some(Verdict::Deny),
            Some(Verdict::Run | Verdict::Ask) | None if is_broken => Some(Verdict::Ask),
            other => other,
        }
    }

    /// Returns the error in a project's file, with the file's name, if it leaves open what the
    /// rules are for calls of this kind.
    pub(crate) fn error(&self, cwd: &Path, kind: ToolKind) -> Option<String> {
        self.lock().get(cwd).filter(|_| kind != ToolKind::Think)?.error.clone()
    }

    /// Forgets all rules, so that they are read again.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, FolderStrictness>> {
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;

    use super::*;

    fn with_file(text: &str) -> (tempfile::TempDir, ProjectConfig) {
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
    fn other_settings_of_a_project_are_refused_with_file_and_line() {
        let mut reader = String::new();
        for text in [
            "[permissions]\nallow = [\"bash\"]\n",
            "[session]\nmode = \"full\"\n",
            "\n[[hooks.before_tool]]\ncommand = \"curl evil\"\n",
            "[models]\n",
            "[session]\nnotes = [\"../../.ssh/id\"]\n",
            "[permissions]\ndeny = [\"bash(\"]\n",
            "[permissions]\ndeny = [\n  \"bsh(rm)\",\n  1,\n]\nask = 2\n",
            "[permissions\n",
        ] {
            let (folder, project) = with_file(text);
            reader.push_str(&project.complaints.join("\n").replace(&folder.path().display().to_string(), "DIR"));
            reader.push('\n');
            assert!(project.rules.deny.is_empty() && project.notes.is_empty(), "{text}");
        }
        expect![[r#"
            DIR/.acpd/config.toml:2: `allow` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs in your own configuration
            DIR/.acpd/config.toml:2: `mode` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs in your own configuration
            DIR/.acpd/config.toml:2: `hooks` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs in your own configuration
            DIR/.acpd/config.toml:1: `models` is not taken from a project, which may only set permissions.ask, permissions.deny and session.notes; it belongs in your own configuration
            DIR/.acpd/config.toml:2: `../../.ssh/id` must be the name of a file, without a folder
            DIR/.acpd/config.toml:2: the rule `bash(` must look like `tool` or `tool(pattern)`
            DIR/.acpd/config.toml:6: this must be a list of texts
            DIR/.acpd/config.toml:3: the rule `bsh(rm)` can never match: there is no tool `bsh`; did you mean `bash`?
            DIR/.acpd/config.toml:4: this must be a text
            DIR/.acpd/config.toml:1: unclosed table, expected `]`
        "#]].assert_eq(&reader);
    }

    #[test]
    fn a_typo_in_one_rule_opens_nothing_that_another_one_forbids() {
        let (folder, project) = with_file("[permissions]\nallow = [\"bash\"]\ndeny = [\"bsh(rm)\", \"read(.env)\"]\n");
        assert_eq!((project.complaints.len(), project.rules.texts().deny), (2, vec!["read(.env)".to_owned()]));
        let projects = LearnedRules::default();
        projects.learn(folder.path());
        let tightened = |kind, verdict| projects.tighten_on_error(folder.path(), kind, verdict);
        assert_eq!(tightened(ToolKind::Read, Some(Verdict::Deny)), Some(Verdict::Deny));
        assert_eq!(tightened(ToolKind::Read, None), Some(Verdict::Ask));
        assert_eq!(tightened(ToolKind::Execute, Some(Verdict::Run)), Some(Verdict::Ask));
        assert_eq!(tightened(ToolKind::Think, None), None);
    }

    #[test]
    fn too_many_rules_or_oversized_patterns_make_every_call_ask() {
        let many: Vec<String> = (0..MAX_RULES + 5).map(|number| format!("\"read(x{number})\"")).collect();
        let (_folder, project) = with_file(&format!("[permissions]\ndeny = [{}]\n", many.join(", ")));
        assert_eq!((project.rules.deny.len(), project.complaints.len()), (MAX_RULES, 5));
        // Compiling this would overflow the stack. Three of them fit into one file.
        let nested = format!("{}a{}", "{".repeat(10_000), "}".repeat(10_000));
        let (folder, project) =
            with_file(&format!("[permissions]\ndeny = [\"read({nested})\", \"bash({nested})\", \"{nested}\"]\n"));
        assert_eq!((project.rules.deny.len(), project.complaints.len()), (0, 3));
        let projects = LearnedRules::default();
        projects.learn(folder.path());
        assert_eq!(projects.tighten_on_error(folder.path(), ToolKind::Read, None), Some(Verdict::Ask));
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

    #[test]
    fn the_same_file_is_compiled_once_and_a_changed_one_again() {
        let (folder, _) = with_file("[permissions]\ndeny = [\"read(a)\"]\n");
        let projects = LearnedRules::default();
        let known = |learned: &LearnedRules| {
            let mut rules = Rules::default();
            learned.tighten(folder.path(), &mut rules);
            rules.texts().deny
        };
        projects.learn(folder.path());
        assert_eq!(known(&projects), ["read(a)"]);
        // Only compiling adds rules: a rule that is removed by hand returns only if the file is
        // compiled again.
        let take_out = || projects.lock().get_mut(folder.path()).unwrap().rules = Rules::default();
        take_out();
        projects.learn(folder.path());
        assert_eq!(known(&projects), Vec::<String>::new());
        fs::write(folder.path().join(FILE), "[permissions]\ndeny = [\"read(b)\"]\n").unwrap();
        projects.learn(folder.path());
        assert_eq!(known(&projects), ["read(b)"]);
        take_out();
        projects.forget();
        projects.learn(folder.path());
        assert_eq!(known(&projects), ["read(b)"]);
    }
}
