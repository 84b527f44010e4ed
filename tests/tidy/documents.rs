//! Pages that must match the code: the tests that they name, and the methods, files, events and
//! variables that they list. Their lines have at most 100 columns.

use std::collections::BTreeSet;

use crate::source::{File, file, hold, is_name, tree};

/// Tests that a page names must exist: a name in backticks with three underscores or more is a
/// test.
fn unknown_tests(files: &[File]) -> Vec<String> {
    const PAGES: [&str; 2] = ["docs/architecture.md", "docs/protocol.md"];
    let sources = files.iter().filter(|file| file.is_rust());
    let functions: BTreeSet<&str> = sources
        .flat_map(|file| file.text.split("fn ").skip(1))
        .filter_map(|rest| rest.split(|letter| !is_name(letter)).next())
        .collect();
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| PAGES.contains(&file.path.as_str())) {
        let quoted = file.text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let names = quoted.filter(|name| name.matches('_').count() >= 3 && name.chars().all(is_name));
        // A word of the protocol is a string somewhere in the code.
        let is_sent =
            |name: &str| files.iter().any(|file| file.is_rust() && file.text.contains(&format!("\"{name}\"")));
        let unknown = names.filter(|name| !functions.contains(name) && !is_sent(name));
        complaints
            .extend(unknown.map(|name| format!("{}: there is no test `{name}`; name the one there is", file.path)));
    }
    complaints
}

fn undocumented_methods(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let page = text("docs/protocol.md");
    let constants = text("crates/wire/src/method.rs").lines().filter(|line| line.starts_with("pub const"));
    let methods = constants.filter_map(|line| line.split('"').nth(1));
    let missing = methods.filter(|method| !page.contains(&format!("`{method}`")));
    missing.map(|method| format!("docs/protocol.md: say how far `{method}` is, and which test proves it")).collect()
}

/// The tables of docs/architecture.md that begin with "file in" list every file of a folder, and no
/// other.
fn unlisted_files(files: &[File]) -> Vec<String> {
    const PAGE: &str = "docs/architecture.md";
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| file.text.as_str());
    let mut complaints = Vec::new();
    if !page.contains("\n| file in `") {
        complaints.push(format!("{PAGE}: there is no table of files"));
    }
    for table in page.split("\n| file in `").skip(1) {
        let Some((folder, rows)) = table.split_once('`') else { continue };
        let rows = rows.lines().skip(2).map_while(|row| row.strip_prefix("| `"));
        let listed: BTreeSet<&str> =
            rows.filter_map(|row| row.split('|').next()).flat_map(|cell| cell.split('`').step_by(2)).collect();
        let inside = files.iter().filter(|file| file.is_rust() && !file.is_test());
        let inside = inside.filter_map(|file| file.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs"));
        let there: BTreeSet<&str> = inside.filter(|name| !name.contains('/')).collect();
        let missing = there.difference(&listed).map(|name| format!("{PAGE}: say what `{folder}/{name}.rs` contains"));
        complaints.extend(missing);
        let gone = listed.difference(&there).map(|name| format!("{PAGE}: there is no `{folder}/{name}.rs`"));
        complaints.extend(gone);
    }
    complaints
}

/// Every kind of event is in the row of docs/architecture.md for its durability.
fn events_in_wrong_rows(files: &[File]) -> Vec<String> {
    const PAGE: &str = "docs/architecture.md";
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let code = text("crates/domain/src/event.rs").split_once("fn durability").map_or("", |(_, rest)| rest);
    let code = code.split_once("\n    }\n").map_or(code, |(body, _)| body);
    if code.is_empty() {
        return vec!["crates/domain/src/event.rs: there is no `durability`".to_owned()];
    }
    // The kinds of events come before the durability that they have.
    let mut arms = code.split("Durability::");
    let mut before = arms.next().unwrap_or_default();
    let mut complaints = Vec::new();
    for arm in arms {
        let end = match arm.split(|letter| !is_name(letter)).next() {
            Some("Soon") => "| stored soon",
            Some("Written") => "| written |",
            _ => "| synced |",
        };
        let row = text(PAGE).lines().find(|line| line.starts_with("| `") && line.contains(end)).unwrap_or_default();
        let kinds = before.split("::").skip(1).filter_map(|rest| rest.split(|letter| !is_name(letter)).next());
        let missing = kinds.filter(|kind| *kind != "Hosted" && !row.contains(&format!("`{kind}`")));
        complaints.extend(missing.map(|kind| format!("{PAGE}: name `{kind}` in the row that ends with `{end}`")));
        before = arm;
    }
    complaints
}

/// Variables in which two sessions that share an MCP server may differ, and that the page about
/// these servers does not list.
fn unlisted_variables(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let page = text("docs/mcp.md");
    let table = text("crates/process/src/environment.rs").split_once("const VOLATILE:").map_or("", |(_, rest)| rest);
    let table = table.split_once("];").map_or("", |(table, _)| table);
    let mut names = table.split('"').skip(1).step_by(2).peekable();
    if names.peek().is_none() {
        return vec!["crates/process/src/environment.rs: there is no `VOLATILE`".to_owned()];
    }
    let missing = names.filter(|name| !page.contains(&format!("`{name}`")));
    missing.map(|name| format!("docs/mcp.md: list `{name}` among the variables that are not compared")).collect()
}

/// Lines of a page. Code, tables and the addresses of links cannot be wrapped.
fn too_wide(files: &[File]) -> Vec<String> {
    const WIDEST: usize = 100;
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut fence = None;
        for (at, line) in file.text.lines().enumerate() {
            let ticks = line.trim_start().chars().take_while(|letter| *letter == '`').count();
            let is_code = fence.is_some() || ticks >= 3;
            if ticks >= fence.unwrap_or(3) {
                fence = if fence.is_none() { Some(ticks) } else { None };
            }
            let is_whole = is_code || line.starts_with(['|', '[']);
            if !is_whole && line.chars().count() > WIDEST {
                complaints.push(format!("{}:{}: wrap the line at {WIDEST} columns", file.path, at + 1));
            }
        }
    }
    complaints
}

#[test]
fn the_lines_of_pages_are_wrapped() {
    hold(too_wide(&tree()));
}

#[test]
fn the_tests_that_the_docs_name_exist() {
    hold(unknown_tests(&tree()));
}

#[test]
fn every_method_is_documented() {
    hold(undocumented_methods(&tree()));
}

#[test]
fn tables_of_files_list_the_files_that_exist() {
    hold(unlisted_files(&tree()));
}

#[test]
fn the_table_of_durability_is_right() {
    hold(events_in_wrong_rows(&tree()));
}

#[test]
fn every_variable_that_is_not_compared_is_documented() {
    hold(unlisted_variables(&tree()));
}

#[test]
fn docs_are_held_against_the_code() {
    let source = file("tests/a.rs", "async fn a_test_that_is_there() {}");
    let page = |text: &str| file("docs/architecture.md", text);
    assert_eq!(unknown_tests(&[source.clone(), page("`a_test_that_is_there`, `tool_call_update`")]).len(), 0);
    assert_eq!(unknown_tests(&[source, page("`a_test_that_is_not_there`")]).len(), 1);
    let methods = file("crates/wire/src/method.rs", "pub const A: &str = \"a/b\";\n");
    assert_eq!(undocumented_methods(&[methods.clone(), file("docs/protocol.md", "`a/b`")]).len(), 0);
    assert_eq!(undocumented_methods(&[methods, file("docs/protocol.md", "a/b")]).len(), 1);
    let table = page("# A\n\n| file in `src` | rules |\n|---|---|\n| `a`, `b` | `x` |\n| `c` | y |\n\n| `d` | z |\n");
    let sources = ["src/a.rs", "src/b.rs", "src/e.rs", "src/a/f.rs", "src/tests.rs"].map(|path| file(path, "//! F."));
    let found = unlisted_files(&[&[table][..], &sources[..]].concat());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`src/e.rs`") && found[1].contains("`src/c.rs`"), "{found:?}");
    let source = concat!(
        "    fn durability(&self) {\n        Self::A | Self::B => Durability::Soon,\n",
        "        Self::Hosted { event: HostedEvent::C } => Durability::Synced,\n    }\n",
    );
    let events = file("crates/domain/src/event.rs", source);
    assert!(events_in_wrong_rows(&[events.clone(), page("| `A`, `B` | stored soon |\n| `C` | synced |")]).is_empty());
    assert_eq!(events_in_wrong_rows(&[events, page("| `A` | stored soon |\n| `B`, `C` | synced |")]).len(), 1);
    let variables =
        file("crates/process/src/environment.rs", "const VOLATILE: [&str; 2] = [\n    \"PWD\",\n    \"_\",\n];\n\"X\"");
    assert_eq!(unlisted_variables(&[variables.clone(), file("docs/mcp.md", "`PWD` and `_`")]).len(), 0);
    assert_eq!(unlisted_variables(&[variables, file("docs/mcp.md", "`_`")]).len(), 1);
    let wide = "word ".repeat(21);
    let count = |text: String| too_wide(&[page(&text)]).len();
    assert_eq!(count(format!("{wide}\n| {wide}\n```\n{wide}\n```\n{wide}")), 2);
}
