//! A fake daemon that takes long to resume a session: frames about that session wait, the others do
//! not.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use serde_json::{Value, json};

use crate::harness::Home;

/// A fake daemon that hangs up at the first prompt. After that it answers a resume when and how the
/// test asks.
fn slow_daemon(home: &Home) -> (Sender<Value>, Receiver<Value>) {
    fs::create_dir_all(home.socket().parent().unwrap()).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let (resume, resumes) = mpsc::channel();
    let (prompt, prompts) = mpsc::channel();
    thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        converse(first, None, &prompt);
        let (second, _) = listener.accept().unwrap();
        converse(second, Some(resumes), &prompt);
    });
    (resume, prompts)
}

fn converse(mut stream: UnixStream, resumes: Option<Receiver<Value>>, prompts: &Sender<Value>) {
    let (is_first, mut resumes) = (resumes.is_none(), resumes);
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let mut answer = json!({ "jsonrpc": "2.0", "id": request["id"] });
        match request["method"].as_str().unwrap() {
            "session/new" => answer["result"] = json!({ "sessionId": "s" }),
            "session/prompt" => {
                prompts.send(request.clone()).unwrap();
                if is_first {
                    return;
                }
                answer["result"] = json!({ "stopReason": "end_turn" });
            }
            "_acpd/resume" => {
                let mut stream = stream.try_clone().unwrap();
                let Some(resumes) = resumes.take() else {
                    // The bridge tries again if it receives the failure before it reads the next
                    // prompt.
                    answer["error"] = no_space();
                    stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
                    continue;
                };
                thread::spawn(move || {
                    let outcome: Value = resumes.recv().unwrap();
                    answer.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
                    stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
                });
                continue;
            }
            _ => answer["result"] = json!({}),
        }
        let _ = stream.write_all(format!("{answer}\n").as_bytes());
    }
}

fn no_space() -> Value {
    json!({ "code": -32603, "message": "no space left" })
}

#[test]
fn a_prompt_waits_for_a_slow_session_while_other_requests_continue() {
    let home = Home::new();
    let (resume, prompts) = slow_daemon(&home);
    let mut bridge = home.bridge().unchecked();
    let session = bridge.open(&home.work());
    let refused = bridge.prompt(&session, "one");
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["retry"]), (&json!(-32603), &json!(true)));
    assert_eq!(prompts.recv().unwrap()["params"]["prompt"][0]["text"], "one");

    // A prompt that is held and cancelled is answered at once and never sent.
    let second = bridge.start_prompt(&session, "two");
    bridge.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(bridge.answer(second)["result"]["stopReason"], "cancelled");

    let third = bridge.start_prompt(&session, "three");
    bridge.ask("session/list", json!({}));
    assert!(prompts.try_recv().is_err() && bridge.is_silent(), "the session is not back yet");
    resume.send(json!({ "result": { "pending": [], "final": true } })).unwrap();
    assert_eq!(bridge.answer(third)["result"]["stopReason"], "end_turn");
    assert_eq!(prompts.recv().unwrap()["params"]["prompt"][0]["text"], "three");
    assert!(prompts.try_recv().is_err());
}

#[test]
fn a_session_that_fails_to_resume_refuses_held_requests_with_the_reason() {
    let home = Home::new();
    let (resume, prompts) = slow_daemon(&home);
    let mut bridge = home.bridge().unchecked();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "one");
    prompts.recv().unwrap();
    let second = bridge.start_prompt(&session, "two");
    resume.send(json!({ "error": no_space() })).unwrap();
    let refused = bridge.answer(second);
    let data = &refused["error"]["data"];
    assert_eq!((&data["retry"], &data["reason"]), (&json!(true), &json!("no space left")), "{refused}");
    assert!(prompts.try_recv().is_err());
}
