//! Finds references to places outside this repository.

use crate::source::{File, file, hold, tree};

/// Written in two parts, so that this file does not break its own rules.
const REGISTRIES: [&str; 9] = [
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("rubygems", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("ghcr", ".io"),
    concat!("rsproxy", ".cn"),
];
const ELSEWHERE: [&str; 6] = [
    concat!("../", "shared"),
    concat!("/work/", "shared"),
    concat!("seed", " 0"),
    concat!("seeds", " 0"),
    concat!("the ", "seeds"),
    concat!("the_", "seeds"),
];

fn pointers(files: &[File], needles: &[&str], advice: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    // The lock file is cargo's, and names where cargo looks.
    for file in files.iter().filter(|file| file.path != "Cargo.lock") {
        for (number, line) in (1..).zip(file.text.lines()) {
            let line = line.to_lowercase();
            let found = needles.iter().filter(|needle| line.contains(*needle));
            complaints.extend(found.map(|needle| format!("{}:{number}: `{needle}`: {advice}", file.path)));
        }
    }
    complaints
}

#[test]
fn nothing_names_a_package_registry() {
    hold(pointers(&tree(), &REGISTRIES, "say what it is, not where this machine fetched it from"));
}

#[test]
fn the_repository_stands_alone() {
    hold(pointers(&tree(), &ELSEWHERE, "readers have this repository alone; say it in our own words"));
}

#[test]
fn pointers_are_found_in_every_kind_of_file() {
    assert_eq!(pointers(&[file("docs/a.md", concat!("see ../", "shared/x"))], &ELSEWHERE, "").len(), 1);
    assert_eq!(pointers(&[file("src/a.rs", concat!("// Seed", " 004"))], &ELSEWHERE, "").len(), 1);
    assert_eq!(pointers(&[file("a.sh", concat!("curl https://crates", ".io"))], &REGISTRIES, "").len(), 1);
    assert_eq!(pointers(&[file("Cargo.lock", concat!("crates", ".io-index"))], &REGISTRIES, "").len(), 0);
}
