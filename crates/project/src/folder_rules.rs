//! The rules that apply in a folder: the operator's, and those of the project around it.
//!
//! Learning a folder reads files, which may block. Deciding about a call uses only what was
//! learned.

use std::path::Path;

use domain::permission::RuleTexts;
use domain::{CallSite, Swap, ToolCard, Verdict};
use policy::{Permissions, Rules};

use crate::project_config::LearnedRules;
use crate::real_paths::RealPaths;

/// Why a request of a child agent is refused. The user cannot be asked about such a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A rule denies the call, or may do so.
    Rule,
    /// A project's file has this error, so it is unknown what the file forbids. Names the file.
    BrokenFile(String),
}

/// The rules of all folders in which sessions work.
#[derive(Debug)]
pub struct FolderRules {
    permissions: Swap<Permissions>,
    names: RealPaths,
    projects: LearnedRules,
}

impl FolderRules {
    pub fn new(permissions: Permissions) -> Self {
        let permissions = Swap::from(std::sync::Arc::new(resolved(permissions)));
        Self { permissions, names: RealPaths::default(), projects: LearnedRules::default() }
    }

    /// Replaces the operator's rules. Forgets those of projects, which are read again when they are
    /// needed.
    pub fn reload(&self, permissions: Permissions) {
        self.permissions.replace(std::sync::Arc::new(resolved(permissions)));
        self.projects.forget();
    }

    /// Reads the rules and paths that decisions about calls in this session need. Blocks.
    pub fn learn(&self, site: &CallSite) {
        self.names.learn(site);
        self.projects.learn(&site.cwd);
    }

    /// Reads the rules and paths that decisions about calls in this folder need. Blocks.
    pub fn learn_folder(&self, cwd: &Path) {
        self.names.learn_folder(cwd);
        self.projects.learn(cwd);
    }

    /// Reads the rules of a folder's project again and returns all rules that apply there. Blocks.
    pub fn read(&self, cwd: &Path) -> Rules {
        self.learn_folder(cwd);
        self.known(cwd)
    }

    /// Returns the rules that apply in a folder, as far as they were learned.
    pub fn known(&self, cwd: &Path) -> Rules {
        let mut rules = self.permissions.get().within(cwd, &self.names.of(cwd));
        self.projects.tighten(cwd, &mut rules);
        rules
    }

    /// Returns the verdict of the rules about a call; None if no rule matches.
    pub fn verdict(&self, card: &ToolCard, cwd: &Path) -> Option<Verdict> {
        let verdict = self.known(cwd).verdict(card, self.names.card(card).as_ref());
        self.projects.tighten_on_error(cwd, card.kind, verdict)
    }

    /// Returns why a request of a child agent is refused; None if it is not.
    pub fn denial(&self, card: &ToolCard, cwd: &Path) -> Option<Denial> {
        if self.known(cwd).may_deny(card, self.names.card(card).as_ref()) {
            return Some(Denial::Rule);
        }
        self.projects.error(cwd, card.kind).map(Denial::BrokenFile)
    }

    /// Returns the rules of a folder as they were written. Blocks.
    pub fn texts(&self, cwd: &Path) -> RuleTexts {
        self.read(cwd).texts()
    }
}

fn resolved(mut permissions: Permissions) -> Permissions {
    permissions.resolve(|folder| std::fs::canonicalize(folder).ok());
    permissions
}

#[cfg(test)]
mod tests {
    use std::fs;

    use domain::ToolKind;

    use super::*;

    #[test]
    fn a_call_is_denied_by_a_rule_or_by_the_file_whose_rules_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".acpd")).unwrap();
        let config = folder.path().join(".acpd/config.toml");
        let rules = FolderRules::new(Permissions::default());
        let denial = |tool: &str, kind: ToolKind, text: &str| {
            fs::write(&config, text).unwrap();
            rules.learn_folder(folder.path());
            rules.denial(&ToolCard { kind, ..ToolCard::begun(tool, "") }, folder.path())
        };
        let valid = "[permissions]\ndeny = [\"edit_file\"]\n";
        assert_eq!(denial("edit_file", ToolKind::Edit, valid), Some(Denial::Rule));
        assert_eq!(denial("bash", ToolKind::Execute, valid), None);
        let broken = "[permissions]\ndeny = [\"bsh(rm)\", \"edit_file\"]\n";
        let Some(Denial::BrokenFile(error)) = denial("bash", ToolKind::Execute, broken) else { panic!("no denial") };
        assert!(error.starts_with(&format!("{}:2: ", config.display())), "{error}");
        assert_eq!(denial("edit_file", ToolKind::Edit, broken), Some(Denial::Rule), "the rule is known");
        assert_eq!(denial("plan", ToolKind::Think, broken), None);
    }
}
