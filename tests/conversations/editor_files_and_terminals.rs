//! The editor that sent a prompt lends its unsaved files and its terminals to the real tools.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

use crate::project::Project;

async fn helped(offers: Value, files: &[(&str, &str)], answers: Vec<Vec<Step>>) -> Project {
    tokio::time::pause();
    let mut at = Project::new(offers, files, answers, |_| {}).await;
    at.configure("approval", "never").await;
    at
}

fn files() -> Value {
    json!({ "fs": { "readTextFile": true, "writeTextFile": true } })
}

fn terminals() -> Value {
    json!({ "terminal": true })
}

fn read_and_edit() -> Vec<Vec<Step>> {
    let edit = json!({ "path": "a.txt", "old_text": "unsaved", "new_text": "changed" });
    vec![
        vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()],
        vec![Step::call("edit_file", edit), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ]
}

#[actix::test]
async fn unsaved_text_is_read_and_changed_through_the_editor() {
    let mut at = helped(files(), &[("a.txt", "saved\n")], read_and_edit()).await;
    let prompt = at.zed.prompt(&at.session, "change it").await;
    // The file is read for the model, to show the change, and right before the change is made.
    for _ in 0..3 {
        let asked = at.zed.receive("fs/read_text_file").await;
        at.zed.reply(&asked, json!({ "content": "unsaved\n" })).await;
    }
    let asked = at.zed.receive("fs/write_text_file").await;
    at.zed.reply(&asked, json!({})).await;
    at.zed.answer(prompt).await;
    assert_eq!(at.text("a.txt"), "saved\n", "the editor has it, and saves it when it likes");
    let transcript = at.transcript();
    let asked: Vec<&str> =
        transcript.lines().filter_map(|line| line.split_once(" fs/")).map(|(_, asked)| asked).collect();
    expect![[r##"
        read_text_file {"sessionId":"#1","path":"DIR/a.txt"}
        read_text_file {"sessionId":"#1","path":"DIR/a.txt"}
        read_text_file {"sessionId":"#1","path":"DIR/a.txt"}
        write_text_file {"sessionId":"#1","path":"DIR/a.txt","content":"changed\n"}"##]]
    .assert_eq(&asked.join("\n"));
    assert!(transcript.contains(r#""oldText":"unsaved\n","newText":"changed\n""#), "{transcript}");
    assert!(transcript.contains("results: Replaced 1 occurrence in a.txt (+1 -1 lines)."), "{transcript}");
}

/// The editor's requests and updates about calls, in order.
fn course(transcript: &str) -> String {
    let received = transcript.lines().filter_map(|line| line.strip_prefix("zed    < "));
    let lines = received.filter_map(|line| {
        let word = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
            rest.split('"').next()
        };
        match line.strip_prefix("update ") {
            Some(_) => Some(format!("{} {}", word("sessionUpdate")?, word("status")?)),
            None => line.split(' ').find(|word| word.contains('/')).map(str::to_owned),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[actix::test]
async fn an_editor_sees_a_call_before_any_request_for_it() {
    let mut at = helped(files(), &[("a.txt", "saved\n")], read_and_edit()).await;
    let prompt = at.zed.prompt(&at.session, "change it").await;
    for _ in 0..3 {
        let asked = at.zed.receive("fs/read_text_file").await;
        at.zed.reply(&asked, json!({ "content": "unsaved\n" })).await;
    }
    let asked = at.zed.receive("fs/write_text_file").await;
    at.zed.reply(&asked, json!({})).await;
    at.zed.answer(prompt).await;
    // The second question comes before its call, because the call's update includes what it would
    // change.
    expect![[r#"
        tool_call pending
        tool_call_update in_progress
        fs/read_text_file
        tool_call_update completed
        fs/read_text_file
        tool_call pending
        tool_call_update in_progress
        fs/read_text_file
        fs/write_text_file
        tool_call_update completed"#]]
    .assert_eq(&course(&at.transcript()));
}

#[actix::test]
async fn a_slow_editor_is_asked_when_it_has_read_of_the_call() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), "saved\n").unwrap();
    let tools = tools::Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd")));
    let scene = Scene::adjusted(|ports| {
        ports.toolbox = Arc::new(tools);
        ports.settings.outbox_limit = 4000;
    });
    let mut answer: Vec<Step> = Vec::new();
    for piece in 0..100 {
        answer.extend([Step::text(format!("{piece:<2000}")), Step::thought("hm")]);
    }
    answer.extend([Step::call("read_file", json!({ "path": "a.txt" })), Step::end()]);
    scene.script.push(answer);
    scene.script.push(vec![Step::text("Done."), Step::end()]);
    let mut zed = scene.client_over(1000, "zed");
    zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": files() })).await;
    let session = zed.call("session/new", json!({ "cwd": folder.path() })).await["result"]["sessionId"].clone();
    let session = session.as_str().unwrap();
    let prompt = zed.prompt(session, "read it").await;
    let asked = zed.receive("fs/read_text_file").await;
    let transcript = scene.transcript.take();
    assert!(transcript.contains("\"sessionUpdate\":\"tool_call\""), "it was asked before it was told");
    zed.reply(&asked, json!({ "content": "unsaved\n" })).await;
    zed.answer(prompt).await;
    assert!(scene.transcript.take().contains("unsaved"));
}

#[actix::test]
async fn text_that_the_user_changed_since_it_was_read_is_not_overwritten() {
    let mut at = helped(files(), &[("a.txt", "saved\n")], read_and_edit()).await;
    let prompt = at.zed.prompt(&at.session, "change it").await;
    for text in ["unsaved\n", "another text\n"] {
        let asked = at.zed.receive("fs/read_text_file").await;
        at.zed.reply(&asked, json!({ "content": text })).await;
    }
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(transcript.contains("a.txt changed since it was read; read it again with read_file"), "{transcript}");
    assert!(!transcript.contains("fs/write_text_file"), "{transcript}");
}

#[actix::test]
async fn an_editor_that_refuses_or_is_silent_means_the_disk_for_reading() {
    let read = || vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()];
    let answers = vec![read(), read(), vec![Step::text("Done."), Step::end()]];
    let mut at = helped(files(), &[("a.txt", "saved\n")], answers).await;
    let prompt = at.zed.prompt(&at.session, "read it").await;
    let asked = at.zed.receive("fs/read_text_file").await;
    at.refuse(&asked, "the file is not open").await;
    at.zed.receive("fs/read_text_file").await;
    // The paused clock does not advance by itself while a thread waits.
    tokio::time::advance(Duration::from_secs(11)).await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    let twice = "results:      1\tsaved\n | agent: [read_file] | results:      1\tsaved\n";
    assert!(transcript.contains(twice), "{transcript}");
}

#[actix::test]
async fn a_write_that_the_editor_refuses_fails_the_call() {
    let write = json!({ "path": "new/b.txt", "content": "b\n" });
    let answers = vec![vec![Step::call("write_file", write), Step::end()], vec![Step::text("Oh."), Step::end()]];
    let mut at = helped(files(), &[], answers).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let asked = at.zed.receive("fs/write_text_file").await;
    at.refuse(&asked, "read-only buffer").await;
    at.zed.answer(prompt).await;
    assert!(!at.folder.path().join("new/b.txt").exists());
    let transcript = at.transcript();
    let said = "results: the editor did not write new/b.txt: read-only buffer; nothing was changed";
    assert!(transcript.contains(said), "{transcript}");
}

#[actix::test]
async fn the_editor_is_not_asked_about_files_outside_the_roots() {
    let answers = vec![
        vec![Step::call("read_file", json!({ "path": "/etc/passwd" })), Step::end()],
        vec![Step::call("write_file", json!({ "path": "/etc/motd", "content": "x" })), Step::end()],
        vec![Step::text("Oh."), Step::end()],
    ];
    let mut at = helped(files(), &[], answers).await;
    let prompt = at.zed.prompt(&at.session, "look around").await;
    at.zed.answer(prompt).await;
    assert!(!at.transcript().contains("fs/"), "the editor was asked");
}

#[actix::test]
async fn unsaved_text_that_cannot_be_written_back_is_left_alone() {
    let offers = json!({ "fs": { "readTextFile": true } });
    let mut at = helped(offers, &[("a.txt", "saved\n")], read_and_edit()).await;
    let prompt = at.zed.prompt(&at.session, "change it").await;
    for _ in 0..2 {
        let asked = at.zed.receive("fs/read_text_file").await;
        at.zed.reply(&asked, json!({ "content": "unsaved\n" })).await;
    }
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(
        transcript.contains("a.txt has unsaved changes in the editor; the user must save or discard"),
        "{transcript}"
    );
    assert_eq!(at.text("a.txt"), "saved\n");
}

fn run(command: &str, timeout: u64) -> Vec<Vec<Step>> {
    let call = Step::call("bash", json!({ "command": command, "timeout_ms": timeout }));
    vec![vec![call, Step::end()], vec![Step::text("Done."), Step::end()]]
}

#[actix::test]
async fn a_command_runs_in_the_editors_terminal_and_others_get_its_text() {
    let mut at = helped(terminals(), &[], run("make", 60_000)).await;
    let mut vim = at.watcher("vim").await;
    let prompt = at.zed.prompt(&at.session, "build it").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.reply(&asked, json!({ "terminalId": "t1" })).await;
    let exit = at.zed.receive("terminal/wait_for_exit").await;
    let asked = at.zed.receive("terminal/output").await;
    at.zed.reply(&asked, json!({ "output": "building\r\n", "truncated": false })).await;
    at.zed.update("tool_call_update").await;
    at.zed.reply(&exit, json!({ "exitCode": 2, "signal": null })).await;
    let asked = at.zed.receive("terminal/output").await;
    at.zed.reply(&asked, json!({ "output": "building\r\nbroken\r\n", "truncated": false })).await;
    at.zed.receive("terminal/release").await;
    at.zed.answer(prompt).await;
    vim.silence().await;
    expect![[r##"
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"build it"}]}
        model  < user: build it
        zed    < update {"sessionUpdate":"session_info_update","title":"build it","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"execute","status":"pending","title":"make","name":"bash","content":[{"type":"content","content":{"type":"text","text":"make"}}],"rawInput":{"command":"make","timeout_ms":60000}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress"}
        zed    < "#3" terminal/create {"sessionId":"#1","command":"/bin/bash","args":["-c","make"],"env":[{"name":"NO_COLOR","value":"1"},{"name":"PAGER","value":"cat"},{"name":"MANPAGER","value":"cat"},{"name":"GIT_PAGER","value":"cat"},{"name":"GIT_EDITOR","value":"true"},{"name":"GIT_TERMINAL_PROMPT","value":"0"},{"name":"GIT_CONFIG_COUNT","value":"2"},{"name":"GIT_CONFIG_KEY_0","value":"safe.bareRepository"},{"name":"GIT_CONFIG_VALUE_0","value":"explicit"},{"name":"GIT_CONFIG_KEY_1","value":"core.fsmonitor"},{"name":"GIT_CONFIG_VALUE_1","value":"false"},{"name":"ACPD_TOOL","value":"none@"}],"cwd":"DIR","outputByteLimit":49152}
        zed    > "#3" = {"terminalId":"t1"}
        zed    < "#4" terminal/wait_for_exit {"sessionId":"#1","terminalId":"t1"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress","content":[{"type":"terminal","terminalId":"t1"}]}
        zed    < "#5" terminal/output {"sessionId":"#1","terminalId":"t1"}
        zed    > "#5" = {"output":"building\r\n","truncated":false}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress","content":[{"type":"terminal","terminalId":"t1"}]}
        zed    > "#4" = {"exitCode":2,"signal":null}
        zed    < "#6" terminal/output {"sessionId":"#1","terminalId":"t1"}
        zed    > "#6" = {"output":"building\r\nbroken\r\n","truncated":false}
        model  < user: build it | agent: [bash] | results: building
        broken
        [exit status 2]
        zed    < "#7" terminal/release {"sessionId":"#1","terminalId":"t1"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"failed","content":[{"type":"terminal","terminalId":"t1"}],"rawOutput":{"exitCode":2,"signal":null,"timedOut":false,"truncated":false,"text":"building\nbroken\n[exit status 2]"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#8"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#9"}}}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"build it"},"messageId":"#9"}
        vim    < update {"sessionUpdate":"session_info_update","title":"build it","updatedAt":"T"}
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"execute","status":"pending","title":"make","name":"bash","content":[{"type":"content","content":{"type":"text","text":"make"}}],"rawInput":{"command":"make","timeout_ms":60000}}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"make"}}]}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"building\n"}}]}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"failed","content":[{"type":"content","content":{"type":"text","text":"building\nbroken\n[exit status 2]"}}],"rawOutput":{"exitCode":2,"signal":null,"timedOut":false,"truncated":false,"text":"building\nbroken\n[exit status 2]"}}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#8"}
        vim    < silence
    "##]].assert_eq(&at.transcript());
}

#[actix::test]
async fn cancelling_kills_the_command_in_the_terminal_and_releases_it() {
    let mut at = helped(terminals(), &[], run("sleep 600", 600_000)).await;
    let prompt = at.zed.prompt(&at.session, "wait").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.reply(&asked, json!({ "terminalId": "t1" })).await;
    at.zed.receive("terminal/wait_for_exit").await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    let asked = at.zed.receive("terminal/kill").await;
    at.zed.reply(&asked, json!({})).await;
    let asked = at.zed.receive("terminal/output").await;
    at.zed.reply(&asked, json!({ "output": "", "truncated": false })).await;
    at.zed.receive("terminal/release").await;
    let answer = at.zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
}

#[actix::test]
async fn a_terminal_that_opens_after_the_cancel_is_released_too() {
    let mut at = helped(terminals(), &[], run("sleep 600", 600_000)).await;
    let prompt = at.zed.prompt(&at.session, "wait").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    at.zed.answer(prompt).await;
    at.zed.reply(&asked, json!({ "terminalId": "t1" })).await;
    let released = at.zed.receive("terminal/release").await;
    assert_eq!(released["params"]["terminalId"], "t1");
}

#[actix::test]
async fn a_command_that_takes_too_long_is_killed_in_the_terminal() {
    let mut at = helped(terminals(), &[], run("sleep 600", 500)).await;
    let prompt = at.zed.prompt(&at.session, "wait").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.reply(&asked, json!({ "terminalId": "t1" })).await;
    let asked = at.zed.receive("terminal/kill").await;
    at.zed.reply(&asked, json!({})).await;
    let asked = at.zed.receive("terminal/output").await;
    at.zed.reply(&asked, json!({ "output": "zzz\n", "truncated": false })).await;
    at.zed.receive("terminal/release").await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(transcript.contains("results: zzz\n[timed out after 500 ms; the command was stopped]"), "{transcript}");
}

#[actix::test]
async fn output_that_the_editors_terminal_no_longer_has_is_cut_with_advice() {
    let mut at = helped(terminals(), &[], run("make", 60_000)).await;
    let prompt = at.zed.prompt(&at.session, "build it").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.reply(&asked, json!({ "terminalId": "t1" })).await;
    let asked = at.zed.receive("terminal/wait_for_exit").await;
    at.zed.reply(&asked, json!({ "exitCode": 0 })).await;
    let asked = at.zed.receive("terminal/output").await;
    at.zed.reply(&asked, json!({ "output": "the end\n", "truncated": true })).await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    let cut = "results: [the beginning is cut, because the editor's terminal keeps only the end;";
    assert!(
        transcript.contains(cut) && transcript.contains("send the output to a file and read that]"),
        "{transcript}"
    );
}

#[actix::test]
async fn a_call_in_an_editors_terminal_fails_if_the_editor_disconnects() {
    let mut at = helped(terminals(), &[], run("make", 60_000)).await;
    let mut vim = at.watcher("vim").await;
    at.zed.prompt(&at.session, "build it").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.reply(&asked, json!({ "terminalId": "t1" })).await;
    at.zed.receive("terminal/wait_for_exit").await;
    at.zed.close().await;
    vim.update("agent_message_chunk").await;
    let transcript = at.transcript();
    assert!(transcript.contains("results: [the editor in whose terminal the command ran is gone;"), "{transcript}");
}

#[actix::test]
async fn the_sandbox_and_the_background_use_no_terminal_of_the_editor() {
    let call = Step::call("bash", json!({ "command": "true", "background": true }));
    let mut answers = vec![vec![call, Step::end()]];
    answers.extend(run("true", 1000));
    answers[1].insert(0, Step::Hold);
    let mut at = helped(terminals(), &[], answers).await;
    // Real processes run here, and a paused clock does not wait for them.
    tokio::time::resume();
    let prompt = at.zed.prompt(&at.session, "go").await;
    at.scene.script.until_held(1).await;
    at.zed.call("session/set_mode", json!({ "sessionId": at.session, "modeId": "sandbox" })).await;
    at.scene.script.release();
    at.zed.answer(prompt).await;
    assert!(!at.transcript().contains("terminal/create"));
}

#[actix::test]
async fn a_slow_write_by_the_editor_is_not_made_on_disk() {
    let write = json!({ "path": "b.txt", "content": "b\n" });
    let answers = vec![vec![Step::call("write_file", write), Step::end()], vec![Step::text("Done."), Step::end()]];
    let mut at = helped(files(), &[], answers).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let asked = at.zed.receive("fs/write_text_file").await;
    tokio::time::advance(Duration::from_secs(600)).await;
    at.zed.reply(&asked, json!({})).await;
    at.zed.answer(prompt).await;
    assert!(!at.folder.path().join("b.txt").exists(), "the editor has it");
    let transcript = at.transcript();
    assert!(transcript.contains("results: Created b.txt") && !transcript.contains("$/cancel_request"), "{transcript}");
}

#[actix::test]
async fn cancelling_a_turn_withdraws_an_editors_unfinished_write() {
    let write = json!({ "path": "b.txt", "content": "b\n" });
    let mut at = helped(files(), &[], vec![vec![Step::call("write_file", write), Step::end()]]).await;
    // A thread waits for the editor, and the clock must advance while the call is abandoned.
    tokio::time::resume();
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let asked = at.zed.receive("fs/write_text_file").await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    let withdrawn = at.zed.receive("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "cancelled");
    assert!(!at.folder.path().join("b.txt").exists());
}

#[actix::test]
async fn a_repeated_load_does_not_withdraw_requests_of_the_running_turn() {
    let write = json!({ "path": "b.txt", "content": "b\n" });
    let said = |text: &'static str| vec![Step::text(text), Step::end()];
    let answers = vec![said("Hello."), vec![Step::call("write_file", write), Step::end()], said("Done.")];
    let mut at = helped(files(), &[], answers).await;
    let prompt = at.zed.prompt(&at.session, "hello").await;
    at.zed.answer(prompt).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let asked = at.zed.receive("fs/write_text_file").await;
    let load = json!({ "sessionId": at.session, "cwd": at.folder.path(), "mcpServers": [] });
    at.zed.call("session/load", load).await;
    at.zed.reply(&asked, json!({})).await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(transcript.contains("results: Created b.txt") && !transcript.contains("$/cancel_request"), "{transcript}");
}

#[actix::test]
async fn a_terminal_created_after_its_turn_ended_is_released() {
    let mut at = helped(terminals(), &[], run("sleep 600", 600_000)).await;
    let prompt = at.zed.prompt(&at.session, "wait").await;
    let asked = at.zed.receive("terminal/create").await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    let withdrawn = at.zed.receive("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    at.zed.answer(prompt).await;
    at.zed.reply(&asked, json!({ "terminalId": "t9" })).await;
    let released = at.zed.receive("terminal/release").await;
    assert_eq!(released["params"]["terminalId"], "t9");
}

#[actix::test]
async fn a_background_command_keeps_its_session_in_memory_and_is_shown() {
    let call = Step::call("bash", json!({ "command": "sleep 1000", "background": true }));
    let stop = Step::call("bash_stop", json!({ "id": "bg1" }));
    let answers = vec![vec![call, Step::end()], vec![Step::text("Started."), Step::end()], vec![stop, Step::end()]];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let prompt = at.zed.prompt(&at.session, "start it").await;
    at.zed.answer(prompt).await;
    at.zed.close().await;
    let mut ctl = at.scene.client("ctl");
    tokio::time::pause();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(700)).await;
        let sessions = ctl.call("_acpd/sessions", json!({})).await;
        assert_eq!(sessions["result"]["sessions"][0]["background"], json!(["`bg1` (sleep 1000)"]), "{sessions}");
    }
    let details = ctl.call("_acpd/session", json!({ "sessionId": at.session })).await;
    assert_eq!(details["result"]["card"]["background"], json!(["`bg1` (sleep 1000)"]), "{details}");
}

#[actix::test]
async fn a_part_of_a_file_is_asked_for_by_its_lines() {
    let read = || vec![Step::call("read_file", json!({ "path": "a.txt", "offset": 2, "limit": 2 })), Step::end()];
    let done = || vec![Step::text("Done."), Step::end()];
    let answers = vec![read(), done(), read(), done(), read(), done()];
    let mut at = helped(files(), &[("a.txt", "1\n2\n3\n4\n")], answers).await;
    // The same as on disk; with a change; and from an editor that ignores the requested lines.
    for replies in [vec!["2\n3"], vec!["two\n3", "1\ntwo\n3\n4\n"], vec!["1\n2\n3\n4\n"]] {
        let prompt = at.zed.prompt(&at.session, "read it").await;
        for text in replies {
            let asked = at.zed.receive("fs/read_text_file").await;
            at.zed.reply(&asked, json!({ "content": text })).await;
        }
        at.zed.answer(prompt).await;
    }
    let transcript = at.transcript();
    let asked: Vec<&str> =
        transcript.lines().filter_map(|line| line.split_once(" fs/")).map(|(_, asked)| asked).collect();
    expect![[r##"
        read_text_file {"sessionId":"#1","path":"DIR/a.txt","line":2,"limit":2}
        read_text_file {"sessionId":"#1","path":"DIR/a.txt","line":2,"limit":2}
        read_text_file {"sessionId":"#1","path":"DIR/a.txt"}
        read_text_file {"sessionId":"#1","path":"DIR/a.txt","line":2,"limit":2}"##]]
    .assert_eq(&asked.join("\n"));
    assert!(transcript.contains("2\\ttwo"), "{transcript}");
}
