//! The files that searches and listings skip, because the model may not read them, or only after a
//! question.

use std::path::Path;

use domain::ToolKind;
use globset::{GlobSet, GlobSetBuilder};

use super::{Rule, Rules};

/// What a tool shows of files: their names only, or their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    Names,
    Contents,
}

/// Files that a tool does not show.
#[derive(Clone, Debug, Default)]
pub struct HiddenFiles {
    everything: bool,
    patterns: GlobSet,
}

impl Rules {
    /// Returns the files that a tool must hide. A file is hidden if a rule denies it to the tool
    /// itself or to reading. A search cannot ask about single files, so it also hides the contents
    /// of those that would need a question.
    pub fn hidden_files(&self, tool: &str, kind: ToolKind, shows: Exposure) -> HiddenFiles {
        let asked: &[Rule] = match shows {
            Exposure::Names => &[],
            Exposure::Contents => &self.ask,
        };
        let about = |rule: &&Rule| rule.is_about(tool, kind) || rule.is_about("read_file", ToolKind::Read);
        let mut hidden_files = HiddenFiles::default();
        let mut patterns = GlobSetBuilder::new();
        for rule in self.deny.iter().chain(asked).filter(about) {
            match &rule.pattern {
                // A rule that asks about the tool as a whole was applied before the call ran.
                None if rule.is_about(tool, kind) && !self.deny.iter().any(|denied| std::ptr::eq(denied, rule)) => {}
                None => hidden_files.everything = true,
                Some(pattern) => {
                    patterns.add(pattern.path.glob().clone());
                }
            }
        }
        // Each glob was compiled before, so this can only fail because of their number. In that
        // case everything is hidden.
        match patterns.build() {
            Ok(patterns) => hidden_files.patterns = patterns,
            Err(_) => hidden_files.everything = true,
        }
        hidden_files
    }
}

impl HiddenFiles {
    pub fn is_empty(&self) -> bool {
        !self.everything && self.patterns.is_empty()
    }

    /// Returns whether a file is hidden. `names` are all its names: the session's, and the one
    /// without symlinks.
    pub fn hides<'a>(&self, names: impl IntoIterator<Item = &'a Path>) -> bool {
        let covers = |path: &Path| path.ancestors().any(|part| self.patterns.is_match(part));
        self.everything || names.into_iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hidden(rules: &serde_json::Value, tool: &str, kind: ToolKind, shows: Exposure, path: &str) -> bool {
        let rules: Rules = serde_json::from_value(rules.clone()).unwrap();
        rules.hidden_files(tool, kind, shows).hides([Path::new(path)])
    }

    #[test]
    fn unreadable_files_are_hidden_from_every_tool_and_asked_ones_from_searches() {
        let rules = json!({
            "deny": ["read_file(**/.env)", "read(secrets)", "grep(*.min.js)", "edit(*.lock)"],
            "ask": ["read(*.key)"],
        });
        let grep = |path: &str| hidden(&rules, "grep", ToolKind::Search, Exposure::Contents, path);
        let glob = |path: &str| hidden(&rules, "glob", ToolKind::Search, Exposure::Names, path);
        for path in ["/p/.env", "/p/a/.env", "/p/secrets", "/p/secrets/a/b"] {
            assert!(grep(path) && glob(path), "{path}");
        }
        for path in ["/p/.envrc", "/p/a.lock", "/p/src/a.rs"] {
            assert!(!grep(path) && !glob(path), "{path}");
        }
        assert!(grep("/p/a.min.js") && !glob("/p/a.min.js"));
        assert!(grep("/p/a.key") && !glob("/p/a.key"));
        assert!(hidden(&json!({"deny": ["read"]}), "grep", ToolKind::Search, Exposure::Contents, "/p/a"));
        assert!(!hidden(&json!({"deny": ["edit"]}), "grep", ToolKind::Search, Exposure::Contents, "/p/a"));
    }
}
