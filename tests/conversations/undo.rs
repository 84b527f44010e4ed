//! Undo and redo: the files that a turn changed are restored, and changes by others are not lost.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use domain::checkpoint::{Restore, Restored};
use domain::tool::{Job, PlanRefusal, ToolRequest, ToolSpec, Toolbox};
use domain::{CallSite, Mode, SessionId};
use expect_test::expect;
use futures_util::future::BoxFuture;
use serde_json::json;
use testkit::Step;
use tools::Registry;

use crate::project::Project;

/// One turn that changes `a.txt` twice and creates `b.txt`, followed by answers that are only text.
async fn changed(more: Vec<Vec<Step>>) -> Project {
    tokio::time::pause();
    let edit =
        |old: &str, new: &str| Step::call("edit_file", json!({ "path": "a.txt", "old_text": old, "new_text": new }));
    let mut answers = vec![
        vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()],
        vec![edit("one", "two"), edit("two", "three"), Step::end()],
        vec![Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ];
    answers.extend(more);
    let mut at = Project::new(json!({}), &[("a.txt", "one\n")], answers, |_| {}).await;
    at.configure("approval", "never").await;
    at.ask("change them").await;
    assert_eq!((at.text("a.txt").as_str(), at.text("b.txt").as_str()), ("three\n", "b\n"));
    at.transcript();
    at
}

impl Project {
    async fn ask(&mut self, text: &str) {
        let prompt = self.zed.prompt(&self.session, text).await;
        self.zed.answer(prompt).await;
    }

    fn has(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }
}

#[actix::test]
async fn a_turns_changes_are_undone_and_redone_and_the_model_is_informed() {
    let mut at = changed(vec![vec![Step::text("I see."), Step::end()]]).await;
    at.ask("/undo").await;
    assert_eq!((at.text("a.txt").as_str(), at.has("b.txt")), ("one\n", false));
    at.ask("/undo").await;
    at.ask("/redo").await;
    assert_eq!((at.text("a.txt").as_str(), at.text("b.txt").as_str()), ("three\n", "b\n"));
    at.ask("/redo").await;
    at.ask("/undo").await;
    at.ask("well?").await;
    expect![[r##"
        zed    > 5 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/undo"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- `DIR/a.txt` is as it was before\n- `DIR/b.txt` is as it was before"},"messageId":"#8"}
        zed    < 5 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#9"}}}
        zed    > 6 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/undo"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"There is nothing to undo."},"messageId":"#10"}
        zed    < 6 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#11"}}}
        zed    > 7 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/redo"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- `DIR/a.txt` is changed again\n- `DIR/b.txt` is changed again"},"messageId":"#12"}
        zed    < 7 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#13"}}}
        zed    > 8 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/redo"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"There is nothing to redo."},"messageId":"#14"}
        zed    < 8 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#15"}}}
        zed    > 9 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/undo"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- `DIR/a.txt` is as it was before\n- `DIR/b.txt` is as it was before"},"messageId":"#16"}
        zed    < 9 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#17"}}}
        zed    > 10 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"well?"}]}
        model  < user: change them | agent: [read_file] | results:      1	one
         | agent: [edit_file] [edit_file] | results: Replaced 1 occurrence in a.txt (+1 -1 lines).
             1	two, Replaced 1 occurrence in a.txt (+1 -1 lines).
             1	three | agent: [write_file] | results: Created b.txt (+1 -0 lines). | agent: Done. | user: [The user has undone your changes to DIR/a.txt, DIR/b.txt.] | user: [The user has made your changes to DIR/a.txt, DIR/b.txt again.] | user: [The user has undone your changes to DIR/a.txt, DIR/b.txt.] | user: well?
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I see."},"messageId":"#18"}
        zed    < 10 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#19"}}}
    "##]].assert_eq(&at.transcript());
}

#[actix::test]
async fn a_file_that_was_changed_by_hand_since_is_left_and_named() {
    let mut at = changed(Vec::new()).await;
    fs::write(at.folder.path().join("a.txt"), "mine\n").unwrap();
    at.ask("/undo").await;
    assert_eq!((at.text("a.txt").as_str(), at.has("b.txt")), ("mine\n", false));
    let transcript = at.transcript();
    assert!(transcript.contains("`DIR/a.txt` is left as it is: it was changed since"), "{transcript}");
}

#[actix::test]
async fn ctl_undo_works_on_closed_sessions_but_not_during_a_turn() {
    let mut at = changed(vec![vec![Step::Hold]]).await;
    let mut ctl = at.scene.client("ctl");
    at.zed.call("session/close", json!({ "sessionId": at.session })).await;
    at.transcript();
    ctl.call("_acpd/undo", json!({ "sessionId": at.session })).await;
    assert_eq!((at.text("a.txt").as_str(), at.has("b.txt")), ("one\n", false));
    ctl.call("_acpd/undo", json!({ "sessionId": at.session, "redo": true })).await;
    assert_eq!((at.text("a.txt").as_str(), at.has("b.txt")), ("three\n", true));
    ctl.call("_acpd/undo", json!({ "sessionId": at.session, "redo": true })).await;
    ctl.call("_acpd/undo", json!({ "sessionId": at.session, "redo": "yes" })).await;
    let load = json!({ "sessionId": at.session, "cwd": at.folder.path(), "mcpServers": [] });
    let transcript = at.transcript();
    at.zed.call("session/load", load).await;
    at.zed.prompt(&at.session, "go on").await;
    at.scene.script.until_held(1).await;
    at.transcript();
    ctl.call("_acpd/undo", json!({ "sessionId": at.session })).await;
    expect![[r##"
        ctl    > 1 _acpd/undo {"sessionId":"#1"}
        ctl    < 1 = {"files":[{"path":"DIR/a.txt"},{"path":"DIR/b.txt"}]}
        ctl    > 2 _acpd/undo {"sessionId":"#1","redo":true}
        ctl    < 2 = {"files":[{"path":"DIR/a.txt"},{"path":"DIR/b.txt"}]}
        ctl    > 3 _acpd/undo {"sessionId":"#1","redo":true}
        ctl    < 3 = {"files":[]}
        ctl    > 4 _acpd/undo {"sessionId":"#1","redo":"yes"}
        ctl    < 4 error {"code":-32602,"message":"Invalid params","data":{"redo":"Must be a boolean"}}
        ctl    > 5 _acpd/undo {"sessionId":"#1"}
        ctl    < 5 error {"code":-32600,"message":"a turn or an undo is running","data":{"advice":"wait for its end, or cancel it"}}
    "##]]
    .assert_eq(&(transcript + &at.transcript()));
}

/// The real tools, except that the removal of one file never completes or gives up, as with an
/// editor that does not answer.
struct StuckToolbox {
    tools: Registry,
    file: PathBuf,
}

impl Toolbox for StuckToolbox {
    fn offer(&self, session: &SessionId, mode: Mode) -> Vec<Arc<ToolSpec>> {
        self.tools.offer(session, mode)
    }

    fn plan(&self, request: ToolRequest, site: Arc<CallSite>) -> BoxFuture<'static, Result<Box<dyn Job>, PlanRefusal>> {
        self.tools.plan(request, site)
    }

    fn restore(&self, steps: Vec<Restore>, site: Arc<CallSite>) -> BoxFuture<'static, Vec<Restored>> {
        if steps.iter().any(|step| step.path.ends_with(&self.file) && step.to.is_none()) {
            return Box::pin(std::future::pending());
        }
        self.tools.restore(steps, site)
    }
}

/// The answer to an `/undo` that was cancelled while this file was being restored, and what the
/// editor received.
async fn cancelled_at(file: &str) -> (Project, String) {
    tokio::time::pause();
    let write = |name: &str| Step::call("write_file", json!({ "path": name, "content": "new\n" }));
    let answers =
        vec![vec![write("a.txt"), write("b.txt"), write("c.txt"), Step::end()], vec![Step::text("Done."), Step::end()]];
    let tools =
        |settings| Arc::new(StuckToolbox { tools: Registry::new(settings), file: file.into() }) as Arc<dyn Toolbox>;
    let mut at = Project::with_tools(json!({}), &[], answers, |_| {}, tools).await;
    at.configure("approval", "never").await;
    at.ask("write them").await;
    at.transcript();
    let prompt = at.zed.prompt(&at.session, "/undo").await;
    at.zed.silence().await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    let answer = at.zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    let said = at.transcript();
    let said = said.lines().filter(|line| line.contains("agent_message_chunk")).collect::<Vec<_>>().join("\n");
    (at, said)
}

#[actix::test]
async fn a_cancelled_undo_lists_restored_files_and_how_to_start_over() {
    let (mut at, said) = cancelled_at("b.txt").await;
    expect![[r##"
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- `DIR/a.txt` is as it was before\n- `DIR/b.txt`: cancelled while it was being written; it may be as it was, or not\n- `DIR/c.txt` is left as it is: this was cancelled before"},"messageId":"#7"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"This was cancelled half-way. To start over, `/redo` and then `/undo`."},"messageId":"#8"}"##]].assert_eq(&said);
    assert_eq!(["a.txt", "b.txt", "c.txt"].map(|name| at.has(name)), [false, true, true]);
    at.ask("/redo").await;
    assert_eq!(["a.txt", "b.txt", "c.txt"].map(|name| at.has(name)), [true, true, true]);
}

#[actix::test]
async fn an_undo_can_be_cancelled_during_its_first_file() {
    let (at, said) = cancelled_at("a.txt").await;
    expect![[r##"
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- `DIR/a.txt`: cancelled while it was being written; it may be as it was, or not\n- `DIR/b.txt` is left as it is: this was cancelled before\n- `DIR/c.txt` is left as it is: this was cancelled before"},"messageId":"#7"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"This was cancelled half-way. To start over, `/redo` and then `/undo`."},"messageId":"#8"}"##]].assert_eq(&said);
    assert_eq!(["a.txt", "b.txt", "c.txt"].map(|name| at.has(name)), [true, true, true]);
}

#[actix::test]
async fn deletions_and_moves_are_undone_and_redone() {
    tokio::time::pause();
    let answers = vec![
        vec![
            Step::call("delete_file", json!({ "path": "a.txt" })),
            Step::call("move_file", json!({ "from": "b.txt", "to": "deep/c.txt" })),
            Step::end(),
        ],
        vec![Step::text("Done."), Step::end()],
    ];
    let mut at = Project::new(json!({}), &[("a.txt", "a\n"), ("b.txt", "b\n")], answers, |_| {}).await;
    at.configure("approval", "accept-edits").await;
    let prompt = at.zed.prompt(&at.session, "tidy up").await;
    for kind in ["delete", "move"] {
        let question = at.zed.receive("session/request_permission").await;
        assert_eq!(question["params"]["toolCall"]["kind"], kind);
        at.zed.choose(&question, "allow_once").await;
    }
    at.zed.answer(prompt).await;
    let there = |at: &Project| ["a.txt", "b.txt", "deep/c.txt"].map(|name| at.has(name));
    assert_eq!(there(&at), [false, false, true]);
    at.ask("/undo").await;
    assert_eq!(there(&at), [true, true, false]);
    assert_eq!((at.text("a.txt").as_str(), at.text("b.txt").as_str()), ("a\n", "b\n"));
    at.ask("/redo").await;
    assert_eq!(there(&at), [false, false, true]);
}

#[actix::test]
async fn nothing_else_happens_in_a_session_while_ctl_undoes_in_it() {
    tokio::time::pause();
    let write = Step::call("write_file", json!({ "path": "a.txt", "content": "new\n" }));
    let answers = vec![vec![write, Step::end()], vec![Step::text("Done."), Step::end()]];
    let tools =
        |settings| Arc::new(StuckToolbox { tools: Registry::new(settings), file: "a.txt".into() }) as Arc<dyn Toolbox>;
    let mut at = Project::with_tools(json!({}), &[], answers, |_| {}, tools).await;
    at.configure("approval", "never").await;
    at.ask("write it").await;
    let mut ctl = at.scene.client("ctl");
    let undo = ctl.request("_acpd/undo", json!({ "sessionId": at.session })).await;
    ctl.silence().await;
    at.transcript();
    // Neither a prompt nor another undo can interrupt it, and the session is not evicted.
    at.ask("and now").await;
    let mut other = at.scene.client("other");
    other.call("_acpd/undo", json!({ "sessionId": at.session })).await;
    let zed = std::mem::replace(&mut at.zed, at.scene.client("zed"));
    drop(zed);
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    let sessions = other.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"][0]["state"], "running");
    // It can be cancelled, after which the session is free again.
    other.call("_acpd/cancel", json!({ "sessionId": at.session })).await;
    ctl.answer(undo).await;
    let sessions = other.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"][0]["state"], "idle");
    let transcript = at.transcript();
    let transcript: Vec<&str> =
        transcript.lines().filter(|line| !line.contains("_acpd/sessions") && !line.contains("\"sessions\"")).collect();
    expect![[r##"
        zed    > 5 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"and now"}]}
        zed    < 5 error {"code":-32600,"message":"files are being put back in this session","data":{"advice":"wait until that is done, or cancel it"}}
        other  > 1 _acpd/undo {"sessionId":"#1"}
        other  < 1 error {"code":-32600,"message":"a turn or an undo is running","data":{"advice":"wait for its end, or cancel it"}}
        other  > 3 _acpd/cancel {"sessionId":"#1"}
        other  < 3 = {}
        ctl    < 1 = {"files":[{"path":"DIR/a.txt","left":"cancelled while it was being written; it may be as it was, or not"}]}"##]].assert_eq(&transcript.join("\n"));
}
