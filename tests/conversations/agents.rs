//! Sub-agents: one tool call with progress, the same questions, a bounded budget, and a report for
//! the model.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use testkit::Step;

use crate::project::Project;

/// The model delegates, the sub-agent answers as given, and the model is done.
async fn delegating(input: Value, sub: Vec<Vec<Step>>) -> Project {
    tokio::time::pause();
    let mut answers = vec![vec![Step::call("agent", input), Step::end()]];
    answers.extend(sub);
    answers.push(vec![Step::text("Done."), Step::end()]);
    Project::new(json!({}), &[("a.txt", "a\n")], answers, |_| {}).await
}

impl Project {
    /// Sends the prompt and approves the sub-agent.
    async fn delegate(&mut self) -> u64 {
        let prompt = self.zed.prompt(&self.session, "find out").await;
        let question = self.zed.receive("session/request_permission").await;
        self.zed.choose(&question, "allow_once").await;
        prompt
    }
}

fn read() -> Vec<Step> {
    vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()]
}

fn report(text: &str) -> Vec<Step> {
    vec![Step::text(text), Step::end()]
}

#[actix::test]
async fn a_sub_agent_is_one_call_whose_report_reaches_the_model() {
    let sub = vec![read(), report("It says a.")];
    let mut at = delegating(json!({ "task": "Read a.txt and report.", "description": "Read a file" }), sub).await;
    let prompt = at.delegate().await;
    at.zed.answer(prompt).await;
    let mut vim = at.scene.editor("vim").await;
    let load = json!({ "sessionId": at.session, "cwd": at.folder.path(), "mcpServers": [] });
    let live = at.transcript();
    vim.call("session/load", load).await;
    // The order of messages to the model relative to those to the editor is not defined.
    let shown: Vec<&str> = live.lines().filter(|line| line.starts_with("zed    < update")).collect();
    expect![[r##"
        zed    < update {"sessionUpdate":"session_info_update","title":"find out","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"execute","status":"pending","title":"Delegate: Read a file","name":"agent","content":[{"type":"content","content":{"type":"text","text":"Read a.txt and report."}},{"type":"content","content":{"type":"text","text":"The sub-agent may only read."}}],"rawInput":{"task":"Read a.txt and report.","description":"Read a file"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"- Read a.txt"}}]}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"completed","content":[{"type":"content","content":{"type":"text","text":"It says a."}}],"rawOutput":{"steps":1,"text":"It says a.\n\n[To ask this sub-agent more, give `id`: \"agent-9\" and another task.]"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#4"}"##]].assert_eq(&shown.join("\n"));
    assert!(live.contains("model  < user: find out | agent: [agent] | results: It says a.\n"), "{live}");
    assert!(live.contains("[To ask this sub-agent more, give `id`: \"agent-"), "{live}");
    let replayed = at.transcript();
    let calls: Vec<&str> = replayed.lines().filter(|line| line.contains("\"tool_call\"")).collect();
    assert_eq!(calls.len(), 1, "{replayed}");
}

#[actix::test]
async fn a_sub_agents_question_reaches_the_user_and_its_changes_are_undoable() {
    let write = vec![Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" })), Step::end()];
    let sub = vec![write, report("Written.")];
    let mut at = delegating(json!({ "task": "Write b.txt.", "tools": "all" }), sub).await;
    let prompt = at.delegate().await;
    let question = at.zed.receive("session/request_permission").await;
    assert_eq!(question["params"]["toolCall"]["title"], "Create b.txt");
    at.zed.choose(&question, "allow_once").await;
    let call = question["params"]["toolCall"]["toolCallId"].clone();
    at.zed
        .until(|message| {
            let update = &message["params"]["update"];
            update["toolCallId"] == call && update["status"] == "completed"
        })
        .await;
    at.zed.answer(prompt).await;
    assert_eq!(at.text("b.txt"), "b\n");
    let prompt = at.zed.prompt(&at.session, "/undo").await;
    at.zed.answer(prompt).await;
    assert!(!at.folder.path().join("b.txt").exists());
}

#[actix::test]
async fn a_read_only_sub_agent_writes_nothing_and_has_no_sub_agents() {
    let tries = vec![
        Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" })),
        Step::call("agent", json!({ "task": "Write b.txt." })),
        Step::end(),
    ];
    let mut at = delegating(json!({ "task": "Write b.txt." }), vec![tries, report("I cannot.")]).await;
    let prompt = at.delegate().await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    let expected = "results: the session's mode `read-only` leaves out `write_file`; only the user can change it, \
                 a sub-agent has no sub-agents; do the work yourself\n";
    assert!(transcript.contains(expected), "{transcript}");
    assert!(!at.folder.path().join("b.txt").exists());
}

#[actix::test]
async fn cancelling_reaches_the_sub_agent() {
    let mut at = delegating(json!({ "task": "Wait." }), vec![vec![Step::Hold]]).await;
    let prompt = at.delegate().await;
    at.scene.script.until_held(1).await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    let answer = at.zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    at.scene.script.until_dropped(1).await;
    let transcript = at.transcript();
    assert!(transcript.contains("Cancelled by the user."), "{transcript}");
}

#[actix::test]
async fn a_sub_agent_has_a_budget_and_its_crash_fails_the_call() {
    // The thirtieth request is the last. Its call is refused, and the report is asked for once
    // more.
    let endless = (0..30).map(|_| read()).chain([report("Half of it.")]);
    let mut at = delegating(json!({ "task": "Go on and on." }), endless.collect()).await;
    let prompt = at.delegate().await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(transcript.contains("agent: [agent] | results: Half of it.\n"), "{transcript}");

    at.scene.script.push(vec![Step::call("agent", json!({ "task": "Crash." })), Step::end()]);
    at.scene.script.push(vec![Step::Panic]);
    at.scene.script.push(report("Oh."));
    let prompt = at.delegate().await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    let expected = "results: The sub-agent did not finish: its turn crashed; this is a bug in acpd.\n";
    assert!(transcript.contains(expected), "{transcript}");
}

/// Starts a turn in which a sub-agent has asked and the user has not answered.
async fn asked_by_sub_agent() -> Project {
    let write = vec![Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" })), Step::end()];
    let mut at = delegating(json!({ "task": "Write b.txt.", "tools": "all" }), vec![write]).await;
    at.delegate().await;
    at.zed.receive("session/request_permission").await;
    at
}

/// Another editor loads the session, which explains why its turn has ended.
async fn loads_the_reason(at: &Project) {
    let mut vim = at.scene.editor("vim").await;
    at.transcript();
    let load = json!({ "sessionId": at.session, "cwd": at.folder.path(), "mcpServers": [] });
    vim.call("session/load", load).await;
    vim.silence().await;
    let replayed = at.transcript();
    assert!(replayed.contains("a sub-agent waited for your answer"), "{replayed}");
    assert!(!replayed.contains("request_permission"), "{replayed}");
    assert!(!at.folder.path().join("b.txt").exists());
}

#[actix::test]
async fn a_sub_agents_question_ends_with_the_daemon_and_a_notice_explains_it() {
    let at = asked_by_sub_agent().await;
    at.scene.crash().await;
    loads_the_reason(&at).await;
}

#[actix::test]
async fn a_daemon_that_stops_says_why_it_ends_a_sub_agents_question() {
    let mut at = asked_by_sub_agent().await;
    at.scene.runtime.drain(Duration::from_secs(5)).await;
    at.scene = at.scene.restarted();
    loads_the_reason(&at).await;
}

#[actix::test]
async fn a_sub_agent_cannot_change_the_mode_and_the_user_is_not_asked() {
    let switch = vec![Step::call("switch_mode", json!({ "mode": "read-only" })), Step::end()];
    let mut at = delegating(json!({ "task": "Look.", "tools": "all" }), vec![switch, report("Stuck.")]).await;
    let prompt = at.delegate().await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert_eq!(transcript.matches("session/request_permission").count(), 1, "{transcript}");
    assert!(transcript.contains("results: a sub-agent cannot change the session's mode"), "{transcript}");
}

#[actix::test]
async fn a_mode_that_the_user_chooses_holds_for_running_sub_agents() {
    let write = |name: &str| vec![Step::call("write_file", json!({ "path": name, "content": "x\n" })), Step::end()];
    let sub = vec![write("b.txt"), write("c.txt"), report("Done.")];
    let mut at = delegating(json!({ "task": "Write both.", "tools": "all" }), sub).await;
    let prompt = at.delegate().await;
    let question = at.zed.receive("session/request_permission").await;
    let mode = json!({ "sessionId": at.session, "modeId": "read-only" });
    assert!(at.zed.call("session/set_mode", mode).await["error"].is_null());
    at.zed.choose(&question, "allow_once").await;
    at.zed.answer(prompt).await;
    assert!(!at.folder.path().join("b.txt").exists(), "it was planned for another mode");
    assert!(!at.folder.path().join("c.txt").exists());
    assert_eq!(at.transcript().matches("session/request_permission").count(), 2);
}
