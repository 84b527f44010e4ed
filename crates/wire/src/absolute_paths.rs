//! Makes the relative folders in a client's request absolute.
//!
//! The daemon does not know in which folder a client runs, so it refuses relative paths; the bridge
//! knows, and resolves them. All other bytes of the message stay as they are.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{method, shallow};

/// Replaces the relative folders in a message by what `absolute` returns for them. Returns `None`
/// if nothing was replaced.
pub fn made_absolute(frame: &[u8], absolute: impl Fn(&str) -> Option<String>) -> Option<Bytes> {
    let text = std::str::from_utf8(frame).ok()?;
    let [method, params] = shallow::fields(text, ["method", "params"]).ok()?;
    if !names_folders(&shallow::text(method?)?) {
        return None;
    }
    let [cwd, roots] = shallow::fields(params?.get(), ["cwd", "additionalDirectories"]).ok()?;
    let cwd = cwd.and_then(|raw| Some((byte_range(text, raw), path(raw, &absolute)?)));
    let roots = roots.and_then(|raw| Some((byte_range(text, raw), paths(raw, &absolute)?)));
    let mut changes: Vec<(Range<usize>, Value)> = cwd.into_iter().chain(roots).collect();
    if changes.is_empty() {
        return None;
    }
    changes.sort_by_key(|(range, _)| range.start);
    let mut changed = BytesMut::with_capacity(frame.len() + 256);
    let mut end = 0;
    for (range, value) in changes {
        changed.extend_from_slice(&frame[end..range.start]);
        changed.extend_from_slice(value.to_string().as_bytes());
        end = range.end;
    }
    changed.extend_from_slice(&frame[end..]);
    Some(changed.freeze())
}

fn names_folders(method: &str) -> bool {
    matches!(
        method,
        method::SESSION_NEW
            | method::SESSION_LOAD
            | method::SESSION_RESUME
            | method::SESSION_FORK
            | method::SESSION_LIST
            | method::SESSIONS_LIST
    )
}

/// The byte range of `part` in `text`, from which it was borrowed.
fn byte_range(text: &str, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.get().len()
}

/// Whether a path is relative. An empty path counts as missing, so it is not relative.
fn is_relative(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/')
}

fn path(raw: &RawValue, absolute: impl Fn(&str) -> Option<String>) -> Option<Value> {
    let path = shallow::text(raw).filter(|path| is_relative(path))?;
    absolute(&path).map(Value::from)
}

fn paths(raw: &RawValue, absolute: impl Fn(&str) -> Option<String>) -> Option<Value> {
    let mut items: Vec<Value> = serde_json::from_str(raw.get()).ok()?;
    let mut changed = false;
    for item in &mut items {
        if let Some(path) = item.as_str().filter(|path| is_relative(path)).and_then(&absolute) {
            *item = path.into();
            changed = true;
        }
    }
    changed.then(|| items.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_home(frame: &str) -> Option<String> {
        let made = made_absolute(frame.as_bytes(), |path| Some(format!("/home/{path}")))?;
        Some(String::from_utf8(made.to_vec()).unwrap())
    }

    #[test]
    fn relative_folders_are_replaced_and_nothing_else() {
        let frame = r#"{ "id":1.0,"method":"session/new","params":{"additionalDirectories":["a",7,"/b"], "cwd" : "\u002e","x":[.5e1]}}"#;
        assert_eq!(in_home(frame), None, "what is not JSON is left alone");
        let frame = frame.replace(".5e1", "0.5e1");
        let expected = r#"{ "id":1.0,"method":"session/new","params":{"additionalDirectories":["/home/a",7,"/b"], "cwd" : "/home/.","x":[0.5e1]}}"#;
        assert_eq!(in_home(&frame).unwrap(), expected);
    }

    #[test]
    fn absolute_empty_and_odd_paths_and_other_methods_are_left_alone() {
        for frame in [
            r#"{"id":1,"method":"session/new","params":{"cwd":"/work"}}"#,
            r#"{"id":1,"method":"session/new","params":{"cwd":"","additionalDirectories":["",7]}}"#,
            r#"{"id":1,"method":"session/new","params":{"cwd":7,"additionalDirectories":"a"}}"#,
            r#"{"id":1,"method":"session/prompt","params":{"cwd":"a"}}"#,
            r#"{"id":1,"method":"session/new","params":["cwd"]}"#,
            r#"{"id":1,"method":"session/new"}"#,
            r#"{"id":1,"result":{"cwd":"a"}}"#,
            "[]",
        ] {
            assert_eq!(in_home(frame), None, "{frame}");
        }
        assert_eq!(made_absolute(br#"{"method":"session/new","params":{"cwd":"a"}}"#, |_| None), None);
    }
}
