//! Checks the folders that a client names before they are used.

use std::path::{Path, PathBuf};

use domain::resource_link::file_uri;
use wire::RpcError;

use crate::runtime::Runtime;
use crate::session::Attached;

/// Returns the real path of a folder that a client names, or an error about the parameter `field`.
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

/// Checks the folder of a session from which another one is created. The client did not name the
/// folder, and therefore a missing one is not reported as the client's mistake.
pub(super) async fn own_folder(runtime: &Runtime, path: &Path) -> Result<PathBuf, RpcError> {
    let resolved = runtime.ports().folders.resolve(path.to_owned()).await;
    resolved.map_err(|why| RpcError::not_found(&file_uri(path), &format!("{why}; name another folder as `cwd`")))
}

/// The real path of a folder that a client asks about, as far as it exists.
pub(super) async fn real_folder(runtime: &Runtime, path: PathBuf) -> PathBuf {
    runtime.ports().folders.resolve(path.clone()).await.unwrap_or(path)
}

/// Checks that a path names the folder in which the session was opened, or in which it works: as it
/// is, then with symlinks resolved. The session's folder may be gone by now.
pub(super) async fn same_folder(runtime: &Runtime, named: &Path, attached: &Attached) -> Result<(), RpcError> {
    let own = &attached.folders.opened_in;
    if named == own || named == attached.folders.cwd {
        return Ok(());
    }
    let named = check_folder(runtime, "cwd", named).await?;
    match runtime.ports().folders.resolve(own.clone()).await {
        Ok(own) if own == named => Ok(()),
        Ok(_) | Err(_) => Err(RpcError::invalid_params("cwd", &format!("the session works in {}", own.display()))),
    }
}
