//! Translates calls of a child agent into calls of acpd's own tools, to which the rules apply.
//!
//! A child names its tools as it likes. What a call does is taken from its kind, its paths, its
//! diffs and the arguments that most agents use. Anything else is not compared with the rules.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::tool::{BASH, Location};
use crate::{ToolCard, ToolContent, ToolKind};

/// Arguments that name a file.
const PATHS: [&str; 6] = ["path", "file_path", "filePath", "abs_path", "absolute_path", "notebook_path"];

/// Returns the call as acpd's own tools would describe it, as far as that can be determined: a
/// command becomes a call of `bash`, and a file that is only named in the arguments or in a diff
/// becomes a location.
pub fn as_native_call(card: &ToolCard, cwd: &Path) -> ToolCard {
    let command =
        matches!(card.kind, ToolKind::Execute | ToolKind::Other).then(|| plain_command(&card.input)).flatten();
    if let Some(command) = command {
        return ToolCard {
            tool: BASH.to_owned(),
            kind: ToolKind::Execute,
            input: json!({ "command": command }),
            preview: vec![ToolContent::text(command)],
            ..card.clone()
        };
    }
    let mut native = card.clone();
    own_tool(card).clone_into(&mut native.tool);
    if let Some(url) = card.input.get("url").and_then(Value::as_str).filter(|_| card.kind == ToolKind::Fetch) {
        native.preview = vec![ToolContent::text(url)];
    }
    let changed = card.preview.iter().filter_map(|shown| match shown {
        ToolContent::Diff { path, .. } => Some(path.clone()),
        ToolContent::Text { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    });
    let named = PATHS.iter().filter_map(|name| card.input.get(name)?.as_str()).map(PathBuf::from);
    native.locations.extend(changed.chain(named).map(|path| Location { path, line: None }));
    for location in &mut native.locations {
        location.path = cwd.join(&location.path);
    }
    native
}

/// The tool of acpd that does what this call does.
fn own_tool(card: &ToolCard) -> &str {
    let is_new = |shown: &ToolContent| matches!(shown, ToolContent::Diff { old: None, .. });
    match card.kind {
        ToolKind::Read => "read_file",
        ToolKind::Search => "grep",
        ToolKind::Edit if card.preview.iter().any(is_new) => "write_file",
        ToolKind::Edit => "edit_file",
        ToolKind::Delete => "delete_file",
        ToolKind::Move => "move_file",
        ToolKind::Fetch => "web_fetch",
        ToolKind::Execute | ToolKind::Think | ToolKind::SwitchMode | ToolKind::Other => &card.tool,
    }
}

/// The shell command in the arguments of a call, if there is one: as a string, or as a list of
/// words.
fn plain_command(input: &Value) -> Option<String> {
    let command = input.get("command").or_else(|| input.get("cmd"))?;
    if let Some(text) = command.as_str() {
        let arguments = input.get("args").and_then(Value::as_array).into_iter().flatten();
        let arguments: Vec<&str> = arguments.filter_map(Value::as_str).collect();
        return Some(if arguments.is_empty() { text.to_owned() } else { format!("{text} {}", joined(&arguments)) });
    }
    let words: Option<Vec<&str>> = command.as_array()?.iter().map(Value::as_str).collect();
    match words?.as_slice() {
        [shell, flags, script] if is_shell(shell) && flags.starts_with('-') && flags.ends_with('c') => {
            Some((*script).to_owned())
        }
        words => Some(joined(words)),
    }
}

/// Joins words into a command line that a shell splits into the same words.
pub fn joined<T: AsRef<str>>(words: &[T]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:+@%".contains(c);
    let quoted = words.iter().map(|word| {
        let word = word.as_ref();
        let is_bare = !word.is_empty() && word.chars().all(is_plain);
        if is_bare { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "zsh" | "dash")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosted::CallFields;

    fn native(fields: &CallFields) -> ToolCard {
        as_native_call(&fields.card(), Path::new("/work"))
    }

    fn called(kind: ToolKind, input: Value) -> ToolCard {
        native(&CallFields { kind: Some(kind), input: Some(input), ..CallFields::default() })
    }

    #[test]
    fn a_plain_command_of_a_child_is_a_call_of_bash_for_the_rules() {
        let command = |kind, input: Value| {
            // A child may show anything beside its call; rules look at the command.
            let content = Some(vec![ToolContent::text("List files")]);
            let fields = CallFields { kind: Some(kind), input: Some(input), content, ..CallFields::default() };
            let card = native(&fields);
            (card.tool == BASH && card.preview == [ToolContent::text(card.command())])
                .then(|| card.command().to_owned())
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(command(ToolKind::Execute, json!({ "command": "rm -r x" })), is("rm -r x"));
        assert_eq!(command(ToolKind::Other, json!({ "command": "rm -r x" })), is("rm -r x"));
        assert_eq!(command(ToolKind::Execute, json!({ "command": "rm", "args": ["-r", "a b"] })), is("rm -r 'a b'"));
        assert_eq!(command(ToolKind::Execute, json!({ "command": ["/bin/bash", "-lc", "rm -r x"] })), is("rm -r x"));
        assert_eq!(command(ToolKind::Execute, json!({ "cmd": ["rm", "-r", "it's"] })), is(r"rm -r 'it'\''s'"));
        let words = json!({ "cmd": ["bash", "-c", "rm -r x", "name"] });
        assert_eq!(command(ToolKind::Execute, words), is("bash -c 'rm -r x' name"));
        assert_eq!(command(ToolKind::Edit, json!({ "command": "x" })), None);
        assert_eq!(command(ToolKind::Execute, json!({ "script": 1 })), None);
    }

    #[test]
    fn files_and_hosts_are_found_wherever_a_child_names_them() {
        let paths = |card: &ToolCard| card.locations.iter().map(|at| at.path.clone()).collect::<Vec<_>>();
        let read = called(ToolKind::Read, json!({ "filePath": "a/.env" }));
        assert_eq!((read.tool.as_str(), paths(&read)), ("read_file", vec![PathBuf::from("/work/a/.env")]));
        let diff = ToolContent::Diff { path: "/work/s".into(), old: Some("x".to_owned()), new: String::new() };
        let edit = CallFields { kind: Some(ToolKind::Edit), content: Some(vec![diff]), ..CallFields::default() };
        let edit = native(&edit);
        assert_eq!((edit.tool.as_str(), paths(&edit)), ("edit_file", vec![PathBuf::from("/work/s")]));
        let fetch = called(ToolKind::Fetch, json!({ "url": "https://a.example/b" }));
        assert_eq!(fetch.preview, [ToolContent::text("https://a.example/b")]);
    }
}
