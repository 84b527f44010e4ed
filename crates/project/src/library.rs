//! Skills and custom agents: instructions that users have written for agents to use on demand.
//!
//! A skill is a folder with a `SKILL.md`. The model gets its name and description with the
//! instructions, and its text on request. A custom agent is a Markdown file that describes a
//! sub-agent. Both come from the user's own folders and from the project. Those of a project are
//! used only if the user trusts the folder, and files that a rule denies or asks about are not
//! read.

mod custom_agent;
mod entries;
mod skill;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::instructions::{LibraryCard, LibraryEntry};
use domain::text::cut;
use policy::Rules;
use process::protected_files::ProtectedFiles;

pub use self::custom_agent::CustomAgent;
use self::entries::{EntryOrigin, Folder};
pub use self::skill::{Skill, SkillError};
use crate::{notes, prompt_files};

/// The folders of a project that contain skills and agents. Earlier ones take precedence.
const PROJECT_SKILLS: [&str; 2] = [".acpd/skills", ".claude/skills"];
const PROJECT_AGENTS: [&str; 1] = [".acpd/agents"];

/// The most skills, and the most agents, that are used in one folder.
const MAX_PER_FOLDER: usize = 64;

/// The most characters of one description in the instructions, and the most bytes of all of them.
const DESCRIPTION: usize = 400;
const LISTED: usize = 12 << 10;

/// The sources of skills and custom agents.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// The user's own folder, which contains the folders `skills` and `agents`.
    pub own: Option<PathBuf>,
    /// Further folders of the user with skills.
    pub skill_folders: Vec<PathBuf>,
    /// Folders in which, and below which, projects may bring skills and agents.
    pub trusted: Vec<PathBuf>,
    /// acpd's own files and folders, which a project must not bring under another name.
    pub protected_paths: Vec<PathBuf>,
}

/// The skills and agents that can be used in one folder.
#[derive(Debug, Default)]
pub struct LibraryContents {
    pub skills: Vec<Skill>,
    pub agents: Vec<CustomAgent>,
    /// Sentences for the user about files that are not used.
    pub notices: Vec<String>,
    /// Sentences about folders that are not trusted, which are shown only on request.
    pub untrusted: Vec<String>,
}

impl Library {
    /// Returns everything that can be used in a folder. Reads files, so it may block.
    pub fn open(&self, cwd: &Path, rules: &Rules) -> LibraryContents {
        let mut contents = LibraryContents::default();
        for folder in self.folders(cwd, &PROJECT_SKILLS, "skills", &mut contents.untrusted) {
            contents.add_skills(&folder, rules);
        }
        for folder in self.folders(cwd, &PROJECT_AGENTS, "agents", &mut contents.untrusted) {
            contents.add_agents(&folder, rules);
        }
        contents.skills.sort_by(|one, other| one.name.cmp(&other.name));
        contents.agents.sort_by(|one, other| one.name.cmp(&other.name));
        contents
    }

    /// Returns the folders to search. The first file of a name is used.
    fn folders(&self, cwd: &Path, of_project: &[&str], own: &str, notices: &mut Vec<String>) -> Vec<Folder> {
        let mut folders = Vec::new();
        let protected = Arc::new(ProtectedFiles::locate(&self.protected_paths));
        for base in notes::folders(cwd).into_iter().rev() {
            let found: Vec<Folder> =
                of_project.iter().filter_map(|name| Folder::of_project(base, name, &protected)).collect();
            if found.is_empty() {
                continue;
            }
            if self.trusts(base) {
                folders.extend(found);
            } else {
                notices.push(format!(
                    "The {own} of {} are not used, because the folder is not trusted; `mcp.trusted_projects` lists those \
                     that are.",
                    base.display()
                ));
            }
        }
        folders.extend(self.own.iter().filter_map(|folder| Folder::of_user(&folder.join(own))));
        if own == "skills" {
            folders.extend(self.skill_folders.iter().filter_map(|folder| Folder::of_user(folder)));
        }
        folders
    }

    fn trusts(&self, folder: &Path) -> bool {
        let Ok(real) = folder.canonicalize() else { return false };
        self.trusted.iter().any(|trusted| real.starts_with(trusted.canonicalize().as_ref().unwrap_or(trusted)))
    }
}

impl LibraryContents {
    fn add_skills(&mut self, folder: &Folder, rules: &Rules) {
        for name in folder.folders() {
            let path = folder.path.join(&name).join(skill::FILE);
            let Some(skill) = Skill::read(folder, &name) else { continue };
            if self.skills.len() < MAX_PER_FOLDER
                && self.may_use(folder, &path, rules)
                && self.skill(&skill.name).is_none()
            {
                self.skills.push(skill);
            }
        }
    }

    fn add_agents(&mut self, folder: &Folder, rules: &Rules) {
        for name in folder.files() {
            let path = folder.path.join(format!("{name}.md"));
            let Some(agent) = CustomAgent::read(folder, &name) else { continue };
            if self.agents.len() >= MAX_PER_FOLDER || !self.may_use(folder, &path, rules) {
                continue;
            }
            match agent {
                Ok(agent) if self.agent(&agent.name).is_none() => self.agents.push(agent),
                Ok(_) => {}
                Err(why) => self.notices.push(format!("The agent {} is not used: {why}.", path.display())),
            }
        }
    }

    /// Returns whether the rules allow the model to read a file. The user's own files are exempt.
    fn may_use(&mut self, folder: &Folder, path: &Path, rules: &Rules) -> bool {
        if folder.origin == EntryOrigin::User {
            return true;
        }
        let verdict = prompt_files::reading_verdict(rules, path);
        self.notices.extend(verdict.map(|verdict| prompt_files::notice(path, verdict)));
        verdict.is_none()
    }

    pub fn skill(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    pub fn agent(&self, name: &str) -> Option<&CustomAgent> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the names and descriptions for the model's instructions; empty if there are none.
    pub fn instructions(&self) -> String {
        let mut text = String::new();
        let skills = self.skills.iter().map(|skill| (skill.name.as_str(), skill.description.as_str()));
        list(
            &mut text,
            "Skills: instructions for particular kinds of work. Before you begin work that one of them describes, load it \
             with the tool `skill`.",
            skills,
        );
        let agents = self.agents.iter().map(|agent| (agent.name.as_str(), agent.description.as_str()));
        list(
            &mut text,
            "Agents: sub-agents for particular tasks. Name one as `agent` in a call of the tool `agent`.",
            agents,
        );
        text
    }

    /// Returns the description for users.
    pub fn card(self) -> LibraryCard {
        let skills = self.skills.into_iter().map(|skill| LibraryEntry {
            path: skill.folder.join(skill::FILE),
            name: skill.name,
            description: skill.description,
        });
        let agents = self.agents.into_iter().map(|agent| LibraryEntry {
            path: agent.path,
            name: agent.name,
            description: agent.description,
        });
        let mut notices = self.notices;
        notices.extend(self.untrusted);
        LibraryCard { skills: skills.collect(), agents: agents.collect(), notices }
    }
}

fn list<'a>(text: &mut String, heading: &str, entries: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut entries = entries.peekable();
    if entries.peek().is_none() {
        return;
    }
    text.push_str(&format!("\n{heading}\n"));
    let start = text.len();
    let mut left_out = 0;
    for (name, description) in entries {
        let line = format!("- {name}: {}\n", cut(description, DESCRIPTION));
        if text.len() - start + line.len() > LISTED {
            left_out += 1;
        } else {
            text.push_str(&line);
        }
    }
    if left_out > 0 {
        text.push_str(&format!("[{left_out} more are left out]\n"));
    }
}

#[cfg(test)]
mod tests;
