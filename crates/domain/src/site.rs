//! The place in which a session's tools work: folder, roots and environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::editor::Editor;
use crate::{AgentId, EnteredFolders, Mode, SeenFiles, SessionId, TurnId};

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
    fn the_debug_output_of_an_environment_shows_no_values() {
        let shown = format!("{:?}", environment(&[("OPENAI_API_KEY", "sk-secret")]));
        assert!(shown.contains("OPENAI_API_KEY") && !shown.contains("secret"), "{shown}");
    }
}
