//! The operator's hooks: real commands that may refuse a call, comment on it, and send a turn back
//! to work.

use std::process::Command;

use serde_json::{Value, json};
use testkit::Step;

use crate::project::Project;

async fn hooked(hooks: Value, answers: Vec<Vec<Step>>) -> Project {
    Project::new(json!({}), &[("a.txt", "a\n")], answers, |settings| {
        settings.hooks = serde_json::from_value(hooks).unwrap();
    })
    .await
}

fn read_then_done() -> Vec<Vec<Step>> {
    vec![vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()], vec![Step::text("Done."), Step::end()]]
}

#[actix::test]
async fn a_hook_denies_a_call_and_the_model_receives_the_reason() {
    let mut at = hooked(json!({ "before_tool": [{ "command": "echo not today; exit 2" }] }), read_then_done()).await;
    let prompt = at.zed.prompt(&at.session, "read it").await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(transcript.contains("results: Permission denied: not today\n"), "{transcript}");
}

#[actix::test]
async fn a_hook_comments_on_an_outcome() {
    let hook = json!({ "tool": "read_*", "command": "grep -q completed && echo read the style guide too; exit 2" });
    let mut at = hooked(json!({ "after_tool": [hook] }), read_then_done()).await;
    let prompt = at.zed.prompt(&at.session, "read it").await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(transcript.contains("1\ta\n\n[a hook says: read the style guide too]\n"), "{transcript}");
}

#[actix::test]
async fn a_hook_continues_a_turn_until_it_is_satisfied() {
    let hook = json!({ "command": "test -f done || { touch done; echo the tests fail; exit 2; }" });
    let answers = vec![vec![Step::text("Done."), Step::end()], vec![Step::text("Mended."), Step::end()]];
    let mut at = hooked(json!({ "turn_end": [hook] }), answers).await;
    let prompt = at.zed.prompt(&at.session, "build it").await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    let expected = "model  < user: build it | agent: Done. | user: A hook did not let the turn end: the tests fail\n";
    assert!(transcript.contains(expected), "{transcript}");
    let shown = r#""content":{"type":"text","text":"A hook did not let the turn end: the tests fail"}"#;
    assert_eq!(transcript.matches(shown).count(), 1, "{transcript}");
}

#[actix::test]
async fn a_hook_that_is_never_content_does_not_keep_the_turn() {
    let answers = (0..4).map(|_| vec![Step::text("Done."), Step::end()]).collect();
    let mut at = hooked(json!({ "turn_end": [{ "command": "echo no; exit 2" }] }), answers).await;
    let prompt = at.zed.prompt(&at.session, "build it").await;
    let answer = at.zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(at.scene.script.unused(), 0);
}

#[actix::test]
async fn cancelling_does_not_wait_for_hooks() {
    let slow = json!([{ "command": "sleep 600" }]);
    for (hooks, begun) in
        [(json!({ "before_tool": slow }), "tool_call_update"), (json!({ "turn_end": slow }), "agent_message_chunk")]
    {
        let mut at = hooked(hooks, read_then_done()).await;
        let prompt = at.zed.prompt(&at.session, "read it").await;
        at.zed.update(begun).await;
        at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
        let answer = at.zed.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled");
    }
}

#[actix::test]
async fn an_edit_after_a_formatter_hook_is_made_and_both_are_undone() {
    let format = "sed -i 's/  */ /g' a.txt";
    let edit =
        |old: &str, new: &str| Step::call("edit_file", json!({ "path": "a.txt", "old_text": old, "new_text": new }));
    let answers = vec![
        vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()],
        vec![edit("one", "let  x  =  1"), Step::end()],
        vec![edit("let x = 1", "let  x  =  2"), Step::end()],
        vec![Step::call("write_file", json!({ "path": "a.txt", "content": "all  new\n" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ];
    let hooks = json!({ "after_tool": [{ "tool": "*_file", "command": format }] });
    let mut at = Project::new(json!({}), &[("a.txt", "one\n")], answers, |settings| {
        settings.hooks = serde_json::from_value(hooks).unwrap();
    })
    .await;
    at.configure("approval", "never").await;
    let prompt = at.zed.prompt(&at.session, "change it").await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    let expected = "[a hook has changed a.txt afterwards:]\n@@ -1 +1 @@\n-let  x  =  1\n+let x = 1";
    assert!(transcript.contains(expected), "{transcript}");
    assert_eq!(at.text("a.txt"), "all new\n", "{transcript}");
    let undo = at.zed.prompt(&at.session, "/undo").await;
    at.zed.answer(undo).await;
    assert_eq!(at.text("a.txt"), "one\n");
}

#[actix::test]
async fn a_mode_that_is_set_while_a_hook_runs_holds_for_its_call() {
    for (mode, approval, runs) in
        [("read-only", "never", false), ("read-only", "ask", false), ("safe", "never", false), ("full", "never", true)]
    {
        let write = Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" }));
        let answers = vec![vec![write, Step::end()], vec![Step::text("Done."), Step::end()]];
        let waiting = "echo > begun; cat go";
        let mut at = hooked(json!({ "before_tool": [{ "command": waiting }] }), answers).await;
        let (begun, go) = (at.folder.path().join("begun"), at.folder.path().join("go"));
        assert!(Command::new("mkfifo").args([&begun, &go]).status().unwrap().success());
        at.configure("mode", "full").await;
        if approval == "never" {
            at.configure("approval", "never").await;
        }
        let prompt = at.zed.prompt(&at.session, "write it").await;
        if approval == "ask" {
            let question = at.zed.receive("session/request_permission").await;
            at.zed.choose(&question, "allow_once").await;
        }
        tokio::fs::read(begun).await.unwrap();
        at.configure("mode", mode).await;
        tokio::fs::write(go, "").await.unwrap();
        at.zed.answer(prompt).await;
        assert_eq!(at.folder.path().join("b.txt").exists(), runs, "{mode} {approval}");
        let denied = format!("Permission denied: the user has set the mode `{mode}` since");
        assert_eq!(at.transcript().contains(&denied), !runs, "{mode} {approval}");
    }
}
