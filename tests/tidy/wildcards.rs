//! Matches on our own enums name every variant, so the compiler finds each place that a new variant
//! concerns. A `_` arm would hide it.
//!
//! Only `actors` and `crates/domain` are checked. The rule reads the text: an arm `_ =>` whose
//! neighbours, at the same indentation, name a variant of an enum that the repository declares.

use std::collections::BTreeSet;

use crate::source::{File, code, file, hold, is_name, tree};

/// The names of all enums that are declared in the repository.
fn own_enums(files: &[File]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = code(&file.text);
        let declared = code.split("enum ").skip(1);
        names.extend(declared.map(|rest| rest.chars().take_while(|letter| is_name(*letter)).collect::<String>()));
    }
    names
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The enums whose variants a pattern names: what comes before `::` and an upper-case letter.
fn named_enums(pattern: &str) -> impl Iterator<Item = &str> {
    let paths = pattern.match_indices("::").filter(|(at, _)| pattern[at + 2..].starts_with(char::is_uppercase));
    paths.map(|(at, _)| {
        let start = pattern[..at].rfind(|letter| !is_name(letter)).map_or(0, |before| before + 1);
        &pattern[start..at]
    })
}

fn wildcards(files: &[File]) -> Vec<String> {
    let own = own_enums(files);
    let mut complaints = Vec::new();
    let is_core = |file: &&File| file.path.starts_with("actors/") || file.path.starts_with("crates/domain/src/");
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()).filter(is_core) {
        let code = code(&file.text);
        let lines: Vec<&str> = code.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("_ =>")) {
            let depth = indentation(line);
            let before = lines[..at].iter().rev().filter(|line| !line.trim().is_empty());
            let arms = before.take_while(|line| indentation(line) >= depth).filter(|line| indentation(line) == depth);
            let patterns = arms.map(|line| line.split("=>").next().unwrap_or_default());
            let found: BTreeSet<&str> = patterns.flat_map(named_enums).filter(|name| own.contains(*name)).collect();
            if let Some(name) = found.first() {
                let number = at + 1;
                complaints.push(format!("{}:{number}: `_` hides new variants of `{name}`; name them all", file.path));
            }
        }
    }
    complaints
}

#[test]
fn matches_on_our_own_enums_name_every_variant() {
    hold(wildcards(&tree()));
}

#[test]
fn wildcards_are_found_where_they_hide_our_variants() {
    let declared = file("crates/domain/src/a.rs", "pub enum Colour { Red, Green }");
    let count = |path: &str, text: &str| wildcards(&[declared.clone(), file(path, text)]).len();
    let with = |pattern: &str| format!("match x {{\n    {pattern} => {{\n        y();\n    }}\n    _ => z(),\n}}\n");
    assert_eq!(count("actors/b.rs", &with("Colour::Red")), 1);
    assert_eq!(count("actors/b.rs", &with("Some(Colour::Red)")), 1);
    assert_eq!(count("actors/b.rs", &with("Ordering::Less")), 0, "an enum of another crate");
    assert_eq!(count("actors/b.rs", &with("\"Colour::Red\"")), 0, "a text");
    assert_eq!(count("src/b.rs", &with("Colour::Red")), 0);
    let nested = "match x {\n    Colour::Red => match y {\n        1 => a(),\n        _ => b(),\n    },\n    Colour::Green => c(),\n}\n";
    assert_eq!(count("actors/b.rs", nested), 0);
}
