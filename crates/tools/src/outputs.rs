//! Files with command output that was too long for the model, in a private folder per session below
//! acpd's state.
//!
//! The model reads them with `read_file`, although they are outside the session's folders. They are
//! deleted with their session, and the oldest ones are deleted to make room for new ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{Millis, SessionId};

use crate::ToolSettings;

/// The most files per session.
const MAX_FILES: usize = 20;

/// Returns the folder of a session; None if the id is not a plain file name.
fn folder(settings: &ToolSettings, session: &SessionId) -> Option<PathBuf> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let name = session.as_str();
    (!name.is_empty() && name.bytes().all(is_plain)).then(|| Some(settings.outputs.as_ref()?.join(name)))?
}

/// Returns a path for the next file of a session. Deletes the oldest files beyond the limit.
/// Blocks.
pub(crate) fn next_file(settings: &ToolSettings, session: &SessionId) -> Option<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let folder = folder(settings, session)?;
    let mut known: Vec<PathBuf> =
        fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    known.sort();
    for oldest in &known[..known.len().saturating_sub(MAX_FILES - 1)] {
        // A file that cannot be deleted only takes up space.
        let _ = fs::remove_file(oldest);
    }
    let Millis(millis) = Millis::now();
    // The names sort by age.
    Some(folder.join(format!("{millis:014}-{:03}.txt", COUNTER.fetch_add(1, Ordering::Relaxed) % 1000)))
}

/// Returns the file that a path names, if it is one of this session's.
pub(crate) fn find(settings: &ToolSettings, session: &SessionId, path: &str) -> Option<PathBuf> {
    let folder = folder(settings, session)?;
    let path = Path::new(path);
    let name = path.file_name()?.to_str().filter(|name| name.ends_with(".txt"))?;
    (path.parent() == Some(&folder)).then(|| folder.join(name))
}

/// Reads one of these files. Does not follow symlinks.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(process::confine::LARGEST_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Deletes the files of a session. Blocks.
pub(crate) fn forget(settings: &ToolSettings, session: &SessionId) {
    let Some(folder) = folder(settings, session) else { return };
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, %session, "output of commands could not be deleted");
    }
}

/// Returns the sessions that have such files. Blocks.
pub(crate) fn sessions(settings: &ToolSettings) -> Vec<SessionId> {
    let folders = settings.outputs.as_ref().and_then(|outputs| fs::read_dir(outputs).ok());
    let names = folders.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.map(SessionId::from).collect()
}
