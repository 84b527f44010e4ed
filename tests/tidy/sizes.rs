//! Limits for functions and structs in `actors` and `crates/domain`.
//!
//! A function that fits on a screen, and a struct whose fields can be kept in mind, can be
//! understood by reading them once. `EXCEPTIONS` names those that are larger, each with the reason.

use crate::source::{File, code, hold, is_name, tree};

const LONGEST_FUNCTION: usize = 60;
const MOST_FIELDS: usize = 15;

/// File, item, and why it is larger than the limit.
const EXCEPTIONS: [(&str, &str, &str); 5] = [
    ("actors/ports.rs", "RuntimeSettings", "one field per setting, filled in one place"),
    ("crates/domain/src/card.rs", "SessionCard", "its JSON is one flat object"),
    ("crates/domain/src/conversation.rs", "apply", "one arm per kind of event"),
    ("crates/domain/src/state.rs", "apply", "one arm per kind of event"),
    ("crates/domain/src/state/open_work.rs", "apply", "one arm per kind of event"),
];

/// A function or a struct, with its size in lines or fields.
#[derive(Debug, PartialEq)]
struct Item {
    name: String,
    size: usize,
    limit: usize,
}

/// The functions and structs of a source from which comments and strings were removed.
fn items(code: &str) -> Vec<Item> {
    let mut found = Vec::new();
    let mut start = 0;
    for word in code.split_inclusive(|letter| !is_name(letter)) {
        let keyword = word.trim_end_matches(|letter| !is_name(letter));
        start += word.len();
        if keyword == "fn" || keyword == "struct" {
            found.extend(item(keyword, &code[start..]));
        }
    }
    found
}

/// Reads the item whose name follows. Returns `None` for one without a body in braces.
fn item(keyword: &str, rest: &str) -> Option<Item> {
    let name: String = rest.trim_start().chars().take_while(|letter| is_name(*letter)).collect();
    let opening = rest.find(['{', ';']).filter(|at| rest[*at..].starts_with('{'))?;
    if name.is_empty() || (keyword == "struct" && rest[..opening].contains('(')) {
        return None;
    }
    let body = &rest[opening..opening + closing(&rest[opening..])?];
    Some(match keyword {
        "fn" => Item { name, size: body.lines().count(), limit: LONGEST_FUNCTION },
        _ => Item { name, size: fields(body), limit: MOST_FIELDS },
    })
}

/// Where the brace that opens the text is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at + 1)
    })
}

/// How many fields a struct's body declares: lines that begin with a name and a single colon.
fn fields(body: &str) -> usize {
    let declares = |line: &&str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
        let name = line.trim_start_matches(is_name);
        name.len() < line.len() && name.starts_with(':') && !name.starts_with("::")
    };
    body.lines().filter(declares).count()
}

fn too_large(files: &[File], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut used = vec![false; exceptions.len()];
    let is_core = |file: &&File| file.path.starts_with("actors/") || file.path.starts_with("crates/domain/src/");
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()).filter(is_core) {
        for Item { name, size, limit } in items(&code(&file.text)) {
            if size <= limit {
                continue;
            }
            match exceptions.iter().position(|(path, item, _)| *path == file.path && *item == name) {
                Some(at) => used[at] = true,
                None => complaints.push(format!("{}: `{name}` has {size}, {limit} at most; divide it", file.path)),
            }
        }
    }
    let unused = exceptions.iter().zip(used).filter(|(_, used)| !used);
    complaints.extend(unused.map(|((path, name, _), _)| format!("{path}: `{name}` is small now; take it out")));
    complaints
}

#[test]
fn functions_and_structs_of_the_core_are_small() {
    hold(too_large(&tree(), &EXCEPTIONS));
}

#[test]
fn large_items_are_found() {
    let long = format!("//! A.\nimpl A {{\n    fn long() {{\n{}    }}\n}}", "        a();\n".repeat(60));
    let fields: String = (0..16).map(|number| format!("    pub(crate) field_{number}: u8,\n")).collect();
    let wide = format!("struct Wide<'a> {{\n{fields}}}\nstruct Narrow(u8);\ntrait T {{ fn f(); }}");
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let found = too_large(&[file("actors/a.rs", &long), file("crates/domain/src/b.rs", &wide)], &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(too_large(&[file("src/a.rs", &long)], &[]).is_empty());
    let excepted = [("actors/a.rs", "long", "it is a table")];
    assert!(too_large(&[file("actors/a.rs", &long)], &excepted).is_empty());
    assert_eq!(too_large(&[file("actors/a.rs", "//! A.")], &excepted).len(), 1);
}
