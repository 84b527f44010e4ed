//! How long sessions stay in memory, and that a refused client leaves nothing behind.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

async fn in_memory(ctl: &mut Editor) -> usize {
    let sessions = ctl.call("_acpd/sessions", json!({})).await;
    sessions["result"]["sessions"].as_array().unwrap().len()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[actix::test]
async fn the_idle_time_of_a_session_restarts_with_every_visit() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    drop(zed);
    let mut ctl = scene.client("ctl");
    pass(590).await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session })).await;
    drop(vim);
    pass(590).await;
    assert_eq!(in_memory(&mut ctl).await, 1);
    pass(20).await;
    assert_eq!(in_memory(&mut ctl).await, 0);
}

#[actix::test]
async fn a_session_that_only_ctl_touched_leaves_memory_too() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    zed.call("session/close", json!({ "sessionId": session })).await;
    let mut ctl = scene.client("ctl");
    ctl.call("_acpd/rename", json!({ "sessionId": session, "title": "Renamed" })).await;
    assert_eq!(in_memory(&mut ctl).await, 1);
    pass(601).await;
    assert_eq!(in_memory(&mut ctl).await, 0);
}

#[actix::test]
async fn a_session_without_prompts_is_deleted_when_idle_or_on_stop() {
    let scene = Scene::new(vec![]);
    let (zed, first) = scene.editor_with_session("zed").await;
    drop(zed);
    pass(601).await;
    assert!(scene.history.events(&first).is_empty());
    let (vim, second) = scene.editor_with_session("vim").await;
    assert_eq!(scene.history.events(&second).len(), 1);
    drop(vim);
    // The session of an editor stays, because the editor returns to it with the next daemon.
    let (_emacs, third) = scene.editor_with_session("emacs").await;
    scene.runtime.drain(Duration::from_secs(5)).await;
    assert!(scene.history.events(&second).is_empty());
    assert!(!scene.history.events(&third).is_empty());
}

async fn roots(editor: &mut Editor, scene: &Scene, session: &str) -> Value {
    scene.script.push(vec![Step::call("where", json!({})), Step::end()]);
    scene.script.push(hello());
    let prompt = editor.prompt(session, "where?").await;
    let ended = editor.until(|message| message["params"]["update"]["status"] == "completed").await;
    editor.answer(prompt).await;
    ended["params"]["update"]["rawOutput"]["text"].clone()
}

#[actix::test]
async fn only_an_accepted_load_changes_the_roots_from_the_next_turn_on() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    assert_eq!(roots(&mut zed, &scene, &session).await, "/work");
    let more = json!(["/work/more"]);
    let wrong = json!({ "sessionId": session, "cwd": "/work/other", "additionalDirectories": more });
    assert_eq!(zed.call("session/load", wrong).await["error"]["code"], -32602);
    let missing = json!({ "sessionId": session, "additionalDirectories": ["/nowhere"] });
    assert_eq!(zed.call("session/load", missing).await["error"]["code"], -32602);
    assert_eq!(roots(&mut zed, &scene, &session).await, "/work");
    zed.call("session/load", json!({ "sessionId": session, "additionalDirectories": more })).await;
    assert_eq!(roots(&mut zed, &scene, &session).await, "/work /work/more");
}

#[actix::test]
async fn settings_sent_at_once_are_each_answered_with_all_options() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let set = |option: &str, value: &str| json!({ "sessionId": session, "configId": option, "value": value });
    zed.request("session/set_config_option", set("mode", "safe")).await;
    let second = zed.request("session/set_config_option", set("approval", "never")).await;
    let answer = zed.answer(second).await;
    let current = |id: &str| {
        let options = answer["result"]["configOptions"].as_array().unwrap();
        options.iter().find(|option| option["id"] == id).unwrap()["currentValue"].clone()
    };
    assert_eq!((current("mode"), current("approval")), (json!("safe"), json!("never")));
}

#[actix::test]
async fn a_session_that_is_deleted_while_it_is_opened_is_gone_afterwards() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    zed.call("session/close", json!({ "sessionId": session })).await;
    let mut vim = scene.editor("vim").await;
    let load = vim.request("session/load", json!({ "sessionId": session })).await;
    let delete = zed.request("session/delete", json!({ "sessionId": session })).await;
    zed.answer(delete).await;
    vim.answer(load).await;
    assert!(scene.history.events(&session).is_empty());
    let again = vim.call("session/load", json!({ "sessionId": session })).await;
    assert_eq!(again["error"]["code"], -32602);
}

#[actix::test]
async fn a_setting_during_a_close_is_kept_and_the_log_stays_consistent() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let mut ctl = scene.client("ctl");
    scene.history.hold();
    let close = ctl.request("_acpd/close", json!({ "sessionId": session })).await;
    pass(1).await;
    let model = json!({ "sessionId": session, "configId": "model", "value": "panicky" });
    zed.request("session/set_config_option", model).await;
    pass(1).await;
    scene.history.release();
    ctl.answer(close).await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session })).await;
    let events = format!("{:?}", scene.history.events(&session));
    assert!(events.contains("panicky"), "{events}");
    // The repair of a log that was not cleanly closed would begin with this event.
    assert!(!events.contains("Reopened"), "{events}");
}
