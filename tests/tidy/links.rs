//! Links from the documentation into the code: the file exists, and so does the name that is
//! linked.
//!
//! A link such as [`Turn::ask`](../actors/turn.rs) names a function, type or module of that file.

use std::collections::BTreeMap;

use crate::source::{File, hold, is_name, tree};

/// The text and the target of every link of a page, with its line.
fn links(page: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](") {
            let text = before.rsplit('[').next().unwrap_or_default();
            let (target, behind) = after.split_once(')').unwrap_or((after, ""));
            found.push((number, text, target));
            rest = behind;
        }
    }
    found
}

/// A target relative to the page's folder, as a path from the root of the repository.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a source declares the name.
fn declares(source: &str, name: &str) -> bool {
    let keywords = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"];
    source.match_indices(name).any(|(at, _)| {
        let before = source[..at].trim_end();
        let ends = !source[at + name.len()..].starts_with(is_name);
        let keyword = keywords.iter().any(|keyword| before.ends_with(keyword));
        // A variant of an enum, or a field, stands at the beginning of its line.
        let stands_first = source[..at].rsplit('\n').next().is_some_and(|start| start.trim().is_empty());
        ends && (keyword || stands_first)
    })
}

fn broken_links(files: &[File]) -> Vec<String> {
    let by_path: BTreeMap<&str, &str> = files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut complaints = Vec::new();
    for page in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, text, target) in links(&page.text) {
            if target.contains("://") || target.starts_with('#') || target.contains(' ') {
                continue;
            }
            let path = resolve(&page.path, target.split('#').next().unwrap_or_default());
            let mut complain = |what: &str| complaints.push(format!("{}:{line}: {what}", page.path));
            let is_folder = || by_path.keys().any(|known| known.starts_with(&format!("{path}/")));
            match by_path.get(path.as_str()) {
                None if is_folder() => {}
                None => complain(&format!("there is no `{path}`")),
                Some(source) if path.ends_with(".rs") && text.starts_with('`') => {
                    let name = text.trim_matches('`').rsplit("::").next().unwrap_or_default();
                    let name = name.trim_end_matches(|letter| !is_name(letter));
                    if !name.is_empty() && !text.contains(".rs") && !declares(source, name) {
                        complain(&format!("`{path}` does not declare `{name}`"));
                    }
                }
                Some(_) => {}
            }
        }
    }
    complaints
}

#[test]
fn what_the_docs_link_to_exists() {
    hold(broken_links(&tree()));
}

#[test]
fn broken_links_are_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let source = file("actors/turn.rs", "//! T.\nimpl Turn {\n    fn ask() {}\n}\nenum Phase {\n    Waiting,\n}");
    let check = |text: &str| broken_links(&[source.clone(), file("docs/tour.md", text)]).len();
    assert_eq!(check("[`Turn::ask`](../actors/turn.rs) and [`Phase::Waiting`](../actors/turn.rs)"), 0);
    assert_eq!(check("[`Turn::asks`](../actors/turn.rs), [`Turn::as`](../actors/turn.rs)"), 2);
    assert_eq!(check("[turns](../actors/turns.rs), [folder](../actors), [web](https://example.org)"), 1);
}
