//! Layout rules as tests: what a file looks like, which imports are allowed, and which documents
//! must match the code.
//!
//! Each rule is a function from files to complaints, and a test shows that it fails on a bad example.
//! A complaint says where the problem is and what to do. The rules use std alone and do not ask git.

mod bans;
mod blocking;
mod links;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use bans::{BANS, MANIFEST_BANS};

/// Lines of a file, and of one in a `tests` folder.
const LONGEST: usize = 500;
const LONGEST_TEST: usize = 800;

/// Every reason why a thread, or a test, may sleep. Everything else waits for an event, or uses a runtime's timers.
const SLEEPERS: [(&str, &str); 29] = [
    ("src/daemon.rs", "looks at a predecessor's lock before there is a runtime"),
    ("src/bridge/connecting.rs", "waits between two tries to reach a daemon, on a thread of its own"),
    ("src/launch.rs", "looks at the start lock, in programs that have no runtime"),
    ("src/daemon/socket.rs", "looks at what a dead daemon has left open, before anything else runs"),
    ("crates/history/src/database.rs", "looks at sled's lock on the committer's own thread"),
    ("tests/process/daemon.rs", "measures what a daemon computes while nothing happens"),
    ("tests/process/bridge.rs", "sees that a pipe no longer fills"),
    ("tests/process/storms.rs", "counts what a bridge does while it should wait"),
    ("examples/picture.rs", "looks at the screen of another program, and has no runtime"),
    ("examples/watch_and_answer.rs", "looks at the sessions from time to time, and has no runtime"),
    ("benches/figures.rs", "lets the machine settle between two measurements"),
    ("tests/process/kills.rs", "kills a daemon at a random time"),
    ("tests/process/recovery.rs", "kills a daemon at a random time"),
    ("tests/process/harness.rs", "looks at what other processes have done so far"),
    ("crates/history/tests/store/support.rs", "looks at the status of a store that opens on its own thread"),
    ("crates/history/tests/store/crash.rs", "kills a child at a random time, and holds back a flood in that child"),
    ("crates/models/src/key/tests.rs", "looks at what a key's command has done so far"),
    ("crates/models/tests/http/catalogue.rs", "looks at a list that is fetched in the background"),
    ("crates/tools/tests/processes.rs", "looks at what other processes have done so far"),
    ("tests/conversations/attaching.rs", "attaches at a random time"),
    ("tests/conversations/lifetimes.rs", "moves a paused clock"),
    ("tests/conversations/permissions.rs", "moves a paused clock"),
    ("tests/conversations/returning.rs", "moves a paused clock"),
    ("tests/conversations/sessions.rs", "moves a paused clock"),
    ("tests/conversations/sharing.rs", "moves a paused clock"),
    ("tests/conversations/undoing.rs", "moves a paused clock"),
    ("tests/conversations/waiting.rs", "moves a paused clock"),
    ("tests/conversations/wires.rs", "moves a paused clock"),
    ("tests/integration/mcp_servers.rs", "looks whether a server listens yet"),
];

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

#[derive(Clone)]
struct File {
    /// From the root of the repository, with slashes.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.contains("tests/") || self.path.ends_with("tests.rs")
    }

    fn is_manifest(&self) -> bool {
        self.path == "Cargo.toml" || self.path.ends_with("/Cargo.toml")
    }
}

/// All text files of the repository.
fn tree() -> Vec<File> {
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
fn code(text: &str) -> String {
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

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Every path in a piece of code with its line, groups such as `a::{b, c::d}` taken apart.
fn paths(code: &str) -> Vec<(usize, String)> {
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

/// Whether a path goes into what is named; a lone word is a local name and goes nowhere.
fn goes_into(path: &str, name: &str) -> bool {
    let path = path.strip_prefix("acpd_").filter(|_| !name.starts_with("acpd_")).unwrap_or(path);
    let inside = path.strip_prefix(name).is_some_and(|rest| rest.starts_with("::"));
    inside || (name.contains("::") && path == name)
}

fn unopened(files: &[File]) -> Vec<String> {
    let bad = files.iter().filter(|file| file.is_rust() && !file.text.starts_with("//!"));
    bad.map(|file| format!("{}: open it with `//!` lines that say what it owns and may not know", file.path)).collect()
}

fn too_long(files: &[File]) -> Vec<String> {
    let lengths = files.iter().filter(|file| file.is_rust()).filter_map(|file| {
        let is_test = file.path.starts_with("tests/") || file.path.contains("/tests/");
        let limit = if is_test { LONGEST_TEST } else { LONGEST };
        let lines = file.text.lines().count();
        (lines > limit).then(|| format!("{}: {lines} lines, {limit} at most; take one thing out of it", file.path))
    });
    lengths.collect()
}

fn mod_files(files: &[File]) -> Vec<String> {
    let bad = files.iter().filter(|file| file.path.ends_with("/mod.rs"));
    bad.map(|file| format!("{}: name it after what is in it, beside its folder: `x.rs` and `x/`", file.path)).collect()
}

fn forbidden_names(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let found = paths(&code(&file.text));
        for ban in BANS.iter().filter(|ban| (ban.who)(&file.path)) {
            let named = found.iter().filter(|(_, path)| ban.names.iter().any(|name| goes_into(path, name)));
            complaints.extend(named.map(|(line, path)| format!("{}:{line}: `{path}`: {}", file.path, ban.advice)));
        }
    }
    complaints
}

fn forbidden_calls(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = code(&file.text);
        for (number, line) in (1..).zip(code.lines()) {
            let mut complain = |what: &str| complaints.push(format!("{}:{number}: {what}", file.path));
            if line.split(|letter| !is_name(letter)).any(|word| word == "do_send") && file.path != "actors/mail.rs" {
                complain("`do_send` drops mail silently; use `tell` or `report` of actors/mail.rs");
            }
            if line.contains("#[ignore") || line.contains("#[serial") {
                complain("a test runs always and beside others; mend it or remove it");
            }
        }
        // Strings are part of this one: the names of variables are strings.
        let reads_xdg = file.text.contains(concat!("\"", "XDG_"));
        if file.path.starts_with("src/") && file.path != "src/paths.rs" && reads_xdg {
            complaints.push(format!("{}: ask `Places`; src/paths.rs alone reads the XDG variables", file.path));
        }
    }
    complaints
}

fn sleepers(files: &[File], allowed: &[(&str, &str)]) -> Vec<String> {
    let mut sleeping = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, path) in paths(&code(&file.text)) {
            if path.ends_with("thread::sleep") || (file.is_test() && path.ends_with("time::sleep")) {
                sleeping.entry(file.path.as_str()).or_insert(line);
            }
        }
    }
    let unknown =
        sleeping.iter().filter(|(path, _)| !allowed.iter().any(|(known, _)| known == *path)).map(|(path, line)| {
            format!("{path}:{line}: wait for what you wait for, or give a reason in SLEEPERS of tests/tidy")
        });
    let idle = allowed.iter().filter(|(known, _)| !sleeping.contains_key(known));
    let idle = idle.map(|(known, _)| format!("{known}: does not sleep any more; take it out of SLEEPERS"));
    unknown.chain(idle).collect()
}

/// Assertions about how long something took: they fail on a busy machine, where nothing is wrong.
fn timed(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.is_test()) {
        for (number, line) in code(&file.text).lines().enumerate() {
            if line.contains("assert") && line.split("elapsed()").skip(1).any(|rest| rest.contains('<')) {
                let number = number + 1;
                complaints.push(format!("{}:{number}: assert what happened, not how soon; benches measure", file.path));
            }
        }
    }
    complaints
}

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

/// A dependency as a manifest names it.
struct Dependency {
    manifest: String,
    name: String,
    /// `workspace`, `package`, or what stands before `dependencies` otherwise.
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
                // `[dependencies.name]` says the same in more lines.
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
            complaints.push(format!("{manifest}: write `{name}.workspace = true`; versions stand in the root alone"));
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

/// Tests that a page names must exist: a name in backticks with three underscores or more is a test.
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
        let unknown = names.filter(|name| !functions.contains(name));
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

#[track_caller]
fn hold(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n\n  {}\n", complaints.join("\n  "));
}

#[test]
fn every_file_says_what_it_is() {
    hold(unopened(&tree()));
}

#[test]
fn no_file_holds_too_much() {
    hold(too_long(&tree()));
}

#[test]
fn modules_are_named_after_what_is_in_them() {
    hold(mod_files(&tree()));
}

#[test]
fn crates_name_only_what_they_may_know() {
    hold(forbidden_names(&tree()));
}

#[test]
fn mail_goes_through_one_file_and_tests_always_run() {
    hold(forbidden_calls(&tree()));
}

#[test]
fn threads_sleep_only_for_a_reason() {
    hold(sleepers(&tree(), &SLEEPERS));
}

#[test]
fn no_test_depends_on_how_fast_the_machine_is() {
    hold(timed(&tree()));
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
fn versions_and_lints_are_declared_once() {
    hold(undeclared(&tree()));
}

#[test]
fn every_dependency_is_explained() {
    hold(unexplained(&tree()));
}

#[test]
fn the_tests_that_the_docs_name_exist() {
    hold(unknown_tests(&tree()));
}

#[test]
fn every_method_is_documented() {
    hold(undocumented_methods(&tree()));
}

/// Each rule can fail.
mod rules {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// How many complaints there are of one file.
    fn count(rule: fn(&[File]) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&[file(path, text)]).len()
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let source = "//! sled::Db\nlet a = \"sled::Db\"; /* sled::Db\n */ let b: &'static str = r#\"\"sled::Db\"#;\nlet c = '\"'; d()";
        let code = code(source);
        assert!(!code.contains("sled"), "{code}");
        assert!(code.contains("let b") && code.contains("d()"), "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn groups_of_imports_are_taken_apart() {
        let found = paths("use std::{\n  io::{self, Read},\n  fs,\n};\nfn f() { a::b::<C>() }");
        let found: Vec<&str> = found.iter().map(|(_, path)| path.as_str()).collect();
        for wanted in ["std::io::self", "std::io::Read", "std::fs", "a::b"] {
            assert!(found.contains(&wanted), "{wanted} is not in {found:?}");
        }
    }

    #[test]
    fn the_shape_of_a_file_is_checked() {
        assert_eq!(count(unopened, "src/a.rs", "use std::fs;\n//! late"), 1);
        assert_eq!(count(unopened, "src/a.rs", "//! A."), 0);
        assert_eq!(count(too_long, "src/a.rs", &"\n".repeat(501)), 1);
        assert_eq!(count(too_long, "crates/x/tests/a.rs", &"\n".repeat(501)), 0);
        assert_eq!(count(too_long, "tests/a.rs", &"\n".repeat(801)), 1);
        assert_eq!(count(mod_files, "src/a/mod.rs", ""), 1);
    }

    #[test]
    fn every_ban_bites_where_it_should_and_nowhere_else() {
        for (path, text) in [
            ("actors/session.rs", "use wire::Id;"),
            ("actors/session.rs", "use acpd_wire::Id;"),
            ("actors/turn.rs", "use std::{env, fs};"),
            ("actors/turn.rs", "tokio::net::UnixStream::connect()"),
            ("crates/domain/src/event.rs", "tokio::spawn(x)"),
            ("crates/wire/src/rpc.rs", "use actix::Addr;"),
            ("crates/testkit/src/editor.rs", "use wire::rpc;"),
            ("crates/testkit/src/editor.rs", "use agent_client_protocol_schema::v1 as acp;"),
            ("tests/process/bridge.rs", "use agent_client_protocol::Agent;"),
            ("crates/models/src/exchange.rs", "use actix::Actor;"),
            ("crates/tools/src/bash.rs", "use domain::model::Model;"),
            ("crates/policy/src/rules.rs", "use std::fs;"),
            ("crates/mcp/src/host.rs", "use policy::Rules;"),
            ("crates/history/src/store.rs", "use acpd_actors::Runtime;"),
            ("crates/http/src/guard.rs", "use tools::descends_from;"),
            ("crates/terminal/src/diff.rs", "use wire::method;"),
            ("src/daemon.rs", "sled::open(path)"),
            ("src/client.rs", "use agent_client_protocol_schema::v1 as acp;"),
            ("src/daemon.rs", "use models::Providers;"),
            ("src/daemon.rs", "use actix::prelude::*;"),
        ] {
            assert_eq!(count(forbidden_names, path, text), 1, "{path}: {text}");
        }
        for (path, text) in [
            ("actors/connection/calls.rs", "use wire::Id;"),
            ("actors/session.rs", "// wire::Id\nlet wire = 1;"),
            ("actors/session.rs", "use crate::wire::Id;"),
            ("crates/history/src/database.rs", "sled::open(path)"),
            ("src/assemble.rs", "use models::Providers;"),
            ("crates/testkit/src/schema_check.rs", "use agent_client_protocol_schema::v1 as acp;"),
            ("tests/process/sdk.rs", "use agent_client_protocol::Agent;"),
            ("crates/domain/src/lib.rs", "use crate::history::History;"),
        ] {
            assert_eq!(count(forbidden_names, path, text), 0, "{path}: {text}");
        }
    }

    #[test]
    fn calls_and_marks_are_found() {
        assert_eq!(count(forbidden_calls, "actors/turn.rs", "addr.do_send(X)"), 1);
        assert_eq!(count(forbidden_calls, "actors/mail.rs", "addr.do_send(X)"), 0);
        assert_eq!(count(forbidden_calls, "tests/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}"), 1);
        assert_eq!(count(forbidden_calls, "src/daemon/socket.rs", concat!("var(\"", "XDG_RUNTIME_DIR\")")), 1);
    }

    #[test]
    fn a_sleeper_needs_a_reason_and_a_reason_a_sleeper() {
        let files = [file("src/a.rs", "use std::thread;\nthread::sleep(x)"), file("src/b.rs", "// thread::sleep")];
        assert_eq!(sleepers(&files, &[]).len(), 1);
        assert_eq!(sleepers(&files, &[("src/a.rs", "why")]).len(), 0);
        assert_eq!(sleepers(&files, &[("src/a.rs", "why"), ("src/b.rs", "why")]).len(), 1);
        let [waits, ticks] = ["tests/a.rs", "src/a.rs"].map(|path| file(path, "tokio::time::sleep(x).await"));
        assert_eq!((sleepers(&[waits], &[]).len(), sleepers(&[ticks], &[]).len()), (1, 0));
        assert_eq!(count(timed, "tests/a.rs", "assert!(since.elapsed() < LIMIT);"), 1);
        assert_eq!(count(timed, "tests/a.rs", "assert!(since.elapsed() >= PAUSE);"), 0);
    }

    #[test]
    fn pointers_are_found_in_every_kind_of_file() {
        assert_eq!(pointers(&[file("docs/a.md", concat!("see ../", "shared/x"))], &ELSEWHERE, "").len(), 1);
        assert_eq!(pointers(&[file("src/a.rs", concat!("// Seed", " 004"))], &ELSEWHERE, "").len(), 1);
        assert_eq!(pointers(&[file("a.sh", concat!("curl https://crates", ".io"))], &REGISTRIES, "").len(), 1);
        assert_eq!(pointers(&[file("Cargo.lock", concat!("crates", ".io-index"))], &REGISTRIES, "").len(), 0);
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

    #[test]
    fn docs_are_held_against_the_code() {
        let source = file("tests/a.rs", "async fn a_test_that_is_there() {}");
        let page = |text: &str| file("docs/architecture.md", text);
        assert_eq!(unknown_tests(&[source.clone(), page("`a_test_that_is_there`, `tool_call_update`")]).len(), 0);
        assert_eq!(unknown_tests(&[source, page("`a_test_that_is_not_there`")]).len(), 1);
        let methods = file("crates/wire/src/method.rs", "pub const A: &str = \"a/b\";\n");
        assert_eq!(undocumented_methods(&[methods.clone(), file("docs/protocol.md", "`a/b`")]).len(), 0);
        assert_eq!(undocumented_methods(&[methods, file("docs/protocol.md", "a/b")]).len(), 1);
    }
}
