//! Implements `domain::Folders`: checks whether a session can work in the folder that a client
//! names.
//!
//! Reads the disk on tokio's blocking threads and changes nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{FolderError, Folders};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// How long a folder may take to answer. On a lost network mount it never does.
const DEADLINE: Duration = Duration::from_secs(10);

pub(super) struct LocalFolders;

impl Folders for LocalFolders {
    fn resolve(&self, path: PathBuf) -> BoxFuture<'static, Result<PathBuf, FolderError>> {
        let late = FolderError::NoAnswer { path: path.clone(), timeout: DEADLINE };
        let failed = FolderError::Unreadable { path: path.clone(), reason: "looking at it failed".to_owned() };
        let looked = tokio::task::spawn_blocking(move || look(&path));
        let looked = tokio::time::timeout(DEADLINE, looked);
        looked
            .map(|found| match found {
                Ok(Ok(found)) => found,
                Ok(Err(_)) => Err(failed),
                Err(_) => Err(late),
            })
            .boxed()
    }
}

fn look(path: &Path) -> Result<PathBuf, FolderError> {
    let why = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => FolderError::Missing(path.to_owned()),
        _ => FolderError::Unreadable { path: path.to_owned(), reason: error.to_string() },
    };
    let real = fs::canonicalize(path).map_err(why)?;
    if !real.is_dir() {
        return Err(FolderError::NotAFolder(path.to_owned()));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_resolves_to_its_real_path_and_nothing_else_does() {
        let scratch = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(scratch.path()).unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        fs::write(real.join("file"), "").unwrap();
        assert_eq!(LocalFolders.resolve(real.join("link")).await, Ok(real.clone()));
        assert_eq!(LocalFolders.resolve(real.join("file")).await, Err(FolderError::NotAFolder(real.join("file"))));
        assert_eq!(LocalFolders.resolve(real.join("gone")).await, Err(FolderError::Missing(real.join("gone"))));
    }
}
