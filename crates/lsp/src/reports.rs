//! The latest findings of a language server about each file.
//!
//! A server may publish findings and also return findings when it is asked, and the two can differ:
//! rust-analyzer returns what it finds itself, and publishes what `cargo check` finds. Both lists
//! of a file are kept, so that neither replaces the other.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::findings::Finding;

/// The most files whose reports are kept.
const MAX_FILES: usize = 2000;

/// The most bytes in the path of a file whose report is kept: the longest path that Linux opens.
pub(crate) const LONGEST_PATH: usize = 4096;

/// The most findings in each list of a file that is not open in the server. The model sees only a
/// few of them.
pub(crate) const MAX_FINDINGS_ELSEWHERE: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    files: BTreeMap<PathBuf, FileReports>,
    received: u64,
}

#[derive(Clone, Debug, Default)]
struct FileReports {
    published: Arc<[Finding]>,
    pulled: Arc<[Finding]>,
    /// The version of the text that the last published report is about, if the server named it.
    version: Option<i32>,
    /// The number of reports that had arrived with the last published one.
    number: u64,
}

/// Whether the server or acpd began a report.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReportKind {
    /// The server published it, about this version of the text if it named one.
    Published(Option<i32>),
    /// acpd asked for it.
    Pulled,
}

impl Reports {
    /// Returns how many reports have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn note(&mut self, path: PathBuf, kind: ReportKind, mut findings: Vec<Finding>, is_open: bool) {
        self.received += 1;
        if path.as_os_str().len() > LONGEST_PATH || (self.files.len() >= MAX_FILES && !self.files.contains_key(&path)) {
            return;
        }
        if !is_open {
            findings.truncate(MAX_FINDINGS_ELSEWHERE);
        }
        let reports = self.files.entry(path).or_default();
        match kind {
            ReportKind::Published(version) => {
                *reports = FileReports {
                    published: findings.into(),
                    pulled: Arc::clone(&reports.pulled),
                    version,
                    number: self.received,
                };
            }
            ReportKind::Pulled => reports.pulled = findings.into(),
        }
    }

    /// Whether the server has published a report about this version of a file, or a later one,
    /// since `before` reports had arrived.
    pub(crate) fn is_published(&self, path: &Path, version: Option<i32>, before: u64) -> bool {
        self.files.get(path).is_some_and(|reports| {
            reports.number > before && reports.version.is_none_or(|reported| Some(reported) >= version)
        })
    }

    /// Returns all findings of a file, each once.
    pub(crate) fn findings(&self, path: &Path) -> Vec<Finding> {
        self.files.get(path).map(FileReports::all).unwrap_or_default()
    }

    /// Returns the present findings of all files.
    pub(crate) fn snapshot(&self) -> HashMap<PathBuf, Vec<Finding>> {
        self.files.iter().map(|(path, reports)| (path.clone(), reports.all())).collect()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }
}

impl FileReports {
    fn all(&self) -> Vec<Finding> {
        let published = self.published.iter().filter(|finding| !self.pulled.contains(finding));
        self.pulled.iter().chain(published).cloned().collect()
    }
}
