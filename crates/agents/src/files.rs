//! Files that a child reads and writes through its client: by the editor that sent the prompt, if it offers that, and
//! otherwise by acpd inside the session's folders.

use std::sync::Arc;

use domain::CallSite;
use domain::editor::{Editor, EditorError, Lines};
use process::confine::{AccessLimits, LARGEST_FILE, Roots};
use process::{StopFlag, fingerprint};
use serde_json::{Value, json};
use wire::RpcError;
use wire::child::{ReadFile, WriteFile};

pub(crate) async fn read(
    request: ReadFile,
    editor: Option<Arc<dyn Editor>>,
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
) -> Result<Value, RpcError> {
    let ReadFile { path, lines } = request;
    let editor = editor.filter(|editor| editor.capabilities().read_files && editor.is_connected());
    if let Some(editor) = editor {
        let wanted = (lines.first.is_some() || lines.count.is_some()).then_some(lines);
        // An editor that is gone or does not have the file means the disk.
        if let Ok(text) = editor.read_text(path.clone(), wanted).await {
            return Ok(json!({ "content": text }));
        }
    }
    let read = tokio::task::spawn_blocking(move || {
        let roots = Roots::open(&site, &limits).map_err(|error| error.to_string())?;
        let bytes = roots.find(&path.to_string_lossy()).and_then(|file| file.read());
        let bytes = bytes.map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| "the file is not text".to_owned())
    });
    let text = read.await.map_err(|_| refused("reading the file failed"))?.map_err(|reason| refused(&reason))?;
    Ok(json!({ "content": cut(&text, lines) }))
}

fn cut(text: &str, lines: Lines) -> String {
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
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
) -> Result<Value, RpcError> {
    let WriteFile { path, text } = request;
    let editor = editor.filter(|editor| editor.capabilities().write_files && editor.is_connected());
    if let Some(editor) = editor {
        // An editor that was asked may have written the file, so the disk is left alone whatever it says.
        return match editor.write_text(path, text).await {
            Ok(()) => Ok(json!({})),
            Err(EditorError::Refused(reason)) => Err(refused(&format!("the editor did not write the file: {reason}"))),
            Err(EditorError::Gone) => Err(refused("the editor did not answer; whether it wrote the file is not known")),
        };
    }
    if text.len() as u64 > LARGEST_FILE {
        return Err(refused("the text is too large"));
    }
    let written = tokio::task::spawn_blocking(move || {
        let roots = Roots::open(&site, &limits)?;
        let file = roots.find(&path.to_string_lossy())?;
        let expected = if file.is_missing() { None } else { Some(fingerprint::of(&file.read()?)) };
        file.replace(text.as_bytes(), expected, &StopFlag::default())
    });
    let written = written.await.map_err(|_| refused("writing the file failed"))?;
    written.map(|()| json!({})).map_err(|error| refused(&error.to_string()))
}

pub(crate) fn refused(reason: &str) -> RpcError {
    RpcError::invalid_request(reason, "use a path inside the session's folders")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_lines_are_cut_out_with_their_ends() {
        let lines = |first, count| cut("a\nb\nc", Lines { first, count });
        assert_eq!(lines(None, None), "a\nb\nc");
        assert_eq!(lines(Some(2), Some(1)), "b\n");
        assert_eq!(lines(Some(3), None), "c");
        assert_eq!(lines(Some(9), Some(1)), "");
    }
}
