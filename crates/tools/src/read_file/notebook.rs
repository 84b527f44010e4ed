//! Shows Jupyter notebooks as text: the cells with their numbers and kinds, and their text output.

use serde_json::Value;

/// The note after the text of a notebook.
pub(super) const NOTE: &str = "[a notebook, shown as the text of its cells; to edit it, read it with `raw`]";

/// The most bytes of one cell's output.
const LONGEST_OUTPUT: usize = 4 << 10;

/// Returns the text of a notebook; None if the bytes are not a notebook.
pub(super) fn read(bytes: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    let cells = notebook.get("cells")?.as_array()?;
    let language =
        notebook.pointer("/metadata/kernelspec/language").or(notebook.pointer("/metadata/language_info/name"));
    let language = language.and_then(Value::as_str).unwrap_or("code");
    let mut text = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let kind = match cell.get("cell_type").and_then(Value::as_str) {
            Some("code") => language,
            Some(kind) => kind,
            None => "unknown",
        };
        text.push_str(&format!("# Cell {} ({kind})\n", index + 1));
        add_lines(&mut text, &joined(cell.get("source")));
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            add_output(&mut text, output);
        }
        text.push('\n');
    }
    Some(text)
}

/// Joins a text that a notebook stores as one string or as a list of lines.
fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}

fn add_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

fn add_output(text: &mut String, output: &Value) {
    let shown = match output.get("output_type").and_then(Value::as_str) {
        Some("stream") => joined(output.get("text")),
        Some("error") => {
            let part = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            format!("{}: {}", part("ename"), part("evalue"))
        }
        Some(_) | None => match output.pointer("/data/text~1plain") {
            Some(plain) => joined(Some(plain)),
            None => {
                let kinds = output.get("data").and_then(Value::as_object);
                let kinds: Vec<&str> = kinds.into_iter().flat_map(|kinds| kinds.keys()).map(String::as_str).collect();
                format!("[{}]", kinds.join(", "))
            }
        },
    };
    let cut = shown.floor_char_boundary(LONGEST_OUTPUT);
    text.push_str("## Output\n");
    add_lines(text, &shown[..cut]);
    if cut < shown.len() {
        text.push_str(&format!("[{} more bytes]\n", shown.len() - cut));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notebook_is_the_text_of_its_cells() {
        let notebook = json!({
            "metadata": {"language_info": {"name": "python"}},
            "cells": [
                {"cell_type": "markdown", "source": ["# Title\n", "text"]},
                {"cell_type": "code", "source": "1 / 0", "outputs": [
                    {"output_type": "stream", "text": ["one\n", "two\n"]},
                    {"output_type": "display_data", "data": {"image/png": "aGk="}},
                    {"output_type": "execute_result", "data": {"text/plain": "3", "text/html": "<b>"}},
                    {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero"}
                ]}
            ]
        });
        expect![[r"
            # Cell 1 (markdown)
            # Title
            text

            # Cell 2 (python)
            1 / 0
            ## Output
            one
            two
            ## Output
            [image/png]
            ## Output
            3
            ## Output
            ZeroDivisionError: division by zero

        "]]
        .assert_eq(&read(notebook.to_string().as_bytes()).unwrap());
    }

    #[test]
    fn a_file_that_is_not_a_notebook_is_not_read_as_one() {
        assert_eq!(read(b"{}"), None);
        assert_eq!(read(b"{\"cells\": 3}"), None);
        assert_eq!(read(b"cells"), None);
    }
}
