//! The place in which a session's tools work: folder, roots, environment, and the files that the
//! model has seen.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::editor::Editor;
use crate::{AgentId, Mode, SessionId, TurnId};

/// The context of a tool call. The roots are absolute; the first is the working folder.
#[derive(Clone)]
pub struct CallSite {
    pub session: SessionId,
    /// The turn that the call is part of. Cancelling the turn ends what the call started.
    pub turn: TurnId,
    /// The sub-agent that makes the call; None for the main conversation.
    pub agent: Option<AgentId>,
    pub cwd: PathBuf,
    /// Folders other than `cwd` in which the session may work.
    pub extra_roots: Vec<PathBuf>,
    pub mode: Mode,
    pub environment: Arc<Environment>,
    pub seen: Arc<SeenFiles>,
    /// The folders whose notes the model that makes the call has.
    pub entered: Arc<EnteredFolders>,
    /// The editor that sent the prompt, if it is still connected and offers anything.
    pub editor: Option<Arc<dyn Editor>>,
}

impl CallSite {
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.cwd.as_path()).chain(self.extra_roots.iter().map(PathBuf::as_path))
    }
}

/// Environment variables of a session's editor. They may hold keys, so `Debug` shows only the
/// names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these variables on top of those of `base`. `PATH` is merged, with the entries of
    /// this one first.
    #[must_use]
    pub fn over(&self, base: &Environment) -> Environment {
        let mut merged = base.0.clone();
        merged.extend(self.0.clone());
        if let (Some(first), Some(then)) = (self.get(PATH), base.get(PATH)) {
            merged.insert(PATH.to_owned(), join_paths(first, then));
        }
        Environment(merged)
    }
}

const PATH: &str = "PATH";

fn join_paths(first: &str, then: &str) -> String {
    let mut entries: Vec<&str> = Vec::new();
    for entry in first.split(':').chain(then.split(':')) {
        if !entry.is_empty() && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries.join(":")
}

/// The environment that every session's environment is based on. It starts as the daemon's own and
/// becomes the login shell's once that has answered; nothing waits for the shell.
#[derive(Debug, Default)]
pub struct BaseEnvironment(RwLock<Arc<Environment>>);

impl BaseEnvironment {
    pub fn new(first: Environment) -> Self {
        Self(RwLock::new(Arc::new(first)))
    }

    pub fn get(&self) -> Arc<Environment> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, next: Environment) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The maximum number of bytes of file text, as the model has seen it, that are kept per session.
const KEPT_TEXT: usize = 4 << 20;

/// The largest file whose text is kept.
const LARGEST_KEPT: usize = 512 << 10;

/// What the model knows of each file, from when it last read or wrote it: a fingerprint, which lets
/// a tool notice that the file has changed since, and the text, if there is room, which shows what
/// has changed. It is kept in memory only: after a restart the model must read a file again before
/// it writes.
#[derive(Debug, Default)]
pub struct SeenFiles(Mutex<SeenTable>);

#[derive(Debug, Default)]
struct SeenTable {
    files: HashMap<PathBuf, SeenFile>,
    /// Counts the notes, so that the oldest texts can be dropped first.
    notes: u64,
    /// Bytes of all texts together.
    kept: usize,
}

#[derive(Debug)]
struct SeenFile {
    print: Fingerprint,
    text: Option<Arc<str>>,
    noted: u64,
}

/// A digest of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl SeenFiles {
    pub fn note(&self, path: &Path, print: Fingerprint) {
        self.lock().insert(path, print, None);
    }

    /// Notes a file together with its text.
    pub fn note_text(&self, path: &Path, print: Fingerprint, text: &str) {
        let text = (text.len() <= LARGEST_KEPT).then(|| Arc::from(text));
        self.lock().insert(path, print, text);
    }

    pub fn recall(&self, path: &Path) -> Option<Fingerprint> {
        self.lock().files.get(path).map(|seen| seen.print)
    }

    /// Returns the text as the model saw it, if it was kept.
    pub fn recall_text(&self, path: &Path) -> Option<Arc<str>> {
        self.lock().files.get(path)?.text.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SeenTable> {
        // Every operation leaves the table consistent, so a panic elsewhere does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenTable {
    fn insert(&mut self, path: &Path, print: Fingerprint, text: Option<Arc<str>>) {
        self.notes += 1;
        self.kept += text.as_ref().map_or(0, |text| text.len());
        let seen = SeenFile { print, text, noted: self.notes };
        let before = self.files.insert(path.to_owned(), seen);
        self.kept -= before.and_then(|seen| seen.text).map_or(0, |text| text.len());
        while self.kept > KEPT_TEXT {
            let texts = self.files.values_mut().filter(|seen| seen.text.is_some());
            let Some(oldest) = texts.min_by_key(|seen| seen.noted) else { return };
            self.kept -= oldest.text.take().map_or(0, |text| text.len());
        }
    }
}

/// The maximum number of folders that are remembered as entered.
const ENTERED: usize = 10_000;

/// The folders below the working folder in which a model has read a file, and whose notes it has
/// therefore received. They are kept in memory only: after a restart the model gets the notes
/// again.
#[derive(Debug, Default)]
pub struct EnteredFolders(Mutex<HashSet<PathBuf>>);

impl EnteredFolders {
    /// Notes that the model enters a folder. Returns whether it is the first time.
    pub fn enter(&self, folder: &Path) -> bool {
        let mut entered = self.lock();
        entered.len() < ENTERED && entered.insert(folder.to_owned())
    }

    /// Forgets all folders, because the model has lost what it read.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<PathBuf>> {
        // Every operation leaves the set consistent, so a panic elsewhere does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The port to this machine's folders, for checking the folders that a client names.
pub trait Folders: Send + Sync + 'static {
    /// Returns the folder's real path, or why the folder cannot be used.
    fn resolve(&self, path: PathBuf) -> BoxFuture<'static, Result<PathBuf, FolderError>>;
}

/// Why a folder cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The folder did not answer in time. It is probably on a network that is gone.
    #[error("{} did not answer within {} s", path.display(), timeout.as_secs())]
    NoAnswer { path: PathBuf, timeout: Duration },
    #[error("{}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_environment_wins_over_its_base_and_paths_are_joined() {
        let base = environment(&[("PATH", "/usr/bin:/home/me/bin"), ("LANG", "C"), ("EDITOR", "vi")]);
        let mine = environment(&[("PATH", "/nix/bin:/usr/bin"), ("EDITOR", "zed")]);
        let expected = environment(&[("PATH", "/nix/bin:/usr/bin:/home/me/bin"), ("LANG", "C"), ("EDITOR", "zed")]);
        assert_eq!(mine.over(&base), expected);
        assert_eq!(environment(&[]).over(&base), base);
    }

    #[test]
    fn the_oldest_texts_of_seen_files_make_room_and_their_fingerprints_stay() {
        let seen = SeenFiles::default();
        let text = "x".repeat(LARGEST_KEPT);
        for number in 0..10 {
            seen.note_text(Path::new(&format!("/{number}")), Fingerprint(number), &text);
        }
        assert_eq!(seen.recall_text(Path::new("/1")), None);
        assert_eq!(seen.recall(Path::new("/1")), Some(Fingerprint(1)));
        assert!(seen.recall_text(Path::new("/2")).is_some());
        seen.note_text(Path::new("/9"), Fingerprint(9), &format!("{text}x"));
        assert_eq!(seen.recall_text(Path::new("/9")), None);
        assert_eq!(seen.lock().kept, 7 * LARGEST_KEPT);
    }

    #[test]
    fn an_environment_shows_no_values() {
        let shown = format!("{:?}", environment(&[("OPENAI_API_KEY", "sk-secret")]));
        assert!(shown.contains("OPENAI_API_KEY") && !shown.contains("secret"), "{shown}");
    }
}
