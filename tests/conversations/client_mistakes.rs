//! Mistakes of clients beyond the methods in `params`: lists, notifications, other clients'
//! sessions, and the extensions that inspect a session.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

#[actix::test]
async fn bad_params_of_list() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    for params in [
        json!(7),
        json!({ "cwd": 7 }),
        json!({ "cwd": "relative" }),
        json!({ "cursor": 7 }),
        json!({ "cursor": "nowhere" }),
        json!({ "cwd": "/nowhere", "cursor": null }),
    ] {
        zed.call("session/list", params).await;
    }
    expect![[r#"
        zed    > 2 session/list 7
        zed    < 2 error {"code":-32602,"message":"Invalid params","data":{"params":"Must be an object"}}
        zed    > 3 session/list {"cwd":7}
        zed    < 3 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be a string"}}
        zed    > 4 session/list {"cwd":"relative"}
        zed    < 4 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be an absolute path"}}
        zed    > 5 session/list {"cursor":7}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"cursor":"Must be a string"}}
        zed    > 6 session/list {"cursor":"nowhere"}
        zed    < 6 error {"code":-32602,"message":"Invalid params","data":{"cursor":"unknown cursor"}}
        zed    > 7 session/list {"cwd":"/nowhere","cursor":null}
        zed    < 7 = {"sessions":[]}
    "#]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn notifications_that_make_no_sense_are_passed_over() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    for (method, params) in [
        ("session/cancel", json!({})),
        ("session/cancel", json!({ "sessionId": 7 })),
        ("session/cancel", json!({ "sessionId": "nobody" })),
        ("session/cancel", json!([session])),
        ("$/cancel_request", json!({ "requestId": [prompt] })),
        ("$/cancel_request", json!(prompt)),
        ("session/prompt", json!({ "sessionId": session })),
        ("no/such/thing", json!({})),
    ] {
        zed.notify(method, params).await;
    }
    scene.transcript.take();
    zed.silence().await;
    expect![[r#"
        zed    < silence
    "#]]
    .assert_eq(&scene.transcript.take());
    scene.script.release();
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_connection_knows_only_the_sessions_that_it_opened_itself() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    let mut vim = scene.editor("vim").await;
    let mut answers = Vec::new();
    for (method, more) in [
        ("session/prompt", json!({ "prompt": [{ "type": "text", "text": "hi" }] })),
        ("session/close", json!({})),
        ("session/set_mode", json!({ "modeId": "safe" })),
        ("session/set_model", json!({ "modelId": "script" })),
        ("session/set_config_option", json!({ "configId": "mode", "value": "safe" })),
        ("config/set", json!({ "configId": "mode", "value": "safe" })),
    ] {
        let mut params: Value = more;
        params["sessionId"] = json!(session);
        answers.push(vim.call(method, params).await["error"]["data"].to_string());
    }
    answers.dedup();
    assert_eq!(answers, [r#"{"session_id":"Session not found"}"#]);
    vim.notify("session/cancel", json!({ "sessionId": session })).await;
    vim.silence().await;
    scene.script.release();
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn", "nobody else can cancel it");
}

#[actix::test]
async fn bad_params_of_extensions_that_look_at_a_session() {
    let scene = Scene::new(vec![]);
    let mut ctl = scene.client("ctl");
    let mut answers = String::new();
    for method in ["permissions", "undo", "session", "mcp", "wait"] {
        for params in [json!({}), json!({ "sessionId": 7 }), json!({ "sessionId": "nobody" })] {
            let answer = ctl.call(&format!("_acpd/{method}"), params.clone()).await;
            let said =
                answer.get("error").map_or("= ...".to_owned(), |error| format!("{} {}", error["code"], error["data"]));
            answers += &format!("{method} {params} {said}\n");
        }
    }
    for (method, params) in [
        ("undo", json!({ "sessionId": "x", "redo": 7 })),
        ("restart", json!({ "now": "yes" })),
        ("import", json!({ "events": [], "into": 7 })),
    ] {
        let error = ctl.call(&format!("_acpd/{method}"), params.clone()).await["error"].clone();
        answers += &format!("{method} {params} {} {}\n", error["code"], error["data"]);
    }
    expect![[r#"
        permissions {} -32602 {"sessionId":"Required"}
        permissions {"sessionId":7} -32602 {"sessionId":"Must be a string"}
        permissions {"sessionId":"nobody"} -32602 {"session_id":"Session not found"}
        undo {} -32602 {"sessionId":"Required"}
        undo {"sessionId":7} -32602 {"sessionId":"Must be a string"}
        undo {"sessionId":"nobody"} -32602 {"session_id":"Session not found"}
        session {} -32602 {"sessionId":"Required"}
        session {"sessionId":7} -32602 {"sessionId":"Must be a string"}
        session {"sessionId":"nobody"} -32602 {"session_id":"Session not found"}
        mcp {} = ...
        mcp {"sessionId":7} -32602 {"sessionId":"Must be a string"}
        mcp {"sessionId":"nobody"} = ...
        wait {} -32602 {"sessionId":"Required"}
        wait {"sessionId":7} -32602 {"sessionId":"Must be a string"}
        wait {"sessionId":"nobody"} -32602 {"session_id":"Session not found"}
        undo {"sessionId":"x","redo":7} -32602 {"redo":"Must be a boolean"}
        restart {"now":"yes"} -32602 {"now":"Must be a boolean"}
        import {"events":[],"into":7} -32602 {"into":"Must be a string"}
    "#]]
    .assert_eq(&answers);
}
