//! The text files of the repository, Rust sources without comments and strings, and their comments.

use std::fs;
use std::path::Path;

#[derive(Clone)]
pub(crate) struct File {
    /// From the root of the repository, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("tests/") || self.path.ends_with("tests.rs")
    }

    pub(crate) fn is_manifest(&self) -> bool {
        self.path == "Cargo.toml" || self.path.ends_with("/Cargo.toml")
    }
}

/// All text files of the repository.
pub(crate) fn tree() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(root, root, &mut files);
    assert!(files.iter().any(|file| file.path == "tests/tidy/main.rs"), "the walk did not even find this file");
    files
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository is readable") {
        let entry = entry.expect("an entry of the repository is readable");
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().expect("an entry has a type");
        if kind.is_dir() && name != "target" && name != ".git" {
            walk(root, &path, files);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            let path = path.strip_prefix(root).expect("it is below the root").to_string_lossy().replace('\\', "/");
            files.push(File { path, text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
}

/// A Rust source with comments, strings and characters blanked out; lines stay where they are.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == 'r' && !out.ends_with(is_name) && raw_string(rest).is_some() {
            raw_string(rest).unwrap_or(rest.len())
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' && is_character(rest) {
            quoted(rest, '\'')
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.push(' ');
        out.extend(rest[..skip].chars().filter(|letter| *letter == '\n'));
        rest = &rest[skip..];
    }
    out
}

/// The lines of a Rust source that are comments and nothing else, with their numbers. Text in a
/// string does not count, even if it looks like a comment.
pub(crate) fn comment_lines(text: &str) -> Vec<(usize, &str)> {
    // `code` leaves a space for a comment, and nothing for a line inside a string.
    let code = code(text);
    let lines = (1..).zip(text.lines()).zip(code.lines());
    let comments = lines
        .filter(|((_, line), code)| line.trim_start().starts_with("//") && !code.is_empty() && code.trim().is_empty());
    comments.map(|(line, _)| line).collect()
}

/// Where a raw string that starts here ends.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].chars().take_while(|letter| *letter == '#').count();
    let open = 1 + hashes;
    text[open..].starts_with('"').then_some(())?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(text[open + 1..].find(&close).map_or(text.len(), |at| open + 1 + at + close.len()))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a quote opens a character and not a lifetime.
fn is_character(text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    match letters.next() {
        Some('\\') => true,
        Some(_) => letters.next() == Some('\''),
        None => false,
    }
}

pub(crate) fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Every path in a piece of code with its line, groups such as `a::{b, c::d}` taken apart.
pub(crate) fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut groups: Vec<Option<String>> = Vec::new();
    let (mut rest, mut line) = (code, 1);
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '\n' => line += 1,
            '{' => groups.push(None),
            '}' => drop(groups.pop()),
            _ if is_name(first) => {
                let before = groups.last().cloned().flatten();
                let mut path = before.map_or_else(String::new, |group| format!("{group}::"));
                length = 0;
                loop {
                    let name = rest[length..].find(|letter| !is_name(letter)).map_or(rest.len(), |end| length + end);
                    path.push_str(&rest[length..name]);
                    length = name;
                    if !rest[length..].starts_with("::") {
                        found.push((line, path));
                        break;
                    }
                    length += 2;
                    match rest[length..].chars().next() {
                        Some('{') => {
                            groups.push(Some(path));
                            length += 1;
                            break;
                        }
                        Some(next) if is_name(next) => path.push_str("::"),
                        _ => {
                            found.push((line, path));
                            break;
                        }
                    }
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    found
}

/// Whether a path is the named crate or leads into it. A single word is a local name and never
/// matches.
pub(crate) fn goes_into(path: &str, name: &str) -> bool {
    let path = path.strip_prefix("acpd_").filter(|_| !name.starts_with("acpd_")).unwrap_or(path);
    let inside = path.strip_prefix(name).is_some_and(|rest| rest.starts_with("::"));
    inside || (name.contains("::") && path == name)
}

#[track_caller]
pub(crate) fn hold(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n\n  {}\n", complaints.join("\n  "));
}

/// A file for the examples that a rule must find.
pub(crate) fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

/// How many complaints there are of one file.
pub(crate) fn count(rule: fn(&[File]) -> Vec<String>, path: &str, text: &str) -> usize {
    rule(&[file(path, text)]).len()
}

#[test]
fn comments_and_strings_are_not_code() {
    let source = "//! sled::Db\nlet a = \"sled::Db\"; /* sled::Db\n */ let b: &'static str = r#\"\"sled::Db\"#;\nlet c = '\"'; d()";
    let code = code(source);
    assert!(!code.contains("sled"), "{code}");
    assert!(code.contains("let b") && code.contains("d()"), "{code}");
    assert_eq!(code.lines().count(), source.lines().count());
}

#[test]
fn comment_lines_are_distinguished_from_strings_and_code() {
    let source = "// a\nlet b = r\"\n// c\n\"; // d\n    /// e\n\"\n// f\"\n";
    assert_eq!(comment_lines(source), [(1, "// a"), (5, "    /// e")]);
}

#[test]
fn groups_of_imports_are_taken_apart() {
    let found = paths("use std::{\n  io::{self, Read},\n  fs,\n};\nfn f() { a::b::<C>() }");
    let found: Vec<&str> = found.iter().map(|(_, path)| path.as_str()).collect();
    for wanted in ["std::io::self", "std::io::Read", "std::fs", "a::b"] {
        assert!(found.contains(&wanted), "{wanted} is not in {found:?}");
    }
}
