//! Some things have one place in the program: conversions of times, the URIs of files, and the
//! parsing of server-sent events. A second place would differ in its details.

use crate::source::{File, count, hold, tree};

/// A text that only some files of the program contain.
struct SinglePlace {
    text: &'static str,
    files: &'static [&'static str],
    advice: &'static str,
}

const PLACES: [SinglePlace; 4] = [
    SinglePlace {
        text: "UNIX_EPOCH",
        files: &["crates/domain/src/time.rs"],
        advice: "ask `domain::Millis` for the time",
    },
    SinglePlace {
        text: "\"file://",
        files: &["crates/domain/src/resource_link.rs"],
        advice: "use `file_uri` and `file_path` of `domain::resource_link`",
    },
    SinglePlace {
        text: "b\"data:",
        files: &["crates/models/src/sse.rs", "crates/http/src/sse.rs"],
        advice: "one file parses the events of model providers, and one writes ours; use them",
    },
    // The library that fixes the type of an event for MCP servers, see docs/dependencies.md.
    SinglePlace {
        text: "sse_stream::",
        files: &["crates/mcp/src/limited_http.rs", "src/client/remote.rs"],
        advice: "events of MCP servers and of daemons are read in one file each; use them",
    },
];

/// The program: no tests, benches or examples, and not the testkit, which is an independent
/// witness.
fn is_program(path: &str) -> bool {
    let folders = ["src/", "actors/", "crates/"];
    folders.iter().any(|folder| path.starts_with(folder))
        && !["tests", "/benches/", "/testkit/", "/conformance/"].iter().any(|part| path.contains(part))
}

fn second_places(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && is_program(&file.path)) {
        let program = file.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (number, line) in (1..).zip(program.lines()).filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for place in PLACES.iter().filter(|place| line.contains(place.text)) {
                if !place.files.contains(&file.path.as_str()) {
                    complaints.push(format!("{}:{number}: `{}`: {}", file.path, place.text, place.advice));
                }
            }
        }
    }
    complaints
}

/// Places that no longer contain what they are listed for.
fn idle_places(files: &[File]) -> Vec<String> {
    let listed = PLACES.iter().flat_map(|place| place.files.iter().map(move |path| (*path, place.text)));
    let is_idle =
        |(path, text): &(&str, &str)| !files.iter().any(|file| file.path == *path && file.text.contains(text));
    listed.filter(is_idle).map(|(path, text)| format!("{path}: does not contain `{text}` any more")).collect()
}

#[test]
fn time_file_uris_and_events_have_one_place() {
    hold(second_places(&tree()));
    hold(idle_places(&tree()));
}

#[test]
fn second_places_are_found() {
    assert_eq!(count(second_places, "src/daemon.rs", "use std::time::{SystemTime, UNIX_EPOCH};"), 1);
    assert_eq!(count(second_places, "crates/lsp/src/messages.rs", "format!(\"file://{path}\")"), 1);
    assert_eq!(count(second_places, "crates/agents/src/link.rs", "line.strip_prefix(b\"data:\")"), 1);
    assert_eq!(count(second_places, "crates/models/src/exchange.rs", "use sse_stream::Sse;"), 1);
    assert_eq!(count(second_places, "crates/domain/src/time.rs", "use std::time::UNIX_EPOCH;"), 0);
    assert_eq!(count(second_places, "src/daemon.rs", "// since UNIX_EPOCH"), 0);
    assert_eq!(count(second_places, "tests/process/random_kills.rs", "UNIX_EPOCH"), 0);
    assert_eq!(idle_places(&[]).len(), 6);
}
