//! Checks the folders that a client names before they are used.

use std::path::{Path, PathBuf};

use domain::link::file_uri;
use wire::RpcError;

use crate::runtime::Runtime;

pub(super) async fn check_folder(runtime: &Runtime, field: &str, path: &Path) -> Result<PathBuf, RpcError> {
    let resolved = runtime.ports().folders.resolve(path.to_owned()).await;
    resolved.map_err(|why| RpcError::invalid_params(field, &why.to_string()))
}

pub(super) async fn check_folders(runtime: &Runtime, folders: &[PathBuf]) -> Result<(), RpcError> {
    for folder in folders {
        check_folder(runtime, "additionalDirectories", folder).await?;
    }
    Ok(())
}

/// The folder of a session in which another is to begin. The client did not name it, so that it is no mistake of its
/// own if it is gone.
pub(super) async fn own_folder(runtime: &Runtime, path: &Path) -> Result<PathBuf, RpcError> {
    let resolved = runtime.ports().folders.resolve(path.to_owned()).await;
    resolved.map_err(|why| RpcError::not_found(&file_uri(path), &format!("{why}; name another folder as `cwd`")))
}

/// The folder that a client asks about, by its real path as far as there is one.
pub(super) async fn real_folder(runtime: &Runtime, path: PathBuf) -> PathBuf {
    runtime.ports().folders.resolve(path.clone()).await.unwrap_or(path)
}

/// Paths are compared as they are and then with their symlinks resolved; the session's folder may be gone by now.
pub(super) async fn same_folder(runtime: &Runtime, named: &Path, own: &Path) -> Result<(), RpcError> {
    if named == own {
        return Ok(());
    }
    let named = check_folder(runtime, "cwd", named).await?;
    match runtime.ports().folders.resolve(own.to_owned()).await {
        Ok(own) if own == named => Ok(()),
        Ok(_) | Err(_) => Err(RpcError::invalid_params("cwd", &format!("the session works in {}", own.display()))),
    }
}
