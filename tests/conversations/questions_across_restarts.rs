//! A permission question outlives the daemon: it is asked again, and the tool runs once, only after
//! the answer.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use acpd_actors::UnattendedPolicy;
use domain::model::{Catalogue, Model, ModelInfo};
use domain::{Environment, ModelId};
use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

use crate::project::Project;

fn touch(file: &str) -> Step {
    Step::call("touch", json!({ "file": file }))
}

fn done() -> Vec<Step> {
    vec![Step::text("Done."), Step::end()]
}

/// A client behind a bridge, which has sent its hello and initialized.
async fn bridged(scene: &Scene, bridge: &str, name: &str) -> Editor {
    let before = scene.transcript.take();
    let mut client = scene.client(name);
    client.call("_acpd/hello", json!({ "version": "0", "bridge": bridge, "environment": {} })).await;
    client.initialize().await;
    scene.transcript.take();
    before.lines().for_each(|line| scene.transcript.note(line));
    client
}

fn place(update: &Value) -> Value {
    update["params"]["_meta"]["acpd"]["at"].clone()
}

/// A turn of a bridge that has reached its question: session, prompt, and the last place that the
/// bridge has seen.
async fn asked(scene: &Scene) -> (Editor, String, u64, Value) {
    let mut zed = bridged(scene, "bridge-1", "zed").await;
    let session = zed.new_session().await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "touch it").await;
    let seen = place(&zed.update("tool_call").await);
    zed.receive("session/request_permission").await;
    (zed, session, prompt, seen)
}

/// The bridge returns to its session and receives the question again.
async fn asked_again(scene: &Scene, session: &str, prompt: u64, seen: Value) -> (Editor, Value) {
    let mut zed = bridged(scene, "bridge-1", "zed").await;
    zed.expect(prompt, "session/prompt");
    let resume = zed.request("_acpd/resume", json!({ "sessionId": session, "after": seen })).await;
    // The two may arrive in either order.
    let (mut resumed, mut question) = (Value::Null, Value::Null);
    while resumed.is_null() || question.is_null() {
        let message = zed.next().await.unwrap();
        if message["id"] == json!(resume) {
            resumed = message;
        } else if message["method"] == "session/request_permission" {
            question = message;
        }
    }
    assert_eq!(resumed["result"]["pending"], json!([prompt.to_string()]));
    (zed, question)
}

async fn waiting(scene: &Scene) -> Value {
    let mut ctl = scene.client("ctl");
    let sessions = ctl.call("_acpd/sessions", json!({})).await;
    sessions["result"]["sessions"].clone()
}

#[actix::test]
async fn a_question_survives_a_crash_and_its_prompt_is_answered() {
    let scene = Scene::new(vec![vec![Step::text("I will."), touch("a"), Step::end()], done()]);
    let (zed, session, prompt, seen) = asked(&scene).await;
    drop(zed);
    scene.crash().await;
    let sessions = waiting(&scene).await;
    assert_eq!((&sessions[0]["id"], &sessions[0]["state"]), (&json!(session), &json!("waiting")));
    assert_eq!(sessions[0]["questions"][0]["title"], "touch {\"file\":\"a\"}");
    let (mut zed, question) = asked_again(&scene, &session, prompt, seen).await;
    scene.transcript.take();
    zed.silence().await;
    zed.choose(&question, "allow_once").await;
    zed.answer(prompt).await;
    zed.silence().await;
    expect![[r##"
        zed    < silence
        zed    > "#6" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {"file":"a"} runs
        model  < user: touch it | agent: I will. [touch] | results: touch done
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#7"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#8"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn after_a_crash_the_answers_name_the_messages_of_their_own_prompts() {
    let steer = |settings: &mut acpd_actors::RuntimeSettings| settings.when_busy = acpd_actors::BusyPolicy::Steer;
    let scene = Scene::with(vec![vec![touch("a"), Step::end()], done()], steer);
    let prompt = |session: &str, text: &str| json!({ "sessionId": session, "messageId": text, "prompt": [{ "type": "text", "text": text }] });
    let mut zed = bridged(&scene, "bridge-1", "zed").await;
    let session = zed.new_session().await;
    let first = zed.request("session/prompt", prompt(&session, "one")).await;
    let seen = place(&zed.update("tool_call").await);
    scene.crash().await;
    let (mut zed, question) = asked_again(&scene, &session, first, seen).await;
    let second = zed.request("session/prompt", prompt(&session, "two")).await;
    zed.silence().await;
    zed.choose(&question, "allow_once").await;
    let (first, second) = (zed.answer(first).await, zed.answer(second).await);
    let message = |answer: &Value| answer["result"]["_meta"]["acpd"]["userMessageId"].clone();
    assert_eq!((message(&first), message(&second)), (json!("one"), json!("two")));
}

#[actix::test]
async fn a_stopping_daemon_suspends_a_question_and_the_next_asks_both_editors() {
    let scene = Scene::new(vec![vec![touch("a"), Step::end()], done()]);
    let (mut zed, session, prompt, seen) = asked(&scene).await;
    let mut vim = scene.editor("vim").await;
    vim.request("session/load", json!({ "sessionId": session })).await;
    vim.receive("session/request_permission").await;
    scene.transcript.take();
    scene.runtime.drain(Duration::from_secs(5)).await;
    zed.silence().await;
    vim.silence().await;
    // Nothing has been answered or recorded; the bridge waits for the next daemon.
    expect![[r#"
        zed    < silence
        vim    < silence
    "#]]
    .assert_eq(&scene.transcript.take());
    let stored = format!("{:?}", scene.history.events(&session));
    assert!(!stored.contains("PermissionAnswered") && !stored.contains("TurnEnded"), "{stored}");

    let scene = scene.restarted();
    drop((zed, vim));
    let mut vim = scene.editor("vim").await;
    vim.request("session/load", json!({ "sessionId": session })).await;
    let for_vim = vim.receive("session/request_permission").await;
    let (mut zed, for_zed) = asked_again(&scene, &session, prompt, seen).await;
    scene.transcript.take();
    vim.choose(&for_vim, "allow_once").await;
    zed.choose(&for_zed, "allow_once").await;
    zed.answer(prompt).await;
    vim.silence().await;
    let transcript = scene.transcript.take();
    assert_eq!(transcript.matches("tool   : touch {\"file\":\"a\"} runs").count(), 1, "{transcript}");
    // The session was evicted cleanly, and therefore no crash is recorded.
    assert!(!format!("{:?}", scene.history.events(&session)).contains("Reopened"));
}

#[actix::test]
async fn an_answer_during_eviction_is_not_recorded_and_the_question_returns() {
    let answers = vec![vec![touch("a"), Step::end()], done()];
    let scene = Scene::with(answers, |settings| settings.unattended = UnattendedPolicy::Deny);
    let (mut zed, session, prompt, seen) = asked(&scene).await;
    let mut vim = scene.editor("vim").await;
    vim.request("session/load", json!({ "sessionId": session })).await;
    let question = vim.receive("session/request_permission").await;
    scene.history.hold();
    let drained = actix::spawn(scene.runtime.drain(Duration::from_secs(60)));
    zed.silence().await;
    vim.choose(&question, "allow_once").await;
    let mut ctl = scene.client("ctl");
    let allow = json!({ "sessionId": session, "optionId": "allow_once" });
    let allowed = ctl.call("_acpd/answer", allow).await;
    assert!(allowed["error"].is_object(), "{allowed}");
    // The last client leaves as well, and no client is left whose questions could be denied.
    drop((zed, vim));
    ctl.silence().await;
    scene.history.release();
    drained.await.unwrap();
    let stored = format!("{:?}", scene.history.events(&session));
    assert!(!stored.contains("PermissionAnswered") && !stored.contains("TurnEnded"), "{stored}");

    let scene = scene.restarted();
    let (mut zed, question) = asked_again(&scene, &session, prompt, seen).await;
    zed.choose(&question, "allow_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

/// Returns what is stored when another client cancels this long after the shutdown has begun. The
/// turn exists until `deaf`, which ignores cancellation, is abandoned after two seconds.
async fn cancelled_during_shutdown(after: Duration) -> String {
    let calls = vec![Step::call("deaf", json!({})), Step::call("peek", json!({})), Step::end()];
    let scene = Scene::new(vec![calls]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session })).await;
    zed.prompt(&session, "look at both").await;
    vim.receive("session/request_permission").await;
    scene.history.hold();
    let drained = actix::spawn(scene.runtime.drain(Duration::from_secs(60)));
    tokio::time::sleep(after).await;
    vim.notify("session/cancel", json!({ "sessionId": session })).await;
    vim.silence().await;
    scene.history.release();
    drained.await.unwrap();
    format!("{:?}", scene.history.events(&session))
}

#[actix::test]
async fn a_turn_with_a_question_can_be_cancelled_while_suspending() {
    let stored = cancelled_during_shutdown(Duration::from_millis(500)).await;
    assert!(stored.contains("vim cancelled the turn.") && stored.contains("TurnEnded"), "{stored}");
    assert!(stored.contains("decision: Cancelled"), "{stored}");
}

#[actix::test]
async fn a_cancel_after_the_turn_was_suspended_is_not_recorded() {
    let stored = cancelled_during_shutdown(Duration::from_secs(10)).await;
    assert!(!stored.contains("cancelled the turn.") && !stored.contains("TurnEnded"), "{stored}");
}

#[actix::test]
async fn a_client_without_a_bridge_learns_on_shutdown_that_its_turn_waits() {
    let scene = Scene::new(vec![vec![touch("a"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    zed.receive("session/request_permission").await;
    scene.transcript.take();
    scene.runtime.drain(Duration::from_secs(5)).await;
    zed.answer(prompt).await;
    expect![[r#"
        zed    < 3 error {"code":-32603,"message":"the daemon stopped while the turn waited for an answer","data":{"retry":false,"advice":"open the session again and answer the permission question; the turn continues from there"}}
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn calls_behind_the_one_in_question_come_back_with_it() {
    let calls = vec![touch("a"), Step::call("look", json!({})), touch("b"), touch("c"), Step::end()];
    let scene = Scene::new(vec![calls, done()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch them").await;
    zed.receive("session/request_permission").await;
    drop(zed);
    scene.crash().await;
    let mut vim = scene.editor("vim").await;
    vim.request("session/resume", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let first = vim.receive("session/request_permission").await;
    vim.choose(&first, "allow_once").await;
    let second = vim.receive("session/request_permission").await;
    drop(vim);
    scene.crash().await;
    let mut vim = scene.editor("vim").await;
    vim.request("session/resume", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let again = vim.receive("session/request_permission").await;
    assert_eq!(second["params"]["toolCall"], again["params"]["toolCall"]);
    vim.choose(&again, "reject_once").await;
    let third = vim.receive("session/request_permission").await;
    vim.choose(&third, "allow_once").await;
    vim.silence().await;
    let transcript = scene.transcript.take();
    let course: Vec<&str> =
        transcript.lines().filter(|line| line.starts_with("tool") || line.starts_with("model")).collect();
    expect![[r#"
        model  < user: touch them
        tool   : touch {"file":"a"} runs
        tool   : look {} runs
        tool   : touch {"file":"c"} runs
        model  < user: touch them | agent: [touch] [look] [touch] [touch] | results: touch done, look done, Permission denied: the user declined this call., touch done"#]].assert_eq(&course.join("\n"));
}

#[actix::test]
async fn a_turn_waiting_since_before_a_crash_can_be_cancelled_or_rejected() {
    let scene = Scene::new(vec![vec![touch("a"), Step::end()], vec![touch("b"), Step::end()], done(), done()]);
    let (zed, session, prompt, seen) = asked(&scene).await;
    drop(zed);
    scene.crash().await;
    let (mut zed, question) = asked_again(&scene, &session, prompt, seen).await;
    let other = zed.prompt(&session, "something else").await;
    assert_eq!(zed.answer(other).await["error"]["code"], -32600);
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
    zed.choose(&question, "allow_once").await;

    let prompt = zed.prompt(&session, "touch that").await;
    let seen = place(&zed.update("tool_call").await);
    zed.receive("session/request_permission").await;
    drop(zed);
    scene.crash().await;
    scene.transcript.take();
    let (mut zed, question) = asked_again(&scene, &session, prompt, seen).await;
    zed.choose(&question, "reject_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let transcript = scene.transcript.take();
    assert!(
        transcript.contains("agent: [touch] | results: Permission denied: the user declined this call."),
        "{transcript}"
    );
    assert!(!transcript.contains("tool   :"), "{transcript}");
}

#[actix::test]
async fn a_question_is_shown_only_when_a_crash_cannot_take_it_back() {
    let scene = Scene::new(vec![vec![Step::text("I will."), Step::Hold, touch("a"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch it").await;
    zed.update("agent_message_chunk").await;
    scene.history.hold();
    scene.script.release();
    scene.transcript.take();
    zed.silence().await;
    let transcript = scene.transcript.take();
    assert!(!transcript.contains("session/request_permission"), "{transcript}");
    scene.history.release();
    zed.receive("session/request_permission").await;
}

/// What the editor receives after a crash if unattended questions are denied.
async fn denied_if_unattended(comes_back: bool) -> String {
    let answers = vec![vec![touch("a"), Step::end()], done()];
    let scene = Scene::with(answers, |settings| settings.unattended = UnattendedPolicy::Deny);
    let (zed, session, prompt, seen) = asked(&scene).await;
    // The daemon ends first; its client has not disconnected.
    scene.crash().await;
    drop(zed);
    if comes_back {
        let (mut zed, question) = asked_again(&scene, &session, prompt, seen).await;
        zed.silence().await;
        zed.choose(&question, "allow_once").await;
        zed.answer(prompt).await;
    } else {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    scene.transcript.take()
}

#[actix::test]
async fn after_a_crash_clients_can_return_before_unattended_questions_are_denied() {
    let transcript = denied_if_unattended(true).await;
    assert!(transcript.contains("results: touch done"), "{transcript}");
}

#[actix::test]
async fn an_unattended_question_from_before_a_crash_is_denied_by_policy() {
    let transcript = denied_if_unattended(false).await;
    assert!(transcript.contains("results: Permission denied."), "{transcript}");
}

/// An edit of a file that the model has read, waiting for its approval when the daemon ends.
async fn edit_in_question() -> Project {
    let edit = json!({ "path": "a.txt", "old_text": "one", "new_text": "two" });
    let answers = vec![
        vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()],
        vec![Step::call("edit_file", edit), Step::end()],
        done(),
    ];
    let mut at = Project::new(json!({}), &[("a.txt", "one\n")], answers, |_| {}).await;
    at.zed.prompt(&at.session, "change it").await;
    at.zed.receive("session/request_permission").await;
    at
}

async fn edit_allowed_after_a_crash(change: Option<&str>) -> (Project, String) {
    let mut at = edit_in_question().await;
    at.scene.crash().await;
    at.zed.silence().await;
    if let Some(text) = change {
        fs::write(at.folder.path().join("a.txt"), text).unwrap();
    }
    at.transcript();
    at.zed.request("session/load", json!({ "sessionId": at.session })).await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.choose(&question, "allow_once").await;
    at.zed.until(|message| message["params"]["update"]["content"]["text"] == "Done.").await;
    let transcript = at.transcript();
    (at, transcript)
}

#[actix::test]
async fn after_a_crash_an_approved_edit_applies_unless_the_file_changed() {
    tokio::time::pause();
    let (at, transcript) = edit_allowed_after_a_crash(None).await;
    assert_eq!(at.text("a.txt"), "two\n", "{transcript}");
    let (at, transcript) = edit_allowed_after_a_crash(Some("another\n")).await;
    assert_eq!(at.text("a.txt"), "another\n");
    assert!(transcript.contains("a.txt changed since it was read; read it again with read_file"), "{transcript}");
}

/// A catalogue that corrects the default model once, when the test requests it.
struct Correcting {
    models: Arc<dyn Catalogue>,
    correct: Arc<AtomicBool>,
}

impl Catalogue for Correcting {
    fn list(&self, environment: &Environment) -> Vec<ModelInfo> {
        self.models.list(environment)
    }

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>> {
        self.models.find(id)
    }

    fn default_model(&self, environment: &Environment) -> ModelId {
        self.models.default_model(environment)
    }

    fn correction(&self, _: &ModelId, environment: &Environment) -> Option<ModelId> {
        self.correct.swap(false, Ordering::Relaxed).then(|| self.default_model(environment))
    }
}

#[actix::test]
async fn a_restored_question_rejected_during_a_model_correction_ends_the_turn() {
    let correct = Arc::new(AtomicBool::new(false));
    let switch = correct.clone();
    let scene = Scene::with_ports(vec![vec![touch("a"), Step::end()], done()], |ports| {
        ports.models = Arc::new(Correcting { models: ports.models.clone(), correct: switch });
    });
    let (zed, session, prompt, seen) = asked(&scene).await;
    drop(zed);
    scene.crash().await;
    let (mut zed, question) = asked_again(&scene, &session, prompt, seen).await;
    zed.silence().await;
    correct.store(true, Ordering::Relaxed);
    zed.choose(&question, "reject_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert!(!correct.load(Ordering::Relaxed), "the model was corrected when the turn went on");
}
