//! `/diff`: shows what a session has changed in files, from their first known contents to their
//! present contents.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use domain::{EventKind, ToolContent};

use crate::commands::ask::Conversation;
use crate::commands::session_log;

/// The contents of each file before the session first changed it.
#[derive(Default)]
struct Originals(BTreeMap<PathBuf, String>);

impl Originals {
    fn add(&mut self, event: EventKind) {
        let EventKind::ToolEnded { outcome, .. } = event else { return };
        for content in outcome.content {
            if let ToolContent::Diff { path, old, .. } = content {
                self.0.entry(path).or_insert_with(|| old.unwrap_or_default());
            }
        }
    }
}

impl Conversation {
    pub(super) async fn show_changes(&mut self) -> anyhow::Result<()> {
        let mut originals = Originals::default();
        session_log::for_each_event(&mut self.client, &self.session, |event| originals.add(event.kind)).await?;
        let mut any = false;
        for (path, before) in originals.0 {
            // A file that is deleted, or no longer text, is shown as empty.
            let now = fs::read_to_string(&path).unwrap_or_default();
            if now != before {
                any = true;
                self.output.diff(&path, &before, &now)?;
            }
        }
        if any { Ok(()) } else { self.output.remark("this session has changed no files, or its changes were undone") }
    }
}

#[cfg(test)]
mod tests {
    use domain::Outcome;

    use super::*;

    #[test]
    fn the_first_contents_of_a_file_count() {
        let mut originals = Originals::default();
        for (old, new) in [("one", "two"), ("two", "three")] {
            let content = vec![ToolContent::Diff { path: "/a".into(), old: Some(old.into()), new: new.into() }];
            let outcome = Outcome::completed("").showing(content);
            originals.add(EventKind::ToolEnded { call: "c".into(), outcome });
        }
        assert_eq!(originals.0[&PathBuf::from("/a")], "one");
    }
}
