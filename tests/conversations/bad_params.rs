//! Bad params for every method: missing, of a wrong type, unknown. The error names the field, and
//! nothing else happens.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::Scene;

/// The answer to each of these params.
async fn answers(scene: &Scene, method: &str, params: &[Value]) -> String {
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for params in params {
        let params = params.to_string().replace("SESSION", &session);
        let id = zed.request(method, serde_json::from_str(&params).unwrap()).await;
        zed.answer(id).await;
    }
    zed.silence().await;
    let transcript = scene.transcript.take();
    let transcript = transcript.replace("\"code\":-32602,\"message\":\"Invalid params\",\"data\"", "-32602");
    // Each editor has its own session, whose number in the transcript is irrelevant.
    (1..20).fold(transcript, |transcript, number| transcript.replace(&format!("\"#{number}\""), "\"SESSION\""))
}

#[actix::test]
async fn initialize_needs_an_integer_version_and_comes_once() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    for params in [
        json!({}),
        json!({ "protocolVersion": "1" }),
        json!({ "protocolVersion": 1.5 }),
        json!({ "protocolVersion": null }),
        json!([1]),
        json!({ "protocolVersion": 99_999, "clientInfo": { "name": 7 }, "clientCapabilities": { "fs": 7 } }),
        json!({ "protocolVersion": 1 }),
    ] {
        zed.call("initialize", params).await;
    }
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript
        .lines()
        .map(|line| line.split_once(",\"info\":{\"name\":\"acpd\"").map_or(line, |(start, _)| start))
        .collect();
    expect![[r#"
        zed    > 1 initialize {}
        zed    < 1 error {"code":-32602,"message":"Invalid params","data":{"protocolVersion":"Required"}}
        zed    > 2 initialize {"protocolVersion":"1"}
        zed    < 2 error {"code":-32602,"message":"Invalid params","data":{"protocolVersion":"Must be an integer"}}
        zed    > 3 initialize {"protocolVersion":1.5}
        zed    < 3 error {"code":-32602,"message":"Invalid params","data":{"protocolVersion":"Must be an integer"}}
        zed    > 4 initialize {"protocolVersion":null}
        zed    < 4 error {"code":-32602,"message":"Invalid params","data":{"protocolVersion":"Required"}}
        zed    > 5 initialize [1]
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"params":"Must be an object"}}
        zed    > 6 initialize {"protocolVersion":99999,"clientInfo":{"name":7},"clientCapabilities":{"fs":7}}
        zed    < 6 = {"protocolVersion":2
        zed    > 7 initialize {"protocolVersion":1}
        zed    < 7 error {"code":-32600,"message":"this connection is initialized already","data":{"advice":"continue with it, or open another connection"}}"#]]
    .assert_eq(&transcript.join("\n"));
}

#[actix::test]
async fn bad_params_of_authenticate_and_logout() {
    let scene = Scene::new(vec![]);
    let params =
        [json!({}), json!({ "methodId": 7 }), json!({ "methodId": "nobody" }), json!({ "authMethodId": "nobody" })];
    expect![[r#"
        zed    > 3 authenticate {}
        zed    < 3 error {-32602:{"methodId":"Required"}}
        zed    > 4 authenticate {"methodId":7}
        zed    < 4 error {-32602:{"methodId":"Must be a string"}}
        zed    > 5 authenticate {"methodId":"nobody"}
        zed    < 5 error {-32602:{"methodId":"`nobody` is not a login method that acpd can carry out"}}
        zed    > 6 authenticate {"authMethodId":"nobody"}
        zed    < 6 error {-32602:{"methodId":"`nobody` is not a login method that acpd can carry out"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "authenticate", &params).await);
    expect![[r#"
        zed    > 3 logout {}
        zed    < 3 = {}
        zed    > 4 logout []
        zed    < 4 = {}
        zed    > 5 logout 7
        zed    < 5 error {-32602:{"params":"Must be an object"}}
        zed    > 6 logout ["x"]
        zed    < 6 error {-32602:{"params":"Must be an object"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "logout", &[json!({}), json!([]), json!(7), json!(["x"])]).await);
}

#[actix::test]
async fn bad_params_of_new() {
    let scene = Scene::new(vec![]);
    let params = [
        json!(7),
        json!([]),
        json!({}),
        json!({ "cwd": "" }),
        json!({ "cwd": ["/work"] }),
        json!({ "cwd": "/work", "additionalDirectories": "/work" }),
        json!({ "cwd": "/work", "additionalDirectories": [7] }),
        json!({ "cwd": "/work", "additionalDirectories": ["/nowhere"] }),
        json!({ "cwd": "/work", "mcpServers": 7 }),
    ];
    expect![[r#"
        zed    > 3 session/new 7
        zed    < 3 error {-32602:{"params":"Must be an object"}}
        zed    > 4 session/new []
        zed    < 4 error {-32602:{"cwd":"Required"}}
        zed    > 5 session/new {}
        zed    < 5 error {-32602:{"cwd":"Required"}}
        zed    > 6 session/new {"cwd":""}
        zed    < 6 error {-32602:{"cwd":"Required"}}
        zed    > 7 session/new {"cwd":["/work"]}
        zed    < 7 error {-32602:{"cwd":"Must be a string"}}
        zed    > 8 session/new {"cwd":"/work","additionalDirectories":"/work"}
        zed    < 8 error {-32602:{"additionalDirectories":"Must be a list of absolute paths"}}
        zed    > 9 session/new {"cwd":"/work","additionalDirectories":[7]}
        zed    < 9 error {-32602:{"additionalDirectories":"Must be a list of absolute paths"}}
        zed    > 10 session/new {"cwd":"/work","additionalDirectories":["/nowhere"]}
        zed    < 10 error {-32602:{"additionalDirectories":"/nowhere is not a folder"}}
        zed    > 11 session/new {"cwd":"/work","mcpServers":7}
        zed    < 11 error {-32602:{"mcpServers":"Must be a list"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/new", &params).await);
}

#[actix::test]
async fn bad_params_of_load_resume_and_fork() {
    let scene = Scene::new(vec![]);
    let params = [
        json!({}),
        json!({ "sessionId": 7 }),
        json!({ "sessionId": "" }),
        json!({ "sessionId": "nobody" }),
        json!({ "sessionId": "SESSION", "cwd": 7 }),
        json!({ "sessionId": "SESSION", "cwd": "relative" }),
        json!({ "sessionId": "SESSION", "additionalDirectories": [7] }),
        json!({ "sessionId": "SESSION", "mcpServers": [{}] }),
    ];
    let load = answers(&scene, "session/load", &params).await;
    expect![[r#"
        zed    > 3 session/load {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/load {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 session/load {"sessionId":""}
        zed    < 5 error {-32602:{"session_id":"Session not found"}}
        zed    > 6 session/load {"sessionId":"nobody"}
        zed    < 6 error {-32602:{"session_id":"Session not found"}}
        zed    > 7 session/load {"sessionId":"SESSION","cwd":7}
        zed    < 7 error {-32602:{"cwd":"Must be a string"}}
        zed    > 8 session/load {"sessionId":"SESSION","cwd":"relative"}
        zed    < 8 error {-32602:{"cwd":"Must be an absolute path"}}
        zed    > 9 session/load {"sessionId":"SESSION","additionalDirectories":[7]}
        zed    < 9 error {-32602:{"additionalDirectories":"Must be a list of absolute paths"}}
        zed    > 10 session/load {"sessionId":"SESSION","mcpServers":[{}]}
        zed    < 10 error {-32602:{"mcpServers[0].name":"Required"}}
        zed    < silence
    "#]]
    .assert_eq(&load);
    // The other methods answer the same.
    assert_eq!(answers(&scene, "session/resume", &params).await, load.replace("session/load", "session/resume"));
    assert_eq!(answers(&scene, "session/fork", &params).await, load.replace("session/load", "session/fork"));
}

#[actix::test]
async fn bad_params_of_prompt() {
    let scene = Scene::new(vec![]);
    let text = json!([{ "type": "text", "text": "hi" }]);
    let params = [
        json!({}),
        json!({ "sessionId": 7, "prompt": text }),
        json!({ "sessionId": "nobody", "prompt": text }),
        json!({ "sessionId": "SESSION" }),
        json!({ "sessionId": "SESSION", "prompt": null }),
        json!({ "sessionId": "SESSION", "prompt": {} }),
        json!({ "sessionId": "SESSION", "prompt": [] }),
        json!({ "sessionId": "SESSION", "prompt": text, "messageId": 7 }),
    ];
    expect![[r#"
        zed    > 3 session/prompt {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/prompt {"sessionId":7,"prompt":[{"type":"text","text":"hi"}]}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 session/prompt {"sessionId":"nobody","prompt":[{"type":"text","text":"hi"}]}
        zed    < 5 error {-32602:{"session_id":"Session not found"}}
        zed    > 6 session/prompt {"sessionId":"SESSION"}
        zed    < 6 error {-32602:{"prompt":"Required"}}
        zed    > 7 session/prompt {"sessionId":"SESSION","prompt":null}
        zed    < 7 error {-32602:{"prompt":"Required"}}
        zed    > 8 session/prompt {"sessionId":"SESSION","prompt":{}}
        zed    < 8 error {-32602:{"prompt":"Must be a list of content blocks"}}
        zed    > 9 session/prompt {"sessionId":"SESSION","prompt":[]}
        zed    < 9 error {-32602:{"prompt":"Must not be empty"}}
        zed    > 10 session/prompt {"sessionId":"SESSION","prompt":[{"type":"text","text":"hi"}],"messageId":7}
        zed    < 10 error {-32602:{"messageId":"Must be a string"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/prompt", &params).await);
}

#[actix::test]
async fn bad_params_of_cancel_close_and_delete() {
    let scene = Scene::new(vec![]);
    let params = [json!({}), json!({ "sessionId": 7 }), json!({ "sessionId": "nobody" })];
    expect![[r#"
        zed    > 3 session/cancel {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/cancel {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 session/cancel {"sessionId":"nobody"}
        zed    < 5 = {}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/cancel", &params).await);
    expect![[r#"
        zed    > 3 session/close {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/close {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 session/close {"sessionId":"nobody"}
        zed    < 5 error {-32602:{"session_id":"Session not found"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/close", &params).await);
    expect![[r#"
        zed    > 3 session/delete {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/delete {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 session/delete {"sessionId":"nobody"}
        zed    < 5 = {}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/delete", &params).await);
}

#[actix::test]
async fn bad_params_of_settings() {
    let scene = Scene::new(vec![]);
    let mode = [
        json!({}),
        json!({ "sessionId": "SESSION" }),
        json!({ "sessionId": "SESSION", "modeId": 7 }),
        json!({ "sessionId": "SESSION", "modeId": "reckless" }),
        json!({ "sessionId": "nobody", "modeId": "safe" }),
    ];
    expect![[r#"
        zed    > 3 session/set_mode {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/set_mode {"sessionId":"SESSION"}
        zed    < 4 error {-32602:{"modeId":"Required"}}
        zed    > 5 session/set_mode {"sessionId":"SESSION","modeId":7}
        zed    < 5 error {-32602:{"modeId":"Must be a string"}}
        zed    > 6 session/set_mode {"sessionId":"SESSION","modeId":"reckless"}
        zed    < 6 error {-32602:{"modeId":"unknown value `reckless` for the option `mode`"}}
        zed    > 7 session/set_mode {"sessionId":"nobody","modeId":"safe"}
        zed    < 7 error {-32602:{"session_id":"Session not found"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/set_mode", &mode).await);
    let model = [
        json!({}),
        json!({ "sessionId": "SESSION" }),
        json!({ "sessionId": "SESSION", "modelId": {} }),
        json!({ "sessionId": "SESSION", "modelId": "nobody" }),
        json!({ "sessionId": "nobody", "modelId": "script" }),
    ];
    expect![[r#"
        zed    > 3 session/set_model {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/set_model {"sessionId":"SESSION"}
        zed    < 4 error {-32602:{"modelId":"Required"}}
        zed    > 5 session/set_model {"sessionId":"SESSION","modelId":{}}
        zed    < 5 error {-32602:{"modelId":"Must be a string"}}
        zed    > 6 session/set_model {"sessionId":"SESSION","modelId":"nobody"}
        zed    < 6 error {-32602:{"modelId":"unknown value `nobody` for the option `model`"}}
        zed    > 7 session/set_model {"sessionId":"nobody","modelId":"script"}
        zed    < 7 error {-32602:{"session_id":"Session not found"}}
        zed    < silence
    "#]]
    .assert_eq(&answers(&scene, "session/set_model", &model).await);
    let option = [
        json!({}),
        json!({ "sessionId": "SESSION", "value": "safe" }),
        json!({ "sessionId": "SESSION", "configId": 7, "value": "safe" }),
        json!({ "sessionId": "SESSION", "configId": "taste", "value": "sweet" }),
        json!({ "sessionId": "SESSION", "configId": "mode" }),
        json!({ "sessionId": "SESSION", "configId": "mode", "value": ["safe"] }),
        json!({ "sessionId": "SESSION", "configId": "mode", "value": true }),
        json!({ "sessionId": "SESSION", "configId": "thought_level", "value": "7" }),
        json!({ "sessionId": "nobody", "configId": "mode", "value": "safe" }),
    ];
    let set = answers(&scene, "session/set_config_option", &option).await;
    expect![[r#"
        zed    > 3 session/set_config_option {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 session/set_config_option {"sessionId":"SESSION","value":"safe"}
        zed    < 4 error {-32602:{"configId":"Required"}}
        zed    > 5 session/set_config_option {"sessionId":"SESSION","configId":7,"value":"safe"}
        zed    < 5 error {-32602:{"configId":"Must be a string"}}
        zed    > 6 session/set_config_option {"sessionId":"SESSION","configId":"taste","value":"sweet"}
        zed    < 6 error {-32602:{"configId":"unknown option `taste`"}}
        zed    > 7 session/set_config_option {"sessionId":"SESSION","configId":"mode"}
        zed    < 7 error {-32602:{"value":"Required"}}
        zed    > 8 session/set_config_option {"sessionId":"SESSION","configId":"mode","value":["safe"]}
        zed    < 8 error {-32602:{"value":"Must be a string or a boolean"}}
        zed    > 9 session/set_config_option {"sessionId":"SESSION","configId":"mode","value":true}
        zed    < 9 error {-32602:{"value":"Must be a string"}}
        zed    > 10 session/set_config_option {"sessionId":"SESSION","configId":"thought_level","value":"7"}
        zed    < 10 error {-32602:{"value":"unknown value `7` for the option `thought_level`"}}
        zed    > 11 session/set_config_option {"sessionId":"nobody","configId":"mode","value":"safe"}
        zed    < 11 error {-32602:{"session_id":"Session not found"}}
        zed    < silence
    "#]]
    .assert_eq(&set);
    assert_eq!(answers(&scene, "config/set", &option).await, set.replace("session/set_config_option", "config/set"));
}

#[actix::test]
async fn bad_params_of_extensions() {
    let scene = Scene::new(vec![]);
    let mut transcript = String::new();
    for method in ["cancel", "close", "delete"] {
        transcript += &answers(
            &scene,
            &format!("_acpd/{method}"),
            &[json!({}), json!({ "sessionId": 7 }), json!({ "sessionId": "nobody" })],
        )
        .await;
    }
    let params = [
        json!({}),
        json!({ "sessionId": "SESSION" }),
        json!({ "sessionId": "SESSION", "optionId": "maybe" }),
        json!({ "sessionId": "SESSION", "optionId": "allow_once" }),
        json!({ "sessionId": "SESSION", "optionId": "allow_once", "questionId": "none" }),
        json!({ "sessionId": "nobody", "optionId": "allow_once" }),
    ];
    transcript += &answers(&scene, "_acpd/answer", &params).await;
    let params = [
        json!({ "sessionId": "SESSION" }),
        json!({ "sessionId": "SESSION", "title": 7 }),
        json!({ "sessionId": "nobody", "title": "x" }),
    ];
    transcript += &answers(&scene, "_acpd/rename", &params).await;
    let params = [json!({}), json!({ "sessionId": "nobody" }), json!({ "sessionId": "SESSION", "from": "x" })];
    transcript += &answers(&scene, "_acpd/export", &params).await;
    transcript +=
        &answers(&scene, "_acpd/import", &[json!({}), json!({ "events": 7 }), json!({ "events": [{}] })]).await;
    let params = [
        json!({}),
        json!({ "sessionId": "SESSION" }),
        json!({ "sessionId": "SESSION", "after": [1] }),
        json!({ "sessionId": "nobody", "after": [1, 1] }),
    ];
    transcript += &answers(&scene, "_acpd/resume", &params).await;
    transcript += &answers(
        &scene,
        "_acpd/hello",
        &[
            json!({}),
            json!({ "version": 7 }),
            json!({ "version": "1", "environment": 7 }),
            json!({ "version": "1", "home": "relative" }),
        ],
    )
    .await;
    let transcript: Vec<&str> = transcript.lines().filter(|line| !line.contains("silence")).collect();
    expect![[r#"
        zed    > 3 _acpd/cancel {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 _acpd/cancel {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 _acpd/cancel {"sessionId":"nobody"}
        zed    < 5 error {-32602:{"session_id":"Session not found"}}
        zed    > 3 _acpd/close {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 _acpd/close {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 _acpd/close {"sessionId":"nobody"}
        zed    < 5 = {}
        zed    > 3 _acpd/delete {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 _acpd/delete {"sessionId":7}
        zed    < 4 error {-32602:{"sessionId":"Must be a string"}}
        zed    > 5 _acpd/delete {"sessionId":"nobody"}
        zed    < 5 = {}
        zed    > 3 _acpd/answer {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 _acpd/answer {"sessionId":"SESSION"}
        zed    < 4 error {-32602:{"optionId":"Required"}}
        zed    > 5 _acpd/answer {"sessionId":"SESSION","optionId":"maybe"}
        zed    < 5 error {-32602:{"questionId":"No question is open"}}
        zed    > 6 _acpd/answer {"sessionId":"SESSION","optionId":"allow_once"}
        zed    < 6 error {-32602:{"questionId":"No question is open"}}
        zed    > 7 _acpd/answer {"sessionId":"SESSION","optionId":"allow_once","questionId":"none"}
        zed    < 7 error {-32602:{"questionId":"No question is open"}}
        zed    > 8 _acpd/answer {"sessionId":"nobody","optionId":"allow_once"}
        zed    < 8 error {-32602:{"session_id":"Session not found"}}
        zed    > 3 _acpd/rename {"sessionId":"SESSION"}
        zed    < 3 error {-32602:{"title":"Required"}}
        zed    > 4 _acpd/rename {"sessionId":"SESSION","title":7}
        zed    < 4 error {-32602:{"title":"Must be a string"}}
        zed    > 5 _acpd/rename {"sessionId":"nobody","title":"x"}
        zed    < 5 error {-32602:{"session_id":"Session not found"}}
        zed    > 3 _acpd/export {}
        zed    < 3 error {-32602:{"sessionId":"Required"}}
        zed    > 4 _acpd/export {"sessionId":"nobody"}
        zed    < 4 error {-32602:{"session_id":"Session not found"}}
        zed    > 5 _acpd/export {"sessionId":"SESSION","from":"x"}
        zed    < 5 error {-32602:{"from":"Must be a number"}}
        zed    > 3 _acpd/import {}
        zed    < 3 error {-32602:{"events":"Required"}}
        zed    > 4 _acpd/import {"events":7}
        zed    < 4 error {-32602:{"events":"invalid type: integer `7`, expected a sequence"}}
        zed    > 5 _acpd/import {"events":[{}]}
        zed    < 5 error {-32602:{"events":"missing field `life`"}}
        zed    > 3 _acpd/resume {}
        zed    < 3 error {-32602:{"after":"Must be [life, number]"}}
        zed    > 4 _acpd/resume {"sessionId":"SESSION"}
        zed    < 4 error {-32602:{"after":"Must be [life, number]"}}
        zed    > 5 _acpd/resume {"sessionId":"SESSION","after":[1]}
        zed    < 5 error {-32602:{"after":"Must be [life, number]"}}
        zed    > 6 _acpd/resume {"sessionId":"nobody","after":[1,1]}
        zed    < 6 error {-32602:{"session_id":"Session not found"}}
        zed    > 3 _acpd/hello {}
        zed    < 3 error {-32602:{"version":"Required"}}
        zed    > 4 _acpd/hello {"version":7}
        zed    < 4 error {-32602:{"version":"Must be a string"}}
        zed    > 5 _acpd/hello {"version":"1","environment":7}
        zed    < 5 error {-32602:{"environment":"Must be an object"}}
        zed    > 6 _acpd/hello {"version":"1","home":"relative"}
        zed    < 6 error {-32602:{"home":"Must be an absolute path"}}"#]]
    .assert_eq(&transcript.join("\n"));
}
