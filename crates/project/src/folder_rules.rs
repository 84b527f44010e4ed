//! The rules that apply in a folder: the operator's, and those of the project around it.
//!
//! Learning a folder reads files, which may block. Deciding about a call uses only what was learned.

use std::path::Path;

use domain::permission::RuleTexts;
use domain::{CallSite, Swap, ToolCard, Verdict};
use policy::{Permissions, Rules};

use crate::project_config::LearnedRules;
use crate::real_paths::RealPaths;

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

    /// Replaces the operator's rules. Forgets those of projects, which are read again when they are needed.
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
        self.projects.temper(cwd, card.kind, verdict)
    }

    /// Returns whether a rule denies a call about which no question can be asked, or may do so, or whether that is
    /// unknown because a project's file has an error.
    pub fn may_deny(&self, card: &ToolCard, cwd: &Path) -> bool {
        let denied = self.known(cwd).may_deny(card, self.names.card(card).as_ref()).then_some(Verdict::Deny);
        self.projects.temper(cwd, card.kind, denied).is_some()
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
