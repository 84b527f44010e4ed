//! Asynchronous code outside the actors names no call that blocks, and calls no function that does.
//!
//! The future of a port is polled on the thread of an actor, and so is every asynchronous function
//! that it calls. Work that blocks is in a closure for another thread, and such a closure is
//! `move`. A call counts if it names its function as `module::function`, or as a function of the
//! same file; text cannot tell what a method is a method of.

use std::collections::BTreeSet;

use crate::blocking::{blocking_words, file_calls};
use crate::source::{File, code, hold, is_name, tree};

/// Programs of their own, and code for tests.
const ELSEWHERE: [&str; 5] =
    ["crates/bridge/", "crates/conformance/", "crates/terminal/", "crates/testkit/", "crates/system/"];

fn is_polled_by_actors(file: &File) -> bool {
    let is_there = ["crates/", "src/assemble"].iter().any(|folder| file.path.starts_with(folder));
    let is_elsewhere = ELSEWHERE.iter().any(|folder| file.path.starts_with(folder));
    file.is_rust() && is_there && !is_elsewhere && !file.is_test() && !file.path.contains("/benches/")
}

/// A file without comments, strings, tests, and the closures for other threads.
struct Source<'a> {
    path: &'a str,
    /// The name by which other files call its functions.
    module: &'a str,
    code: String,
}

impl<'a> Source<'a> {
    fn of(file: &'a File) -> Self {
        let path = file.path.trim_end_matches("/src/lib.rs").trim_end_matches(".rs");
        let code = code(&file.text);
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        Self { path: &file.path, module: path.rsplit('/').next().unwrap_or(path), code: without_moved(code) }
    }
}

/// Where the bracket that the text begins with is closed.
fn closed(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// Where a closure ends, of which the text begins with the body or with the type of its result.
fn end_of_closure(text: &str) -> usize {
    if text.starts_with("->") {
        let start = text.find('{').unwrap_or(text.len());
        return start + closed(&text[start..]);
    }
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return at,
            ')' | ']' => depth -= 1,
            '}' if depth == 1 && text.starts_with('{') => return at + 1,
            '}' => depth -= 1,
            ',' | ';' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The code without its `move` closures; lines stay where they are.
fn without_moved(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("move |") {
        let parameters = at + "move |".len();
        let Some(body) = rest[parameters..].find('|').map(|end| parameters + end + 1) else { break };
        let body = body + rest[body..].len() - rest[body..].trim_start().len();
        let end = body + end_of_closure(&rest[body..]);
        out.push_str(&rest[..at]);
        out.extend(rest[at..end].chars().filter(|letter| *letter == '\n'));
        rest = &rest[end..];
    }
    out + rest
}

/// The text from the first brace after `at` to the brace that closes it. None for a declaration
/// without a body.
fn body(code: &str, at: usize) -> Option<&str> {
    let start = at + code[at..].find(['{', ';'])?;
    code[start..].starts_with('{').then(|| &code[start..start + closed(&code[start..])])
}

/// The functions of a file that are not methods and not asynchronous: names and bodies.
fn functions(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = code.match_indices("fn ").filter(|(at, _)| {
        let before = &code[code[..*at].rfind('\n').map_or(0, |end| end + 1)..*at];
        before.is_empty() || (before.starts_with("pub") && !before.contains("async"))
    });
    starts.filter_map(|(at, _)| {
        let name = &code[at + 3..];
        Some((&name[..name.find(|letter| !is_name(letter))?], body(code, at)?))
    })
}

/// The bodies of asynchronous functions and blocks.
fn async_bodies(code: &str) -> impl Iterator<Item = &str> {
    let starts = code.match_indices("async ").filter(|(at, _)| !code[..*at].ends_with(is_name));
    starts.filter_map(|(at, word)| {
        let rest = &code[at + word.len()..];
        let is_body = ["fn ", "move {", "{"].iter().any(|start| rest.starts_with(start));
        is_body.then(|| body(code, at)).flatten()
    })
}

/// The calls in a piece of code that block by themselves.
fn blocking_calls(code: &str) -> impl Iterator<Item = String> {
    // The method of a pipe of tokio has the same name; that of a file needs an open file.
    let words = code.lines().flat_map(blocking_words).filter(|word| *word != "read_to_string");
    file_calls(code).chain(words.map(str::to_owned))
}

/// The calls of functions that block, each as `module::function`.
fn known_calls(code: &str, module: &str, known: &BTreeSet<String>) -> Vec<String> {
    let calls = code.match_indices('(').filter_map(|(at, _)| {
        let before = &code[..at];
        let path = &before[before.rfind(|letter| !is_name(letter) && letter != ':').map_or(0, |end| end + 1)..];
        let is_method = before[..at - path.len()].ends_with('.') || before[..at - path.len()].ends_with("fn ");
        let mut parts = path.rsplit("::");
        let (name, of) = (parts.next()?, parts.next().unwrap_or(module));
        let called = format!("{of}::{name}");
        (!is_method && known.contains(&called)).then_some(called)
    });
    calls.collect()
}

/// The functions that block, as `module::function`.
fn blocking_functions(sources: &[Source<'_>]) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    loop {
        let before = known.len();
        for Source { module, code, .. } in sources {
            for (name, body) in functions(code) {
                if blocking_calls(body).next().is_some() || !known_calls(body, module, &known).is_empty() {
                    known.insert(format!("{module}::{name}"));
                }
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

fn blocking_async_code(files: &[File]) -> Vec<String> {
    let sources: Vec<Source<'_>> = files.iter().filter(|file| is_polled_by_actors(file)).map(Source::of).collect();
    let known = blocking_functions(&sources);
    let mut complaints = BTreeSet::new();
    for Source { path, module, code } in &sources {
        for body in async_bodies(code) {
            complaints.extend(blocking_calls(body).chain(known_calls(body, module, &known)).map(|call| {
                format!("{path}: `{call}` blocks; call it in a `move` closure on a thread that may block")
            }));
        }
    }
    complaints.into_iter().collect()
}

#[test]
fn no_asynchronous_code_blocks_its_thread() {
    hold(blocking_async_code(&tree()));
}

#[test]
fn blocking_calls_in_asynchronous_code_are_found() {
    let disk = "pub(crate) fn look(path: &Path) -> bool { real(path).is_some() }\nfn real(path: &Path) { path.canonicalize() }\n";
    let found = |text: &str| {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        blocking_async_code(&[file("crates/project/src/disk.rs", disk), file("crates/project/src/facts.rs", text)])
    };
    for text in [
        "async fn f() {\n    fs::read(path);\n}",
        "impl A {\n    async fn f(&self) {\n        std::fs::write(path, text);\n    }\n}",
        "fn f() {\n    Box::pin(async move { path.exists() })\n}",
        "async fn f() {\n    disk::look(path);\n}",
        "async fn f() {\n    shown(&text, |path| crate::disk::look(path));\n}",
        "async fn f() {\n    own(path);\n}\nfn own(path: &Path) {\n    OpenOptions::new();\n}",
    ] {
        assert_eq!(found(text).len(), 1, "{text}");
    }
    for text in [
        "fn f() {\n    fs::read(path);\n}",
        "async fn f() {\n    tokio::fs::read(path).await;\n}",
        "async fn f() {\n    spawn_blocking(move || disk::look(path)).await;\n}",
        "async fn f() {\n    let look = move |path: &Path| {\n        fs::read(path)\n    };\n    blocking(look).await;\n}",
        "async fn f() {\n    let look = move || -> Result<A, B> {\n        fs::read(path)\n    };\n    blocking(look).await;\n}",
        "async fn f() {\n    looker.look(path);\n}",
        "async fn f();\nfn g() {\n    fs::read(path);\n}",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
