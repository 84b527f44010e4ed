//! Dependencies are declared once, allowed for the crate that names them, and explained in
//! docs/dependencies.md.

use std::collections::BTreeSet;

use crate::bans::MANIFEST_BANS;
use crate::source::{File, file, hold, tree};

/// A dependency as a manifest names it.
struct Dependency {
    manifest: String,
    name: String,
    /// `workspace`, `package`, or what comes before `dependencies` otherwise.
    table: String,
    value: String,
}

fn dependencies(files: &[File]) -> Vec<Dependency> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_manifest()) {
        let mut table = String::new();
        for line in file.text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = header.to_owned();
                // `[dependencies.name]` is the long form of the same.
                let parts = ["dependencies.", "dev-dependencies.", "build-dependencies."];
                if let Some(name) = parts.iter().find_map(|part| Some(header.split_once(part)?.1)) {
                    let (manifest, name) = (file.path.clone(), name.to_owned());
                    found.push(Dependency { manifest, name, table: header.to_owned(), value: "a table".to_owned() });
                }
            } else if table.ends_with("dependencies")
                && let Some((key, value)) = line.split_once('=')
            {
                let (name, inherited) =
                    key.trim().split_once('.').map_or((key.trim(), ""), |(name, rest)| (name, rest));
                let value = format!("{inherited} = {}", value.trim());
                let (manifest, name) = (file.path.clone(), name.trim_matches('"').to_owned());
                found.push(Dependency { manifest, name, table: table.clone(), value });
            }
        }
    }
    found
}

fn undeclared(files: &[File]) -> Vec<String> {
    let all = dependencies(files);
    let is_declaration = |found: &&Dependency| found.table == "workspace.dependencies";
    let declared: BTreeSet<&str> = all.iter().filter(is_declaration).map(|found| found.name.as_str()).collect();
    let mut complaints = Vec::new();
    for found in all.iter().filter(|found| !is_declaration(found)) {
        let Dependency { manifest, name, value, .. } = found;
        if !value.contains("workspace = true") {
            complaints
                .push(format!("{manifest}: write `{name}.workspace = true`; versions are declared in the root only"));
        }
        if !declared.contains(name.as_str()) {
            complaints.push(format!("{manifest}: declare `{name}` in [workspace.dependencies] of the root"));
        }
        let bans = MANIFEST_BANS.iter().filter(|(path, names)| path == manifest && names.contains(&name.as_str()));
        complaints
            .extend(bans.map(|_| format!("{manifest}: this crate may not know `{name}`; see docs/architecture.md")));
    }
    for file in files.iter().filter(|file| file.is_manifest() && file.text.contains("[package]")) {
        if !file.text.contains("[lints]\nworkspace = true") {
            complaints.push(format!("{}: add `[lints]` with `workspace = true`", file.path));
        }
    }
    complaints
}

/// The crates in the first column of the tables of a page.
fn explained(page: &str) -> BTreeSet<&str> {
    let cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

fn unexplained(files: &[File]) -> Vec<String> {
    const PAGE: &str = "docs/dependencies.md";
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| file.text.as_str());
    let explained = explained(page);
    let all = dependencies(files);
    let ours: BTreeSet<&str> =
        all.iter().filter(|found| found.value.contains("path =")).map(|found| found.name.as_str()).collect();
    let theirs: BTreeSet<&str> =
        all.iter().map(|found| found.name.as_str()).filter(|name| !ours.contains(name)).collect();
    let missing = theirs.difference(&explained).map(|name| format!("{PAGE}: say which part `{name}` plays"));
    let stale = explained.difference(&theirs).map(|name| format!("{PAGE}: nothing depends on `{name}`; take it out"));
    missing.chain(stale).collect()
}

#[test]
fn versions_and_lints_are_declared_once() {
    hold(undeclared(&tree()));
}

#[test]
fn every_dependency_is_explained() {
    hold(unexplained(&tree()));
}

#[test]
fn manifests_and_their_page_are_compared() {
    let root = file("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\ndomain = { path = \"d\" }\n");
    let member = |text: &str| file("crates/domain/Cargo.toml", text);
    let page = |text: &str| file("docs/dependencies.md", text);
    let good = "[package]\n[lints]\nworkspace = true\n[dependencies]\nserde = { workspace = true }\n";
    assert_eq!(undeclared(&[root.clone(), member(good)]).len(), 0);
    assert_eq!(undeclared(&[root.clone(), member("[dependencies]\nserde = \"1\"\n")]).len(), 1);
    assert_eq!(undeclared(&[root.clone(), member("[dependencies.serde]\nversion = \"1\"\n")]).len(), 1);
    assert_eq!(undeclared(&[root.clone(), member("[dev-dependencies]\nlog.workspace = true\n")]).len(), 1);
    assert_eq!(undeclared(&[root.clone(), member("[package]\nname = \"x\"\n")]).len(), 1);
    let banned = file("Cargo.toml", "[workspace.dependencies]\nactix = \"1\"\n");
    assert_eq!(undeclared(&[banned, member("[dependencies]\nactix.workspace = true\n")]).len(), 1);
    assert_eq!(unexplained(&[root.clone(), page("| crate | part |\n|---|---|\n| `serde` | reads |\n")]).len(), 0);
    assert_eq!(unexplained(&[root.clone(), page("| `serde`, `log` | reads |\n")]).len(), 1);
    assert_eq!(unexplained(&[root, page("`serde` outside a table\n")]).len(), 1);
}
