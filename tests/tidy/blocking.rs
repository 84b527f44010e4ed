//! No blocking call is reachable from an actor, as far as text can show it. An arbiter runs many
//! actors on one thread: one `stat` on a network folder that does not answer would freeze them all.
//!
//! Actors, and the crates whose code runs on their threads, name no call that blocks. Every trait
//! of `domain` is a port, and every port method that is not async is listed here with the reason
//! why it does not block. Ports report typed errors, because a caller can only match on those.
//!
//! The future of an async port is polled on the thread of its actor, so an implementation names no
//! call that blocks either. Such work is in a function of its own, and text cannot show that the
//! function is called inside `spawn_blocking`.

use crate::source::{File, code, hold, is_name, tree};

/// The folders whose code runs on the threads of actors.
const ON_ACTORS_THREADS: [&str; 3] = ["actors/", "crates/domain/src/", "crates/wire/src/"];

/// Calls that block: methods of `Path` that look at the disk, and calls that park the thread.
const BLOCKING: [&str; 17] = [
    "canonicalize",
    "read_dir",
    "read_link",
    "read_to_string",
    "metadata",
    "symlink_metadata",
    "is_dir",
    "is_file",
    "is_symlink",
    "exists",
    "try_exists",
    "block_on",
    "blocking_recv",
    "blocking_send",
    "blocking_lock",
    "recv_timeout",
    "wait_timeout",
];

/// The methods of ports that return at once, and why they can.
const IMMEDIATE: [(&str, &str); 38] = [
    ("Accounts::variables", "a list that the configuration fixed"),
    ("AgentLink::answer", "queues an order"),
    ("AgentLink::cancel", "queues an order"),
    ("AgentLink::prompt", "queues an order"),
    ("Agents::default_agent", "looks at settings in memory"),
    ("Agents::names", "looks at settings in memory"),
    ("Agents::start", "starts a task on a thread of its own"),
    ("Editor::capabilities", "a copy of what the client said when it initialized"),
    ("Editor::connection", "an id"),
    ("Editor::complete_elicitation", "queues a message"),
    ("Editor::is_connected", "looks at an address"),
    ("Editor::release_terminal", "queues a message"),
    ("History::status", "a copy of what the committer published"),
    ("History::submit", "queues a record for the committer's thread"),
    ("Catalogue::correction", "looks at lists in memory, which a task of their own refreshes"),
    ("Catalogue::default_model", "looks at lists in memory, which a task of their own refreshes"),
    ("Catalogue::fallback", "looks at lists in memory, which a task of their own refreshes"),
    ("Catalogue::find", "looks at lists in memory, which a task of their own refreshes"),
    ("Catalogue::list_known", "looks at lists in memory, and never causes one to be refreshed"),
    ("Catalogue::list", "looks at lists in memory, which a task of their own refreshes"),
    ("Catalogue::offers", "looks at lists in memory, which a task of their own refreshes"),
    ("Catalogue::remarks", "looks at lists in memory, which a task of their own refreshes"),
    ("Ledger::add", "adds numbers in memory and starts a blocking task"),
    ("Model::info", "a reference to its own field"),
    ("Job::card", "a reference to its own field"),
    ("ToolHost::call", "an id"),
    ("ToolHost::progress", "queues a message"),
    ("ToolHost::wait_for_person", "queues a message"),
    ("Toolbox::background", "looks at a table in memory"),
    ("Toolbox::cancel_turn", "signals tasks"),
    ("Toolbox::close", "signals tasks and removes entries of tables in memory"),
    ("Toolbox::commands", "looks at what servers have offered, in memory"),
    ("Toolbox::forget", "starts a blocking task"),
    ("Toolbox::notify", "starts a task"),
    ("Toolbox::offer", "looks at tables in memory"),
    ("Toolbox::server_instructions", "looks at what servers have said, in memory"),
    ("Toolbox::servers", "looks at a table in memory"),
    ("Toolbox::stop_background", "signals a task"),
];

/// The calls in a line that would block their thread. A field or a variable of such a name is no
/// call.
pub(super) fn blocking_words(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|letter| !is_name(letter)).filter(|word| BLOCKING.contains(word));
    words.filter(move |word| {
        let mut found = line.match_indices(*word);
        found.any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + word.len()..]);
            before.ends_with("::") || (after.starts_with('(') && !before.ends_with(is_name))
        })
    })
}

/// The calls in a piece of code that open, read or change files, whatever their module is called.
pub(super) fn file_calls(code: &str) -> impl Iterator<Item = String> {
    ["fs::", "File::", "OpenOptions::"].into_iter().flat_map(move |name| {
        code.match_indices(name).filter_map(move |(at, _)| {
            let before = &code[..at];
            let rest = &code[at + name.len()..];
            let call = &rest[..rest.find(|letter| !is_name(letter))?];
            let is_own = !before.ends_with(is_name) && !before.ends_with("tokio::");
            let is_call = call.starts_with(char::is_lowercase) && rest[call.len()..].starts_with('(');
            (is_own && is_call).then(|| format!("{name}{call}"))
        })
    })
}

/// Calls that would block the thread of an actor.
pub(super) fn blocking_calls(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_actors = |path: &str| ON_ACTORS_THREADS.iter().any(|folder| path.starts_with(folder));
    for file in files.iter().filter(|file| file.is_rust() && is_actors(&file.path)) {
        for (number, line) in (1..).zip(code(&file.text).lines()) {
            let calls = blocking_words(line).map(str::to_owned).chain(file_calls(line));
            complaints.extend(calls.map(|word| {
                format!("{}:{number}: `{word}` may block the arbiter; put it behind an async port", file.path)
            }));
        }
    }
    complaints
}

/// The traits of a file of `domain`: the name of each, and its body.
fn ports(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.split("\npub trait ").skip(1).map(|declared| {
        let name = &declared[..declared.find(|letter| !is_name(letter)).unwrap_or(declared.len())];
        (name, &declared[..declared.find("\n}").unwrap_or(declared.len())])
    })
}

/// The methods of a trait: the name of each, and all of its signature.
fn methods(body: &str) -> Vec<(String, String)> {
    let mut methods = Vec::new();
    for declared in body.split("\n    fn ").skip(1) {
        let end = declared.find(['{', ';']).unwrap_or(declared.len());
        let method: String = declared.chars().take_while(|letter| is_name(*letter)).collect();
        methods.push((method, declared[..end].split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    methods
}

/// Blocking calls in the implementations of ports.
pub(super) fn blocking_implementations(files: &[File]) -> Vec<String> {
    let of_domain = files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/domain/src/"));
    let declared: Vec<String> = of_domain.map(|file| code(&file.text)).collect();
    let names: Vec<&str> = declared.iter().flat_map(|code| ports(code)).map(|(name, _)| name).collect();
    let is_program = |file: &&File| {
        let folders = ["src/", "actors/", "crates/"];
        file.is_rust() && !file.is_test() && folders.iter().any(|folder| file.path.starts_with(folder))
    };
    let mut complaints = Vec::new();
    for file in files.iter().filter(is_program).filter(|file| !file.path.starts_with("crates/testkit/")) {
        let code = code(&file.text);
        let mut port = None;
        for (number, line) in (1..).zip(code.lines()) {
            if let Some(header) = line.strip_prefix("impl").and_then(|rest| Some(rest.split_once(" for ")?.0)) {
                port = header.rsplit(|letter| !is_name(letter)).next().filter(|name| names.contains(name));
            } else if line.starts_with('}') {
                port = None;
            }
            let Some(port) = port else { continue };
            let calls = blocking_words(line).map(str::to_owned).chain(file_calls(line));
            complaints.extend(calls.map(|call| {
                format!(
                    "{}:{number}: `{call}` in an implementation of `{port}` may block the arbiter; call it in a \
                     function that runs inside `spawn_blocking`",
                    file.path
                )
            }));
        }
    }
    complaints
}

/// Port methods that are not async and not listed, list entries that name none, and errors that are
/// only text.
pub(super) fn port_methods(files: &[File], immediate: &[(&str, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut listed: Vec<&str> = immediate.iter().map(|(method, _)| *method).collect();
    let of_domain = files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/domain/src/"));
    for file in of_domain {
        let (path, code) = (&file.path, code(&file.text));
        let all = ports(&code).flat_map(|(port, body)| methods(body).into_iter().map(move |method| (port, method)));
        for (port, (method, signature)) in all {
            let method = format!("{port}::{method}");
            if signature.contains(", String>") && signature.contains("Result<") {
                complaints.push(format!("{path}: `{method}` fails with a text; declare an error type"));
            }
            let is_async = signature.contains("BoxFuture") || signature.contains("BoxStream");
            let at = listed.iter().position(|listed| *listed == method);
            match (is_async, at.map(|at| listed.swap_remove(at))) {
                (false, None) => complaints.push(format!(
                    "{path}: `{method}` is not async; make it so, or say in tests/tidy/blocking.rs why it returns at once"
                )),
                (true, Some(_)) => complaints.push(format!("tests/tidy/blocking.rs: `{method}` is async")),
                (true, None) | (false, Some(_)) => {}
            }
        }
    }
    complaints.extend(listed.into_iter().map(|method| format!("tests/tidy/blocking.rs: there is no `{method}`")));
    complaints
}

#[test]
fn no_actor_blocks_its_thread() {
    hold(blocking_calls(&tree()));
}

#[test]
fn no_port_blocks_the_thread_that_polls_it() {
    hold(blocking_implementations(&tree()));
}

#[test]
fn ports_are_async_or_return_at_once_and_report_typed_errors() {
    hold(port_methods(&tree(), &IMMEDIATE));
}

#[test]
fn calls_that_block_and_ports_that_may_are_found() {
    let file = |path: &str, text: &str| vec![File { path: path.to_owned(), text: text.to_owned() }];
    let actor = |text: &str| blocking_calls(&file("actors/session.rs", text)).len();
    assert_eq!(actor("fn f(p: &Path) -> bool { p.is_dir() }"), 1);
    assert_eq!(actor("use std as library;\nfn f(p: &Path) { library::fs::read(p) }"), 1);
    assert_eq!(actor("fn f(p: &[PathBuf]) { p.iter().any(Path::exists) }"), 1);
    assert_eq!(actor("// p.is_dir() would block\nfn f() { let is_directory = 1; }"), 0);
    assert_eq!(actor("fn f(card: &Card) -> bool { card.exists }"), 0);
    assert_eq!(actor("fn f(card: &Card) { card.set_metadata(metadata) }"), 0);
    assert_eq!(blocking_calls(&file("crates/domain/src/site.rs", "p.exists()")).len(), 1);
    assert_eq!(blocking_calls(&file("crates/process/src/lib.rs", "p.is_dir()")).len(), 0);

    let implemented = |header: &str, body: &str| {
        let port = "\npub trait Folders: Send {\n    fn look(&self) -> BoxFuture<'static, bool>;\n}\n";
        let domain = File { path: "crates/domain/src/site.rs".to_owned(), text: port.to_owned() };
        let text =
            format!("{header} {{\n    fn look(&self) {{\n        {body}\n    }}\n}}\nfn look() {{ fs::read(p) }}\n");
        blocking_implementations(&[domain, File { path: "src/assemble/folders.rs".to_owned(), text }]).len()
    };
    assert_eq!(implemented("impl Folders for Local", "Box::pin(async move { fs::read(path) })"), 1);
    assert_eq!(implemented("impl<T: Clone> domain::Folders for Local<T>", "Box::pin(async { p.exists() })"), 1);
    assert_eq!(implemented("impl Folders for Local", "Box::pin(spawn_blocking(move || look(&path)))"), 0);
    assert_eq!(implemented("impl Local", "fs::read(path)"), 0);

    let port =
        |methods: &str| file("crates/domain/src/new.rs", &format!("\npub trait Folders: Send {{\n{methods}\n}}\n"));
    let none: [(&str, &str); 0] = [];
    let count = |methods: &str| port_methods(&port(methods), &none).len();
    assert_eq!(count("    fn look(&self, path: &Path) -> bool;"), 1);
    assert_eq!(count("    fn look(\n        &self,\n    ) -> BoxFuture<'static, bool>;"), 0);
    assert_eq!(count("    fn look(&self) -> BoxFuture<'static, Result<(), String>>;"), 1);
    let listed = [("Folders::look", "it is in memory")];
    assert_eq!(port_methods(&port("    fn look(&self) -> bool;"), &listed).len(), 0);
    assert_eq!(port_methods(&port("    fn find(&self) -> BoxFuture<'static, bool>;"), &listed).len(), 1);
}
