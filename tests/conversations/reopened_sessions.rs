//! Sessions that are closed, abandoned, or created from another log while a client still needs
//! them.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

/// A client behind a bridge, which has sent its hello and initialized.
async fn bridged(scene: &Scene, name: &str) -> Editor {
    let mut client = scene.client(name);
    client.call("_acpd/hello", json!({ "version": "0", "bridge": "bridge-1", "environment": {} })).await;
    client.initialize().await;
    client
}

/// An editor whose session had a prompt and was then closed by another client.
async fn closed_by_another(scene: &Scene) -> (Editor, String) {
    scene.script.push(hello());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session })).await;
    vim.call("session/close", json!({ "sessionId": session })).await;
    zed.silence().await;
    (zed, session)
}

#[actix::test]
async fn a_prompt_from_a_bridges_earlier_connection_is_refused_for_resending() {
    let scene = Scene::new(vec![hello()]);
    let mut before = bridged(&scene, "zed").await;
    let session = before.new_session().await;
    let mut after = bridged(&scene, "zed").await;
    let resumed = after.call("_acpd/resume", json!({ "sessionId": session, "after": [1, 1] })).await;
    assert_eq!((&resumed["result"]["pending"], &resumed["result"]["final"]), (&json!([]), &json!(true)));
    let late = before.prompt(&session, "hi").await;
    let refused = before.answer(late).await;
    assert_eq!(refused["error"]["data"]["retry"], true, "{refused}");
    let again = after.prompt(&session, "hi").await;
    assert_eq!(after.answer(again).await["result"]["stopReason"], "end_turn");
    let started = |event: &&std::sync::Arc<domain::Event>| format!("{event:?}").contains("TurnStarted");
    assert_eq!(scene.history.events(&session).iter().filter(started).count(), 1);
}

#[actix::test]
async fn a_setting_of_a_session_that_another_editor_closed_opens_it_again() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = closed_by_another(&scene).await;
    let set = zed.call("session/set_mode", json!({ "sessionId": session, "modeId": "safe" })).await;
    assert_eq!(set["result"], json!({}), "{set}");
    let (mut zed, session) = closed_by_another(&scene).await;
    let params = json!({ "sessionId": session, "configId": "mode", "value": "read-only" });
    let set = zed.call("session/set_config_option", params).await;
    assert_eq!(set["result"]["configOptions"][0]["currentValue"], "read-only", "{set}");
}

#[actix::test]
async fn a_cancel_reaches_a_prompt_whose_session_is_still_being_opened_again() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = closed_by_another(&scene).await;
    scene.transcript.take();
    let content = json!([{ "type": "text", "text": "again" }]);
    let params = json!({ "sessionId": session, "prompt": content });
    let prompt = json!({ "jsonrpc": "2.0", "id": 77, "method": "session/prompt", "params": params });
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    zed.write(format!("{prompt}\n{cancel}\n").as_bytes()).await;
    let answer = zed.answer(77).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let transcript = scene.transcript.take();
    assert!(!transcript.contains("model  <"), "{transcript}");
    // The session is not harmed by it.
    scene.script.push(hello());
    let prompt = zed.prompt(&session, "and now").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn connections_are_listed_again_after_the_directory_died() {
    let scene = Scene::new(vec![]);
    let _zed = scene.editor("zed").await;
    let mut ctl = scene.client("ctl");
    scene.history.panic_on_status_once();
    assert_eq!(ctl.call("_acpd/status", json!({})).await["error"]["code"], -32603);
    ctl.silence().await;
    let all = ctl.call("_acpd/connections", json!({})).await;
    assert_eq!(all["result"]["connections"].as_array().unwrap().len(), 2, "{all}");
    drop(ctl);
    let mut again = scene.client("again");
    again.silence().await;
    let all = again.call("_acpd/connections", json!({})).await;
    assert_eq!(all["result"]["connections"].as_array().unwrap().len(), 2, "{all}");
}

#[actix::test]
async fn sessions_left_without_a_prompt_are_swept_unless_an_editor_returns() {
    let scene = Scene::new(vec![hello()]);
    let (zed, left) = scene.editor_with_session("zed").await;
    let (vim, wanted) = scene.editor_with_session("vim").await;
    let (emacs, prompted) = scene.editor_with_session("emacs").await;
    // What was in memory is lost, as after a crash.
    scene.history.panic_on_status_once();
    scene.client("ctl").call("_acpd/status", json!({})).await;
    drop((zed, vim, emacs));
    let mut editor = scene.editor("editor").await;
    for session in [&wanted, &prompted] {
        editor.call("session/load", json!({ "sessionId": session })).await;
    }
    let prompt = editor.prompt(&prompted, "hi").await;
    editor.answer(prompt).await;
    editor.call("session/close", json!({ "sessionId": prompted })).await;
    assert!(!scene.history.events(&left).is_empty());
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert!(scene.history.events(&left).is_empty());
    assert!(!scene.history.events(&wanted).is_empty() && !scene.history.events(&prompted).is_empty());
}

#[actix::test]
async fn waiting_for_a_sessions_end_reports_whether_it_was_deleted() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let mut ctl = scene.editor("ctl").await;
    let unknown = ctl.call("_acpd/wait", json!({ "sessionId": session })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    for (end, deleted) in [("session/close", false), ("session/delete", true)] {
        ctl.call("session/load", json!({ "sessionId": session })).await;
        let wait = ctl.request("_acpd/wait", json!({ "sessionId": session })).await;
        ctl.silence().await;
        zed.call("session/load", json!({ "sessionId": session })).await;
        zed.call(end, json!({ "sessionId": session })).await;
        assert_eq!(ctl.answer(wait).await["result"]["deleted"], deleted);
    }
}

#[actix::test]
async fn a_log_is_imported_in_parts_and_an_invalid_one_leaves_nothing() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let mut ctl = scene.client("ctl");
    let exported = ctl.call("_acpd/export", json!({ "sessionId": session })).await;
    let events: Vec<Value> = exported["result"]["events"].as_array().unwrap().clone();
    let begin = json!({ "events": events[..1], "more": true });
    let begun = ctl.call("_acpd/import", begin.clone()).await["result"]["into"].clone();
    for event in &events[1..events.len() - 1] {
        let part = ctl.call("_acpd/import", json!({ "events": [event], "into": begun, "more": true })).await;
        assert_eq!(part["result"]["into"], begun, "{part}");
        let unseen = zed.call("session/load", json!({ "sessionId": begun })).await;
        assert_eq!(unseen["error"]["code"], -32602);
    }
    let last = json!({ "events": events[events.len() - 1..], "into": begun });
    assert_eq!(ctl.call("_acpd/import", last).await["result"]["sessionId"], begun);
    let copy = scene.history.events(begun.as_str().unwrap());
    let copied: Vec<Value> = copy.iter().map(|event| serde_json::to_value(&**event).unwrap()).collect();
    assert_eq!(copied[..events.len()], events);

    let begun = ctl.call("_acpd/import", begin.clone()).await["result"]["into"].clone();
    let odd = ctl.call("_acpd/import", json!({ "events": [events[2]], "into": begun, "more": true })).await;
    assert_eq!(odd["error"]["code"], -32602);
    let gone = ctl.call("_acpd/import", json!({ "events": [events[1]], "into": begun })).await;
    assert_eq!(gone["error"]["data"]["into"], "No such import waits for its next part");
    let cut_off = ctl.call("_acpd/import", begin).await["result"]["into"].clone();
    drop(ctl);
    zed.silence().await;
    for unfinished in [begun, cut_off] {
        assert!(scene.history.events(unfinished.as_str().unwrap()).is_empty());
    }
}

#[actix::test]
async fn a_turn_ended_by_another_client_names_that_client_and_the_reason() {
    let ends = [
        ("session/close", "vim closed the session, and the turn was cancelled."),
        ("session/delete", "vim deleted the session, and the turn was cancelled."),
        ("session/cancel", "vim cancelled the turn."),
    ];
    let scene = Scene::new(ends.iter().map(|_| vec![Step::Hold]).collect());
    let mut vim = scene.editor("vim").await;
    for (held, (end, why)) in ends.into_iter().enumerate() {
        let (mut zed, session) = scene.editor_with_session("zed").await;
        vim.call("session/load", json!({ "sessionId": session })).await;
        let prompt = zed.prompt(&session, "hi").await;
        scene.script.until_held(held + 1).await;
        vim.request(end, json!({ "sessionId": session })).await;
        let transcript = zed.update("agent_message_chunk").await;
        assert_eq!(transcript["params"]["update"]["content"]["text"], why);
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
    }
}

#[actix::test]
async fn a_client_that_ends_its_own_turn_gets_no_notice() {
    let scene = Scene::new(vec![vec![Step::Hold], vec![Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for (held, end) in ["session/cancel", "session/close"].into_iter().enumerate() {
        let prompt = zed.prompt(&session, "hi").await;
        scene.script.until_held(held + 1).await;
        zed.request(end, json!({ "sessionId": session })).await;
        zed.answer(prompt).await;
    }
    assert!(!scene.transcript.take().contains("agent_message_chunk"));
}
