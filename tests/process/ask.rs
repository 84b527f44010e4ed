//! `ask`: the answer on stdout, everything else on stderr, and the exit status.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, finish, signal, until};

#[test]
fn the_first_ask_on_a_fresh_machine_works_and_leaves_a_session() {
    let home = Home::new();
    fs::write(home.work().join("one.txt"), "1").unwrap();
    fs::write(home.work().join("two.txt"), "2").unwrap();
    let output = home.run(&["ask", "What files are in this folder?"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.contains("one.txt") && answer.contains("two.txt") && answer.ends_with('\n'), "{answer}");

    let stored = home.json(&["ctl", "sessions", "--all", "--json"]);
    assert_eq!(stored["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn ask_prints_only_the_answer_and_its_status_reports_the_model() {
    let home = Home::new();
    fs::write(home.work().join("one.txt"), "1").unwrap();
    let asked = |prompt: &str| {
        let output = home.run(&["ask", prompt]);
        let [answer, remarks] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), answer, remarks)
    };
    let (status, answer, remarks) = asked("list the files");
    assert_eq!(status, Some(0), "{remarks}");
    assert!(answer.contains("one.txt") && !answer.contains("language model"), "{answer}");
    assert!(remarks.contains("No language model is configured"), "{remarks}");

    let (status, answer, remarks) = asked("Why is the sky blue?");
    assert_eq!((status, answer.as_str()), (Some(7), ""), "{remarks}");
    assert!(remarks.contains("No language model is configured") && remarks.contains("acpd login"), "{remarks}");
}

#[test]
fn nothing_is_allowed_when_no_client_can_be_asked() {
    let home = Home::new();
    let output = home.run(&["ask", "write a file x.txt with hello"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(remarks.contains("? Allow: ") && remarks.contains("--allow"), "{remarks}");
    assert!(remarks.contains("+hello"), "the question shows the diff: {remarks}");
    assert!(!home.work().join("x.txt").exists());
}

#[test]
fn everything_is_allowed_if_configured() {
    let home = Home::new();
    let output = home.run(&["ask", "--allow", "write a file x.txt with hello"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(home.work().join("x.txt")).unwrap().trim(), "hello");
}

#[test]
fn a_prompt_can_come_from_a_pipe() {
    let home = Home::new();
    fs::write(home.work().join("one.txt"), "1").unwrap();
    let mut child = home.acpd(&["ask"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"list the files\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("one.txt"));

    let nothing = finish(home.acpd(&["ask"]));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("there is no prompt"));
}

/// A run of a script: its output and how it ended.
fn lines_of(home: &Home, args: &[&str], input: &str) -> (Vec<Value>, Option<i32>) {
    let mut command = home.acpd(&[&["ask", "--json"], args].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output.status.code())
}

#[test]
fn json_output_is_a_line_per_update_and_the_stop_reason() {
    let home = Home::new();
    let (lines, code) = lines_of(&home, &["--allow", "write a file x.txt with hello"], "");
    assert_eq!(code, Some(0));
    let last = lines.last().unwrap();
    assert_eq!(last["stopReason"], "end_turn");
    assert!(last["usage"]["totalTokens"].as_u64().unwrap() > 0 && last["sessionId"].is_string(), "{last}");
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["params"]["update"]["sessionUpdate"].as_str()).collect();
    assert!(kinds.contains(&"tool_call") && kinds.contains(&"agent_message_chunk"), "{kinds:?}");
    assert!(lines[..lines.len() - 1].iter().all(|line| line["method"] == "session/update"), "{lines:?}");

    let (lines, _) = lines_of(&home, &["write a file y.txt with hello"], "");
    assert!(lines.iter().any(|line| line["method"] == "session/request_permission"), "{lines:?}");
    assert!(!home.work().join("y.txt").exists());
}

#[test]
fn a_prompt_argument_is_combined_with_stdin() {
    let home = Home::new();
    let (lines, code) = lines_of(&home, &["list the files"], "a stack trace\n");
    assert_eq!(code, Some(0));
    let session = lines.last().unwrap()["sessionId"].as_str().unwrap();
    let log = home.stdout(&["ctl", "export", session]);
    let prompt = log.lines().find(|line| line.contains("user_message")).unwrap();
    assert!(prompt.contains("a stack trace") && prompt.contains("list the files"), "{prompt}");
}

#[test]
fn a_session_is_continued_by_its_folder_or_its_id() {
    let home = Home::new();
    let nothing = home.run(&["ask", "--continue", "list the files"]);
    assert_eq!(nothing.status.code(), Some(4), "{nothing:?}");
    let (first, _) = lines_of(&home, &["list the files"], "");
    let session = first.last().unwrap()["sessionId"].as_str().unwrap().to_owned();
    for args in [["--continue", "list the files"], ["-c", "list the files"]] {
        assert_eq!(lines_of(&home, &args, "").0.last().unwrap()["sessionId"], session.as_str());
    }
    let end = &session[session.len() - 6..];
    assert_eq!(
        lines_of(&home, &["--session", end, "list the files"], "").0.last().unwrap()["sessionId"],
        session.as_str()
    );
    let unknown = home.run(&["ask", "--session", "nobody", "list the files"]);
    assert_eq!(unknown.status.code(), Some(4), "{unknown:?}");
    // Earlier text is not printed again.
    let again = home.run(&["ask", "--continue", "list the files"]);
    let answers = String::from_utf8(again.stdout).unwrap();
    assert_eq!(answers.matches("In this folder").count(), 1, "{answers}");
}

#[test]
fn mode_and_model_are_set_for_unattended_runs() {
    let home = Home::new();
    let (lines, code) =
        lines_of(&home, &["--allow", "--mode", "read-only", "--model", "rehearsal", "run the command: touch made"], "");
    assert_eq!((code, home.work().join("made").exists()), (Some(0), false), "{lines:?}");
    let mut editor = home.bridge();
    editor.initialize();
    let session = &lines.last().unwrap()["sessionId"];
    let opened = editor.ask("session/resume", json!({ "sessionId": session, "cwd": home.work() }));
    assert_eq!(opened["modes"]["currentModeId"], "read-only");
    let wrong = home.run(&["ask", "--model", "nobody/knows", "hello"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("nobody/knows"));
    assert_eq!(home.run(&["ask", "--mode", "reckless", "hello"]).status.code(), Some(2));
}

#[test]
fn an_interrupt_cancels_the_turn() {
    let home = Home::new();
    let mut command = home.acpd(&["ask", "--allow", "run the command: echo $$ > shell; sleep 1000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command to run", || {
        fs::read_to_string(home.work().join("shell")).ok().filter(|pid| pid.ends_with('\n'))
    });
    signal(child.id(), Signal::INT);
    let status = until("ask to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    let said: Vec<String> = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    assert!(said.iter().any(|line| line == "cancelled"), "{said:?}");
}

#[test]
fn a_failure_is_reported_once_on_stderr_in_plain_words() {
    let home = Home::new();
    home.configure(
        "[models]\ndefault = \"p/m\"\n[models.local]\nprobe = false\n[models.retry]\ntries = 1\n[models.providers.p]\n\
         kind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[[models.providers.p.models]]\nid = \"m\"\n",
    );
    let output = home.run(&["ask", "hello"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("cannot be reached").count(), 1, "{said}");
    assert!(said.contains("\n  hint: ") && !said.contains("session/"), "{said}");
}

#[test]
fn a_daemon_that_cannot_start_is_reported_plainly() {
    let home = Home::new();
    fs::create_dir_all(home.state().parent().unwrap()).unwrap();
    fs::write(home.state(), "in the way").unwrap();
    let output = home.run(&["ask", "hello"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("acpd: ") && said.contains(".local/state/acpd"), "{said}");
    assert!(said.contains("is a file, but acpd needs a folder there"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // The error is not repeated for every key that might be in that folder.
    let checked = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
    assert!(!checked.contains("Not a directory"), "{checked}");
}
