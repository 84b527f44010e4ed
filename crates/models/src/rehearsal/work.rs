//! How a direction is carried out: with which tools, and with what input.
//!
//! This is the only file here that names tools. Pure: it returns the call to make and makes none.

use serde_json::{Value, json};

use super::directions::Direction;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RehearsedCall {
    pub(super) tool: &'static str,
    pub(super) input: Value,
}

/// How one call of a direction ended: its output, or why it failed.
pub(super) type ToolOutcome<'a> = Result<&'a str, &'a str>;

#[derive(Debug, PartialEq)]
pub(super) enum Next<'a> {
    Call(RehearsedCall),
    Done(&'a str),
    Failed(&'a str),
}

/// Lists the tools that the direction requires.
pub(super) fn tools(direction: &Direction) -> &'static [&'static str] {
    match direction {
        Direction::Look | Direction::List { .. } => &["list_files"],
        Direction::Read { .. } => &["read_file"],
        Direction::Search { .. } => &["grep"],
        Direction::Find { .. } => &["glob"],
        Direction::Write { .. } => &["write_file"],
        // An edit is refused unless the file was read before.
        Direction::Append { .. } | Direction::Replace { .. } => &["read_file", "edit_file"],
        Direction::Run { .. } => &["bash"],
    }
}

/// Returns the next step of the direction after the outcomes so far.
pub(super) fn next<'a>(direction: &Direction, outcomes: &[ToolOutcome<'a>]) -> Next<'a> {
    match direction {
        Direction::Look => once("list_files", json!({ "path": "." }), outcomes),
        Direction::List { folder } => once("list_files", json!({ "path": folder }), outcomes),
        Direction::Read { file } => once("read_file", json!({ "path": file }), outcomes),
        Direction::Search { pattern, folder: None, .. } => once("grep", json!({ "pattern": pattern }), outcomes),
        Direction::Search { pattern, folder: Some(folder), .. } => {
            once("grep", json!({ "pattern": pattern, "path": folder }), outcomes)
        }
        Direction::Find { pattern } => once("glob", json!({ "pattern": pattern }), outcomes),
        Direction::Write { file, content } => write(file, content, outcomes),
        Direction::Append { file, content } => match outcomes {
            [Ok(text), then @ ..] => append(file, content, text, then),
            [Err(_), ..] | [] => once("read_file", json!({ "path": file }), outcomes),
        },
        Direction::Replace { file, old, new } => match outcomes {
            [Ok(_), then @ ..] => {
                let edit = json!({ "old_text": old, "new_text": new, "replace_all": true });
                once("edit_file", json!({ "path": file, "edits": [edit] }), then)
            }
            [Err(_), ..] | [] => once("read_file", json!({ "path": file }), outcomes),
        },
        Direction::Run { command } => once("bash", json!({ "command": command }), outcomes),
    }
}

/// Makes one call, whose outcome is that of the direction.
fn once<'a>(tool: &'static str, input: Value, outcomes: &[ToolOutcome<'a>]) -> Next<'a> {
    match outcomes {
        [] => Next::Call(RehearsedCall { tool, input }),
        [Ok(answer), ..] => Next::Done(answer),
        [Err(reason), ..] => Next::Failed(reason),
    }
}

/// Writes a file. Most written files are new; the refusal of an existing one says that it must be
/// read first.
fn write<'a>(file: &str, content: &str, outcomes: &[ToolOutcome<'a>]) -> Next<'a> {
    let input = json!({ "path": file, "content": content });
    match outcomes {
        [Err(reason), then @ ..] if reason.contains("read_file") => match then {
            [Ok(_), then @ ..] => once("write_file", input, then),
            [Err(_), ..] | [] => once("read_file", json!({ "path": file }), then),
        },
        [] | [Ok(_) | Err(_), ..] => once("write_file", input, outcomes),
    }
}

/// Appends the content after the last line of a file that was read as `text`.
fn append<'a>(file: &str, content: &str, text: &str, then: &[ToolOutcome<'a>]) -> Next<'a> {
    if text.trim() == "[the file is empty]" {
        return once("write_file", json!({ "path": file, "content": content }), then);
    }
    let Some(lines) = unnumbered(text) else {
        return Next::Failed("the file is not text, or too long to be read to its end at once");
    };
    // It is unknown whether the file ends with a newline, and that stays as it is.
    let old = unique_end(&lines);
    let new = format!("{old}\n{}", content.trim_end_matches('\n'));
    once("edit_file", json!({ "path": file, "edits": [{ "old_text": old, "new_text": new }] }), then)
}

/// Returns the last line, with as many lines before it as make its first occurrence the one at the
/// end.
fn unique_end(lines: &[&str]) -> String {
    let whole = lines.join("\n");
    let mut ends = (0..lines.len()).rev().map(|from| lines[from..].join("\n"));
    let is_unique = |end: &String| !end.trim().is_empty() && whole.find(end) == Some(whole.len() - end.len());
    ends.find(is_unique).unwrap_or_else(|| whole.clone())
}

/// Removes the line numbers of `read_file`. None if a line has no number, because it is a note.
fn unnumbered(text: &str) -> Option<Vec<&str>> {
    let numbered = text.lines().zip(1_usize..);
    numbered.map(|(line, number)| line.trim_start().strip_prefix(&format!("{number}\t"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "new\n";

    fn append_after(outcomes: &[ToolOutcome<'static>]) -> Next<'static> {
        next(&Direction::Append { file: "a.txt".to_owned(), content: NEW.to_owned() }, outcomes)
    }

    fn edit(old: &str, new: &str) -> Next<'static> {
        let input = json!({ "path": "a.txt", "edits": [{ "old_text": old, "new_text": new }] });
        Next::Call(RehearsedCall { tool: "edit_file", input })
    }

    #[test]
    fn appended_text_follows_the_last_line() {
        assert_eq!(append_after(&[Ok("     1\tone\n     2\t2\ttwo\n")]), edit("2\ttwo", "2\ttwo\nnew"));
        assert_eq!(append_after(&[Ok("     1\tone\n"), Ok("done")]), Next::Done("done"));
    }

    #[test]
    fn a_repeated_last_line_is_located_by_the_lines_before_it() {
        let text = "     1\ta\n     2\t}\n     3\tb\n     4\t}\n";
        assert_eq!(append_after(&[Ok(text)]), edit("b\n}", "b\n}\nnew"));
        // Two of these overlap, so a search for two would find the first two.
        let text = "     1\t}\n     2\t}\n     3\t}\n";
        assert_eq!(append_after(&[Ok(text)]), edit("}\n}\n}", "}\n}\n}\nnew"));
    }

    #[test]
    fn an_empty_file_is_written_instead_of_edited() {
        let input = json!({ "path": "a.txt", "content": NEW });
        assert_eq!(append_after(&[Ok("[the file is empty]")]), Next::Call(RehearsedCall { tool: "write_file", input }));
    }

    #[test]
    fn nothing_is_appended_to_what_was_not_read_to_its_end() {
        for text in
            ["     1\ta\n[1 of 9 lines; go on with offset 2]", "a.txt is a PDF document, 9 bytes; it is not shown"]
        {
            assert!(matches!(append_after(&[Ok(text)]), Next::Failed(_)), "{text}");
        }
    }

    #[test]
    fn a_file_that_exists_is_read_and_then_written() {
        let direction = Direction::Write { file: "a.txt".to_owned(), content: NEW.to_owned() };
        let exists = Err("a.txt exists and was not read; read it first with read_file");
        let tool = |outcomes: &[ToolOutcome<'static>]| match next(&direction, outcomes) {
            Next::Call(call) => call.tool,
            Next::Done(_) => "done",
            Next::Failed(_) => "failed",
        };
        assert_eq!(tool(&[]), "write_file");
        assert_eq!(tool(&[Ok("")]), "done");
        assert_eq!(tool(&[Err("disk full")]), "failed");
        assert_eq!(tool(&[exists]), "read_file");
        assert_eq!(tool(&[exists, Err("gone")]), "failed");
        assert_eq!(tool(&[exists, Ok("")]), "write_file");
        assert_eq!(tool(&[exists, Ok(""), Ok("")]), "done");
        assert_eq!(tool(&[exists, Ok(""), exists]), "failed");
    }
}
