//! Tests with a scripted language server behind a pipe.

use std::future::Future;

use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::*;
use crate::reports::LONGEST_PATH;

type Half = Connection<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

fn pipes() -> (Half, Half) {
    let (ours, theirs) = duplex(1 << 20);
    let connect = |stream| {
        let (read, write) = split(stream);
        Connection::new(read, write)
    };
    (connect(ours), connect(theirs))
}

fn subject(before: &str, text: &str) -> Subject {
    Subject { path: "/p/a.py".into(), language: "python".into(), before: before.into(), text: text.into() }
}

fn error(line: u32, message: &str) -> Value {
    let place = json!({"line": line, "character": 0});
    json!({"range": {"start": place, "end": place}, "severity": 1, "message": message})
}

fn publish(uri: &str, version: Option<i64>, diagnostics: &[Value]) -> Value {
    let params = json!({"uri": uri, "version": version, "diagnostics": diagnostics});
    json!({"jsonrpc": "2.0", "method": messages::PUBLISHED, "params": params})
}

/// Plays a server with these capabilities. `react` returns its responses to each later message.
async fn play(mut there: Half, capabilities: Value, mut react: impl FnMut(&Value) -> Vec<Value>) -> Vec<String> {
    let mut received = Vec::new();
    while let Ok(Some(message)) = there.next().await {
        received.push(message["method"].as_str().unwrap_or("an answer").to_owned());
        let answers = match message["method"].as_str() {
            Some("initialize") => {
                vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": {"capabilities": capabilities}})]
            }
            _ => react(&message),
        };
        for answer in answers {
            there.send(&answer).await.unwrap();
        }
    }
    received
}

/// Runs both sides. Returns the result of the check and the methods that the server received.
async fn checked(
    capabilities: Value,
    react: impl FnMut(&Value) -> Vec<Value>,
    subjects: &[Subject],
) -> (Checked, Vec<String>) {
    let (here, there) = pipes();
    let ours = async {
        let mut server = Server::start(here, Path::new("/p")).await.unwrap();
        server.check(subjects, Duration::from_secs(3)).await.unwrap()
    };
    both(ours, play(there, capabilities, react)).await
}

async fn both<A, B>(ours: impl Future<Output = A>, theirs: impl Future<Output = B>) -> (A, B) {
    tokio::join!(ours, theirs)
}

fn lines(found: &[(PathBuf, Vec<Finding>)]) -> Vec<String> {
    found.iter().flat_map(|(path, found)| found.iter().map(|one| one.describe(&path.to_string_lossy()))).collect()
}

#[tokio::test(start_paused = true)]
async fn only_what_the_change_caused_is_new_and_other_files_count() {
    let react = |message: &Value| match message["method"].as_str() {
        Some("textDocument/didOpen") => {
            vec![publish("file:///p/a.py", Some(1), &[error(0, "old")]), publish("file:///p/b.py", None, &[])]
        }
        Some("textDocument/didChange") => vec![
            // A late report about the old text must not count as one about the new text.
            publish("file:///p/a.py", Some(1), &[]),
            publish("file:///p/a.py", Some(2), &[error(0, "new"), error(3, "old")]),
            publish("file:///p/b.py", None, &[error(9, "broken by a")]),
        ],
        _ => Vec::new(),
    };
    let (checked, received) = checked(json!({}), react, &[subject("1", "2")]).await;
    assert_eq!(lines(&checked.new), ["/p/a.py:1:1: error: new", "/p/b.py:10:1: error: broken by a"]);
    assert_eq!(lines(&checked.all), ["/p/a.py:1:1: error: new", "/p/a.py:4:1: error: old"]);
    assert!(!checked.late);
    let expected =
        ["initialize", "initialized", "textDocument/didOpen", "textDocument/didChange", "textDocument/didSave"];
    assert_eq!(received, expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_can_be_asked_is_asked() {
    let mut asked = 0;
    let react = move |message: &Value| match message["method"].as_str() {
        Some(messages::PULL) => {
            asked += 1;
            let items = if asked == 1 { vec![] } else { vec![error(1, "new")] };
            let related = json!({"file:///p/b.py": {"kind": "full", "items": [error(2, "there")]}});
            let report = json!({"kind": "full", "items": items, "relatedDocuments": related});
            // A request of the server in the meantime must be answered.
            let question = json!({"jsonrpc": "2.0", "id": "q", "method": "workspace/configuration",
                "params": {"items": [{}, {}]}});
            vec![question, json!({"jsonrpc": "2.0", "id": message["id"], "result": report})]
        }
        None => {
            assert_eq!(*message, json!({"jsonrpc": "2.0", "id": "q", "result": [null, null]}));
            Vec::new()
        }
        Some(_) => Vec::new(),
    };
    let (checked, received) = checked(json!({"diagnosticProvider": {}}), react, &[subject("1", "2")]).await;
    assert_eq!(lines(&checked.new), ["/p/a.py:2:1: error: new"], "what b.py had before is not new");
    assert_eq!(received.iter().filter(|method| *method == "an answer").count(), 2);
}

fn progress(kind: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": messages::PROGRESS, "params": {"token": 7, "value": {"kind": kind}}})
}

/// Plays rust-analyzer: it returns its own findings when it is asked, and publishes those of a
/// compiler that runs for a while after the file was opened or saved.
fn with_compiler(mut compiled: impl FnMut(usize) -> Vec<Value>) -> impl FnMut(&Value) -> Vec<Value> {
    let mut asked = 0;
    let mut runs = 0;
    move |message| match message["method"].as_str() {
        Some(messages::PULL) => {
            asked += 1;
            let report = json!({"kind": "full", "items": [error(0, "own")]});
            let mut answers = vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": report})];
            // The second request of each look comes after the compiler's run.
            if asked % 2 == 1 {
                runs += 1;
                answers.push(progress("begin"));
                answers.extend(compiled(runs));
            }
            answers
        }
        _ => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_compiler_publishes_after_the_answer_counts_beside_what_the_server_returns() {
    let react = with_compiler(|run| {
        let found = if run == 1 { vec![error(4, "old")] } else { vec![error(4, "old"), error(9, "new")] };
        vec![publish("file:///p/a.py", None, &found), progress("end")]
    });
    let (checked, received) = checked(json!({"diagnosticProvider": {}}), react, &[subject("1", "2")]).await;
    assert_eq!(lines(&checked.new), ["/p/a.py:10:1: error: new"]);
    let all = ["/p/a.py:1:1: error: own", "/p/a.py:5:1: error: old", "/p/a.py:10:1: error: new"];
    assert_eq!(lines(&checked.all), all);
    assert!(!checked.late);
    assert_eq!(received.iter().filter(|method| *method == messages::PULL).count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_work_does_not_end_in_time_is_late() {
    let react = with_compiler(|_| Vec::new());
    let (checked, _) = checked(json!({"diagnosticProvider": {}}), react, &[subject("1", "2")]).await;
    assert!(checked.late);
    assert_eq!(lines(&checked.all), ["/p/a.py:1:1: error: own"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_and_one_that_refuses_are_late_and_report_nothing() {
    let (silent, _) = checked(json!({}), |_| Vec::new(), &[subject("1", "2")]).await;
    assert!(silent.late && silent.new.is_empty());
    let refuse = |message: &Value| match message["method"].as_str() {
        Some(messages::PULL) => {
            vec![json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32802, "message": "later"}})]
        }
        _ => Vec::new(),
    };
    let (refused, _) = checked(json!({"diagnosticProvider": {}}), refuse, &[subject("1", "2")]).await;
    assert!(refused.late && refused.new.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_in_the_middle_is_an_error() {
    let (here, there) = pipes();
    let ours = async {
        let mut server = Server::start(here, Path::new("/p")).await.unwrap();
        server.check(&[subject("1", "2")], Duration::from_secs(3)).await.map_err(|error| error.to_string())
    };
    let theirs = async move {
        let mut there = there;
        let initialize = there.next().await.unwrap().unwrap();
        there.send(&json!({"jsonrpc": "2.0", "id": initialize["id"], "result": {}})).await.unwrap();
        while there.next().await.unwrap().unwrap()["method"] != "textDocument/didOpen" {}
    };
    let (checked, ()) = both(ours, theirs).await;
    assert_eq!(checked, Err("it ended".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn few_findings_of_files_that_are_not_open_are_kept() {
    let react = |message: &Value| {
        let many: Vec<Value> = (0..600).map(|line| error(line, &format!("error {line}"))).collect();
        match message["method"].as_str() {
            Some("textDocument/didOpen") => {
                vec![publish("file:///p/a.py", Some(1), &[]), publish("file:///p/cut.py", None, &many)]
            }
            Some("textDocument/didChange") => vec![
                publish("file:///p/a.py", Some(2), &many),
                publish("file:///p/b.py", None, &many),
                publish("file:///p/cut.py", None, &many[1..]),
            ],
            _ => Vec::new(),
        }
    };
    let (checked, _) = checked(json!({}), react, &[subject("1", "2")]).await;
    let counts: Vec<_> = checked.new.iter().map(|(path, found)| (path.to_str().unwrap(), found.len())).collect();
    assert_eq!(
        counts,
        [("/p/a.py", 500), ("/p/b.py", MAX_FINDINGS_ELSEWHERE)],
        "what was cut before is not called new"
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_about_a_path_that_no_file_can_have_is_not_kept() {
    let long = format!("file:///p/{}.py", "x".repeat(LONGEST_PATH));
    let react = |message: &Value| match message["method"].as_str() {
        Some("textDocument/didOpen") => vec![publish("file:///p/a.py", Some(1), &[])],
        Some("textDocument/didChange") => {
            vec![publish(&long, None, &[error(1, "far away")]), publish("file:///p/a.py", Some(2), &[error(1, "here")])]
        }
        _ => Vec::new(),
    };
    let (checked, _) = checked(json!({}), react, &[subject("1", "2")]).await;
    let paths: Vec<_> = checked.new.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["/p/a.py"]);
}
