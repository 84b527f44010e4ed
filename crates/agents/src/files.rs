//! Reads and writes files for a child: through the editor that sent the prompt if it offers that,
//! and otherwise directly, inside the session's folders.

use std::path::PathBuf;
use std::sync::Arc;

use domain::ToolKind;
use domain::editor::{Editor, EditorError, LineRange};
use domain::tool::Location;
use process::confine::{ConfinedPath, LARGEST_FILE, PathError, Roots};
use process::{StopFlag, fingerprint};
use serde_json::{Value, json};
use wire::RpcError;
use wire::child::{ReadFile, WriteFile};

use crate::services::ServiceContext;

pub(crate) async fn read(
    request: ReadFile,
    editor: Option<Arc<dyn Editor>>,
    context: ServiceContext,
) -> Result<Value, RpcError> {
    let ReadFile { path, lines } = request;
    let file = find(path, &context).await?;
    context.check("read_file", ToolKind::Read, |card| card.locations = vec![at(&file)]).await?;
    let editor = editor.filter(|editor| editor.capabilities().read_files && may_serve(editor, &context));
    if let Some(editor) = editor {
        let wanted = (lines.first.is_some() || lines.count.is_some()).then_some(lines);
        // If the editor is gone or does not have the file, it is read from disk.
        if let Ok(text) = editor.read_text(file.path.clone(), wanted).await {
            return Ok(json!({ "content": text }));
        }
    }
    let _permit = context.file_permit().await;
    let bytes = blocking(move || file.read(), "reading the file failed").await?;
    let text = String::from_utf8(bytes).map_err(|_| refused("the file is not text"))?;
    Ok(json!({ "content": cut(&text, lines) }))
}

/// Finds a path inside the session's folders. An existing file is opened once before any editor is
/// asked for it, because opening detects aliases of acpd's own files.
pub(crate) async fn find(path: PathBuf, context: &ServiceContext) -> Result<ConfinedPath, RpcError> {
    let (site, limits) = (context.site.clone(), context.limits.clone());
    let find = move || {
        let found = Roots::open(&site, &limits)?.find(&path.to_string_lossy())?;
        if !found.is_missing() && !found.is_folder() {
            found.open_file()?;
        }
        Ok(found)
    };
    blocking(find, "looking for the file failed").await
}

/// Whether an editor may open files for the child. An editor gets a path, which a child could
/// meanwhile turn into a link, and so leave its sandbox.
fn may_serve(editor: &Arc<dyn Editor>, context: &ServiceContext) -> bool {
    editor.is_connected() && !context.is_confined()
}

fn is_of_git(file: &ConfinedPath) -> bool {
    file.real.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

fn at(file: &ConfinedPath) -> Location {
    Location { path: file.path.clone(), line: None }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PathError> + Send + 'static,
    failure: &str,
) -> Result<T, RpcError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| refused(failure))?;
    done.map_err(|error| refused(&error.to_string()))
}

fn cut(text: &str, lines: LineRange) -> String {
    if lines.first.is_none() && lines.count.is_none() {
        return text.to_owned();
    }
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let skipped = lines.first.map_or(0, |first| size(first).saturating_sub(1));
    text.split_inclusive('\n').skip(skipped).take(lines.count.map_or(usize::MAX, size)).collect()
}

pub(crate) async fn write(
    request: WriteFile,
    editor: Option<Arc<dyn Editor>>,
    context: ServiceContext,
) -> Result<Value, RpcError> {
    let WriteFile { path, text } = request;
    let file = find(path, &context).await?;
    if is_of_git(&file) {
        return Err(refused("the file is git's own: its hooks and configuration run commands; use git commands"));
    }
    let tool = if file.is_missing() { "write_file" } else { "edit_file" };
    context.check(tool, ToolKind::Edit, |card| card.locations = vec![at(&file)]).await?;
    let editor = editor.filter(|editor| editor.capabilities().write_files && may_serve(editor, &context));
    if let Some(editor) = editor {
        // The editor may have written the file even if it reports an error, so acpd does not write
        // it as well.
        return match editor.write_text(file.path, text).await {
            Ok(()) => Ok(json!({})),
            Err(EditorError::Refused(reason)) => Err(refused(&format!("the editor did not write the file: {reason}"))),
            Err(EditorError::Gone) => Err(refused("the editor did not answer; whether it wrote the file is not known")),
        };
    }
    if text.len() as u64 > LARGEST_FILE {
        return Err(refused("the text is too large"));
    }
    let _permit = context.file_permit().await;
    let replace = move || {
        let expected = if file.is_missing() { None } else { Some(fingerprint::of(&file.read()?)) };
        file.replace(text.as_bytes(), expected, &StopFlag::default())
    };
    blocking(replace, "writing the file failed").await.map(|()| json!({}))
}

pub(crate) fn refused(reason: &str) -> RpcError {
    RpcError::invalid_request(reason, "use a path inside the session's folders")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_lines_are_cut_out_with_their_ends() {
        let lines = |first, count| cut("a\nb\nc", LineRange { first, count });
        assert_eq!(lines(None, None), "a\nb\nc");
        assert_eq!(lines(Some(2), Some(1)), "b\n");
        assert_eq!(lines(Some(3), None), "c");
        assert_eq!(lines(Some(9), Some(1)), "");
    }
}
